"""Fusion: brute force, fewer hits are the first of more, weights, and passages that a part leaves out."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kshot.backends.search import hybrid as module
from kshot.backends.search.bm25 import Bm25
from kshot.backends.search.fts5 import Fts5
from kshot.backends.search.hybrid import FUSIONS, Hybrid
from kshot.backends.search.search_engine import IndexSearchEngine
from kshot.core.corpus import Corpus, Passage
from kshot.core.errors import UsageError
from kshot.index.ranking import Found
from kshot.index.store import Store

SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 7.0])


class Given(IndexSearchEngine):
    """Scores by position; with a floor, passages at the floor are not found."""

    def __init__(self, scores, floor=None, name="given"):
        self.scores, self.floor, self.name = scores, floor, name
        self.fingerprint = f"{name} {scores} {floor}"
        self.asked = []

    def open(self, corpus, store):
        return self

    def search(self, queries, k, among):
        self.asked.append(k)
        rows = range(len(self.scores)) if among is None else among
        kept = [at for at in rows if self.floor is None or self.scores[at] > self.floor]
        order = sorted(kept, key=lambda at: (-self.scores[at], at))[:k]
        return [Found(order, [self.scores[at] for at in order]) for _ in queries]


def corpus_of(many):
    return Corpus(Passage(f"p{i}", f"text {i}") for i in range(many))


def searched(engine, many, k, among=None):
    return engine.open(corpus_of(many), Store()).search(["q"], k, among)[0]


def brute(fusion, parts, weights, many, k, among, depth):
    """The definition, passage by passage."""
    rows = list(range(many)) if among is None else list(among)
    lists = [part.search(["q"], min(max(k, depth), len(rows)), among)[0] for part in parts]
    given_by_any = sorted({at for found in lists for at in found.positions})
    candidates = rows if len(rows) <= depth else given_by_any
    total = dict.fromkeys(candidates, 0.0)
    for part, weight, found in zip(parts, weights, lists, strict=True):
        own = dict(zip(found.positions, found.scores, strict=True))
        if fusion == "rrf":
            for rank, at in enumerate(found.positions, start=1):
                total[at] += weight / (60 + rank)
            continue
        missing = part.floor if part.floor is not None else min(found.scores, default=0.0)
        values = [own.get(at, missing) for at in candidates]
        mean = sum(values) / len(values) if values else 0
        spread = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)) if values else 0
        for at, value in zip(candidates, values, strict=True):
            if fusion == "zscore" and max(values) > min(values):
                total[at] += weight * (value - mean) / spread
            if fusion == "minmax" and max(values) > min(values):
                total[at] += weight * (value - min(values)) / (max(values) - min(values))
    return {at: total[at] for at in given_by_any}


@settings(max_examples=150)
@given(st.data(), st.sampled_from(FUSIONS), st.integers(1, 14), st.sampled_from([3, 6, 1000]))
def test_brute_force_and_prefixes(data, fusion, many, depth):
    row = st.lists(SCORES, min_size=many, max_size=many)
    parts = [
        Given(data.draw(row), data.draw(st.sampled_from([None, 0.0]))) for _ in range(data.draw(st.integers(1, 3)))
    ]
    weights = [data.draw(st.sampled_from([0.5, 1.0, 2.0])) for _ in parts]
    among = data.draw(st.none() | st.lists(st.sampled_from(range(many)), unique=True, min_size=1).map(sorted))
    engine = Hybrid(parts, fusion=fusion, weights=weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MIN_CANDIDATES", depth)
        most = min(depth, many if among is None else len(among))
        expected = brute(fusion, parts, weights, many, most, among, depth)
        whole = searched(engine, many, most, among)
        assert len(whole.positions) == min(most, len(expected))
        assert list(whole.scores) == pytest.approx([expected[at] for at in whole.positions], abs=1e-9)
        assert list(whole.scores) == pytest.approx(sorted(expected.values(), reverse=True)[:most], abs=1e-9)
        pairs = [(-score, at) for at, score in zip(whole.positions, whole.scores, strict=True)]
        assert pairs == sorted(pairs)
        for k in range(1, most):  # fewer are the first of more
            part = searched(engine, many, k, among)
            assert part == Found(whole.positions[:k], whole.scores[:k])


def test_with_real_search_engines_results_do_not_depend_on_k(tmp_path):
    rng = np.random.default_rng(0)
    weights = 1 / np.arange(1, 301)
    texts = [" ".join(f"w{w}" for w in rng.choice(300, 12, p=weights / weights.sum())) for _ in range(2500)]
    corpus = Corpus(Passage(str(i), text) for i, text in enumerate(texts))
    for fusion in FUSIONS:
        index = Hybrid([Bm25(), Fts5()], fusion=fusion).open(corpus, Store(tmp_path))
        queries = ["w0 w5 w90", "w250", "nothing", "w1 w2 w3"]
        whole = index.search(queries, 1000, None)
        for k in (1, 2, 10, 999):
            assert index.search(queries, k, None) == [Found(f.positions[:k], f.scores[:k]) for f in whole]
        assert whole[2].positions == []
        assert set(whole[1].positions) == {i for i, text in enumerate(texts) if "w250" in text.split()}


def test_what_each_fusion_computes():
    near, far = Given([1.0, 0.0, 0.5]), Given([0.0, 10.0, 0.0], floor=0.0)
    assert searched(Hybrid([near, far], fusion="minmax"), 3, 3) == ([0, 1, 2], [1.0, 1.0, 0.5])
    assert searched(Hybrid([near, far], fusion="minmax", weights=[1, 2]), 3, 3) == ([1, 0, 2], [2.0, 1.0, 0.5])
    rrf = searched(Hybrid([near, far], fusion="rrf"), 3, 3)
    assert rrf.positions == [1, 0, 2]
    assert rrf.scores == pytest.approx([1 / 61 + 1 / 63, 1 / 61, 1 / 62])
    z = searched(Hybrid([near]), 3, 3)
    assert z.scores == pytest.approx([math.sqrt(1.5), 0, -math.sqrt(1.5)])


def test_a_part_that_finds_nothing_or_scores_all_alike_changes_nothing():
    flat, silent, real = Given([2.0] * 3), Given([0.0] * 3, floor=0.0), Given([1.0, 3.0, 2.0])
    alone = searched(Hybrid([real]), 3, 3)
    assert searched(Hybrid([flat, silent, real]), 3, 3) == alone
    assert searched(Hybrid([silent]), 3, 3) == ([], [])
    assert searched(Hybrid([flat]), 3, 3) == ([0, 1, 2], [0.0, 0.0, 0.0])


def test_parts_are_asked_for_a_thousand_or_more():
    part = Given([float(i) for i in range(3000)])
    searched(Hybrid([part]), 3000, 10)
    searched(Hybrid([part]), 3000, 2000)
    searched(Hybrid([part]), 3000, 5, range(40))
    assert part.asked == [1000, 2000, 40]


def test_many_queries_are_asked_in_batches(monkeypatch):
    monkeypatch.setattr(module, "_QUERIES_AT_ONCE", 2)
    part = Given([1.0, 2.0])
    index = Hybrid([part]).open(corpus_of(2), Store())
    assert len(index.search(["q"] * 5, 1, None)) == 5
    assert len(part.asked) == 3
    assert index.search([], 1, None) == []


def test_names_and_fingerprints():
    a, b = Given([1.0], name="a"), Given([2.0], name="b")
    assert Hybrid([a, b]).name == "hybrid:a+b"
    assert Hybrid([a, b], fusion="rrf", weights=[2, 1]).name == "hybrid:rrf:a,weight=2+b"
    made = [Hybrid([a, b]), Hybrid([b, a]), Hybrid([a]), Hybrid([a, b], fusion="rrf"), Hybrid([a, b], weights=[1, 2])]
    assert len({engine.fingerprint for engine in made}) == len(made)


@pytest.mark.parametrize(
    "options", [{"fusion": "best"}, {"weights": [1, 2]}, {"weights": [-1]}, {"weights": [math.nan]}, {"weights": [0]}]
)
def test_impossible_settings(options):
    with pytest.raises(UsageError):
        Hybrid([Given([1.0])], **options)
    with pytest.raises(UsageError, match="needs search engines"):
        Hybrid([])
