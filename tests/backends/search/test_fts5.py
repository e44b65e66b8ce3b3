"""SQLite FTS5: the published rule, any query, filters, and the formula of its BM25."""

import csv
import json
import math
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from kshot.backends.search import fts5 as module
from kshot.backends.search.fts5 import Fts5
from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import BackendError
from kshot.core.records import Ranking, Search
from kshot.index.store import Store

FASTBOOK = Path(__file__).parents[3].parent / "shared" / "data" / "fastbook"
TEXTS = ["red fox", "red red dog", "blue fox AND dog", "naïve café", "", "don't stop", "blue blue blue whale song"]


class Queue:
    def __init__(self, *requests):
        self.requests = list(requests)

    def take(self, at_most=None):
        taken, self.requests = self.requests, []
        return taken

    def __iter__(self):
        return iter(self.take())


def opened(texts, root, fields=None):
    corpus = Corpus(Passage(f"p{i}", text, (fields or {}).get(i, {})) for i, text in enumerate(texts))
    return Fts5().open(corpus, Store(root))


def found(index, query, k=10, among=None):
    return list(index.search([query], k, among)[0].positions)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return opened(TEXTS, tmp_path_factory.mktemp("fts5"))


def test_words_are_joined_by_or_and_the_rarer_counts_more(index):
    assert found(index, "red") == [1, 0]
    assert found(index, "fox dog") == [2, 0, 1]
    assert found(index, "whale red") == [6, 1, 0]
    assert found(index, "red", k=1) == [1]


@pytest.mark.parametrize(
    "query",
    ["", "   ", '"', '""""', "!!! ?", ",", "\0", "\0\0 \0", "\ud800", "zebra", "(", "*", "^", "{text}", "--", "text :"],
)
def test_queries_that_find_nothing(index, query):
    assert index.search([query], 5, None) == [([], [])]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("AND", [2]),
        ("NOT red", [1, 0]),
        ("NEAR(red fox)", [0, 2]),  # the phrase "near red", or fox
        ('"red" "dog"', [1, 0, 2]),
        ("red* text:red", [1, 0]),
        ("don't", [5]),
        ("NAIVE cafe", [3]),
        ("re\0d red", [1, 0]),
        ("red OR", [1, 0]),
        ("'; DROP TABLE passages; -- red", [1, 0]),
    ],
)
def test_operators_are_words(index, query, expected):
    assert sorted(found(index, query)) == sorted(expected)


def test_a_query_of_a_megabyte(index):
    assert found(index, "x" * 1_000_000 + " red") == [1, 0]
    long = " ".join(f"w{i}" for i in range(150_000)) + " fox dog"
    assert len(long) > 1_000_000
    assert found(index, long) == [2, 0, 1]
    assert found(index, long, k=1) == [2]


def test_parts_of_a_long_query_add_up(index, monkeypatch):
    whole = index.search(["red fox dog blue red whale"], 10, None)[0]
    monkeypatch.setattr(module, "WORDS_AT_ONCE", 2)
    parts = index.search(["red fox dog blue red whale"], 10, None)[0]
    assert parts.positions == whole.positions
    assert parts.scores == pytest.approx(whole.scores)


def fts5_formula(docs, query):
    """The bm25() of SQLite's documentation; docs and query are lists of words."""
    n, average = len(docs), sum(map(len, docs)) / len(docs)
    scores = []
    for doc in docs:
        score = 0.0
        for word in query:
            df = sum(word in other for other in docs)
            idf = math.log((n - df + 0.5) / (df + 0.5)) if df else 0.0
            tf = doc.count(word)
            score += max(idf, 1e-6) * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * len(doc) / average))
        scores.append(score)
    return scores


words = st.lists(st.sampled_from("abcdefg"), max_size=8)


@settings(max_examples=40)
@given(st.lists(words, min_size=1, max_size=12).filter(any), words, st.data())
def test_the_formula(tmp_path_factory, docs, query, data):
    index = opened([" ".join(doc) for doc in docs], tmp_path_factory.mktemp("f"))
    scores = fts5_formula(docs, query)
    among = data.draw(st.none() | st.lists(st.sampled_from(range(len(docs))), unique=True).map(sorted))
    allowed = [at for at in range(len(docs)) if scores[at] > 0 and (among is None or at in among)]
    got = index.search([" ".join(query)], len(docs), among)[0]
    assert sorted(got.positions) == allowed
    assert list(got.scores) == pytest.approx([scores[at] for at in got.positions])
    assert list(zip([-s for s in got.scores], got.positions, strict=True)) == sorted(
        zip([-s for s in got.scores], got.positions, strict=True)
    )


def test_a_filter_leaves_the_statistics_of_the_whole(tmp_path):
    fields = {i: {"book": "b" if i % 2 else "a"} for i in range(len(TEXTS))}
    index = opened(TEXTS, tmp_path, fields)
    everything = index.search(["red fox dog blue"], 10, None)[0]
    scores = dict(zip(everything.positions, everything.scores, strict=True))
    for among in ((0, 2, 4, 6), (1, 3, 5), (), (2,)):
        got = index.search(["red fox dog blue"], 10, among)[0]
        assert got.positions == [at for at in everything.positions if at in among]
        assert got.scores == [scores[at] for at in got.positions]
    assert index.search(["red fox dog blue"], 10, None)[0] == everything


def test_as_a_backend(tmp_path):
    corpus = Corpus(Passage(f"p{i}", text, {"n": str(i % 2)}) for i, text in enumerate(TEXTS))
    backend = Fts5().over(corpus, Store(tmp_path))
    requests = [Search("red", 5), Search("red", 5, (("n", "1"),)), Search("", 5), Search("red", 1), Search("red", 0)]
    answers = dict(backend.serve(Queue(*requests)))
    ids = [[hit.id for hit in answers[request].hits] for request in requests]
    assert ids == [["p1", "p0"], ["p1"], [], ["p1"], []]
    assert all(isinstance(answer, Ranking) for answer in answers.values())
    assert corpus.digest in backend.fingerprint
    assert dict(Fts5().over(Corpus(()), Store(tmp_path)).serve(Queue(Search("red", 5)))) == {
        Search("red", 5): Ranking(())
    }


def test_answers_come_batch_by_batch(tmp_path):
    engine, calls = Fts5(), []
    engine.batch = 2
    backend = engine.over(Corpus([Passage("p", "red")]), Store(tmp_path))
    search = backend._index.search
    backend._index.search = lambda queries, k, among: calls.append(len(queries)) or search(queries, k, among)
    answers = backend.serve(Queue(*(Search(f"red {i}", 1) for i in range(5))))
    next(answers)
    assert calls == [2]
    assert len(list(answers)) == 4
    assert calls == [2, 2, 1]


def test_a_python_without_fts5(monkeypatch):
    class Bare:
        def execute(self, statement):
            raise sqlite3.OperationalError("no such module: fts5")

        def close(self):
            pass

    monkeypatch.setattr(module.sqlite3, "connect", lambda *_: Bare())
    with pytest.raises(BackendError, match=r"comes without FTS5\. Use bm25"):
        Fts5()


def test_odd_names_of_folders(tmp_path):
    root = tmp_path / "a?b#c %41"
    assert found(opened(["red"], root), "red") == [0]


@pytest.mark.skipif(not FASTBOOK.exists(), reason="the fastbook benchmark is not beside the checkout")
def test_the_published_rankings(tmp_path):
    splitter = pytest.importorskip("llama_index.core.node_parser").SentenceSplitter(chunk_size=500, chunk_overlap=64)
    passages = []
    for chapter in (1, 2, 4, 8, 9, 10, 13):
        with (FASTBOOK / "chapters" / f"chapter_{chapter}.txt").open(newline="", encoding="utf-8") as file:
            text = file.read()
        for half in (text[: len(text) // 2], text[len(text) // 2 :]):
            for chunk in splitter.split_text(half):
                passages.append(Passage(str(len(passages)), chunk, {"chapter": str(chapter)}))
    assert len(passages) == 271
    corpus = Corpus(passages)
    index = Fts5().open(corpus, Store(tmp_path))
    with (FASTBOOK / "fts_keywords.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    published = json.loads((FASTBOOK / "published_runs.json").read_text())["bm25_500"]["runs"]
    differing = []
    for number, (row, expected) in enumerate(zip(rows, published, strict=True)):
        among = corpus.among((("chapter", row["chapter"]),))
        mine = [at - among[0] for at in found(index, row["keywords"], 10, among)]
        if mine != expected:
            differing.append((number, sorted(mine) == sorted(expected)))
    # The published table had the chapter's number as a second column of text, which made each passage a word longer;
    # with such a column all lists agree. Here two neighbours, 0.001 apart, change places, and no metric with them.
    assert differing == [(122, True)]
