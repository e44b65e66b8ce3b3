"""Exact vector search: the same as the whole matrix at once, whatever the blocks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kshot.core.errors import BackendError, BadValue
from kshot.index import vectors
from kshot.index.vectors import TopK, Vectors, open_vectors, write_vectors


def plain(rows, starts, queries, k, among):
    """All products, the largest of each passage, sorted."""
    products = rows @ queries.T
    peaks = np.stack([products[a:b].max(axis=0) for a, b in pairwise(starts)])
    places = np.arange(len(peaks)) if among is None else np.array(among, dtype=int)
    found = []
    for column in peaks[places].T:
        order = np.argsort(-column, kind="stable")[:k]
        found.append((places[order].tolist(), column[order].tolist()))
    return found


@given(st.data())
def test_blocks_and_stretches_change_nothing(data):
    counts = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=30))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    starts = np.concatenate(([0], np.cumsum(counts)))
    # Whole numbers: products are exact, and ties are many.
    rows = rng.integers(-2, 3, (starts[-1], 4)).astype(np.float32)
    queries = rng.integers(-2, 3, (data.draw(st.sampled_from([1, 3, 17])), 4)).astype(np.float32)
    k = data.draw(st.integers(1, 40))
    among = data.draw(st.none() | st.sets(st.integers(0, len(counts) - 1), min_size=1).map(sorted))
    size = data.draw(st.sampled_from([1, 5, 50, 10_000]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "_MIN_BLOCK_ROWS", size)
        patch.setattr(vectors, "_MAX_BLOCK_ROWS", size)
        patch.setattr(vectors, "_QUERY_ROWS", data.draw(st.sampled_from([2, 100])))
        found = Vectors(rows, starts).search(queries, k, among)
        assert [tuple(one) for one in found] == plain(rows, starts, queries, k, among)
        if max(counts) == 1:
            assert Vectors(rows).search(queries, k, among) == found


def test_top_of_nothing():
    top = TopK(2, 0)
    top.add(np.arange(3), np.ones((3, 2), dtype=np.float32))
    assert [list(one.positions) for one in top.found()] == [[], []]
    assert Vectors(np.zeros((0, 3), dtype=np.float32)).search(np.ones((1, 3)), 5)[0].positions == []


def test_a_file_is_mapped_and_half_precision_is_searched_in_single(tmp_path):
    rows = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float16)
    parts = np.array_split(rows, 7)
    write_vectors(tmp_path, [{"rows": part, "counts": np.ones(len(part), np.int64)} for part in parts])
    opened = Vectors(tmp_path / "rows.npy")
    assert opened.rows.dtype == np.float16
    assert np.array_equal(opened.rows, rows)
    query = np.random.default_rng(1).standard_normal((1, 8)).astype(np.float32)
    (found,) = opened.search(query, 50)
    assert np.allclose(found.scores, np.sort(rows.astype(np.float32) @ query[0])[::-1], atol=1e-6)


@pytest.mark.parametrize("starts", [[0, 2, 2, 4], [0, 3], [1, 4]])
def test_starts_must_divide_the_rows(starts):
    with pytest.raises(BadValue, match="do not divide 4 rows"):
        Vectors(np.zeros((4, 2), dtype=np.float32), np.array(starts))


def test_files_of_an_index_that_are_damaged(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((4, 2), dtype=np.float32))
    np.save(tmp_path / "starts.npy", np.array([0, 1, 4]))
    assert len(open_vectors(tmp_path)) == 2
    np.save(tmp_path / "starts.npy", np.array([0, 1, 9]))
    with pytest.raises(BackendError, match="damaged: the starts do not divide 4 rows"):
        open_vectors(tmp_path)
    (tmp_path / "rows.npy").write_bytes(b"nothing")
    np.save(tmp_path / "starts.npy", np.array([0, 1, 4]))
    with pytest.raises(BackendError, match="this index is damaged"):
        open_vectors(tmp_path)
