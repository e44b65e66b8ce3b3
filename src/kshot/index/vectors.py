"""Exact search over vectors: every one is compared, block by block, so that memory stays bounded."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kshot.core.errors import BadValue
from kshot.index.ranking import DIGITS, Array, Doubles, Floats, Found, Positions, best, best_columns, row_blocks
from kshot.index.store import damaged

_BLOCK_PRODUCTS = 1 << 21
"""Inner products computed at a time: 8 MiB, of which some is still in the cache when the best are taken from them."""
_MIN_BLOCK_ROWS, _MAX_BLOCK_ROWS = 1024, 65536
_QUERY_ROWS = 2048
_FEW_COLUMNS, _MAX_SHORT_GROUP = 16, 32
EXACT_PAIRS = 8192
"""Pairs of vectors compared in double precision at a time."""


class RowBlock(NamedTuple):
    """Rows of neighbouring passages; a passage with too many rows comes in several blocks, alone in each."""

    positions: Array
    rows: Array
    starts: Array | None


class Vectors:
    """Vectors of passages, one row each, or as many as ``starts`` says: passage i has rows starts[i] to starts[i+1].

    The score of a passage is the largest inner product of the query with one of its rows: the cosine if both were
    normalised. ``rows`` is an array or the path of a ``.npy`` file, which is mapped into memory rather than read.
    """

    def __init__(self, rows: Path | Array, starts: Array | None = None) -> None:
        self.rows: Array = np.asarray(np.load(rows, mmap_mode="r") if isinstance(rows, Path) else rows)
        self.starts = starts
        if starts is not None and (starts[-1] != len(self.rows) or starts[0] != 0 or (np.diff(starts) < 1).any()):
            raise BadValue(f"the starts do not divide {len(self.rows)} rows into passages of one or more")

    def __len__(self) -> int:
        return len(self.rows) if self.starts is None else len(self.starts) - 1

    def search(self, queries: Array, k: int, among: Sequence[int] | None = None) -> list[Found]:
        """Find the ``k`` best passages for each row of ``queries``; equal scores: the lower position first."""
        found: list[Found] = []
        for first in range(0, len(queries), _QUERY_ROWS):
            chosen = queries[first : first + _QUERY_ROWS]
            top = TopK(len(chosen), min(k, len(self) if among is None else len(among)))
            for positions, products in self.max_products(chosen, among):
                top.add(positions, products)
            found += top.found()
        return found

    def max_products(self, queries: Array, among: Sequence[int] | None = None) -> Iterator[tuple[Array, Array]]:
        """Yield positions, ascending, and for each of them (down) and each query (across) the largest inner product."""
        columns = np.ascontiguousarray(queries, dtype=np.float32).T
        at_most = min(max(_BLOCK_PRODUCTS // max(len(queries), 1), _MIN_BLOCK_ROWS), _MAX_BLOCK_ROWS)
        held: tuple[Array, Array] | None = None
        for block in self.blocks(at_most, among):
            products = block.rows.astype(np.float32, copy=False) @ columns
            if block.starts is not None:
                products = _group_maxima(products, block.starts)
            if held is not None and held[0][-1] == block.positions[0]:
                held = held[0], np.maximum(held[1], products)
                continue
            if held is not None:
                yield held
            held = block.positions, products
        if held is not None:
            yield held

    def blocks(self, at_most: int, among: Sequence[int] | None = None) -> Iterator[RowBlock]:
        """Yield all passages, or those among these positions (ascending), with at most this many rows at a time."""
        positions = np.arange(len(self)) if among is None else np.asarray(among, dtype=np.int64)
        if self.starts is None:
            for first in range(0, len(positions), at_most):
                chosen = positions[first : first + at_most]
                yield RowBlock(chosen, self._rows(chosen, chosen + 1), None)
            return
        begins, ends = self.starts[positions], self.starts[positions + 1]
        total = np.cumsum(ends - begins)
        first = 0
        while first < len(positions):
            before = total[first - 1] if first else 0
            last = int(np.searchsorted(total, before + at_most, side="right"))
            if last > first:
                local = np.concatenate(([0], total[first : last - 1] - before))
                yield RowBlock(positions[first:last], self._rows(begins[first:last], ends[first:last]), local)
            else:
                last = first + 1
                for begin in range(begins[first], ends[first], at_most):
                    rows = self.rows[begin : min(begin + at_most, ends[first])]
                    yield RowBlock(positions[first:last], rows, np.zeros(1, dtype=np.int64))
            first = last

    def _rows(self, begins: Array, ends: Array) -> Array:
        """Return the rows of these stretches: a view where they follow one another, else a copy."""
        if ends[-1] - begins[0] == (ends - begins).sum():
            return self.rows[begins[0] : ends[-1]]
        lengths = ends - begins
        jumps = np.repeat(begins - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        taken: Array = self.rows[jumps + np.arange(len(jumps))]
        return taken


def open_vectors(folder: Path) -> Vectors:
    """Open ``rows.npy`` and ``starts.npy`` of an index."""
    try:
        starts = np.load(folder / "starts.npy")
        single = len(starts) - 1 == starts[-1]
        return Vectors(folder / "rows.npy", None if single else starts)
    except (OSError, ValueError, IndexError) as exc:  # a BadValue is a ValueError too
        raise damaged(folder, exc) from exc


def write_vectors(folder: Path, parts: Iterable[Mapping[str, Array]]) -> None:
    """Write what ``open_vectors`` opens: the ``rows`` of all parts; each passage has as many as ``counts`` says.

    There is at least one part. The header of the rows is written again at the end, when their number is known.
    """
    counts, total, header_bytes = [np.zeros(0, dtype=np.int64)], 0, 0
    header: dict[str, Any] = {}
    with (folder / "rows.npy").open("wb+") as file:
        for part in parts:
            rows = part["rows"]
            if not header:
                header = {"descr": rows.dtype.str, "fortran_order": False, "shape": (0, rows.shape[1])}
                np.lib.format.write_array_header_1_0(file, header)  # pads, so that a larger shape has room
                header_bytes = file.tell()
            file.write(np.ascontiguousarray(rows).tobytes())
            total += len(rows)
            counts.append(part["counts"])
        file.seek(0)
        np.lib.format.write_array_header_1_0(file, header | {"shape": (total, *header["shape"][1:])})
        assert file.tell() == header_bytes  # noqa: S101 - a longer one would overwrite the first rows
    np.save(folder / "starts.npy", np.concatenate(([0], np.cumsum(np.concatenate(counts)))))


class TopK:
    """The best ``k`` of each query so far; passages must come in ascending order."""

    def __init__(self, queries: int, k: int) -> None:
        self._k = k
        self._scores = [np.zeros(0, dtype=np.float32)] * queries
        self._positions = [np.zeros(0, dtype=np.int64)] * queries
        self._worst = np.full(queries, -np.inf, dtype=np.float32)

    def add(self, positions: Array, scores: Array) -> None:
        """Add the scores of more passages, a row for each, a column for each query."""
        if self._k == 0 or not len(positions):
            return
        if np.isneginf(self._worst).any():
            for query in range(len(self._worst)):
                found = best(scores[:, query], self._k, positions)
                self._merge(query, np.asarray(found.positions), np.asarray(found.scores, dtype=np.float32))
            return
        # A later passage that scores as much as the worst one kept would stand after it, so it is out.
        rows, queries = np.nonzero(scores > self._worst)
        order = np.argsort(queries, kind="stable")
        rows, queries = rows[order], queries[order]
        borders = np.flatnonzero(np.diff(queries)) + 1
        for chosen in np.split(rows, borders) if len(rows) else ():
            query = int(queries[0])
            queries = queries[len(chosen) :]
            self._merge(query, positions[chosen], scores[chosen, query])

    def _merge(self, query: int, positions: Array, scores: Array) -> None:
        joined = np.concatenate((self._scores[query], scores))
        order = np.argsort(-joined, kind="stable")[: self._k]
        self._scores[query] = joined[order]
        self._positions[query] = np.concatenate((self._positions[query], positions))[order]
        if len(order) == self._k:
            self._worst[query] = self._scores[query][-1]

    def found(self) -> list[Found]:
        """Return positions and scores, best first, for each query."""
        return [Found(at.tolist(), s.tolist()) for at, s in zip(self._positions, self._scores, strict=True)]


def _group_maxima(products: Array, starts: Array) -> Array:
    """Return the largest of each group of rows, per column.

    ``np.maximum.reduceat`` is slow where columns are many: then short groups are reduced all at once, their first rows,
    their second rows and so on, and long ones each by itself.
    """
    if products.shape[1] < _FEW_COLUMNS:
        return np.asarray(np.maximum.reduceat(products, starts, axis=0))
    lengths = np.diff(starts, append=len(products))
    if lengths.max() > _MAX_SHORT_GROUP:
        ends = starts + lengths
        return np.stack([products[a:b].max(axis=0) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)])
    maxima = products[starts]
    for step in range(1, int(lengths.max())):
        longer = np.flatnonzero(lengths > step)
        maxima[longer] = np.maximum(maxima[longer], products[starts[longer] + step])
    return np.asarray(maxima)


# ---- nearest by cosine, decided in double precision ----


def vector_lengths(vectors: Array) -> Doubles:
    """Return the length of each vector; that of a zero vector is 1, so that its cosine with anything is 0."""
    found = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    return np.where(found > 0, found, 1.0)


def unit_vectors(vectors: Array) -> Floats:
    """Return the vectors at length 1, in float32."""
    scaled: Floats = (vectors / vector_lengths(vectors)[:, None].astype(vectors.dtype)).astype(np.float32)
    return scaled


def nearest(train: Array, test: Array, k: int, hidden: Callable[[int], Sequence[int]]) -> Iterator[Positions]:
    """Yield for each test vector the ``k`` training vectors of highest cosine, best first, ties by number.

    The table of cosines is made a block of test rows at a time: memory does not grow with their number.
    """
    _check_widths(train, test)
    columns = unit_vectors(train)
    train_lengths, test_lengths = vector_lengths(train), vector_lengths(test)
    slack = 2.4e-7 * (test.shape[1] + 8)  # twice the worst rounding error of a float32 dot product of unit vectors

    def cosines(start: int, rows: Positions, found: Positions) -> Doubles:
        scores = np.empty(len(rows))
        for at in range(0, len(rows), EXACT_PAIRS):
            some, those = rows[at : at + EXACT_PAIRS] + start, found[at : at + EXACT_PAIRS]
            products = test[some].astype(np.float64) * train[those]
            scores[at : at + EXACT_PAIRS] = products.sum(axis=1) / (test_lengths[some] * train_lengths[those])
        return scores

    for block in row_blocks(len(test), len(train)):
        scores: Floats = unit_vectors(test[block]) @ columns.T
        yield from best_columns(
            scores,
            k,
            np.full(len(scores), slack, dtype=np.float32),
            partial(cosines, block.start),
            [hidden(row) for row in range(block.start, block.stop)],
        )


def nearest_by_product(
    train: Array, test: Array, k: int, hidden: Callable[[int], Sequence[int]]
) -> Iterator[Positions]:
    """Yield for each test vector the ``k`` training vectors of highest inner product, as faiss's ``IndexFlatIP`` does.

    Products are in double precision, so that rounding noise decides nothing; equal ones come in faiss's order.
    """
    _check_widths(train, test)
    columns = train.astype(np.float64).T
    for block in row_blocks(len(test), 2 * len(train)):  # twice: these are doubles
        products = np.round(test[block].astype(np.float64) @ columns, DIGITS)
        for row, scores in enumerate(products, start=block.start):
            scores[list(hidden(row))] = -np.inf
            yield _as_faiss(scores, k)


def _as_faiss(scores: Doubles, k: int) -> Positions:
    """Return the ``k`` best scores, best first, of equal ones the highest number first.

    faiss reads the scores in order into a heap of ``k``. A full heap takes only a score above its lowest, and loses the
    lowest then, of equal ones that with the lowest number. So the order decides which of equal scores stay.
    """
    k = min(k, int(np.count_nonzero(scores > -np.inf)))
    if not k:
        return np.empty(0, dtype=np.intp)
    border = np.partition(scores, len(scores) - k)[len(scores) - k]
    heap: list[tuple[float, int]] = []
    for position in np.flatnonzero(scores >= border).tolist():
        found = (float(scores[position]), position)
        if len(heap) < k:
            heapq.heappush(heap, found)
        elif found[0] > heap[0][0]:
            heapq.heapreplace(heap, found)
    return np.asarray([position for _, position in sorted(heap, reverse=True)], dtype=np.intp)


def _check_widths(train: Array, test: Array) -> None:
    if train.shape[1] != test.shape[1] and len(train) and len(test):
        raise BadValue(f"train vectors have {train.shape[1]} numbers, test vectors {test.shape[1]}")
