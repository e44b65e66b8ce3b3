"""BM25 in memory and on disk: the formula, agreement with bm25s, filters, ties, and odd corpora."""

import math
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kshot.backends.search.bm25 import METHODS, Bm25, Bm25Disk
from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import MissingExtra, UsageError
from kshot.index.store import Store

WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=9)
DOCS = st.lists(WORDS, min_size=1, max_size=15)
BOTH = pytest.mark.parametrize("engine", [Bm25(), Bm25Disk()], ids=lambda e: e.name)


def opened(engine, docs: Sequence[Sequence[str] | str], root):
    texts = [doc if isinstance(doc, str) else " ".join(doc) for doc in docs]
    return engine.open(Corpus(Passage(f"p{i}", text) for i, text in enumerate(texts)), Store(root))


def lucene(docs, query, k1=1.5, b=0.75, length=len):
    """BM25 word by word and passage by passage."""
    average = sum(map(len, docs)) / len(docs)
    df = Counter(word for doc in docs for word in set(doc))
    idf = {word: math.log(1 + (len(docs) - n + 0.5) / (n + 0.5)) for word, n in df.items()}
    return [
        sum(
            idf[word] * doc.count(word) / (doc.count(word) + k1 * (1 - b + b * length(doc) / average))
            for word in query
            if word in doc
        )
        for doc in docs
    ]


def check_order(got):
    pairs = [(-score, at) for at, score in zip(got.positions, got.scores, strict=True)]
    assert pairs == sorted(pairs)
    assert all(score > 0 for score in got.scores)


@settings(max_examples=60)
@given(DOCS, WORDS, st.floats(0, 3), st.floats(0, 1), st.data())
def test_the_formula(tmp_path_factory, docs, query, k1, b, data):
    index = opened(Bm25(k1=k1, b=b), docs, tmp_path_factory.mktemp("b"))
    among = data.draw(st.none() | st.lists(st.sampled_from(range(len(docs))), unique=True).map(sorted))
    scores = lucene(docs, query, k1, b) if any(docs) else [0.0] * len(docs)
    got = index.search([" ".join(query)], len(docs), among)[0]
    assert sorted(got.positions) == [i for i, s in enumerate(scores) if s > 0 and (among is None or i in among)]
    assert list(got.scores) == pytest.approx([scores[at] for at in got.positions], rel=1e-5)
    check_order(got)
    for k in range(1, len(docs) + 1):  # fewer are the first of more
        part = index.search([" ".join(query)], k, among)[0]
        assert (list(part.positions), list(part.scores)) == (list(got.positions[:k]), list(got.scores[:k]))


@settings(max_examples=30)
@given(DOCS.filter(any), WORDS, st.data())
def test_tantivy_has_the_same_formula(tmp_path_factory, docs, query, data):
    # lengths up to 40 are kept exactly by its one-byte code, so nothing but float32 is between the two
    index = opened(Bm25Disk(), docs, tmp_path_factory.mktemp("t"))
    among = data.draw(st.none() | st.lists(st.sampled_from(range(len(docs))), unique=True).map(sorted))
    scores = [2.2 * score for score in lucene(docs, query, k1=1.2)]
    got = index.search([" ".join(query)], len(docs), among)[0]
    assert sorted(got.positions) == [i for i, s in enumerate(scores) if s > 0 and (among is None or i in among)]
    assert list(got.scores) == pytest.approx([scores[at] for at in got.positions], rel=1e-5)
    check_order(got)
    for k in (1, 2, 5):
        assert list(index.search([" ".join(query)], k, among)[0].positions) == list(got.positions[:k])


def zipf(rng, many, vocabulary, longest):
    weights = 1 / np.arange(1, vocabulary + 1)
    return [
        [f"w{word}" for word in rng.choice(vocabulary, rng.integers(0, longest), p=weights / weights.sum())]
        for _ in range(many)
    ]


def test_tantivy_with_long_passages_is_near_the_formula(tmp_path):
    rng = np.random.default_rng(3)
    docs, queries = zipf(rng, 300, 200, 400), zipf(rng, 20, 200, 8)
    index = opened(Bm25Disk(), docs, tmp_path)
    for query in queries:
        scores = [2.2 * score for score in lucene(docs, query, k1=1.2)]
        got = index.search([" ".join(query)], len(docs), None)[0]
        assert sorted(got.positions) == [i for i, s in enumerate(scores) if s > 0]
        # a length is rounded down by at most an eighth, and the score with it moves by at most as much
        np.testing.assert_allclose(got.scores, [scores[at] for at in got.positions], rtol=0.125)


@pytest.mark.parametrize("method", METHODS)
def test_scores_are_those_of_bm25s(tmp_path, method):
    bm25s = pytest.importorskip("bm25s")
    rng = np.random.default_rng(1)
    docs, queries = zipf(rng, 400, 300, 30), [query for query in zipf(rng, 30, 330, 12) if query]
    peer = bm25s.BM25(method=method, k1=1.3, b=0.6)
    peer.index(docs, show_progress=False)
    index = opened(Bm25(method=method, k1=1.3, b=0.6), docs, tmp_path)
    for query, got in zip(queries, index.search([" ".join(q) for q in queries], 400, None), strict=True):
        known = [word for word in query if word in peer.vocab_dict]
        expected = peer.get_scores(known) if known else np.zeros(400, dtype=np.float32)
        constant = peer.nonoccurrence_array[peer.get_tokens_ids(known)].sum() if method in METHODS[3:] and known else 0
        mine = np.zeros(400, dtype=np.float32)
        mine[list(got.positions)] = got.scores
        if constant:
            np.testing.assert_allclose(mine, expected - constant, atol=1e-4)
        else:
            assert mine.tolist() == expected.tolist()  # to the last bit


@BOTH
def test_ties_go_to_the_lower_position(tmp_path, engine):
    docs = [["a"], ["b", "a"], ["a", "b"], ["c", "d"], ["b", "a"]] * 400
    index = opened(engine, docs, tmp_path)
    pairs = [i for i in range(2000) if i % 5 in (1, 2, 4)]
    for k in (1, 4, 50, 1199, 1200):
        assert list(index.search(["a b"], k, None)[0].positions) == pairs[:k]
    assert list(index.search(["a b"], 1300, None)[0].positions) == pairs + [i for i in range(2000) if i % 5 == 0][:100]
    assert list(index.search(["a b"], 5, tuple(range(1000, 2000)))[0].positions) == [1001, 1002, 1004, 1006, 1007]


@BOTH
def test_a_search_does_not_change_the_next(tmp_path, engine):
    rng = np.random.default_rng(2)
    docs, queries = zipf(rng, 500, 2000, 25), [" ".join(query) for query in zipf(rng, 60, 2000, 6)]
    index = opened(engine, docs, tmp_path)
    together = index.search(queries, 7, None)
    assert [index.search([query], 7, None)[0] for query in reversed(queries)] == together[::-1]
    assert any(found.positions for found in together)


@BOTH
def test_many_passages_are_searched_exactly(tmp_path, engine):
    rng = np.random.default_rng(4)
    docs = zipf(rng, 3000, 3000, 30)
    index = opened(engine, docs, tmp_path)
    k1, scale = (1.5, 1) if engine.name == "bm25" else (1.2, 2.2)
    some = tuple(range(0, 3000, 7))
    for words in [*zipf(rng, 6, 3000, 6), ["w2900"], ["w2500", "w2600", "w2500"]]:
        scores = np.asarray(lucene(docs, words, k1)) * scale
        for among in (None, some):
            got = index.search([" ".join(words)], 10, among)[0]
            rows = np.arange(3000) if among is None else np.asarray(among)
            order = rows[np.lexsort((rows, -np.round(scores[rows], 4)))]
            expected = [at for at in order if scores[at] > 0][:10]
            np.testing.assert_allclose(got.scores, scores[expected], rtol=1e-4)


@BOTH
def test_corpora_and_queries_without_words(tmp_path, engine):
    for number, docs in enumerate((["", "!!", "\0"], ["only"], [])):
        index = opened(engine, docs, tmp_path / str(number))
        for query in ("", "?!", "\0", "\ud800", "other"):
            assert [list(found.positions) for found in index.search([query], max(len(docs), 1), None)] == [[]]
    index = opened(engine, ["", "red fox", ""], tmp_path / "some")
    assert list(index.search(["fox"], 3, None)[0].positions) == [1]
    assert list(index.search(["fox"], 3, (0, 2))[0].positions) == []
    assert index.search([], 3, None) == []


@BOTH
def test_a_query_of_a_megabyte(tmp_path, engine):
    index = opened(engine, ["red fox", "blue dog", "x"], tmp_path)
    assert list(index.search(["red " * 250_000], 3, None)[0].positions) == [0]
    assert list(index.search(["x" * 1_000_000 + " dog"], 3, None)[0].positions) == [1]


def test_stemming_needs_its_package(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    with pytest.raises(MissingExtra, match="PyStemmer"):
        Bm25(stem="english")

    class Stemmer:
        def __init__(self, language):
            assert language == "english"

        def stemWords(self, words):  # noqa: N802 - PyStemmer's name
            return [word.removesuffix("s") for word in words]

    monkeypatch.setitem(sys.modules, "Stemmer", type(sys)("Stemmer"))
    monkeypatch.setattr(sys.modules["Stemmer"], "Stemmer", Stemmer, raising=False)
    assert list(opened(Bm25(stem="english"), ["cats", "dog"], tmp_path).search(["cat"], 2, None)[0].positions) == [0]


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tantivy", None)
    with pytest.raises(MissingExtra, match=r"tantivy.*pip install 'kshot\[search\]'"):
        Bm25Disk()


def test_bm25_in_memory_needs_no_package(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    index = opened(Bm25(stopwords="english"), ["the red fox", "the blue dog"], tmp_path)
    assert list(index.search(["the dog"], 2, None)[0].positions) == [1]


def test_settings_are_part_of_the_fingerprint_and_of_the_file(tmp_path):
    made = [Bm25(), Bm25(k1=1.2), Bm25(b=0.5), Bm25(method="atire"), Bm25(stopwords="english"), Bm25Disk()]
    assert len({engine.fingerprint for engine in made}) == len(made)
    for engine in made:
        opened(engine, ["a b", "c"], tmp_path)
    assert len(list(tmp_path.iterdir())) == len(made)


@pytest.mark.parametrize("options", [{"k1": -1}, {"b": 1.5}, {"k1": math.nan}, {"b": math.nan}, {"method": "best"}])
def test_impossible_options(options):
    with pytest.raises(UsageError, match="must be"):
        Bm25(**options)
