"""BM25's weights and files are those of the package bm25s, to the last bit; the batch index agrees with it."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kshot.core.errors import BackendError, BadValue
from kshot.index import bm25
from kshot.index.bm25 import Bm25BatchIndex, Bm25Formula, by_word, count_words, load_bm25, save_bm25, word_part

METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
DOCS = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=9), max_size=15)


def zipf_texts(rng, many, vocabulary, longest):
    weights = 1 / np.arange(1, vocabulary + 1)
    return [
        [f"w{word}" for word in rng.choice(vocabulary, rng.integers(0, longest), p=weights / weights.sum())]
        for _ in range(many)
    ]


@given(DOCS, st.sampled_from([1, 7, 1 << 20]))
def test_words_are_counted_whatever_the_chunks(docs, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25, "_CHUNK_WORDS", chunk)
        counts = count_words(docs)
    assert list(counts.vocabulary) == list(dict.fromkeys(word for doc in docs for word in doc))
    assert counts.lengths.tolist() == [len(doc) for doc in docs]
    number = counts.vocabulary
    expected = [
        (text, number[word], doc.count(word))
        for text, doc in enumerate(docs)
        for word in sorted(set(doc), key=number.get)
    ]
    assert list(zip(counts.texts.tolist(), counts.words.tolist(), counts.counts.tolist(), strict=True)) == expected
    sorted_by_word = by_word(counts, counts.counts)
    for word, at in number.items():
        held = [text for text, doc in enumerate(docs) if word in doc]
        assert sorted_by_word.texts[sorted_by_word.of(at)].tolist() == held
        assert counts.document_frequencies[at] == len(held)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("seed", "k1", "b"), [(0, 1.5, 0.75), (1, 0.9, 0.4), (2, 2.7, 1.0), (3, 1.2, 0.0)])
def test_the_files_are_those_of_bm25s(tmp_path, method, seed, k1, b):
    bm25s = pytest.importorskip("bm25s")
    docs = zipf_texts(np.random.default_rng(seed), 300, 400, 40)
    vocabulary: dict[str, int] = {}
    numbers = [[vocabulary.setdefault(word, len(vocabulary)) for word in doc] for doc in docs]
    peer = bm25s.BM25(method=method, k1=k1, b=b)
    peer.index((numbers, vocabulary), create_empty_token=False, show_progress=False)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    ours.mkdir()
    peer.save(theirs, show_progress=False)
    borders = sorted({0, 1, 300, *np.random.default_rng(seed).integers(0, 300, 5).tolist()})
    parts = [word_part(docs[first:last]) for first, last in pairwise(borders)]
    save_bm25(ours, parts, Bm25Formula(method, k1, b))
    assert {path.name for path in ours.iterdir()} == {path.name for path in theirs.iterdir()}
    for path in theirs.glob("*.npy"):
        left, right = np.load(path), np.load(ours / path.name)
        assert left.dtype == right.dtype
        assert left.tolist() == right.tolist()  # to the last bit
    assert json.loads((theirs / "vocab.index.json").read_text()) == json.loads((ours / "vocab.index.json").read_text())
    loaded = bm25s.BM25.load(ours, show_progress=False)  # bm25s reads our files, and we read its
    assert loaded.get_scores(docs[1]).tolist() == peer.get_scores(docs[1]).tolist()
    queries = [doc for doc in docs[:40] if doc]
    assert load_bm25(theirs, 300).search(queries, 7) == load_bm25(ours, 300).search(queries, 7)


@pytest.mark.parametrize("method", METHODS)
def test_k1_of_0_gives_numbers(method):
    counts = count_words([["a", "b"], ["a"], ["c"]])
    assert np.isfinite(Bm25Formula(method, 0.0, 0.75).weights(counts, np.float32)).all()


def test_files_that_are_damaged(tmp_path):
    save_bm25(tmp_path, [word_part([["a"], ["b", "a"]])], Bm25Formula())
    assert load_bm25(tmp_path, 2).search([["b"]], 2)[0].positions == [1]
    np.save(tmp_path / "indptr.csc.index.npy", np.array([0, 1]))
    with pytest.raises(BackendError, match="this index is damaged: its files do not fit together"):
        load_bm25(tmp_path, 2)
    (tmp_path / "vocab.index.json").write_text("{")
    with pytest.raises(BackendError, match="this index is damaged"):
        load_bm25(tmp_path, 2)


@pytest.mark.parametrize(
    ("k1", "b"), [(-1, 0.5), (float("nan"), 0.5), (float("inf"), 0.5), (1, 1.5), (1, float("nan"))]
)
def test_impossible_constants(k1, b):
    with pytest.raises(BadValue, match="k1 must be 0 or more, and b from 0 to 1"):
        Bm25Formula("lucene", k1, b)


def test_the_batch_index_scores_as_bm25s_does():
    bm25s = pytest.importorskip("bm25s")
    rng = np.random.default_rng(5)
    docs, queries = zipf_texts(rng, 200, 80, 30), [q for q in zipf_texts(rng, 20, 80, 30) if q]
    peer = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numpy")
    peer.index(docs, show_progress=False)
    index = Bm25BatchIndex(docs, Bm25Formula())
    everything = np.arange(len(docs))
    for query in queries:
        counted = [index.known(query)]
        exact = index.exact_scores(counted, np.zeros(len(docs), dtype=np.intp), everything)
        np.testing.assert_allclose(exact, peer.get_scores(query), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(exact, index.scores(counted)[0], rtol=1e-5, atol=1e-5)


@settings(max_examples=40)
@given(DOCS.filter(any), st.lists(st.sampled_from("abcdefgh"), max_size=9))
def test_both_indexes_find_the_same(tmp_path_factory, docs, query):
    folder = tmp_path_factory.mktemp("b")
    save_bm25(folder, [word_part(docs)], Bm25Formula())
    (mapped,) = load_bm25(folder, len(docs)).search([query], len(docs))
    (batch,) = Bm25BatchIndex(docs, Bm25Formula()).search([query], len(docs), lambda row: ())
    assert set(batch[: len(mapped.positions)]) == set(
        mapped.positions
    )  # single and double precision may order ties anew
