"""The one word rule: words, stop words, and tokens as they are written."""

import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import UsageError
from kshot.index.words import Words


def test_words():
    words = Words()
    assert words("The cat's Hat_1, 3.5!") == ["the", "cat", "s", "hat_1", "3", "5"]
    assert words("什么是AI模型 ÉCOLE") == ["什", "么", "是", "ai", "模", "型", "école"]
    assert Words(stopwords="english")("The cat and the hat") == ["cat", "hat"]
    assert Words(stopwords="english").fingerprint != words.fingerprint
    with pytest.raises(UsageError, match="stem is 'klingon'"):
        Words(stem="klingon")
    with pytest.raises(UsageError, match="stopwords is 'x'"):
        Words(stopwords="x")


def test_stopwords_are_those_of_bm25s():
    listed = pytest.importorskip("bm25s").stopwords.STOPWORDS_EN
    assert Words(stopwords="english")(" ".join(listed)) == []
    rest = ["cat", "who", "they've", "i", "than"]
    assert Words(stopwords="english")(" ".join(rest)) == ["cat", "who", "ve", "i", "than"]


@given(st.text() | st.text(st.characters(max_codepoint=127)))
def test_spaced_words_are_the_same_words(text):
    for words in (Words(), Words(stopwords="english")):
        assert words.spaced(text).split() == words(text)
