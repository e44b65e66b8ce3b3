"""The scores of finished runs without their texts: a few dozen bytes for each sample, however long its prompt is."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kshot.core.records import ResultRow
from kshot.runs.headline import TaskOnModel
from kshot.runs.samples_file import PlacedRow, damaged_line, made_earlier

Figures: TypeAlias = Mapping[TaskOnModel, Mapping[str, ResultRow]]
"""The figures whose scores are read, by task and model, then by name."""

_FAILED = math.nan
"""The score of a sample that failed, or that has none of its own; every other one is finite."""


@dataclass(frozen=True, slots=True)
class TaskScores:
    """The samples of one task on one model, in the order of their ids' digests.

    ``ids`` and ``questions`` are digests of 64 bits, ``places`` say where the rows stand, and ``categories`` are
    numbers in ``category_names`` (-1: none). ``parts`` are the tuples of figures that are not means, a row for each
    sample.
    """

    ids: NDArray[np.uint64]
    questions: NDArray[np.uint64]
    places: NDArray[np.uint64]
    categories: NDArray[np.int32]
    failed: NDArray[np.bool_]
    scores: Mapping[str, NDArray[np.float64]]
    parts: Mapping[str, NDArray[np.float64]]
    category_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def values(self, metric: str) -> NDArray[np.float64]:
        """Return what the figure of a metric is computed from."""
        return self.parts[metric] if metric in self.parts else self.scores[metric]


def digest_of(text: str) -> int:
    """Return 64 bits that stand for a text."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def read_scores(rows: Iterable[PlacedRow], wanted: Figures, run: str) -> dict[TaskOnModel, TaskScores]:
    """Read the scores of the tasks that are wanted; ``run`` is named where the rows are of an earlier version."""
    columns = {key: _Columns(names) for key, names in wanted.items()}
    for placed in rows:
        row, where = placed.row, placed.where
        task, model = _text(row, "task", where), _text(row, "model", where)
        found = columns.get((task, model))
        if found is not None:
            if "question" not in row:
                raise made_earlier(run)
            found.add(placed)
    return {key: each.sorted() for key, each in columns.items() if len(each.ids)}


class _Columns:
    """The growing columns of one task on one model."""

    def __init__(self, figures: Mapping[str, ResultRow]) -> None:
        self._figures = dict(figures)
        self.ids, self.questions, self.places = array("Q"), array("Q"), array("Q")
        self._categories, self._failed = array("i"), array("b")
        self._scores = {name: array("d") for name in figures}
        self._parts: dict[str, tuple[int, array[float]]] = {}
        self._names: dict[str, int] = {}

    def add(self, placed: PlacedRow) -> None:
        row, where = placed.row, placed.where
        self.ids.append(digest_of(_text(row, "id", where)))
        self.questions.append(digest_of(_text(row, "question", where)))
        self.places.append(placed.place)
        category = _text(row, "category", where) if row.get("category") is not None else None
        self._categories.append(-1 if category is None else self._names.setdefault(category, len(self._names)))
        failed = "failed" in row
        self._failed.append(failed)
        scores, parts = _mapping(row, "scores", where), _mapping(row, "parts", where)
        for name, column in self._scores.items():
            column.append(_FAILED if failed or self._lacks(name, scores) else _number(scores.get(name), name, where))
        for name in self._scores:
            if name in parts or name in self._parts:
                self._add_parts(name, parts.get(name), where, failed=failed)

    def _lacks(self, name: str, scores: Mapping[str, Any]) -> bool:
        """Whether a sample has no score of its own: a figure that is no mean may need more than one sample."""
        return name not in scores and self._figures[name].get("aggregate") is not None

    def _add_parts(self, name: str, found: Any, where: str, *, failed: bool) -> None:
        numbers = [] if failed else [_number(each, name, where) for each in _list(found, name, where)]
        before = len(self.ids) - 1
        if name not in self._parts:
            self._parts[name] = (len(numbers), array("d", [_FAILED] * (before * len(numbers))))
        width, column = self._parts[name]
        if not failed and len(numbers) != width:
            raise damaged_line(f"the parts of {name!r} are not as many as in the rows before", where)
        column.extend([_FAILED] * width if failed else numbers)

    def sorted(self) -> TaskScores:
        ids = np.frombuffer(self.ids, dtype=np.uint64)
        order = np.argsort(ids, kind="stable")
        parts = {
            name: np.frombuffer(column, dtype=np.float64).reshape(-1, width)[order]
            for name, (width, column) in self._parts.items()
            if width
        }
        return TaskScores(
            ids[order],
            np.frombuffer(self.questions, dtype=np.uint64)[order],
            np.frombuffer(self.places, dtype=np.uint64)[order],
            np.frombuffer(self._categories, dtype=np.int32)[order],
            np.frombuffer(self._failed, dtype=np.int8)[order] != 0,
            {name: np.frombuffer(column, dtype=np.float64)[order] for name, column in self._scores.items()},
            parts,
            tuple(self._names),
        )


# ---- rows of strangers ----


def _text(row: ResultRow, name: str, where: str) -> str:
    found = row.get(name)
    if not isinstance(found, str):
        raise damaged_line(f"this row has no text as its {name!r}", where)
    return found


def _mapping(row: ResultRow, name: str, where: str) -> Mapping[str, Any]:
    found = row.get(name, {})
    if not isinstance(found, Mapping):
        raise damaged_line(f"the {name!r} of this row are not named values", where)
    return found


def _list(found: Any, name: str, where: str) -> Iterable[Any]:
    if not isinstance(found, (list, tuple)) or not found:
        raise damaged_line(f"the parts of {name!r} are not numbers", where)
    return found


def _number(found: Any, name: str, where: str) -> float:
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        try:
            number = float(found)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise damaged_line(f"{name!r} of this row is not a finite number", where)
