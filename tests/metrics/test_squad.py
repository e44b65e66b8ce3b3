"""SQuAD's EM and F1 against a reference that is written from the definition, not from the code."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import DataError
from kshot.metrics import F1, Em, SquadEm, SquadF1

WORD = st.sampled_from(
    ["the", "The", "a", "an", "and", "Cat", "cat's", "cat", "mat.", "(x)", "1,000", "été", "—", "  "]
)
TEXT = st.lists(WORD, max_size=7).map(" ".join)


def words(text):
    """Lower case; every ASCII punctuation mark removed; the words a, an, the left out."""
    kept = "".join(character for character in text.lower() if character not in string.punctuation)
    # in these texts an article is a word between white space
    return [word for word in kept.split() if word not in {"a", "an", "the"}]


def overlap(predicted, expected):
    rest, common = list(expected), 0
    for word in predicted:
        if word in rest:
            rest.remove(word)
            common += 1
    # 2PR / (P + R) is 2·common / (words of both)
    return 200 * common / (len(predicted) + len(expected)) if common else 0.0


@given(TEXT, st.lists(TEXT, min_size=1, max_size=3))
def test_as_the_official_script(prediction, references):
    assert SquadEm()([prediction], [references]) == {
        "SQuAD_EM": max(100.0 * (words(prediction) == words(reference)) for reference in references)
    }
    best = max(overlap(words(prediction), words(reference)) for reference in references)
    assert SquadF1()([prediction], [references])["SQuAD_F1"] == pytest.approx(best)


def test_and_is_a_word_here_and_not_in_llmbox():
    assert SquadEm()(["salt and pepper"], [["salt pepper"]]) == {"SQuAD_EM": 0.0}
    assert Em()(["salt and pepper"], [["salt pepper"]]) == {"EM": 100.0}
    assert SquadF1()(["salt and pepper"], [["salt pepper"]]) == {"SQuAD_F1": pytest.approx(80.0)}
    assert F1()(["salt and pepper"], [["salt pepper"]]) == {"F1": 100.0}


def test_articles_between_word_borders_are_removed_after_punctuation():
    assert SquadEm()(["the-man"], [["theman"]]) == {"SQuAD_EM": 100.0}  # the hyphen goes first
    assert SquadEm()(["ein a–b"], [["ein –b"]]) == {"SQuAD_EM": 100.0}  # a dash beyond ASCII is a border, and stays
    assert SquadEm()(["THE  Mona\tLisa!"], ["mona lisa"]) == {"SQuAD_EM": 100.0}  # one text is one reference


def test_the_two_versions_differ_in_empty_answers():
    assert SquadF1()(["the"], [[""]]) == {"SQuAD_F1": 0.0}
    assert SquadF1("2.0")(["the"], [[""]]) == {"SQuAD_F1": 100.0}
    assert SquadEm()(["the"], [[""]]) == {"SQuAD_EM": 100.0}
    assert SquadEm("2.0")([""], [[]]) == {"SQuAD_EM": 100.0}  # no answer is the right answer
    assert SquadEm("2.0")(["x"], [[]]) == {"SQuAD_EM": 0.0}
    assert SquadEm("2.0")([""], [["the", "x"]]) == {"SQuAD_EM": 0.0}  # an answer without words does not count there
    for metric in (SquadEm(), SquadF1()):
        with pytest.raises(DataError, match="empty list of references") as raised:
            metric(["x"], [[]])
        assert "version=2.0" in raised.value.hint
    for wrong in (3, None):
        with pytest.raises(DataError, match="SQuAD_F1 got the reference"):
            SquadF1("2.0")(["x"], [wrong])
