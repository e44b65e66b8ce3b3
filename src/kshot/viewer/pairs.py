"""The samples of two runs in pairs, as ``kshot compare`` pairs them: which flipped, and which belong together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kshot.core.errors import RunError
from kshot.runs.compared_run import ComparedRun
from kshot.runs.record import read_record
from kshot.runs.sample_flips import PairedTask, paired_tasks, right_samples
from kshot.runs.samples_file import SAMPLES, PlacedRow
from kshot.viewer.background import Progress
from kshot.viewer.opened_index import OpenedIndex


@dataclass(frozen=True, slots=True)
class Pairs:
    """Line numbers of paired samples: ``ours`` in rising order, and ``theirs`` beside it.

    ``flipped`` are the line numbers of samples that only one run gets right, ``won`` says whether that is this run.
    ``conflict`` says why no sample could be judged, where the runs have metrics of one name that are other measures.
    """

    ours: NDArray[np.int64]
    theirs: NDArray[np.int64]
    flipped: NDArray[np.int64]
    won: NDArray[np.bool_]
    conflict: str | None = None

    def counterparts(self, n: int) -> list[int]:
        """Return the samples of the other run that are paired with one of this run."""
        first, last = np.searchsorted(self.ours, [n, n + 1])
        return [int(each) for each in self.theirs[first:last]]

    def flips(self) -> Iterator[tuple[int, int]]:
        """Yield the samples that flipped, each with 1 for won and -1 for lost."""
        for n, won in zip(self.flipped.tolist(), self.won.tolist(), strict=True):
            yield n, 1 if won else -1


class _IndexedRun(ComparedRun):
    """A run whose scores are read from its index, which is much shorter than its samples."""

    def __init__(self, index: OpenedIndex, progress: Progress, share: float) -> None:
        super().__init__(read_record(index.folder), {})
        self._index, self._progress, self._share = index, progress, share
        self.lines = np.empty(index.total, dtype=np.int64)
        """The places of all lines, in their order."""

    def placed(self) -> Iterator[PlacedRow]:
        file = str(self._index.folder / SAMPLES)
        for each in self._index.samples():
            self.lines[each.n] = each.place
            if each.n % 1000 == 0:
                self._progress(self._share + 0.45 * each.n / len(self.lines))
            yield PlacedRow(each.row, each.place, f"{file}:{each.n + 1}")

    def numbers(self, places: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the line numbers of places."""
        return np.searchsorted(self.lines, places.astype(np.int64))


def pair_runs(one: OpenedIndex, other: OpenedIndex, metric: str | None, progress: Progress) -> Pairs:
    """Pair the samples of two runs, and judge them by a metric; None: by the headline of each task."""
    runs = _IndexedRun(one, progress, 0.0), _IndexedRun(other, progress, 0.45)
    pairs = list(paired_tasks(runs, one.scales(metric)))
    found = [_paired(pair, runs) for pair in pairs]
    ours, theirs, flipped, won = (np.concatenate(each) for each in zip(*found, strict=True))
    order, first = np.lexsort((theirs, ours)), np.unique(flipped, return_index=True)
    conflict = (
        None if any(pair.scale for pair in pairs) else next((each.conflict for each in pairs if each.conflict), None)
    )
    return Pairs(ours[order], theirs[order], first[0], won[first[1]], conflict)


def _paired(
    pair: PairedTask, runs: tuple[_IndexedRun, _IndexedRun]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return the columns of ``Pairs`` for one task."""
    nothing, none = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_)
    if pair.scale is None:
        with suppress(RunError):  # tasks that no metric compares: they are shown side by side where they can be paired
            matched = pair.match()
            one, other = matched.scores
            return (
                runs[0].numbers(one.places[matched.ours]),
                runs[1].numbers(other.places[matched.theirs]),
                nothing,
                none,
            )
        return nothing, nothing, nothing, none
    matched = pair.match()
    one, other = matched.scores
    rights, theirs = right_samples(matched, pair.scale)
    flips = np.flatnonzero(rights != theirs)
    return (
        runs[0].numbers(one.places[matched.ours]),
        runs[1].numbers(other.places[matched.theirs]),
        runs[0].numbers(one.places[matched.chosen()[0][flips]]),
        rights[flips],
    )
