from __future__ import annotations

import socket

import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import DataError, UsageError
from kshot.metrics import F1
from kshot.metrics.words import normalise

WORDS = st.lists(st.sampled_from(["a", "The", "cat", "cat", "sat", "mat", "42", "on", "!"]), max_size=7).map(" ".join)


def independently(prediction, reference, *, unique):
    said, truth = normalise(prediction).split(), normalise(reference).split()
    if unique:
        said, truth = list(set(said)), list(set(truth))
    if not said or not truth:
        return 100.0 * (said == truth)
    left, common = list(truth), 0
    for word in said:
        if word in left:
            left.remove(word)
            common += 1
    return 100 * 2 * common / (len(said) + len(truth))


@given(
    WORDS,
    st.lists(WORDS, min_size=1, max_size=3),
    st.sampled_from(["counter", "set"]),
    st.sampled_from(["split", "nltk", "regex"]),
)
def test_against_a_plain_count(prediction, references, bag, tokenizer):
    expected = max(independently(prediction, r, unique=bag == "set") for r in references)
    assert F1(tokenizer, bag)([prediction], [references])["F1"] == pytest.approx(expected)


@given(WORDS, WORDS)
def test_it_is_symmetric_and_bounded(one, other):
    figure = F1("split")([one], [[other]])["F1"]
    assert 0 <= figure <= 100
    assert figure == pytest.approx(F1("split")([other], [[one]])["F1"])


@pytest.mark.parametrize(
    ("options", "prediction", "reference", "value"),
    [
        ({"force_number_match": True}, "6 yards", "5 yards", 0),
        ({"force_number_match": True}, "5 yards", "5 feet", 50),
        ({"force_number_match": True}, "some yards", "yards", 200 / 3),
        ({"force_number_match": False}, "6 yards", "5 yards", 50),
        ({"word_tokenize": "regex", "normalize_level": "token"}, "twenty-one", "twenty one", 100),
        ({"word_tokenize": "split", "normalize_level": "token"}, "twenty-one", "twenty one", 0),
        ({"word_tokenize": "split", "normalize_level": "text"}, "The Cat", "cat!", 100),
    ],
)
def test_options(options, prediction, reference, value):
    assert F1(**options)([prediction], [[reference]])["F1"] == pytest.approx(value)


def test_leave_one_out():
    metric = F1("split", multiref_strategy="leave_one_out")
    assert metric(["cat"], [["cat", "dog"]])["F1"] == 50


def test_the_default_tokenizer_needs_no_download(monkeypatch):
    monkeypatch.setattr(socket, "socket", None)
    monkeypatch.setenv("NLTK_DATA", "/nowhere")
    assert F1()(["Paris, France"], [["paris france"]])["F1"] == 100


def test_errors():
    with pytest.raises(DataError, match="F1 got"):
        F1()(["x"], ["x"])
    for wrong in ({"word_tokenize": "bpe"}, {"align_bag": "bag"}, {"normalize_level": "none"}):
        with pytest.raises(UsageError):
            F1(**wrong)
