"""Multiple choice by several rules at once: which figure is which, ties, several right options, one headline."""

import json
import math

import pytest

import kshot
from kshot import Accuracy
from kshot.core.errors import DataError, UsageError
from kshot.core.records import UNANSWERED, Failed, Generate, Generated, Likelihood, Scored
from tests.datasets.fakes import Fake, asked, choice, prefers, says, seen, turns

TEXTS = ["no", "yes indeed", "née"]
ROW = {"q": "Well?", "options": TEXTS, "target_idx": 1}
LOGPROBS = {"no": (-4.0, 1), "yes indeed": (-9.0, 2), "née": (-6.3, 3)}
BASELINE = {"no": (-1.0, 1), "yes indeed": (-9.5, 2), "née": (-6.5, 3)}


def scorer(request):
    known = BASELINE if request.prompt.text in {"", "Question: \nAnswer:"} else LOGPROBS
    return Scored(tuple(Likelihood(*known[text.strip()]) for text in request.continuations))


def figures(result):
    return {row["metric"]: row["value"] for row in result.results}


def test_every_accuracy_comes_from_the_same_requests():
    backend = Fake(scorer)
    result = kshot.evaluate(backend, choice([ROW]))
    assert len(backend.asked) == 1
    (sample,) = result.samples
    # sums -4, -9, -6.3; per character -2, -0.9, -2.1; per byte -2, -0.9, -1.575; per token -4, -4.5, -2.1
    assert sample["answers"] == {"acc": 0, "acc_norm": 1, "acc_bytes": 1, "acc_token": 2}
    assert figures(result) == {"Accuracy": 0.0, "acc": 0.0, "acc_norm": 100.0, "acc_bytes": 100.0, "acc_token": 0.0}
    assert sample["answer"] == 2


@pytest.mark.parametrize(
    ("rule", "answer"), [("acc", 0), ("acc_norm", 1), ("acc_bytes", 1), ("acc_token", 2), ("acc_mutual_info", 1)]
)
def test_the_headline_is_chosen(rule, answer):
    for result in (
        kshot.evaluate(Fake(scorer), choice([ROW]), accuracy=rule),
        kshot.evaluate(Fake(scorer), choice([ROW], accuracy=rule)),
    ):
        first = result.results[0]
        assert (first["metric"], first["rule"]) == ("Accuracy", rule)
        assert "higher_is_better" in first
        assert result.samples[0]["answer"] == answer
        assert figures(result)["Accuracy"] == figures(result)[rule]
        assert all(row["detail"] for row in result.results[1:])


def test_mutual_information_may_be_without_any_context():
    cls = choice([ROW], use_normalization=True, normalization_prompt="", description="Answer.\n")
    (question, *_), (baseline, *texts) = seen(cls)
    assert question == "Answer.\nWell?"
    assert (baseline, texts) == ("", [" no", " yes indeed", " née"])
    (sample,) = kshot.evaluate(Fake(scorer), cls).samples
    assert sample["prompt"] == "Answer.\nWell?"  # the question's, not the baseline's
    shown = [(part["text"], part.get("prompt")) for part in sample["response"]]
    assert shown[2:4] == [(" née", None), (" no", "")]
    assert sample["answers"]["acc_mutual_info"] == 1


def test_what_has_no_use_for_a_normalisation_says_so():
    with pytest.raises(UsageError, match="prob has no use for --accuracy"):
        seen(choice([ROW]), accuracy="acc_norm", ranking_type="prob")
    own = choice([ROW], post_processing=lambda self, predictions: [0])
    with pytest.raises(UsageError, match="a class with its own post_processing has no use for --accuracy"):
        seen(own, accuracy="acc_norm")
    with pytest.raises(UsageError, match="--accuracy is 'letters'; it must be one of acc, acc_norm"):
        seen(choice([ROW]), accuracy="letters")
    with pytest.raises(DataError, match="accuracy is 'letters'; it must be one of None, acc, acc_norm"):
        seen(choice([ROW], accuracy="letters"))


# ---- ties ----


def zeros(request):
    return Scored(tuple(Likelihood(0.0, 1) for _ in request.continuations))


def test_a_model_that_likes_all_options_the_same_answers_nothing(tmp_path):
    rows = [{"q": f"q{i}", "options": ["a", "b", "c"], "target_idx": i % 3} for i in range(9)]
    result = kshot.evaluate(Fake(zeros), choice(rows), out=tmp_path)
    row = result.results[0]
    assert (row["value"], row["ties"], row.get("unanswered", 0)) == (0.0, 9, 0)
    assert any("in 9 of 9 samples several options come first" in note for note in result.notes)
    assert {sample["answer"] for sample in result.samples} == {UNANSWERED}
    assert result.samples[0]["tied"] == ["acc", "acc_norm", "acc_bytes", "acc_token"]
    assert json.loads((tmp_path / "summary.json").read_text())["results"][0]["ties"] == 9


def test_a_class_may_take_the_first_on_a_tie_as_other_tools_do():
    rows = [{"q": f"q{i}", "options": ["a", "b"], "target_idx": i % 2} for i in range(4)]
    for ranking_type in ("ppl_no_option", "ppl", "prob"):
        row = kshot.evaluate(Fake(zeros), choice(rows, on_tie="first"), ranking_type=ranking_type).results[0]
        assert (row["value"], row["ties"]) == (50.0, 4)
        strict = kshot.evaluate(Fake(zeros), choice(rows), ranking_type=ranking_type).results[0]
        assert (strict["value"], strict["ties"]) == (0.0, 4)


def test_ties_are_counted_for_each_rule():
    def equal_sums(request):
        return Scored(tuple(Likelihood(-6.0, tokens) for tokens in (1, 2, 3)))

    counted = {row["metric"]: row.get("ties", 0) for row in kshot.evaluate(Fake(equal_sums), choice([ROW])).results}
    assert counted == {"Accuracy": 0, "acc": 1, "acc_norm": 0, "acc_bytes": 0, "acc_token": 0}


def test_identical_options_are_noted_with_their_row():
    rows = [ROW, {"id": "twin", "q": "Sun?", "options": ["hot", "cold", " hot "], "target_idx": 0}]
    result = kshot.evaluate(prefers("hot", "no"), choice(rows))
    assert result.samples[1]["identical_options"] == [[0, 2]]
    assert (result.samples[1]["answer"], result.results[0]["ties"]) == (UNANSWERED, 1)
    assert any("samples that list the same option twice: 1 (ids: twin)" in note for note in result.notes)


@pytest.mark.parametrize("ranking_type", ["ppl_no_option", "ppl", "prob", "generation"])
def test_identical_options_are_noted_however_the_model_is_asked(ranking_type):
    rows = [{"q": "Sun? hot or cold or hot", "options": ["hot", "cold", "hot"], "target_idx": 0}]

    def likes_hot(request):
        if isinstance(request, Generate):
            return Generated("A")
        return Scored(
            tuple(Likelihood(-1.0 if "hot" in t or t.strip() in "AC" else -9.0, 1) for t in request.continuations)
        )

    result = kshot.evaluate(Fake(likes_hot), choice(rows), ranking_type=ranking_type)
    assert result.samples[0]["identical_options"] == [[0, 2]]
    assert any("list the same option twice: 1 (ids: 0)" in note for note in result.notes)
    assert result.results[0].get("ties", 0) == (0 if ranking_type == "generation" else 1)


def test_a_class_that_decides_like_its_base_keeps_the_first_and_counts_ties():
    def post_processing(self, predictions):
        return kshot.MultipleChoiceDataset.post_processing(self, predictions)

    rows = [{"q": f"q{i} a b c", "options": ["a", "b", "c"], "target_idx": i % 3} for i in range(9)]
    for ranking_type in ("ppl_no_option", "prob"):
        result = kshot.evaluate(Fake(zeros), choice(rows, post_processing=post_processing), ranking_type=ranking_type)
        assert (result.results[0]["value"], result.results[0]["ties"]) == (pytest.approx(100 / 3), 9)
        assert any("in 9 of 9 samples" in note for note in result.notes)


def test_a_tie_of_options_that_are_all_right_is_right():
    rows = [{"q": "Sun?", "options": ["hot", "hot", "cold"], "target_idx": [0, 1]}]
    row = kshot.evaluate(prefers("hot"), choice(rows)).results[0]
    assert (row["value"], row["ties"]) == (100.0, 1)


def test_votes_that_tie_are_counted_and_replies_without_a_letter_have_no_vote():
    for replies, answer, ties in (("AB", 0, 1), ("BA", 1, 1), ("xxB", 1, 0), ("xx", UNANSWERED, 0), ("ABB", 1, 0)):
        backend = Fake(lambda request, given=replies: Generated(given[request.replica]))
        result = kshot.evaluate(backend, choice([ROW | {"q": "no, yes indeed, née?"}]), sample_num=len(replies))
        assert result.samples[0]["answer"] == answer
        assert result.results[0].get("ties", 0) == ties


# ---- what classes may do ----


def test_an_accuracy_with_a_name_of_its_own_stands_beside_the_others():
    result = kshot.evaluate(Fake(scorer), choice([ROW], metrics=[Accuracy(), Accuracy("mine")]))
    assert [row["metric"] for row in result.results if not row.get("detail")] == ["Accuracy", "Accuracy:mine"]
    assert figures(result)["Accuracy:mine"] == figures(result)["Accuracy"]


def test_post_processing_may_answer_with_letters_or_texts():
    rows = [ROW | {"target_idx": right} for right in (0, 1, 2, 0)]
    given = choice(rows, post_processing=lambda self, predictions: ["A", "yes indeed", 2, "nothing"])
    result = kshot.evaluate(says("x"), given, ranking_type="generation")
    assert [sample["answer"] for sample in result.samples] == [0, 1, 2, "nothing"]
    assert result.results[0]["value"] == 75.0


def test_letters_of_options_that_nobody_shows_are_noted():
    hidden = choice([ROW], instruction="{{q}}")
    for ranking_type in ("ppl", "prob", "generation"):
        result = kshot.evaluate(
            says("A") if ranking_type == "generation" else prefers(), hidden, ranking_type=ranking_type
        )
        assert any("the instruction does not show the options" in note for note in result.notes)
        shown = kshot.evaluate(
            says("A") if ranking_type == "generation" else prefers(), choice([ROW]), ranking_type=ranking_type
        )
        assert not any("does not show" in note for note in shown.notes)


def test_the_baseline_of_a_chat_tells_nothing_of_the_task():
    cls = choice([ROW], use_normalization=True, description="Answer.")
    _, baseline = asked(cls, model_type="chat", system_prompt="Be brief.")
    assert turns(baseline) == [("user", "Question: \nAnswer:")]


def test_an_empty_delimiter_stops_no_reply():
    cls = choice([ROW], [ROW])
    (usual,) = asked(cls, ranking_type="generation", num_shots=1)
    (empty,) = asked(cls, ranking_type="generation", num_shots=1, fewshot_delimiter="")
    assert (usual.stop, empty.stop) == (("\n\n",), ())


# ---- several right options ----


def test_any_of_several_right_options_is_right():
    rows = [ROW | {"target_idx": right} for right in ([0, 2], [1, 2], (0, 1), ["2"])]
    result = kshot.evaluate(Fake(scorer), choice(rows))
    assert [sample["scores"]["Accuracy"] for sample in result.samples] == [100.0, 100.0, 0.0, 100.0]
    assert [sample["target"] for sample in result.samples] == [[0, 2], [1, 2], [0, 1], 2]


def test_no_answer_is_not_among_several_right_ones():
    result = kshot.evaluate(says("I do not know"), choice([ROW | {"target_idx": [0, 1]}]), ranking_type="generation")
    assert (result.results[0]["value"], result.results[0]["unanswered"]) == (0.0, 1)


def test_an_example_shows_the_first_of_several_right_options():
    assert seen(choice([ROW], [ROW | {"target_idx": [2, 0]}]), num_shots=1)[0][0] == "Well? née\n\nWell?"


@pytest.mark.parametrize("given", [[], [3], [0, -1]])
def test_right_options_that_are_none(given):
    with pytest.raises(DataError, match=r"row 0: the (target is -?\d, but|list of right options is empty)"):
        seen(choice([ROW | {"target_idx": given}]))


@pytest.mark.parametrize("given", [[1, 0, 0], [True, False, False], [True, False], [2, 2]])
def test_a_mask_is_not_taken_for_indices(given):
    with pytest.raises(DataError, match=r"row 0: label is .*; it must list each right option once"):
        seen(choice([{"q": "Well?", "options": TEXTS, "label": given}]))


# ---- averages ----


class Sized(kshot.MultipleChoiceDataset):
    """Subsets of one and of three questions."""

    instruction = "{q}"
    load_args = ()

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        right = {"one": [0], "three": [1, 1, 0]}[self.subset_name]
        self.evaluation_data = [{"q": f"q{i}", "options": ["a", "b"], "target_idx": r} for i, r in enumerate(right)]

    def format_instance(self, row):
        return row


def test_subsets_are_averaged_by_size_on_request():
    macro = kshot.evaluate(prefers("a"), f"{__file__}:Sized:one,three").results[-1]
    assert (macro["task"], macro["average"]) == ("sized[Macro Average]", "macro")
    assert math.isclose(macro["value"], (100 + 100 / 3) / 2)
    weighted = kshot.evaluate(prefers("a"), f"{__file__}:Sized:one,three", average="weighted").results[-1]
    assert (weighted["task"], weighted["average"]) == ("sized[Weighted Average]", "weighted")
    assert math.isclose(weighted["value"], 100 * 2 / 4)
    assert weighted["ci95"][0] < weighted["value"] < weighted["ci95"][1]


def test_a_subset_without_any_score_is_named_where_its_average_is_missing():
    def fails_on_one(request):
        return Failed("down", "no") if request.prompt.text == "q0" else scorer_of_a(request)

    def scorer_of_a(request):
        return Scored(tuple(Likelihood(-1.0 if t == " a" else -9.0, 1) for t in request.continuations))

    result = kshot.evaluate(Fake(fails_on_one), f"{__file__}:Sized:one,three")
    assert not any("average" in row for row in result.results)
    assert "sized:one on fake: no sample was scored, so no average contains it" in result.notes
