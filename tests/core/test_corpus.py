"""The corpus: what is found by id, by filter, and by content."""

import pytest
from hypothesis import given, strategies as st

from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import DataError, UsageError

PASSAGES = [
    Passage("a", "one", {"chapter": "1"}),
    Passage("b", "two", {"chapter": "2"}),
    Passage("c", "", {"chapter": "1"}),
]


def test_passages_by_id_and_by_filter():
    corpus = Corpus(PASSAGES)
    assert corpus["b"].text == "two"
    assert (corpus.position("c"), "x" in corpus, len(corpus)) == (2, False, 3)
    assert corpus.among(()) is None
    assert corpus.among((("chapter", "1"),)) == (0, 2)
    assert corpus.among((("chapter", "9"),)) == ()
    with pytest.raises(UsageError, match="no passage has a field 'author'"):
        corpus.among((("author", "x"),))


def test_ids_are_unique():
    with pytest.raises(DataError, match="two passages have the id 'a'"):
        Corpus([*PASSAGES, Passage("a", "again")])


texts = st.text(st.sampled_from("ab1 \n"), max_size=4)
passages = st.lists(
    st.builds(Passage, texts, texts, st.dictionaries(texts, texts, max_size=2)), max_size=4, unique_by=lambda p: p.id
)


@given(passages, passages)
def test_the_digest_is_the_content(one, other):
    same = [(p.id, p.text, dict(p.fields)) for p in one] == [(p.id, p.text, dict(p.fields)) for p in other]
    assert (Corpus(one).digest == Corpus(other).digest) == same


def test_topics_are_no_content():
    assert Corpus(PASSAGES, topics=["1"]).digest == Corpus(PASSAGES).digest
