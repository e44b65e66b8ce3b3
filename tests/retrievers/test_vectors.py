"""Nearest, diverse and representative by vectors agree with plain loops."""

import math

import numpy as np
import pytest

from kshot.core.errors import BadValue
from kshot.index.vectors import nearest
from kshot.retrievers import DPPRetriever, MMRRetriever, TopkRetriever, VotekRetriever
from kshot.retrievers.embedding import elect, greedy_map


def cosine(a, b):
    dot = sum(float(x) * float(y) for x, y in zip(a, b, strict=True))
    size = math.sqrt(sum(float(x) ** 2 for x in a)) * math.sqrt(sum(float(y) ** 2 for y in b))
    return dot / size if size else 0.0


def ranking(train, vector, hidden=()):
    near = {i: round(cosine(row, vector), 10) for i, row in enumerate(train) if i not in hidden}
    return sorted(near, key=lambda i: (-near[i], i))


def rows(train, test):
    return {"train": [{"q": f"a{i}"} for i in range(train)], "test": [{"q": f"b{i}"} for i in range(test)]}


def space(seed, train=70, test=15, width=5, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(train, width)).astype(dtype), rng.normal(size=(test, width)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("block", [2**26, 4 * 70 * 4])
def test_topk_agrees_with_brute_force(dtype, block, monkeypatch):
    monkeypatch.setattr("kshot.index.ranking.BLOCK_BYTES", block)
    train, test = space(0, dtype=dtype)
    found = TopkRetriever(rows(70, 15), ice_num=7, vectors=(train, test), order="nearest_first").retrieve()
    assert found == [ranking(train, vector)[:7] for vector in test]
    last = TopkRetriever(rows(70, 15), ice_num=7, vectors=(train, test)).retrieve()
    assert last == [each[::-1] for each in found]


def test_topk_agrees_where_columns_are_folded_and_pairs_cut(monkeypatch):
    monkeypatch.setattr("kshot.index.vectors.EXACT_PAIRS", 5)
    train, test = space(1, 5001, 6)
    found = TopkRetriever(rows(5001, 6), ice_num=9, vectors=(train, test), order="nearest_first").retrieve()
    assert found == [ranking(train, vector)[:9] for vector in test]


def test_ties_and_vectors_of_nothing():
    train = np.repeat(np.eye(3), 900, axis=0)
    train[7] = 0
    found = list(
        nearest(train, np.array([[2.0, 0, 0], [0, 0, 0], [-1, 0, 0]]), 3, lambda row: (0,) if row == 0 else ())
    )
    assert [each.tolist() for each in found] == [[1, 2, 3], [0, 1, 2], [7, 900, 901]]


def test_hidden_rows_never_come_back():
    train, _ = space(2)
    found = [each.tolist() for each in nearest(train, train, 5, lambda row: (row, (row + 1) % 70))]
    assert found == [ranking(train, train[i], {i, (i + 1) % 70})[:5] for i in range(70)]


def plain_mmr(train, vector, k, diversity, candidates):
    pool = ranking(train, vector)[:candidates]
    chosen = [pool[0]]
    while len(chosen) < k:
        rest = [i for i in pool if i not in chosen]
        gains = [
            round(
                (1 - diversity) * cosine(train[i], vector)
                - diversity * max(cosine(train[i], train[j]) for j in chosen),
                10,
            )
            for i in rest
        ]
        chosen.append(rest[gains.index(max(gains))])
    return sorted(chosen, key=pool.index)


@pytest.mark.parametrize(("diversity", "candidates"), [(0.5, 70), (0.3, 12), (1.0, 20), (0.0, 70)])
def test_mmr_agrees_with_brute_force(diversity, candidates):
    train, test = space(3)
    made = MMRRetriever(
        rows(70, 15),
        ice_num=5,
        vectors=(train, test),
        diversity=diversity,
        candidate_num=candidates,
        order="nearest_first",
    )
    assert made.retrieve() == [plain_mmr(train, vector, 5, diversity, candidates) for vector in test]
    if diversity == 0:
        assert made.retrieve() == [ranking(train, vector)[:5] for vector in test]


def plain_dpp(train, vector, k, scale, candidates):
    """Greedy by determinants worked out anew."""
    pool = ranking(train, vector)[:candidates]
    relevance = [(1 + cosine(train[i], vector)) / 2 for i in pool]
    quality = [math.exp((r - max(relevance)) / (2 * scale)) for r in relevance]
    kernel = np.array(
        [
            [quality[a] * (1 + cosine(train[i], train[j])) / 2 * quality[b] for b, j in enumerate(pool)]
            for a, i in enumerate(pool)
        ]
    )
    chosen = []
    while len(chosen) < k:
        rest = [a for a in range(len(pool)) if a not in chosen]
        volumes = [np.linalg.det(kernel[np.ix_([*chosen, a], [*chosen, a])]) for a in rest]
        chosen.append(rest[int(np.argmax(volumes))])
    return [pool[a] for a in sorted(chosen)]


@pytest.mark.parametrize(("scale", "candidates"), [(0.1, 30), (1.0, 70), (0.05, 10)])
def test_dpp_agrees_with_brute_force(scale, candidates):
    train, test = space(4, width=8)
    made = DPPRetriever(
        rows(70, 15),
        ice_num=4,
        vectors=(train, test),
        scale_factor=scale,
        candidate_num=candidates,
        order="nearest_first",
    )
    assert made.retrieve() == [plain_dpp(train, vector, 4, scale, candidates) for vector in test]


def test_a_determinant_that_cannot_grow_is_filled_up():
    assert greedy_map(np.ones((4, 4)), 3) == [0, 1, 2]
    assert greedy_map(np.diag([1.0, 3.0, 2.0]), 3) == [1, 2, 0]
    assert greedy_map(np.eye(2), 5) == [0, 1]
    assert greedy_map(np.eye(2), 0) == []


def test_diversity_leaves_copies_out():
    train = np.array([[1, 0.1, 0], [1, 0.1, 0], [1, 0.1, 0], [1, -0.5, 0.2], [0, 0, 1.0]])
    test = np.array([[1.0, 0, 0]])
    data = rows(5, 1)
    assert TopkRetriever(data, ice_num=2, vectors=(train, test), order="nearest_first").retrieve() == [[0, 1]]
    for kind, options in ((MMRRetriever, {"diversity": 0.6}), (DPPRetriever, {"scale_factor": 1.0})):
        (chosen,) = kind(data, ice_num=2, vectors=(train, test), order="nearest_first", **options).retrieve()
        assert len({0, 1, 2} & set(chosen)) < 2
    assert MMRRetriever(data, ice_num=0, vectors=(train, test)).retrieve() == [[]]
    assert DPPRetriever(data, ice_num=0, vectors=(train, test)).retrieve() == [[]]


def plain_votes(train, k, many, discount):
    edges = [ranking(train, vector, {i})[:k] for i, vector in enumerate(train)]
    chosen = []
    while len(chosen) < many:
        best, most = None, -1.0
        for u in range(len(train)):
            if u in chosen:
                continue
            votes = sum(
                discount ** -sum(w in chosen for w in edges[v])
                for v in range(len(train))
                if u in edges[v] and v not in chosen
            )
            if votes > most + 1e-12:
                best, most = u, votes
        chosen.append(best)
    return chosen


@pytest.mark.parametrize(("k", "discount"), [(3, 10.0), (6, 2.0), (10, 1.0)])
def test_votek_agrees_with_brute_force(k, discount):
    train, test = space(5)
    made = VotekRetriever(
        rows(70, 15), ice_num=6, vectors=(train, test), votek_k=k, discount=discount, order="nearest_first"
    )
    expected = plain_votes(train, k, 6, discount)
    assert made.retrieve() == [expected] * 15


def test_votek_shows_a_chosen_row_the_next_one():
    train, _ = space(6, 20)
    ranked = plain_votes(train, 3, 5, 10.0)
    data = rows(20, 0)
    found = VotekRetriever(data["train"], ice_num=4, vectors=(train, train), order="nearest_first").retrieve()
    assert found == [[i for i in ranked if i != row][:4] for row in range(20)]
    assert elect(np.zeros((1, 0), dtype=np.intp), 1, 10.0) == [0]


@pytest.mark.parametrize("kind", [TopkRetriever, MMRRetriever, DPPRetriever, VotekRetriever])
def test_the_same_call_gives_the_same_rows_in_any_order(kind):
    train, test = space(7)
    order = np.random.default_rng(0).permutation(15)
    straight = kind(rows(70, 15), ice_num=5, vectors=(train, test), order="nearest_first").retrieve()
    turned = kind(rows(70, 15), ice_num=5, vectors=(train, test[order]), order="nearest_first").retrieve()
    assert [turned[list(order).index(i)] for i in range(15)] == straight


@pytest.mark.parametrize(
    ("vectors", "text"),
    [
        (np.ones((3, 2)), "a pair of arrays"),
        ((np.ones((3, 2)), np.ones((2, 2))), "shape .* there are 2 train rows"),
        ((np.ones((2, 2)), np.ones(1)), "shape .* there are 1 test rows"),
        ((np.ones((2, 2)), np.ones((1, 3))), "train vectors have 2 numbers, test vectors 3"),
        ((np.ones((2, 2)), np.full((1, 2), np.nan)), "not numbers"),
    ],
)
def test_vectors_that_do_not_fit(vectors, text):
    with pytest.raises(BadValue, match=text):
        TopkRetriever(rows(2, 1), vectors=vectors).retrieve()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (MMRRetriever, {"diversity": 1.5}),
        (DPPRetriever, {"scale_factor": 0}),
        (VotekRetriever, {"discount": 0.5}),
        (TopkRetriever, {"batch_size": -1}),
    ],
)
def test_impossible_options(kind, options):
    with pytest.raises(BadValue, match=next(iter(options))):
        kind(rows(2, 1), vectors=(np.eye(2), np.eye(2)[:1]), **options)


def test_too_few_rows():
    with pytest.raises(BadValue, match="ice_num is 3; the training set has 2 rows"):
        MMRRetriever(rows(2, 1), ice_num=3, vectors=(np.eye(2), np.eye(2)[:1])).retrieve()


def test_rows_that_are_all_alike_are_decided_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr("kshot.index.ranking.MAX_CANDIDATES", 70)
    train, test = np.ones((30, 3)), space(8, 30, 9, 3)[1]
    found = TopkRetriever(rows(30, 9), ice_num=4, vectors=(train, test), order="nearest_first").retrieve()
    assert found == [[0, 1, 2, 3]] * 9
