"""The answer in a reply: kshot's rules for options, ``--answer-pattern``, and the rule in the sample's row."""

import pytest

import kshot
from kshot.cleanups import answer_pattern
from kshot.core.errors import UsageError
from tests.datasets.fakes import CHOICES, QUESTIONS, choice, generation, says

GENERATION = {"ranking_type": "generation"}


def answers(reply, **options):
    result = kshot.evaluate(says(reply), choice(CHOICES[:1]), **GENERATION, **options)
    row = result.samples[0]
    return row["answer"], row.get("rule")


@pytest.mark.parametrize(
    ("reply", "answer", "rule"),
    [
        ("The answer is A because B is not", 0, "answer is"),
        ("B, not A", 1, "beginning"),
        ("b", 1, "line"),
        ("I have no idea.", -1, "no answer"),
        ("The answer is A or B", -1, "several options"),
    ],
)
def test_the_rule_is_in_the_row(reply, answer, rule):
    assert answers(reply) == (answer, rule)


def test_a_pattern_of_the_user_decides():
    reply = "Answer: A. Key=B"
    assert answers(reply) == (0, "answer is")
    assert answers(reply, answer_pattern=r"Key=(.)") == (1, "answer pattern")
    assert answers(reply, answer_pattern=r"Key: (.)") == (-1, "no match")


def test_generated_texts_are_cut_out_by_the_pattern():
    result = kshot.evaluate(says("So #### 4 it is"), generation(QUESTIONS[:1]), answer_pattern=r"#### (\d+)")
    assert (result.samples[0]["answer"], result.samples[0]["rule"]) == ("4", "answer pattern")
    plain = kshot.evaluate(says("So #### 4 it is"), generation(QUESTIONS[:1]))
    assert "rule" not in plain.samples[0]


def test_repeats_vote_with_the_bare_answers():
    replies = iter(["The answer is A", "B", "(B)"])
    result = kshot.evaluate(lambda _: next(replies), choice(CHOICES[:1]), sample_num=3, temperature=1)
    assert result.samples[0]["answer"] == 1
    assert result.samples[0]["rule"] == ["answer is", "line", "line"]


def test_a_class_with_its_own_post_processing_keeps_it():
    seen = []

    class Mine(choice(CHOICES[:1])):
        def post_processing(self, predictions):
            seen.extend(predictions)
            return super().post_processing(predictions)

    result = kshot.evaluate(says("The answer is A because B is not"), Mine, **GENERATION)
    assert seen == ["The answer is A because B is not"]
    assert result.samples[0]["answer"] == 0
    kshot.evaluate(says("x=B"), Mine, answer_pattern="x=(.)", **GENERATION)
    assert seen[-1] == "B"


def test_a_pattern_that_takes_too_long_is_one_failed_sample(monkeypatch):
    monkeypatch.setattr(answer_pattern, "SECONDS", 0.05)
    replies = iter(["a" * 80 + "c b", "A"])
    result = kshot.evaluate(
        lambda _: next(replies), choice(CHOICES[:2]), answer_pattern=r"^A$|(.*a){25}b", **GENERATION
    )
    assert [("failed" in row, row["answer"]) for row in result.samples] == [(True, None), (False, 0)]
    assert "took more than" in result.samples[0]["failed"]


def test_a_broken_pattern_is_an_error_before_any_model_is_asked():
    def never(_):
        raise AssertionError("a model was asked")

    for dataset, options in ((choice(CHOICES), GENERATION), (generation(QUESTIONS), {})):
        with pytest.raises(UsageError, match=r"--answer-pattern '\(' cannot be read"):
            kshot.evaluate(never, dataset, answer_pattern="(", **options)
        with pytest.raises(UsageError, match="--answer-pattern is empty"):
            kshot.evaluate(never, dataset, answer_pattern="", **options)
        with pytest.raises(UsageError, match="both take the answer"):
            kshot.evaluate(never, dataset, answer_pattern="(.)", cleanup="strip", **options)


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_pattern_that_matches_no_reply_is_told(repeats):
    several = {"sample_num": repeats, "temperature": 1} if repeats > 1 else {}

    def told(reply, dataset, **options):
        notes = kshot.evaluate(says(reply), dataset, **options, **several).notes
        return [note.split(": ", 1)[1] for note in notes if "--answer-pattern" in note]

    for dataset, options in ((choice(CHOICES[:2]), GENERATION), (generation(QUESTIONS[:2]), {})):
        none = [f"--answer-pattern matched 0 of {2 * repeats} replies"]
        assert told("Key: B", dataset, answer_pattern="Answer: (.)", **options) == none
        assert told("Key: B", dataset, answer_pattern="Key: (.)", **options) == []
        assert told("I wonder.", dataset, **options) == []


def test_a_pattern_needs_replies():
    with pytest.raises(UsageError, match="--answer-pattern takes answers out of replies, and ppl asks for none"):
        kshot.evaluate(says("A"), choice(CHOICES), ranking_type="ppl", answer_pattern="(.)")
    with pytest.raises(UsageError, match="--answer-pattern has no effect on token lookup"):
        kshot.evaluate("embedded", "lookup", answer_pattern="(.)")
