from __future__ import annotations

import re
import string

import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import DataError, UsageError
from kshot.core.records import Answers, Option, Sample
from kshot.metrics import Em
from kshot.metrics.words import normalise

WORDS = st.lists(st.sampled_from(["a", "The", "and", "cat,", "sat!", "42", "né", "cat"]), max_size=5).map(" ".join)


def independently(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return [word for word in re.split(r"\s+", text) if word and word not in {"a", "an", "the", "and"}]


@given(WORDS, st.lists(WORDS, min_size=1, max_size=4))
def test_best_over_references(prediction, references):
    expected = 100 if any(independently(prediction) == independently(r) for r in references) else 0
    assert Em().values([prediction], [references])["EM"] == [expected]


@given(WORDS, st.lists(WORDS, min_size=2, max_size=4))
def test_leave_one_out(prediction, references):
    hits = [independently(prediction) == independently(r) for r in references]
    expected = 100 * sum(any(hits[:i] + hits[i + 1 :]) for i in range(len(hits))) / len(hits)
    assert Em("leave_one_out").values([prediction], [references])["EM"] == [pytest.approx(expected)]


@given(st.text())
def test_normalising_twice_changes_nothing(text):
    # lower-casing may yield characters that lower-case again, so from the first normal form on
    once = normalise(text)
    assert normalise(once) in {once, normalise(normalise(once))}
    assert "  " not in once
    assert once == once.strip()


@pytest.mark.parametrize("reference", ["Paris", 3, None, []])
def test_a_reference_that_is_no_list_is_an_error(reference):
    with pytest.raises(DataError) as caught:
        Em()(["Paris"], [reference])
    assert "EM got" in str(caught.value)
    assert caught.value.hint


def test_in_a_run():
    assert Em().score(Sample("s", {}, Answers(("Paris",))), "paris.") == {"EM": 100.0}
    with pytest.raises(DataError):
        Em().score(Sample("s", {}, Option(1)), "paris")
    with pytest.raises(DataError, match="no reference"):
        Em().score(Sample("s", {}), "paris")


def test_unknown_strategy():
    with pytest.raises(UsageError, match="leave_one_out"):
        Em("best")
