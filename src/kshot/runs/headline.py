"""The few figures that stand for a run in a list, and how many of its samples failed."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from kshot.core.records import ResultRow

T = TypeVar("T")
Key = TypeVar("Key", bound=Hashable)

TaskOnModel: TypeAlias = tuple[str, str]

_HEADLINE_MEASURES = ("AC_MRR@10", "nDCG@10")
"""What stands for a search engine, which has many measures."""


def headlines(rows: Iterable[ResultRow], key: Callable[[ResultRow], Hashable]) -> list[ResultRow]:
    """Return of all rows with one key the one that stands for them: the headline.

    That is the row of the first metric that is no detail; of a search engine, of AC_MRR@10 or nDCG@10 if it has them.
    """
    chosen: dict[Hashable, ResultRow] = {}
    for row in rows:
        if not row.get("detail"):
            held = chosen.setdefault(key(row), row)
            if _rank(row) < _rank(held):
                chosen[key(row)] = row
    return list(chosen.values())


def _rank(row: ResultRow) -> int:
    metric = row["metric"]
    return _HEADLINE_MEASURES.index(metric) if metric in _HEADLINE_MEASURES else len(_HEADLINE_MEASURES)


def grouped(rows: Iterable[T], key: Callable[[T], Key]) -> dict[Key, list[T]]:
    """Return the rows by their key; the keys stand in the order in which they come first."""
    found: dict[Key, list[T]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def headline_figures(rows: Sequence[ResultRow]) -> list[dict[str, Any]]:
    """Return one figure for each task of each model, in their order: what is shown of the rows that stand for a run."""
    return [_figure(row) for row in headline_results(rows)]


def headline_results(rows: Sequence[ResultRow], *, every_metric: bool = False) -> list[ResultRow]:
    """Return the row that stands for each task of each model, in their order; or one for each of its metrics.

    An average stands for its subsets, and a spread for its draws of examples. Categories, details and gaps between
    tasks are left out.
    """
    main = [row for row in _without_parts(rows) if not row.get("detail") and "gap" not in row]
    averaged = {_label(row, "dataset") for row in main if "average" in row}
    spread = any("sd" in row for row in main)
    whole = {_label(row, "dataset") for row in main if "average" in row and "tasks" in row}

    def stands_for_itself(row: ResultRow) -> bool:
        if "average" in row:
            return "tasks" in row or _label(row, "dataset") not in whole  # else it is that of some subsets
        in_average = "subset" in row and _label(row, "dataset") in averaged
        return not in_average and not (spread and "example_seed" in row)

    found = filter(stands_for_itself, main)
    return list(found) if every_metric else headlines(found, _system)


def first_figure(figures: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the first figure that has a value, or else the first one; None if there is none."""
    return next((each for each in figures if each["value"] is not None), figures[0] if figures else None)


def failed_samples(rows: Sequence[ResultRow]) -> int:
    """Count the samples that failed, each once: all metrics of a task have the same ones, and averages those of all."""
    counts: dict[tuple[Any, ...], int] = {}
    for row in task_rows(rows):
        system = _system(row)
        counts[system] = max(counts.get(system, 0), row.get("failed", 0))
    return sum(counts.values())


def task_rows(rows: Sequence[ResultRow]) -> Iterator[ResultRow]:
    """Yield the figures of whole tasks: a category, an average, a gap or a spread has no samples of its own."""
    return (row for row in _without_parts(rows) if not {"average", "gap", "sd"} & row.keys())


def _without_parts(rows: Sequence[ResultRow]) -> Iterator[ResultRow]:
    """Yield the rows that are not of a category: it is a part of its task."""
    early = not any("higher_is_better" in row for row in rows)  # version 0.1 did not say so, nor what is a category
    tasks = {_system(row) for row in rows} if early else set()
    for row in rows:
        if "category" not in row and not (early and _is_early_part(row, tasks)):
            yield row


def _is_early_part(row: ResultRow, tasks: Container[tuple[str, str, str]]) -> bool:
    """Whether a row of version 0.1 is of a category: ``TASK[CATEGORY]`` beside ``TASK``."""
    model, task, chunks = _system(row)
    whole, bracket, _ = task.partition("[")
    return bool(bracket) and (model, whole, chunks) in tasks and not {"sd", "average"} & row.keys()


def finite(value: Any) -> float | None:
    """Return a number of a file as a float; None for what is no number, or beyond all numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _system(row: ResultRow) -> tuple[str, str, str]:
    """Return what a figure is of: a model, a task, and how its passages were cut."""
    return _label(row, "model"), row["task"], _label(row, "chunks")


def _label(row: ResultRow, name: str) -> str:
    """Return a label of a row as text: a file of a stranger may have anything there."""
    return str(row.get(name, ""))


def _bounds(found: Any) -> list[float | None] | None:
    """Return the ends of a scale, None where one is infinite; None if the row does not say them."""
    return [finite(end) for end in found] if isinstance(found, (list, tuple)) else None


def _figure(row: ResultRow) -> dict[str, Any]:
    ends = [finite(end) for end in row.get("ci95") or ()]
    return {
        "task": row["task"],
        "model": _label(row, "model"),
        "metric": row["metric"],
        **({"rule": str(row["rule"])} if row.get("rule") else {}),
        "higher_is_better": row.get("higher_is_better") is not False,
        "bounds": _bounds(row.get("bounds")),
        "value": finite(row.get("value")),
        "ci95": ends if ends and None not in ends else None,
        "n": row.get("n", 0),
        "failed": row.get("failed", 0),
        **{name: row[name] for name in ("left_out", "partly_failed", "sd") if row.get(name)},
    }
