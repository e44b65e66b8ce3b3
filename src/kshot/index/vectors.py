"""Exact search over vectors: every one is looked at, block by block, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt

from kshot.backends.search.search_engine import Found, best
from kshot.core.errors import BadValue
from kshot.index.store import damaged

Array: TypeAlias = npt.NDArray[Any]

_PRODUCTS = 1 << 21
"""Inner products computed at a time: 8 MiB, of which some is still in the cache when the best are taken from them."""
_LEAST_ROWS, _MOST_ROWS = 1024, 65536
_QUERY_ROWS = 2048
_FEW_COLUMNS, _LONG = 16, 32


class Block(NamedTuple):
    """Rows of some passages in a row; a passage with too many rows comes in several blocks, alone in each."""

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
            top = Top(len(chosen), min(k, len(self) if among is None else len(among)))
            for positions, peaks in self.peaks(chosen, among):
                top.add(positions, peaks)
            found += top.found()
        return found

    def peaks(self, queries: Array, among: Sequence[int] | None = None) -> Iterator[tuple[Array, Array]]:
        """Give positions, ascending, and for each of them (down) and each query (across) the largest inner product."""
        columns = np.ascontiguousarray(queries, dtype=np.float32).T
        at_most = min(max(_PRODUCTS // max(len(queries), 1), _LEAST_ROWS), _MOST_ROWS)
        held: tuple[Array, Array] | None = None
        for block in self.blocks(at_most, among):
            products = block.rows.astype(np.float32, copy=False) @ columns
            if block.starts is not None:
                products = _peaks(products, block.starts)
            if held is not None and held[0][-1] == block.positions[0]:
                held = held[0], np.maximum(held[1], products)
                continue
            if held is not None:
                yield held
            held = block.positions, products
        if held is not None:
            yield held

    def blocks(self, at_most: int, among: Sequence[int] | None = None) -> Iterator[Block]:
        """Give all passages, or those among these positions (ascending), with at most so many rows at a time."""
        positions = np.arange(len(self)) if among is None else np.asarray(among, dtype=np.int64)
        if self.starts is None:
            for first in range(0, len(positions), at_most):
                chosen = positions[first : first + at_most]
                yield Block(chosen, self._rows(chosen, chosen + 1), None)
            return
        begins, ends = self.starts[positions], self.starts[positions + 1]
        total = np.cumsum(ends - begins)
        first = 0
        while first < len(positions):
            before = total[first - 1] if first else 0
            last = int(np.searchsorted(total, before + at_most, side="right"))
            if last > first:
                local = np.concatenate(([0], total[first : last - 1] - before))
                yield Block(positions[first:last], self._rows(begins[first:last], ends[first:last]), local)
            else:
                last = first + 1
                for begin in range(begins[first], ends[first], at_most):
                    rows = self.rows[begin : min(begin + at_most, ends[first])]
                    yield Block(positions[first:last], rows, np.zeros(1, dtype=np.int64))
            first = last

    def _rows(self, begins: Array, ends: Array) -> Array:
        """The rows of these stretches: a view where they follow one another, else a copy."""
        if ends[-1] - begins[0] == (ends - begins).sum():
            return self.rows[begins[0] : ends[-1]]
        lengths = ends - begins
        jumps = np.repeat(begins - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        taken: Array = self.rows[jumps + np.arange(len(jumps))]
        return taken


def kept(folder: Path) -> Vectors:
    """Open ``rows.npy`` and ``starts.npy`` of an index."""
    try:
        starts = np.load(folder / "starts.npy")
        single = len(starts) - 1 == starts[-1]
        return Vectors(folder / "rows.npy", None if single else starts)
    except (OSError, ValueError, IndexError) as exc:  # a BadValue is a ValueError too
        raise damaged(folder, exc) from exc


@final
class RowFile:
    """A ``.npy`` file that rows are added to, however many they become: the header is written again at the end."""

    def __init__(self, path: Path, width: int, dtype: str = "float32") -> None:
        self._dtype, self._width, self._count = np.dtype(dtype), width, 0
        self._stream = path.open("wb+")
        self._header()
        self._size = self._stream.tell()

    def _header(self) -> None:
        shape = {"descr": self._dtype.str, "fortran_order": False, "shape": (self._count, self._width)}
        np.lib.format.write_array_header_1_0(self._stream, shape)  # pads, so that a larger shape has room

    def add(self, rows: Array) -> None:
        """Write more rows."""
        self._stream.write(np.ascontiguousarray(rows, dtype=self._dtype).tobytes())
        self._count += len(rows)

    def __enter__(self) -> RowFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.seek(0)
        self._header()
        assert self._stream.tell() == self._size  # noqa: S101 - else the first rows are overwritten
        self._stream.close()


class Top:
    """The best ``k`` of each query so far; passages must come in ascending order."""

    def __init__(self, queries: int, k: int) -> None:
        self._k = k
        self._scores = [np.zeros(0, dtype=np.float32)] * queries
        self._positions = [np.zeros(0, dtype=np.int64)] * queries
        self._worst = np.full(queries, -np.inf, dtype=np.float32)

    def add(self, positions: Array, scores: Array) -> None:
        """Take in the scores of more passages, a row for each, a column for each query."""
        if self._k == 0 or not len(positions):
            return
        if np.isneginf(self._worst).any():
            for query in range(len(self._worst)):
                found = best(scores[:, query], self._k, positions)
                self._merge(query, np.asarray(found.positions), np.asarray(found.scores, dtype=np.float32))
            return
        # A later passage with the score of the worst one kept stands after it, and so is out.
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
        """Give positions and scores, best first."""
        return [Found(at.tolist(), s.tolist()) for at, s in zip(self._positions, self._scores, strict=True)]


def _peaks(products: Array, starts: Array) -> Array:
    """The largest of each stretch of rows, per column.

    ``np.maximum.reduceat`` is slow where columns are many: then short stretches are taken all at once, their first
    rows, their second rows and so on, and long ones each by itself.
    """
    if products.shape[1] < _FEW_COLUMNS:
        return np.asarray(np.maximum.reduceat(products, starts, axis=0))
    lengths = np.diff(starts, append=len(products))
    if lengths.max() > _LONG:
        ends = starts + lengths
        return np.stack([products[a:b].max(axis=0) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)])
    peaks = products[starts]
    for step in range(1, int(lengths.max())):
        longer = np.flatnonzero(lengths > step)
        peaks[longer] = np.maximum(peaks[longer], products[starts[longer] + step])
    return np.asarray(peaks)
