"""BM25 agrees with a plain sum over words, and ties go to the lower number."""

import math
import shutil
import sys
from collections import Counter

import nltk
import numpy as np
import pytest

from kshot.core.errors import BackendError, BadValue
from kshot.index import bm25 as bm25_index, ranking, words as words_of_nltk
from kshot.index.words import nltk_words
from kshot.retrievers import BM25Retriever


def plain_scores(docs, query, variant="lucene", k1=1.5, b=0.75):
    """BM25 word by word, row by row."""
    n, average = len(docs), sum(map(len, docs)) / len(docs)
    df = Counter(word for doc in docs for word in set(doc))
    idf = {w: math.log(1 + (n - f + 0.5) / (f + 0.5)) for w, f in df.items()}
    if variant == "okapi":
        idf = {w: math.log(n - f + 0.5) - math.log(f + 0.5) for w, f in df.items()}
        floor = 0.25 * sum(idf.values()) / len(idf)
        idf = {w: floor if value < 0 else value for w, value in idf.items()}
    scores = []
    for doc in docs:
        score = 0.0
        for word in query:
            tf = doc.count(word)
            if tf:
                times = (k1 + 1) if variant == "okapi" else 1
                score += idf[word] * tf * times / (tf + k1 * (1 - b + b * len(doc) / average))
        scores.append(score)
    return scores


def texts(rng, many, vocabulary, longest):
    weights = 1 / np.arange(1, vocabulary + 1)
    return [
        [f"w{word}" for word in rng.choice(vocabulary, rng.integers(0, longest), p=weights / weights.sum())]
        for _ in range(many)
    ]


def dataset(docs, queries):
    return {
        "train": [{"q": " ".join(d), "answer": 1} for d in docs],
        "test": [{"q": " ".join(q), "answer": 2} for q in queries],
    }


def brute(docs, queries, k, **options):
    chosen = []
    for query in queries:
        scores = [round(score, 10) for score in plain_scores(docs, query, **options)]
        chosen.append(sorted(range(len(docs)), key=lambda i: (-scores[i], i))[:k])
    return chosen


@pytest.mark.parametrize("variant", ["lucene", "okapi"])
@pytest.mark.parametrize(("seed", "vocabulary", "longest"), [(0, 12, 8), (1, 60, 30), (2, 400, 40), (3, 3, 5)])
def test_it_agrees_with_brute_force(seed, vocabulary, longest, variant, monkeypatch):
    rng = np.random.default_rng(seed)
    docs, queries = texts(rng, 150, vocabulary, longest), texts(rng, 40, vocabulary + 5, longest)
    expected = brute(docs, queries, 6, variant=variant)
    for share, block in ((0.1, 2**26), (2.0, 2**26), (0.0, 4 * 150 * 7)):  # some, none, and seven common words a block
        monkeypatch.setattr(bm25_index, "DENSE_SHARE", share)
        monkeypatch.setattr(ranking, "BLOCK_BYTES", block)
        made = BM25Retriever(dataset(docs, queries), ice_num=6, variant=variant, columns="q", order="nearest_first")
        assert made.retrieve() == expected


def test_it_agrees_with_brute_force_on_many_rows():
    rng = np.random.default_rng(9)
    docs, queries = texts(rng, 3000, 500, 20), texts(rng, 12, 500, 20)
    found = BM25Retriever(dataset(docs, queries), ice_num=8, order="nearest_first").retrieve()
    assert found == brute(docs, queries, 8)


def test_k1_and_b_count():
    rng = np.random.default_rng(4)
    docs, queries = texts(rng, 80, 40, 20), texts(rng, 20, 40, 20)
    made = BM25Retriever(dataset(docs, queries), ice_num=4, k1=0.9, b=0.4, order="nearest_first")
    assert made.retrieve() == brute(docs, queries, 4, k1=0.9, b=0.4)
    assert made.facts["k1"] == 0.9


def test_ties_go_to_the_lower_number_and_nothing_in_common_is_no_error():
    docs = [["a"], ["b", "a"], ["a", "b"], ["c"], ["b", "a"]] * 400
    found = BM25Retriever(dataset(docs, [["zzz"], [], ["a", "b"]]), ice_num=4, order="nearest_first").retrieve()
    assert found == [[0, 1, 2, 3], [0, 1, 2, 3], [1, 2, 4, 6]]
    empty = {"train": [{"q": ""}, {"q": ""}], "test": [{"q": "x"}]}
    assert BM25Retriever(empty, ice_num=2, order="nearest_first").retrieve() == [[0, 1]]
    assert BM25Retriever({"train": [], "test": [{"q": "x"}]}, ice_num=0).retrieve() == [[]]
    assert BM25Retriever({"train": [{"q": "x"}], "test": []}).retrieve() == []


def test_words_are_a_choice():
    data = dataset([["a-b"], ["A", "b"], ["c"]], [["a-b"], ["A"]])
    made = BM25Retriever(data, tokenize=str.split, order="nearest_first")
    assert made.retrieve() == [[0], [1]]
    assert BM25Retriever(dataset([["c"], ["The", "Cat"]], [["cat"]])).retrieve() == [[1]]


@pytest.mark.needs("llama-index-core")  # which carries NLTK's rules for sentences
def test_compat_counts_the_words_of_nltk():
    docs = [["The", "Cat", "sat."], ["the", "cat", "sat"], ["x"], ["y"], ["z"]]
    found = BM25Retriever(dataset(docs, [["dog."], ["Cat"], ["cat"]]), strict=False).retrieve()
    assert found == [[0], [0], [1]]  # of the first query, only the full stop is a word of a row
    assert nltk_words("Dr. Who isn't here. He left.") == ["Dr.", "Who", "is", "n't", "here", ".", "He", "left", "."]


@pytest.mark.needs("llama-index-core")
@pytest.mark.parametrize("known", [False, True])  # importing the carrier makes its folder known to NLTK
def test_rules_that_were_installed_by_hard_links_are_read(monkeypatch, tmp_path, known):
    (carried,) = words_of_nltk._carried_folders()
    linked = tmp_path / "linked"
    shutil.copytree(carried / words_of_nltk._PUNKT, linked / words_of_nltk._PUNKT)
    for path in (linked / words_of_nltk._PUNKT).iterdir():
        (tmp_path / f"cache-{path.name}").hardlink_to(path)
    monkeypatch.setattr(nltk.data, "path", [str(linked)] if known else [])
    monkeypatch.setattr(words_of_nltk, "_carried_folders", lambda: [linked])
    nltk.tokenize._get_punkt_tokenizer.cache_clear()
    words_of_nltk._has_rules.cache_clear()
    try:
        assert nltk_words("Dr. Who left.") == ["Dr.", "Who", "left", "."]
    finally:
        words_of_nltk._has_rules.cache_clear()


def test_compat_shows_all_rows_where_there_are_fewer():
    made = BM25Retriever(dataset([["a"], ["b"]], [["a"]]), ice_num=5, strict=False, tokenize=str.split)
    assert made.retrieve() == [[1, 0]]  # each word is in half of the rows: its idf is 0


def test_compat_says_what_nltk_lacks(monkeypatch):
    assert BM25Retriever.packages({"strict": True}) == BM25Retriever.packages({"strict": False, "tokenize": list}) == ()
    monkeypatch.setattr(words_of_nltk, "_has_rules", lambda: False)
    said = r"no rules for English sentences.*nltk\.downloader punkt_tab \(or: pip install 'kshot\[passages\]'"
    with pytest.raises(BackendError, match=said):
        BM25Retriever.packages({"strict": False})
    with pytest.raises(BackendError, match=said):
        BM25Retriever(dataset([["a"]], [["a"]]), strict=False).retrieve()


def test_it_needs_no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    assert BM25Retriever(dataset([["a"], ["b"]], [["b"]])).retrieve() == [[1]]


def test_impossible_options():
    data = dataset([["a"]], [["a"]])
    with pytest.raises(BadValue, match="variant is 'best'"):
        BM25Retriever(data, variant="best")
    with pytest.raises(BadValue, match="k1 is -1"):
        BM25Retriever(data, k1=-1)
