"""lm-eval's exact match and each of its options."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import DataError, UsageError
from kshot.core.records import AskFailed
from kshot.metrics import ExactMatch, exact

GSM8K = {"ignore_case": True, "regexes_to_ignore": [",", r"\$", "(?s).*#### ", r"\.$"]}


@pytest.mark.parametrize(
    ("prediction", "reference", "options", "right"),
    [
        ("Paris", "Paris", {}, True),
        ("Paris ", "Paris", {}, False),
        ("paris", "Paris", {}, False),
        ("paris", "Paris", {"ignore_case": True}, True),
        ("It's 5%.", "Its 5", {"ignore_punctuation": True}, True),
        ("It’s", "Its", {"ignore_punctuation": True}, False),  # only ASCII punctuation
        ("room 12", "room 7", {"ignore_numbers": True}, True),
        ("room 12", "room ", {"ignore_numbers": True}, True),
        ("room ٣", "room ", {"ignore_numbers": True}, False),  # only the digits 0-9
        ("$1,200.", "so 12 * 100 = 1200\n#### 1,200", GSM8K, True),
        ("1200.0", "#### 1200", GSM8K, False),
        ("ab", "b", {"regexes_to_ignore": "a"}, True),  # one regex may be a text
        ("A", "", {"ignore_case": True, "regexes_to_ignore": ["a"]}, False),  # regexes see the case
        ("a", ["b", "a"], {}, True),
        ("12", [12], {}, True),
    ],
)
def test_options(prediction, reference, options, right):
    assert ExactMatch(**options)([prediction], [reference]) == {"exact_match": 100.0 if right else 0.0}


@given(st.text(), st.lists(st.text(), min_size=1, max_size=3))
def test_without_options_it_is_equality(prediction, references):
    assert ExactMatch()([prediction], [references])["exact_match"] == 100.0 * (prediction in references)


def test_a_reference_that_is_neither_text_nor_list():
    with pytest.raises(DataError, match="exact_match got the reference 3"):
        ExactMatch()(["3"], [3])


def test_a_regex_without_end_is_a_failed_sample(monkeypatch):
    monkeypatch.setattr(exact, "SECONDS", 0.05)
    with pytest.raises(AskFailed, match=r"\(x\+x\+\)\+y.*more than 0.05 s"):
        ExactMatch(regexes_to_ignore=r"(x+x+)+y").rate("x" * 30_000, "x")


@pytest.mark.parametrize("regex", ["((a{1000}){1000}){1000}", "(?:a?){99999999999}"])
def test_a_regex_that_would_fill_the_memory_is_refused(regex):
    with pytest.raises(UsageError, match="regexes_to_ignore"):
        ExactMatch(regexes_to_ignore=regex)
