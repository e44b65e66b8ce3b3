"""LLMBox's metrics, by the arguments that its files give them."""

import pytest

import kshot
from kshot.core.errors import DataError
from kshot.core.records import Gold, Sample
from kshot.datasets.llmbox.classes import METRICS
from tests.datasets.fakes import Fake, says
from tests.datasets.llmbox_tree import GENERATION, ROWS, Tree, changed


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def scored(name, predictions, references, **options):
    return METRICS[name](**options)(predictions, references)


def test_references_may_be_a_text_a_number_or_a_list():
    assert scored("Em", ["Paris", "7", "b"], ["paris", 7, ["a", "b"]], dataset="x") == {"EM": 100.0}
    options = {"dataset": "x", "multiref_strategy": "max", "word_tokenize": "split", "normalize_level": "token"}
    assert scored("F1", ["a b", "7"], ["b", 7], **options, align_bag="set", force_number_match=True) == {
        "F1": pytest.approx(100.0)
    }
    for name in ("Em", "F1"):
        with pytest.raises(TypeError):
            METRICS[name]("nltk")


def test_accuracy_has_a_tag():
    assert scored("Accuracy", [1, 0], [1, 1], tag="hard") == {"Accuracy:hard": 50.0}
    assert scored("Accuracy", ["a"], ["a"]) == {"Accuracy": 100.0}


def test_word_accuracy_cuts_the_prediction_to_the_tokens_of_the_reference():
    metric = METRICS["WordAccuracy"]()
    assert metric([" door and more", "doors"], [" door", " door"]) == {"Word Accuracy": 50.0}
    by_letters = metric.counting(len)
    assert by_letters([" doors", " dour"], [" door", " door"]) == {"Word Accuracy": 50.0}
    assert metric.count_tokens is None


def test_word_accuracy_uses_the_tokenizer_of_the_model(tree):
    text = changed(GENERATION, ("import Em", "import WordAccuracy"), ("[Em()]", "[WordAccuracy()]"))
    text = changed(text, ('[[instance["target"]]', '[instance["target"]'))
    assert tree.scores(says("red herring"), text, "Words") == {"Word Accuracy": 50.0}
    assert tree.scores(says("redder"), text, "Words") == {"Word Accuracy": 0.0}

    class Letters(Fake):
        notes = ()
        abilities = kshot.core.protocols.Abilities(count_tokens=len)

        def close(self):
            pass

    assert tree.scores(Letters(says("redder").answer), text, "Words") == {"Word Accuracy": 50.0}


def test_programs_stand_inside_their_reference():
    reference = "def f(x):\n{pred}\nassert f(1) == 2, '{not a place}'"
    metric = METRICS["PassAtK"]()
    assert metric(["    return x + 1", "    return x"], [reference] * 2) == {"pass@1": 50.0}


def test_ifeval_is_the_mean_over_instructions():
    rows = [
        {"instruction_id_list": ["punctuation:no_comma", "startend:quotation"], "kwargs": [{}, None]},
        {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
    ]
    replies = ["plain", "Sure, here:\nplain"]
    assert scored("IFEval", replies, rows, type="strict") == {"IFEval:strict": pytest.approx(100 / 3)}
    assert scored("IFEval", replies, rows, type="loose") == {"IFEval:loose": pytest.approx(200 / 3)}
    (own,) = METRICS["IFEval"]().measures
    assert (own.aggregate.key, own.aggregate([(0.0, 0.0)])) == ("share", None)  # like a config's: nothing of nothing
    with pytest.raises(DataError, match=r"IFEval:strict wants the column 'kwargs'; the row has: instruction_id_list"):
        scored("IFEval", ["x"], [{"instruction_id_list": ["a"]}])
    with pytest.raises(DataError, match="IFEval has the type 'odd'"):
        METRICS["IFEval"](type="odd")


def test_gaokao_sums_points():
    rows = [
        {"answer": ["A", "B"], "score": 3},
        {"answer": ["AB"], "score": 4},
        {"answer": "C", "score": None},
    ]
    assert scored("GaokaoBenchMetric", [["A", "C"], "A", "C"], rows) == {
        "GaokaoBench": pytest.approx(100 * (3 + 2 + 1) / (6 + 4 + 1))
    }
    assert scored("GaokaoBenchMetric", ["AB", "AC", "D"], rows) == {"GaokaoBench": pytest.approx(100 * 6 / 11)}
    with pytest.raises(DataError, match="GaokaoBench needs the row as its reference, not str"):
        scored("GaokaoBenchMetric", ["A"], ["A"])


@pytest.mark.parametrize(
    ("task", "prediction", "answer", "reached"),
    [
        ("single_answer_mcq", ("A",), ["A"], 1),
        ("single_answer_mcq", ("B",), ["A"], 0),
        ("single_answer_mcq", "", ["A"], 0),
        ("single_choice", ("A",), ["A"], 1),
        ("multi_mcqs", ("A", "C", "B"), ["A", "B", "B"], 2),
        ("multi_mcqs", ("A",), ["A", "B", "B"], 1),
        ("multi_mcqs", ("A", "B", "C"), ["A", "B"], 2),
        ("multi_question_choice", ("A", "A"), ["A", "A"], 2),
        ("seven_option", ("G", "F", "A", "B", "C"), ["G", "F", "B", "A", "C"], 3),
        ("five_out_of_seven", ("G",), ["G", "F", "B", "A", "C"], 1),
        ("multi_answers_mcq", ("ABD",), ["ABD"], 1),
        ("multi_answers_mcq", ("DAB",), ["ABD"], 1),
        ("multi_answers_mcq", ("AD",), ["ABD"], 0.5),
        ("multi_answers_mcq", ("AC",), ["ABD"], 0),
        ("multi_answers_mcq", "", ["ABD"], 0),
        ("multi_choice", ("A",), ["AB"], 0.5),
    ],
)
@pytest.mark.parametrize("score", [1, 2.5])
def test_gaokao_scores_a_list_of_rows_by_the_kind_of_question(task, prediction, answer, reached, score):
    reference = [{"answer": answer, "task": task, "score": score}]
    metric = METRICS["GaokaoBenchMetric"]()
    assert metric.rate(prediction, reference) == {"GaokaoBench": (reached * score, score * len(answer))}


def test_gaokao_takes_the_best_of_several_rows():
    rows = [{"answer": [letter], "task": "single_answer_mcq", "score": 3} for letter in "AB"]
    assert scored("GaokaoBenchMetric", [("B",)], [rows]) == {"GaokaoBench": 100.0}
    assert scored("GaokaoBenchMetric", [("B",)], [rows], multiref_strategy="leave_one_out") == {"GaokaoBench": 50.0}
    with pytest.raises(DataError, match="GaokaoBench wants the column 'answer'"):
        scored("GaokaoBenchMetric", ["A"], [[{"score": 1}]])


GAOKAO = """
    from functools import cached_property
    from ..metric import GaokaoBenchMetric
    from .generation_dataset import GenerationDataset

    class Exam(GenerationDataset):
        instruction = "{{q}}"
        evaluation_set = "test"
        metrics = [GaokaoBenchMetric()]

        def format_instance(self, instance):
            instance["target"] = str(instance["answer"])
            return instance

        def post_processing(self, predictions):
            letters = [[letter for letter in reply if letter.isupper()] for reply in predictions]
            return [tuple(found) if found else "" for found in letters]

        @cached_property
        def references(self):
            return [[{"answer": row["answer"], "task": "multi_mcqs", "score": row["score"]}] for row in self.evaluation_data]
"""


def test_an_exam_is_scored_over_all_its_rows(tree):
    tree.write_rows(test=[{"q": "x", "answer": ["A", "B"], "score": 2}, {"q": "y", "answer": ["A"], "score": 3}])
    assert tree.scores(says("A and C"), GAOKAO, "Exam") == {"GaokaoBench": pytest.approx(100 * 5 / 7)}
    assert tree.scores(says("none"), GAOKAO, "Exam") == {"GaokaoBench": 0.0}


def test_the_judge_is_asked_by_type():
    single = METRICS["GPTEval"](multi_turn=True, type="single")
    assert (single.multi_turn, single.pairwise) == (True, False)
    pairwise = METRICS["GPTEval"](type="pairwise")
    row = {"instruction": "Say it.", "output": "It.", "generator": "x"}
    sample = Sample("0", {"source": "Say it."}, Gold(row))
    assert pairwise.reference_answers(sample) == ("It.",)
    asked = pairwise.judge_requests(sample)
    assert len(asked) == 2
    assert "It." in asked[0].prompt.text
    with pytest.raises(DataError, match="GPTEval has the type 'triple'"):
        METRICS["GPTEval"](type="triple")


def test_an_external_service_is_refused_when_it_is_run_not_when_it_is_previewed(tree):
    text = changed(GENERATION, ("import Em", "import PerspectiveApi"), ("[Em()]", "[PerspectiveApi()]"))
    assert len(tree.prompts(text, "Words")) == len(ROWS)
    with pytest.raises(DataError, match="PerspectiveApi sends replies to an external service"):
        tree.scores(says("x"), text, "Words")


def test_perplexity_and_rouge_have_their_names():
    assert METRICS["PPL"]().name == "PPL"
    assert set(scored("Rouge", ["a b"], ["a b"])) == {"ROUGE-1", "ROUGE-2", "ROUGE-L"}
    assert set(scored("Bleu", ["a b c d"], ["a b c d"])) == {"Sentence_BLEU", "Corpus_BLEU"}
