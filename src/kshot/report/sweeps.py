"""Sweeps: the curve of each, one table with its figures and intervals, and what they show in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kshot.core.failed_parts import failure_mark, mark_legend
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.report.figures import figure_cell, short_names
from kshot.report.subjects import Places, Subject
from kshot.report.verdicts import correction, differs_by
from kshot.report.view import Cell, Column, Content, Lines, Series, TableView, numbers
from kshot.runs.headline import finite, grouped
from kshot.runs.swept_rows import (
    AXES,
    NUMERIC,
    SHOTS,
    SHOWN,
    SHOWN_RANGE,
    SWEEP,
    SweptFigures,
    shown_label,
    shown_value,
    swept_figures,
)

_MAX_LINES, _MAX_LISTED = 6, 4
_SHORT = {**dict.fromkeys(SHOTS, "k = "), "temperature": "temperature "}


def sweep_verdicts(comparisons: Sequence[ResultRow]) -> Iterator[str]:
    """Say of each line of a sweep which values are ahead of which: the numbers first, and only a few of many."""
    found = sorted((row for row in comparisons if SWEEP in row), key=lambda row: row[SWEEP] not in NUMERIC)
    models = short_names(dict.fromkeys(str(row["a_model"]) for row in found))
    shown = list(grouped(found, lambda row: _subject(row, models)).items())
    for subject, own in shown[:_MAX_LINES]:
        yield f"{subject}: {_said(own)}."
    if len(shown) > _MAX_LINES:
        decided = sum(any(row["ahead"] is not None for row in own) for _, own in shown[_MAX_LINES:])
        yield f"… and {len(shown) - _MAX_LINES} more lines in summary.json; in {decided} of them values differ."
    families = {row["metric"]: row["family"] for row in found if row["family"] > 1}
    if families:
        yield f"Between the values of sweeps {correction(max(families.values()))}."


def _subject(row: ResultRow, models: Mapping[str, str]) -> str:
    """Return what a sentence is about. Along numbers each line has its own; of other values one tells all pairs."""
    of = [models[str(row["a_model"])]] if len(models) > 1 else []
    where = [_value(name, value) for name, value in _at(row).items()] if row[SWEEP] in NUMERIC else []
    by = [] if row[SWEEP] in NUMERIC else [f"by {AXES.get(row[SWEEP], row[SWEEP])}"]
    return " · ".join([" ".join([f"{row['task']} {metric_label(row)}", *by]), *of, *where])


def _at(row: ResultRow) -> Mapping[str, Any]:
    """Return the values of the other options at which two are compared."""
    at = row.get("at")
    return at if isinstance(at, Mapping) else {}


def _said(rows: Sequence[ResultRow]) -> str:
    ahead = [row for row in rows if row["ahead"] is not None]
    level = [row for row in rows if row["ahead"] is None]
    if not ahead and len(rows) > 1:
        return "no two neighbours can be told apart" if rows[0][SWEEP] in NUMERIC else "no two can be told apart"
    parts = [_against(row) for row in ahead[:_MAX_LISTED]]
    if len(ahead) > _MAX_LISTED:
        parts.append(f"{len(ahead) - _MAX_LISTED} more pairs differ")
    pairs = [f"{_SHORT.get(row[SWEEP], '')}{_side(row, 'a')} and {_side(row, 'b')}" for row in level]
    if len(pairs) > _MAX_LISTED:
        parts.append(f"{len(pairs)} pairs cannot be told apart")
    elif pairs:
        told = [f"{pair}{_where(row)}" for pair, row in zip(pairs, level, strict=True)]
        parts.append(f"{', '.join(told)} cannot be told apart")
    return "; ".join(parts)


def _against(row: ResultRow) -> str:
    """Say which of two values is ahead, and by how much."""
    first, second = ("a", "b") if row["ahead"] == row["a"] else ("b", "a")
    who = f"{_SHORT.get(row[SWEEP], '')}{_side(row, first)} is ahead of {_side(row, second)}"
    return f"{who}{_where(row)} ({differs_by(row, failure_mark(row))})"


def _where(row: ResultRow) -> str:
    """Return at which values of the other options two are compared, where the subject does not say it."""
    at = _at(row)
    sides = [side for side in ("a", "b") if f"{side}_{SHOWN}" in row]
    shown = shown_label([_columns(row, side) for side in sides]) if sides else None
    told = [f"{_SHORT[name]}{shown}" if name in SHOTS and shown else _value(name, value) for name, value in at.items()]
    return f" at {', '.join(told)}" if at and row[SWEEP] not in NUMERIC else ""


def _side(row: ResultRow, side: str) -> str:
    """Return the value of a point in words; for examples, the number it shows."""
    value, shown = row[f"{side}_value"], _columns(row, side)
    if row[SWEEP] not in SHOTS or SHOWN not in shown:
        return shown_value(row[SWEEP], value)
    return shown_label([shown], asked=value if row.get(f"a_{SHOWN}") == row.get(f"b_{SHOWN}") else None)


def _columns(row: ResultRow, side: str) -> ResultRow:
    """Return the columns of one point that say how many examples it shows."""
    return {name: row[f"{side}_{name}"] for name in (SHOWN, SHOWN_RANGE) if f"{side}_{name}" in row}


def _value(option: str, value: Any) -> str:
    return f"{_SHORT.get(option, '')}{shown_value(option, value)}"


_HEADS = {
    **dict.fromkeys(SHOTS, "k"),
    "temperature": "temperature",
    "ranking_type": "ranking type",
    "retriever": "retriever",
    "instruction": "instruction",
}
"""What the column of an axis is called."""

_SHOTS_AXIS = "examples in the prompt (k)"


def sweep_view(found: SweptFigures, source: Places = lambda _: None) -> TableView:
    """Return a row for each figure of a sweep, line by line, and the lines as a chart; the best figure stands out."""
    best, names = _best(found), _line_names(found)
    series = [
        Series(
            name,
            [
                None if row is None else figure_cell(row, source=source(row), tone="strong" if id(row) == best else "")
                for row in line.rows
            ],
        )
        for name, line in zip(names, found.lines, strict=True)
    ]
    rows: list[list[Content]] = [
        [name, label, figure, figure, Cell(f"{row['n']:,}", row["n"], source(row), "n")]
        for (name, line), each in zip(zip(names, found.lines, strict=True), series, strict=True)
        for label, row, figure in zip(found.labels, line.rows, each.figures, strict=True)
        if row is not None
    ]
    columns = [Column("", key="line", wraps=False, most=28)]
    columns.append(Column(_HEADS.get(found.across, found.across), key="step", wraps=False, most=40))
    columns += [Column(found.label, "number", key="value"), *numbers("95 %", "n")]
    given = found.found[0].get("bounds")  # a file of a stranger may have anything there
    bounds = list(map(finite, given)) if isinstance(given, (list, tuple)) and len(given) == len(("low", "high")) else []
    across = _SHOTS_AXIS if found.across in SHOTS else found.across
    chart = Lines(found.labels, series, across, bounds, ordered=found.is_curve)
    return TableView(columns, rows, found.title, mark_legend(found.found), chart)


def _line_names(found: SweptFigures) -> list[str]:
    """Return the name of each line; those of models are as short as they can be."""
    specs = [str(value) for line in found.lines for name, value in line.parts if name == "model"]
    models = short_names(dict.fromkeys(specs))
    return [
        " · ".join(models[str(value)] if name == "model" else shown_value(name, value) for name, value in line.parts)
        for line in found.lines
    ]


def _best(found: SweptFigures) -> int | None:
    """Return the id of the row with the best value."""
    known = [(value, row) for row in found.found if (value := finite(row["value"])) is not None]
    upwards = found.found[0].get("higher_is_better") is not False
    top = (max if upwards else min)(known, key=lambda each: each[0], default=None)
    return None if top is None else id(top[1])


def _section_title(views: Sequence[TableView]) -> str:
    by_shots = all(view.chart and view.chart.across == _SHOTS_AXIS for view in views)
    return "The few-shot curve" if by_shots else "Sweeps"


SWEEPS = Subject(
    "sweeps",
    _section_title,
    lambda record, places: (sweep_view(found, places) for found in swept_figures(record.results, every_metric=True)),
    lambda record: sweep_verdicts(record.comparisons),
)
