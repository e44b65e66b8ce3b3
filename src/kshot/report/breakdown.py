"""Where a model is weak: the figures of a run by category, subset or task, the worst or the best first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from rich.table import Table

from kshot.core.errors import UsageError
from kshot.core.failed_parts import mark_legend
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.report.drawn_table import drawn
from kshot.report.figures import figures_view, model_names
from kshot.report.view import Column
from kshot.runs.headline import finite, grouped, headlines

By: TypeAlias = Literal["category", "subset", "task"]
Order: TypeAlias = Literal["worst", "best"]
FigureScale: TypeAlias = tuple[str, bool, tuple[float | None, ...]]
"""What two figures must share to be compared: the metric with its rule, its direction and the ends of its scale."""

_MAX_LISTED = 5
_BAR_COLUMNS = 24
_EIGHTHS: tuple[str, ...] = ("", *"▏▎▍▌▋▊▉")
_WIDE = 100
"""Terminal columns from which on there is room for bars."""


class Breakdown(NamedTuple):
    """The parts of a run that were asked for, in order, among all parts; those without a figure come last.

    ``apart``: the metrics have no common scale, so that each has an order of its own.
    """

    rows: list[ResultRow]
    every: list[ResultRow]
    by: By
    apart: bool = False


def breakdown(
    rows: Sequence[ResultRow],
    by: By | None = None,
    *,
    metric: str | None = None,
    order: Order = "worst",
    limit: int | None = None,
) -> Breakdown:
    """Return the figures by category; where there are none, by subset, or else by task if there are several.

    ``metric``: the headline of each task, unless another is named. A part without a figure comes last. Figures on
    several scales are in the order of their shares of them. Where a scale has an open end, there is no such share: then
    each metric has an order, and a ``limit``, of its own.
    """
    parts = _parts(rows)
    several = len({row["task"] for row in parts["task"]}) > 1
    chosen: By = by or ("category" if parts["category"] else "subset" if parts["subset"] else "task")
    found = parts[chosen] if by or chosen != "task" or several else []
    if not found:
        others = [
            f"It has figures by {other}." for other, held in parts.items() if held and (several or other != "task")
        ]
        hint = others[0] if others else "kshot show without options prints all figures."
        what = f"by {by}" if by else "by category or subset, and only one task"
        raise UsageError(f"this run has no figures {what}", hint=hint)
    known = dict.fromkeys(row["metric"] for row in found)
    if metric is not None and metric not in known:
        raise UsageError(f"no figure by {chosen} has the metric {metric!r}", hint=f"Metrics: {', '.join(known)}.")
    if metric is None:
        shown = headlines(found, lambda row: (row.get("model", ""), row["task"], str(row.get("chunks"))))
    else:
        shown = [row for row in found if row["metric"] == metric]
    groups = _comparable(shown)
    for group in groups:
        group.sort(key=_goodness, reverse=order == "best")
        group.sort(key=lambda row: row.get("value") is None)
    limited, every = [row for group in groups for row in group[:limit]], [row for group in groups for row in group]
    return Breakdown(limited, every, chosen, apart=len(groups) > 1)


def _parts(rows: Sequence[ResultRow]) -> dict[By, list[ResultRow]]:
    """Return what a run can be broken down into. By task, a spread stands for its draws of examples."""
    whole = [row for row in rows if not {"category", "average", "gap"} & row.keys()]
    spread = any("sd" in row for row in whole)
    return {
        "category": [row for row in rows if "category" in row],
        "subset": [row for row in whole if "subset" in row],
        "task": [row for row in whole if not (spread and "example_seed" in row)],
    }


def _comparable(rows: Sequence[ResultRow]) -> list[list[ResultRow]]:
    """Return the rows in groups within which one figure is better than another: all together, or those of one kind."""
    apart = any(_scale(row) is None for row in rows)
    return list(grouped(rows, figure_scale).values()) if apart else [list(rows)]


def figure_scale(row: ResultRow) -> FigureScale:
    """Return the metric of a figure with its rule, whether higher is better, and the ends of the scale."""
    return metric_label(row), _is_upwards(row), tuple(row.get("bounds") or ())


def _is_upwards(row: ResultRow) -> bool:
    return row.get("higher_is_better") is not False


def _goodness(row: ResultRow) -> float:
    """Return how good a figure is: its distance from the worst end of its scale, as a share, if that has two ends."""
    value: float = row.get("value") or 0.0
    scale = _scale(row)
    if scale is None:
        return value if _is_upwards(row) else -value
    low, high = scale
    return (value - low if _is_upwards(row) else high - value) / (high - low)


def breakdown_table(found: Breakdown, width: int) -> Table:
    """Draw the parts as a table; a wide terminal has bars, too."""
    rows, scales = found.rows, {_scale(row) for row in found.rows}
    small = all(abs(row.get("value") or 0) <= 1 for row in rows) and scales <= {None, (0, 1)}
    view = figures_view(
        rows,
        systems=model_names(rows, found.every),
        digits=lambda row: (3, 3) if small or _scale(row) == (0, 1) else (2, 1),
    )
    shown = view.only("model", "metric", "n", "value", "95 %", "failed").changed("n", lambda n: str(n.number))
    if len(set(map(_is_upwards, found.every))) > 1:
        ways = iter(map(_is_upwards, rows))
        shown = shown.changed("metric", lambda metric: metric.text + ("" if next(ways) else " ↓"))
    wholes = {whole_of(row, found.by) for row in found.every}
    if len(wholes) > 1:
        shown = shown.joined(Column("task"), [whole_of(row, found.by) for row in rows], 0)
    shown = shown.joined(Column(found.by, key="part"), [str(row[found.by]) for row in rows], 0)
    if width >= _WIDE and len(scales) == 1 and None not in scales:
        shown = shown.joined(Column("", key="bar", wraps=False), list(map(_bar, rows)))
    return drawn(shown)


def below(found: Breakdown, order: Order) -> Iterator[str]:
    """Say how the table is sorted where there are several scales, and what it leaves out.

    That is: other parts, and parts in which every sample failed, which have no figure.
    """
    if len(found.rows) < len(found.every):
        counts = len(found.rows), len(found.every)
        few = "the {} of each metric: {} of {} figures" if found.apart else "the {1} {0} of {2} figures"
        yield few.format(order, *counts)
    yield from mark_legend(found.rows)
    yield from sorting(found)
    shown = [id(row) for row in found.rows]
    hidden = [row for row in found.every if row.get("value") is None and id(row) not in shown]
    if hidden:
        names = ", ".join(dict.fromkeys(str(row[found.by]) for row in hidden[:_MAX_LISTED]))
        more = ", …" if len(hidden) > _MAX_LISTED else ""
        yield f"without a figure, because every sample failed: {len(hidden)} ({names}{more})"


def sorting(found: Breakdown) -> Iterator[str]:
    """Say what the order of figures on several scales is."""
    if found.apart:
        endless = ", ".join(dict.fromkeys(metric_label(row) for row in found.every if _scale(row) is None))
        yield f"sorted within each metric, because these have no scale with two ends: {endless}"
    elif len({figure_scale(row)[1:] for row in found.every}) > 1:
        yield "sorted by the share of each scale that the figure reaches"
    if len(set(map(_is_upwards, found.every))) > 1:
        yield "↓: lower is better"


def whole_of(row: ResultRow, by: By) -> str:
    """Return what a row is a part of: the task of a category, the dataset of a subset, or its draw of examples."""
    task: str = row["task"]
    if by == "category":
        return task.removesuffix(f"[{row['category']}]")
    return "" if by == "task" else task if "example_seed" in row else str(row.get("dataset", task))


def _scale(row: ResultRow) -> tuple[float, float] | None:
    """Return the ends of the scale of a figure; None if one of them is open, or the scale is not known."""
    low, high = map(finite, row.get("bounds") or (None, None))
    return None if low is None or high is None or not low < high else (low, high)


def _bar(row: ResultRow) -> str:
    """Return a bar as long as the figure on its scale."""
    scale = _scale(row)
    if row.get("value") is None or scale is None:
        return ""
    low, high = scale
    eighths: int = round((min(max(row["value"], low), high) - low) / (high - low) * _BAR_COLUMNS * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8]
