"""Figures as points on their intervals, one row each: scores, and differences around 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kshot.report.cells import shortened
from kshot.report.page.charts import Chart, DataTable
from kshot.report.page.markup import tag, together
from kshot.report.page.numbers import Estimate, Number
from kshot.report.page.svg import Scale, axis_ticks, drawing, label, line, marker, percent, series_class, tick_text

MAX_DRAWN = 60
"""Rows that a chart draws; the table behind it has all."""

_ROW, _GROUP, _TOP, _BOTTOM = 24, 30, 8, 26
_NAMES_END, _PLOT_END = 0.33, 0.71
"""Where the names end and the plot ends, as shares of the width; numbers stand after it."""

_WIDE_NAME, _NARROW_NAME = 32, 18
"""Characters of a name that fit."""

_COLUMNS = (0.79, 0.905, 0.955, 1.0)
"""The right ends of the numbers: value, interval, and two counts."""


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """A row: its name, its figure, and up to two counts. ``group`` is a heading above it; ``hollow``: not decided."""

    name: str
    figure: Estimate
    counts: Sequence[Number | None] = ()
    group: str = ""
    series: int = 0
    hollow: bool = False


def interval_chart(
    id_: str,
    title: str,
    rows: Sequence[IntervalRow],
    *,
    heads: Sequence[str] = ("value", "95 %", "n"),
    bounds: Sequence[float | None] | None = None,
    reference: tuple[float, str] | None = None,
    table: DataTable | None = None,
    notes: Sequence[Markup | str] = (),
) -> Chart:
    """Draw rows of figures. ``heads`` name the numbers at the right; ``reference`` is a value to mark, with its name.

    ``bounds`` are the ends of the metric's scale. Without a ``table``, the one behind has the rows as they are drawn.
    """
    drawn = rows[:MAX_DRAWN]
    values = [end for row in drawn for end in row.figure.ends] + ([] if reference is None else [reference[0]])
    ticks = axis_ticks(values, bounds)
    plot = _Plot(drawn, ticks, heads, reference)
    picture = drawing(id_, title, plot.parts(), width=None, height=plot.height, class_="intervals")
    left_out = [f"The first {len(drawn)} of {len(rows)} rows are drawn; the table has all."]
    notes = (*notes, *(left_out if len(drawn) < len(rows) else ()))
    return Chart(id_, title, picture, table or _table(rows, heads), notes, wide=True)


def _table(rows: Sequence[IntervalRow], heads: Sequence[str]) -> DataTable:
    grouped, counts = any(row.group for row in rows), max((len(row.counts) for row in rows), default=0)
    first = ("", "") if grouped else ("",)
    lines = [
        (
            *((row.group, row.name) if grouped else (row.name,)),
            row.figure.value,
            row.figure,
            *(row.counts[at] if at < len(row.counts) else None for at in range(counts)),
        )
        for row in rows
    ]
    return DataTable((*first, *heads[: 2 + counts]), lines)


class _Plot:
    """The picture: positions across are shares of the width, so that it fits a desktop and a phone."""

    def __init__(
        self,
        rows: Sequence[IntervalRow],
        ticks: Sequence[float],
        heads: Sequence[str],
        reference: tuple[float, str] | None,
    ) -> None:
        self.rows, self.ticks, self.heads, self.reference = rows, ticks, heads, reference
        self.scale = Scale(ticks[0], ticks[-1])
        self.top = _TOP + 16
        self.places: list[tuple[IntervalRow, float, bool]] = []
        at, group = float(self.top), ""
        for row in rows:
            opens = bool(row.group) and row.group != group
            group = row.group
            at += _GROUP if opens else 0
            self.places.append((row, at + _ROW / 2, opens))
            at += _ROW
        self.bottom = at + 4
        self.height = self.bottom + _BOTTOM

    def parts(self) -> Iterator[Markup]:
        """Yield the pieces of the picture, those behind first."""
        for end, head in zip(_COLUMNS, self.heads, strict=False):
            yield label(percent(end), _TOP + 6, head, "head end wide")
        yield label("100%", _TOP + 6, self.heads[0], "head end narrow")
        yield self._inside(self._axis())
        for row, middle, opens in self.places:
            if opens:
                yield label("0", middle - _ROW / 2 - 6, shortened(row.group, 2 * _WIDE_NAME), "group wide")
                yield label("0", middle - _ROW / 2 - 6, shortened(row.group, 2 * _NARROW_NAME), "group narrow")
            yield from self._names(row, middle)
            yield self._inside(self._mark(row, middle))
            yield from _numbers(row, middle)

    def _inside(self, parts: Iterator[Markup]) -> Markup:
        """Return pieces within the plot, whose positions are shares of the plot."""
        ends = percent(_NAMES_END), percent(_PLOT_END - _NAMES_END)
        return tag("svg", *parts, x=ends[0], width=ends[1], height="100%", overflow="visible", class_="plot")

    def _axis(self) -> Iterator[Markup]:
        for tick in self.ticks:
            x = percent(self.scale(tick))
            yield line(x, self.top, x, self.bottom, "grid")
            thinned = "tick mid" if tick in {self.ticks[0], self.ticks[-1]} else "tick mid wide"
            yield label(x, self.bottom + 16, tick_text(tick, self.ticks), thinned)
        if self.reference is not None:
            x = percent(self.scale(self.reference[0]))
            yield line(x, self.top - 2, x, self.bottom, "reference")
            yield label(x, self.top - 8, self.reference[1], "tick mid")

    def _names(self, row: IntervalRow, middle: float) -> Iterator[Markup]:
        full = shortened(row.name, 600)
        wide, narrow = (shortened(row.name, room) for room in (_WIDE_NAME, _NARROW_NAME))
        titled = tag("title", full)
        inset = "10" if row.group else "0"
        if wide == narrow:
            yield label(inset, middle + 4, wide, "name")
            return
        yield label(inset, middle + 4, together((wide, titled)), "name wide")
        yield label(inset, middle + 4, together((narrow, titled)), "name narrow")

    def _mark(self, row: IntervalRow, middle: float) -> Iterator[Markup]:
        value, between = row.figure.value.value, row.figure.interval
        if value is None:
            return
        if between is not None and between[0].value is not None and between[1].value is not None:
            ends = [percent(self.scale(end.value)) for end in between if end.value is not None]
            yield line(ends[0], middle, ends[1], middle, f"whisker {series_class(row.series)}")
        yield marker(
            row.series, percent(self.scale(value)), middle, f"{row.name}: {row.figure.said}", hollow=row.hollow
        )


def _numbers(row: IntervalRow, middle: float) -> Iterator[Markup]:
    """Yield the numbers of a row: all where there is room, else the value alone."""
    value = svg_number(row.figure.value)
    yield label(percent(_COLUMNS[0]), middle + 4, value, "value end wide")
    yield label("100%", middle + 4, value, "value end narrow")
    if between := row.figure.interval:
        yield label(
            percent(_COLUMNS[1]),
            middle + 4,
            together((svg_number(between[0]), "–", svg_number(between[1]))),
            "soft end wide",
        )
    for place, count in zip(_COLUMNS[2:], row.counts, strict=False):
        if count is not None:
            yield label(percent(place), middle + 4, svg_number(count), "soft end wide")


def svg_number(found: Number) -> Markup:
    """Return a number within a text of a picture, with its exact value and its place."""
    exact = None if found.value is None else repr(found.value)
    return tag("tspan", found.written, data_row=found.row, data_field=found.field, data_value=exact)
