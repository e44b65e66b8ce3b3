"""LLMBox's metrics, by the arguments that its files give them."""

import pytest

import kshot
from kshot.core.errors import DataError
from kshot.core.records import Gold, Sample
from kshot.datasets.llmbox.metrics import BY_NAME
from tests.datasets.fakes import Fake, says
from tests.datasets.llmbox_tree import GENERATION, ROWS, Tree, changed


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def scored(name, predictions, references, **options):
    return BY_NAME[name](**options)(predictions, references)


def test_references_may_be_a_text_a_number_or_a_list():
    assert scored("Em", ["Paris", "7", "b"], ["paris", 7, ["a", "b"]], dataset="x") == {"EM": 100.0}
    options = {"dataset": "x", "multiref_strategy": "max", "word_tokenize": "split", "normalize_level": "token"}
    assert scored("F1", ["a b", "7"], ["b", 7], **options, align_bag="set", force_number_match=True) == {
        "F1": pytest.approx(100.0)
    }
    for name in ("Em", "F1"):
        with pytest.raises(TypeError):
            BY_NAME[name]("nltk")


def test_accuracy_has_a_tag():
    assert scored("Accuracy", [1, 0], [1, 1], tag="hard") == {"Accuracy:hard": 50.0}
    assert scored("Accuracy", ["a"], ["a"]) == {"Accuracy": 100.0}


def test_word_accuracy_cuts_the_prediction_to_the_tokens_of_the_reference():
    metric = BY_NAME["WordAccuracy"]()
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
    metric = BY_NAME["PassAtK"]()
    assert metric(["    return x + 1", "    return x"], [reference] * 2) == {"pass@1": 50.0}


def test_ifeval_is_the_mean_over_instructions():
    rows = [
        {"instruction_id_list": ["punctuation:no_comma", "startend:quotation"], "kwargs": [{}, None]},
        {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
    ]
    replies = ["plain", "Sure, here:\nplain"]
    assert scored("IFEval", replies, rows, type="strict") == {"IFEval:strict": pytest.approx(100 / 3)}
    assert scored("IFEval", replies, rows, type="loose") == {"IFEval:loose": pytest.approx(200 / 3)}
    with pytest.raises(DataError, match=r"IFEval:strict wants the column 'kwargs'; the row has: instruction_id_list"):
        scored("IFEval", ["x"], [{"instruction_id_list": ["a"]}])
    with pytest.raises(DataError, match="IFEval has the type 'odd'"):
        BY_NAME["IFEval"](type="odd")


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


def test_the_judge_is_asked_by_type():
    single = BY_NAME["GPTEval"](multi_turn=True, type="single")
    assert (single.multi_turn, single.pairwise) == (True, False)
    pairwise = BY_NAME["GPTEval"](type="pairwise")
    row = {"instruction": "Say it.", "output": "It.", "generator": "x"}
    sample = Sample("0", {"source": "Say it."}, Gold(row))
    assert pairwise.reference_answers(sample) == ("It.",)
    asked = pairwise.judge_requests(sample)
    assert len(asked) == 2
    assert "It." in asked[0].prompt.text
    with pytest.raises(DataError, match="GPTEval has the type 'triple'"):
        BY_NAME["GPTEval"](type="triple")


def test_an_external_service_is_refused_when_it_is_run_not_when_it_is_previewed(tree):
    text = changed(GENERATION, ("import Em", "import PerspectiveApi"), ("[Em()]", "[PerspectiveApi()]"))
    assert len(tree.prompts(text, "Words")) == len(ROWS)
    with pytest.raises(DataError, match="PerspectiveApi sends replies to an external service"):
        tree.scores(says("x"), text, "Words")


def test_perplexity_and_rouge_have_their_names():
    assert BY_NAME["PPL"]().name == "PPL"
    assert set(scored("Rouge", ["a b"], ["a b"])) == {"ROUGE-1", "ROUGE-2", "ROUGE-L"}
    assert set(scored("Bleu", ["a b c d"], ["a b c d"])) == {"Sentence_BLEU", "Corpus_BLEU"}
