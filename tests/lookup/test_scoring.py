import pytest

from kshot.core.errors import UsageError
from kshot.lookup import scoring
from kshot.lookup.generate import generate


@pytest.mark.parametrize(
    ("text", "current", "older"),
    [
        (" Q\n", "Q", "Q"),
        ("", "failed", "failed"),
        (" \n", "failed", "failed"),
        ("J: J:", "J", "J"),
        ("ab c", "a", "ab"),
    ],
)
def test_completion_rules(text, current, older):
    assert scoring.first_character(text) == current
    assert scoring.first_word(text) == older


@pytest.mark.parametrize(
    ("text", "original", "tolerant"),
    [
        ("<target>Q</target> because", "Q", "Q"),
        ("<|im_start|>target>J</target> The", "art|>target>J", "J"),
        ("x\n=target>d<target> The", None, "d"),
        ("<target> A </target>", "A", "A"),
        ('<Target>"A"</Target>', None, "A"),
        ("<target>k", None, "k"),
        ("<target></target> no <target>z</target>", "", "z"),
        ("nothing", None, "failed"),
        ("</target>", None, "failed"),
    ],
)
def test_tag_rules(text, original, tolerant):
    assert scoring.tolerant_tags(text) == tolerant
    if original is not None:
        assert scoring.between_tags(text) == original


def test_rules_by_name():
    assert scoring.rules_for("instruct") == ("between_tags", "tolerant_tags")
    assert scoring.rule(scoring.rules_for("base")[0])(" x y") == "x"
    with pytest.raises(UsageError, match="psychic"):
        scoring.rule("psychic")


@pytest.mark.parametrize(
    ("task", "prediction", "kind"),
    [
        ("NLFirst", "b", None),
        ("NLFirst", "c", scoring.OPPOSITE),
        ("NLFirst", "d", scoring.OTHER),
        ("NLFirst", "e", scoring.OTHER),
        ("NRLast", "d", scoring.OPPOSITE),
        ("NRLast", "b", scoring.OTHER),
        ("NLLast", "Q", scoring.QUERY),
        ("NLLast", "z", scoring.LAST),
        ("NLLast", "a", scoring.ELSEWHERE),
        ("NLLast", "y", scoring.ABSENT),
        ("NLLast", "failed", scoring.ABSENT),
        ("NLLast", "", scoring.ABSENT),
    ],
)
def test_error_kinds(task, prediction, kind):
    assert scoring.error_kind("abQcxdQez|Q", task, prediction) == kind


def test_a_right_answer_has_no_error_kind():
    kinds = [scoring.error_kind("abcd|b", "UL", prediction) for prediction in "accbd"]
    assert kinds == [None, scoring.OPPOSITE, scoring.OPPOSITE, scoring.QUERY, scoring.LAST]


def test_chance():
    assert scoring.chance(["abcdef|b"], "UL") == pytest.approx(1 / 5)
    assert scoring.chance(["abaaQa|Q"], "UL") == pytest.approx(4 / 5)
    assert scoring.chance([], "UL") == 0.0
    inputs = [r["input_with_space"] for r in generate("nonunique", 30, 200, 1)]
    assert 0.03 < scoring.chance(inputs, "NLFirst") < 0.08


def test_gaps_pair_by_record():
    right = dict.fromkeys(range(40), True)
    left = {i: i % 2 == 0 for i in range(30)}
    (gap,) = scoring.gaps({"UR": right, "UL": left, "NLFirst": right})
    assert (gap.kind, gap.better, gap.worse, gap.records) == ("right - left", "UR", "UL", 30)
    assert gap.difference == pytest.approx(50.0)
    assert gap.interval[0] < 50 < gap.interval[1]
    assert gap.p < 0.001
    assert {g.kind for g in scoring.gaps({"NLLast": right, "NLFirst": left})} == {"last - first"}
