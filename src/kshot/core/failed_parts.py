"""How figures are marked of which many samples failed, and how a p is written: the same everywhere.

A figure covers the samples that were answered; it is marked if more than 5 % failed. An average counts each part (a
subset, a task, a draw of examples) in full, however few of its samples are left. So it leaves out parts of which more
than half failed (``left_out`` of its row), and names parts with more than 5 % failed (``partly_failed``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kshot.core.records import ResultRow
from kshot.core.visible import listed

PARTLY_FAILED, LEFT_OUT = "†", "‡"
"""The marks of a figure with many failed samples, in itself or in a part, and of an average that leaves out parts."""


def many_failed(n: int, failed: int) -> bool:
    """Whether more than 5 % of the samples failed, so that a figure of the other n is marked."""
    return 20 * failed > n + failed


def most_failed(n: int, failed: int) -> bool:
    """Whether more than half of the samples failed, so that averages leave out a part with n others."""
    return 2 * failed > n + failed


def with_parts_named(row: ResultRow, name: Callable[[str], str]) -> ResultRow:
    """Return a row whose parts have other names."""
    lists = ("tasks", "left_out", "partly_failed")
    return {**row, **{each: [name(part) for part in row[each]] for each in lists if each in row}}


def failure_mark(row: Mapping[str, Any]) -> str:
    """Return the mark to show after a figure; "" if it needs none."""
    if row.get("left_out"):
        return LEFT_OUT
    if not _count(row, "n") or row.get("value", 0) is None:
        return ""
    return PARTLY_FAILED if row.get("partly_failed") or _many_failed(row) else ""


def side_mark(row: Mapping[str, Any], side: str) -> str:
    """Return the mark to show after the figure of one side (``baseline``, ``run``) of a comparison."""
    whole = "left_out" in row or "partly_failed" in row
    return failure_mark(row) if whole or row.get(f"failed_{side}") else ""


def _many_failed(row: Mapping[str, Any]) -> bool:
    """Whether many samples failed. Never for a mean of draws: its ``n`` is of one draw, its ``failed`` of all."""
    return "sd" not in row and many_failed(_count(row, "n"), _count(row, "failed"))


def _count(row: Mapping[str, Any], name: str) -> int:
    found = row.get(name)
    return found if isinstance(found, int) else 0


def mark_legend(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Explain the marks of these figures, one line for each."""
    held = list(rows)
    marks = {failure_mark(row) for row in held}
    lines = []
    if PARTLY_FAILED in marks or any(row.get("partly_failed") for row in held):
        parts = _named(held, "partly_failed")
        of_parts = f", or of those of a part ({parts})," if parts else ""
        lines.append(f"{PARTLY_FAILED} more than 5 % of the samples{of_parts} failed")
    if LEFT_OUT in marks:
        lines.append(f"{LEFT_OUT} an average without {_named(held, 'left_out')}: more than half of the samples failed")
    return lines


def _named(rows: Iterable[Mapping[str, Any]], lists: str) -> str:
    return listed(list(dict.fromkeys(str(name) for row in rows for name in row.get(lists) or ())), counted=True)


def failure_notes(rows: Sequence[ResultRow]) -> Iterator[str]:
    """Yield notes on figures and averages of which many samples failed, each once."""
    if all(row["n"] and not row["failed"] for row in rows):
        return
    averages = [row for row in rows if {"average", "sd"} & row.keys()]
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model and not {"average", "sd"} & row.keys()]
        own.sort(key=lambda row: "category" in row)  # it is stable: whole tasks first
        tasks = {row["task"]: row for row in own if "category" not in row}
        for task, row in tasks.items():
            if "subset" in row and not row["n"] and len(tasks) > 1:
                yield f"{task} on {model}: no sample was scored, so no average contains it"
        failed = {row["task"]: f"{row['task']} ({_shown(row)})" for row in own if _many_failed(row)}
        if failed:
            parts = listed([*failed.values()], counted=True)
            yield f"{model}: more than 5 % of the samples failed, and are in no figure, of {parts}"
    yield from dict.fromkeys(
        f"{row['task']} on {row['model']}{', which has no value' if row['value'] is None else ''}: {failure_words(row)}"
        for row in averages
        if failure_mark(row)
    )


def _shown(row: Mapping[str, Any]) -> str:
    return f"{_count(row, 'failed'):,} of {_count(row, 'n') + _count(row, 'failed'):,}"


def failure_words(row: Mapping[str, Any]) -> str:
    """Say in words why a figure is marked; "" if it is not."""
    words = []
    if row.get("left_out"):
        words.append(f"without {_named([row], 'left_out')}, of which more than half of the samples failed")
    if row.get("partly_failed"):
        words.append(f"with {_named([row], 'partly_failed')}, of which more than 5 % of the samples failed")
    return "; ".join(words) or (f"{_shown(row)} samples failed" if failure_mark(row) else "")


def all_parts(row: Mapping[str, Any]) -> list[str]:
    """Return all tasks of an average, also those that it leaves out."""
    return [*(row.get("tasks") or ()), *(row.get("left_out") or ())]


_SMALLEST, _LEVEL = 1e-4, 0.05


def p_text(p: float) -> str:
    """Return a p with enough digits to see on which side of 5 % it lies."""
    if p < _SMALLEST:
        return "< 0.0001"
    texts = (f"{p:.{digits}g}" for digits in (2, 4, 8))
    return next((text for text in texts if float(text) != _LEVEL), repr(p))
