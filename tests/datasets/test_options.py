"""Options behind the name of a dataset, and metrics and clean-ups that the user names."""

import json
import sys

import pytest

import kshot
from kshot import Accuracy, Em, Perplexity
from kshot.core.errors import DataError, MissingExtra, UsageError
from kshot.core.protocols import Abilities
from kshot.core.records import Generate, Generated, Likelihood, Loglik, Scored
from kshot.metrics import METRICS
from tests.datasets.fakes import CHOICES, QUESTIONS, Fake, asked, choice, generation, prefers, says, texts, values

QUIZ = """
from kshot import GenerationDataset, MultipleChoiceDataset

ROWS = [dict(q=f"row {i}", target=str(i)) for i in range(4)]


class Quiz(GenerationDataset):
    instruction, metrics = "{q}:", ["em", "f1"]

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data, self.example_data = ROWS[:2], ROWS[2:]

    def format_instance(self, row):
        return row


class Grouped(Quiz):
    categorized_subsets = dict(both=["a", "b"])


class Colours(MultipleChoiceDataset):
    instruction = "{{q}}{{options}}"
    load_raw_dataset = Quiz.load_raw_dataset

    def format_instance(self, row):
        return row | dict(options=["red", "blue"], target_idx=0)
"""


@pytest.fixture
def quiz(tmp_path):
    (tmp_path / "quiz.py").write_text(QUIZ)
    return str(tmp_path / "quiz.py")


# ---- options behind the name ----


def test_options_are_settings_of_this_dataset_alone(quiz):
    both = [f"{quiz}:Quiz,num_shots=2,instruction=Q {{q}}", f"{quiz}:Quiz"]
    previews = kshot.preview(both, limit=1)
    assert [(each.task, each.requests[0].prompt.text) for each in previews] == [
        ("quiz,num_shots=2,instruction=Q {q}", "Q row 2 2\n\nQ row 3 3\n\nQ row 0"),
        ("quiz", "row 0:"),
    ]


def test_options_go_before_those_of_the_run(quiz):
    (preview,) = kshot.preview(f"{quiz}:Quiz,temperature=0.5,stop=END,limit=1", temperature=0, stop="no", limit=9)
    (request,) = preview.requests
    assert (request.temperature, request.stop) == (0.5, ("END",))


def test_options_follow_subsets_and_name_the_averages(quiz):
    result = kshot.evaluate(says("0"), f"{quiz}:Grouped:a,b,num_shots=1,limit=1")
    assert list(values(result)) == [
        "grouped:a,num_shots=1,limit=1",
        "grouped:b,num_shots=1,limit=1",
        "grouped,num_shots=1,limit=1[Both Macro Average]",
        "grouped,num_shots=1,limit=1[Macro Average]",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("shot=2", "a dataset has no option 'shot'. It has: num_shots, retriever"),
        ("device=cpu", "a dataset has no option 'device'"),  # those of the model or of the whole run
        ("retriever_seeds=0..3", "a dataset has no option 'retriever_seeds'"),
        ("judge=embedded", "a dataset has no option 'judge'"),
        ("num_shots=two", "the option 'num_shots' is 'two'; it must be a whole number"),
        ("temperature=hot", "the option 'temperature' is 'hot'; it must be a number"),
        ("num_shots=-1", "--num-shots is -1; it must be 0 or more"),
        ("ranking_type=best", "--ranking-type is 'best'; it must be one of"),
        ("limit=1,limit=2", "the option 'limit' is given twice"),
    ],
)
def test_options_that_cannot_be_used(quiz, options, message):
    with pytest.raises(UsageError, match=message.replace(".", r"\.")) as caught:
        kshot.preview(f"{quiz}:Quiz,{options}")
    if "--" not in message:
        assert caught.value.where == f"{quiz}:Quiz,{options}"


def test_a_run_with_options_is_scored_and_continued_without_its_model(quiz, tmp_path):
    class Counting(Fake):
        abilities = Abilities(count_tokens=len)

    both = [f"{quiz}:Quiz,num_shots=2", f"{quiz}:Quiz,max_example_tokens=10,num_shots=2"]
    model = Counting(lambda _: Generated("0"))
    first = kshot.evaluate(model, both, out=tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "spec.json").read_text())["tasks"]["fake"]
    assert facts == {"quiz,num_shots=2": {"shots": 2}, "quiz,max_example_tokens=10,num_shots=2": {"shots": 1}}
    again = kshot.score(tmp_path / "run")
    assert again.results == first.results
    assert [row["failed"] for row in again.results] == [0, 0, 0, 0]
    answered = len(model.asked)
    assert kshot.evaluate(model, both, out=tmp_path / "run").results == first.results
    assert len(model.asked) == answered == 4


def test_what_auto_came_to_is_read_from_the_facts_of_the_same_task(quiz, tmp_path):
    both = [f"{quiz}:Colours,ranking_type=ppl", f"{quiz}:Colours"]
    first = kshot.evaluate(prefers("red", "A. red"), both, ranking_type="auto", out=tmp_path / "run")
    headlines = [row for row in first.results if row["metric"] == "Accuracy"]
    assert [row.get("ranking_type") for row in headlines] == [None, "ppl_no_option"]
    again = kshot.score(tmp_path / "run")
    assert again.results == first.results
    assert all(row["failed"] == 0 for row in again.results)


def test_draws_of_examples_use_the_options(quiz):
    with pytest.raises(UsageError, match="--retriever-seeds needs examples to choose"):
        kshot.evaluate(says("0"), f"{quiz}:Quiz", retriever_seeds="0..1")
    result = kshot.evaluate(says("0"), f"{quiz}:Quiz,num_shots=1", retriever_seeds="0..1")
    assert list(values(result)) == ["quiz,num_shots=1@0", "quiz,num_shots=1@1", "quiz,num_shots=1[2 draws of examples]"]
    with pytest.raises(UsageError, match="--retriever-seeds sets the seed of each draw"):
        kshot.evaluate(says("0"), f"{quiz}:Quiz,num_shots=1,seed=5", retriever_seeds="0..1")


# ---- metrics ----

CONTAINS = """
from kshot import Metric


class Contains(Metric):
    name = "Contains"

    def __init__(self, ignore_case: bool = False):
        self.ignore_case = ignore_case

    def rate(self, prediction, reference):
        fold = str.lower if self.ignore_case else str
        return 100.0 * any(fold(text) in fold(prediction) for text in reference)


class Same(Metric):
    name = "Same"

    def rate(self, prediction, reference):
        return 100.0 * (prediction == reference)


def shout(reply: str, mark: str = "!"):
    return reply.upper() + mark


def broken(reply: str):
    raise OverflowError("my mistake")
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own.py").write_text(CONTAINS)
    return str(tmp_path / "own.py")


def metrics_of(result):
    return [row["metric"] for row in result.results]


def test_a_class_may_name_its_metrics(own):
    cls = generation(metrics=["em", "f1", f"{own}:Contains,ignore_case=yes", Accuracy()])
    result = kshot.evaluate(says("It is 1"), cls)
    assert metrics_of(result) == ["EM", "F1", "Contains", "Accuracy"]
    with pytest.raises(UsageError, match=r"dataset mine: there is no metric 'emm'\. See kshot list metrics"):
        texts(generation(metrics=["emm"]))


def test_the_metrics_of_the_user_replace_those_of_the_class(own):
    cls = generation([{"q": "one", "target": "Paris"}], metrics=[Accuracy()])
    assert metrics_of(kshot.evaluate(says("x"), cls, metric="em,f1")) == ["EM", "F1"]
    assert metrics_of(kshot.evaluate(says("x"), cls, metric=["F1", "em"])) == ["F1", "EM"]
    for ignore_case, value in (("yes", 100.0), ("no", 0.0)):
        result = kshot.evaluate(says("in paris"), cls, metric=f"{own}:Contains,ignore_case={ignore_case},em")
        assert values(result) == {"mine": {"Contains": value, "EM": 0.0}}


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("emm", "there is no metric 'emm'"),
        ("em,strict=yes", "there is no option 'strict'"),
        ("own.py:Contains,ignore_case=perhaps", "the option 'ignore_case' is 'perhaps'; it must be yes or no"),
    ],
)
def test_metrics_that_cannot_be_used(own, metric, message):
    with pytest.raises(UsageError, match=message):
        texts(generation(), metric=metric.replace("own.py", own))


def test_a_metric_may_be_an_option_of_one_dataset(quiz):
    result = kshot.evaluate(says("0"), [f"{quiz}:Quiz,metric=accuracy", f"{quiz}:Quiz"])
    assert {task: set(found) for task, found in values(result).items()} == {
        "quiz,metric=accuracy": {"Accuracy"},
        "quiz": {"EM", "F1"},
    }


def test_perplexity_as_the_metric_of_the_user():
    (request,) = asked(generation(QUESTIONS[:1]), metric="perplexity")
    assert request.continuations == (" 1",)
    with pytest.raises(DataError, match="Perplexity cannot be mixed"):
        texts(generation(), metric="perplexity,em")


def test_options_are_compared_by_their_indices(own):
    result = kshot.evaluate(prefers("blue", "cold"), choice(), metric=f"accuracy,{own}:Same")
    assert values(result) == {"mine": {"Accuracy": 50.0, "Same": 50.0}}
    normalised = kshot.evaluate(prefers("blue", "hot"), choice(use_normalization=True), metric="accuracy")
    assert values(normalised).popitem()[1].keys() == {"Accuracy"}
    assert normalised.results[0]["rule"] == "acc_mutual_info"


@pytest.mark.parametrize("metric", [each.name for each in METRICS.entries() if each.name != "Accuracy"])
@pytest.mark.parametrize("ranking_type", ["ppl_no_option", "generation"])
def test_metrics_of_texts_cannot_compare_indices(metric, ranking_type):
    backend = prefers()
    with pytest.raises(UsageError, match=r"--metric \S+ compares texts, and an answer here is the index of an option"):
        kshot.evaluate(backend, choice(), metric=metric, ranking_type=ranking_type)
    assert backend.asked == []


# ---- clean-ups ----


def test_a_cleanup_takes_the_answer_out_of_the_reply(own):
    cls = generation([{"q": "one", "target": "ONE?"}], metrics=[Accuracy()])
    result = kshot.evaluate(says("one"), cls, cleanup=f"{own}:shout,mark=?")
    assert (result.samples[0]["response"], result.samples[0]["answer"]) == ("one", "ONE?")
    assert values(result) == {"mine": {"Accuracy": 100.0}}
    built_in = kshot.evaluate(says("so <a>1</a>."), generation(QUESTIONS[:1]), cleanup="xml_tag_postprocessor,tag=a")
    assert built_in.samples[0]["answer"] == "1"


def test_a_cleanup_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)  # as if it were not installed
    with pytest.raises(MissingExtra, match=r"general_cn needs the package 'jieba'.*kshot\[chinese\]"):
        kshot.evaluate(says("x"), generation(QUESTIONS[:1]), cleanup="general_cn")


def test_a_cleanup_cleans_every_reply_of_a_conversation(own):
    cls = generation(
        [{"source": ["a", "b"]}],
        multi_turn=True,
        instruction="{{source[turn_idx]}}",
        metrics=[Accuracy()],
        references=[("R!", "R!")],
    )
    backend = says("r")
    result = kshot.evaluate(backend, cls, cleanup=f"{own}:shout")
    assert tuple(result.samples[0]["answer"]) == ("R!", "R!")
    assert backend.asked[-1].prompt.text == "a r\n\nb"  # the history has the replies as they were written


def test_a_cleanup_comes_before_the_vote_and_before_post_processing(own):
    replies = ["a", "b", "B"]
    cls = generation(QUESTIONS[:1], metrics=[Em()], post_processing=lambda self, p: [f"<{each}>" for each in p])
    result = kshot.evaluate(Fake(lambda r: Generated(replies[r.replica])), cls, cleanup=f"{own}:shout", sample_num=3)
    assert result.samples[0]["answer"] == "<B!>"


def test_multiple_choice_by_generation_reads_the_letter_from_the_cleaned_reply():
    reply = "My first thought: A. The answer is B"
    cleanup = "match_answer_pattern,answer_pattern=thought: (.)"
    for options, answer in (({}, 1), ({"cleanup": cleanup}, 0)):
        result = kshot.evaluate(says(reply), choice(CHOICES[:1]), ranking_type="generation", **options)
        assert result.samples[0]["answer"] == answer

    class Mine(choice(CHOICES[:1])):
        def post_processing(self, predictions):
            return super().post_processing(predictions)

    result = kshot.evaluate(says(reply), Mine, ranking_type="generation", cleanup=cleanup)
    assert result.samples[0]["answer"] == 0


@pytest.mark.parametrize("ranking_type", ["ppl_no_option", "ppl", "prob"])
def test_a_cleanup_needs_replies(ranking_type):
    backend = Fake(lambda _: Scored((Likelihood(-1.0, 1),)))
    message = rf"dataset mine: --cleanup takes answers out of replies, and {ranking_type} asks for none\. Use --ranking-type generation"
    with pytest.raises(UsageError, match=message):
        kshot.evaluate(backend, choice(), cleanup="first-capital", ranking_type=ranking_type)
    with pytest.raises(UsageError, match="--cleanup takes answers out of replies, and perplexity asks for none"):
        kshot.evaluate(backend, generation(metrics=[Perplexity()]), cleanup="first-capital")
    assert backend.asked == []


@pytest.mark.parametrize(
    ("cleanup", "error", "message"),
    [
        ("nothing", UsageError, "there is no clean-up 'nothing'"),
        ("own.py:shout,loud=yes", UsageError, "there is no option 'loud'"),
        ("own.py:broken", DataError, r"dataset mine, sample 0: the clean-up .*broken fails: OverflowError: my mistake"),
    ],
)
def test_cleanups_that_cannot_be_used(own, cleanup, error, message):
    with pytest.raises(error, match=message):
        kshot.evaluate(says("x"), generation(), cleanup=cleanup.replace("own.py", own))


def test_a_cleanup_may_be_an_option_of_one_dataset(quiz):
    both = [f"{quiz}:Quiz,cleanup=first-capital", f"{quiz}:Colours"]
    backend = Fake(
        lambda r: Generated("B") if isinstance(r, Generate) else Scored((Likelihood(-1.0, 1),) * len(r.continuations))
    )
    result = kshot.evaluate(backend, both)
    assert set(values(result)) == {"quiz,cleanup=first-capital", "colours"}
    assert {type(request) for request in backend.asked} == {Generate, Loglik}


def test_options_with_several_values_and_escapes(quiz):
    (shown,) = kshot.preview(f"{quiz}:Quiz,stop=\\n+END,metric=em+f1", limit=1)
    assert shown.requests[0].stop == ("\n", "END")
    result = kshot.evaluate(says("0"), f"{quiz}:Quiz,metric=em+f1")
    assert [row["metric"] for row in result.results] == ["EM", "F1"]
    result = kshot.evaluate(says("0"), f"{quiz}:Quiz,instruction=Well\\, {{q}}", limit=1)
    assert result.samples[0]["prompt"] == "Well, row 0"


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ("[[-1]] * 2", "chose the training row -1; there are 2 rows"),
        ("[[2]] * 2", "chose the training row 2"),
        ("[[True]] * 2", "chose the training row True"),
        ("[[0]]", "chose examples for 1 of 2 rows"),
    ],
)
def test_the_choice_of_a_retriever_is_checked(quiz, tmp_path, choices, message):
    (tmp_path / "own.py").write_text(
        f"from kshot import Retriever\nclass Own(Retriever):\n    def ranked(self):\n        return {choices}\n"
    )
    with pytest.raises(DataError, match=f"the retriever .*own.py:Own {message}"):
        kshot.preview(f"{quiz}:Quiz", num_shots=1, retriever=f"{tmp_path}/own.py:Own")


def test_a_budget_without_a_tokenizer_is_told_only_if_it_was_set(quiz):
    told = "quiz: --max-example-tokens needs a model with a tokenizer and is not applied"
    assert kshot.evaluate(says("0"), f"{quiz}:Quiz", num_shots=2).notes == []
    assert kshot.evaluate(says("0"), f"{quiz}:Quiz", num_shots=2, max_example_tokens=10).notes == [told]
    with_retriever = {"num_shots": 2, "retriever": "random", "max_example_tokens": 10}
    assert kshot.evaluate(says("0"), f"{quiz}:Quiz", **with_retriever).notes == [told]
    assert told not in kshot.evaluate(says("0"), f"{quiz}:Quiz", max_example_tokens=10).notes  # no example is shown
