"""Figures as points on their intervals, one row each: scores, and differences around 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kshot.report.page.charts import Chart
from kshot.report.page.charts_rows import MAX_DRAWN, NARROW, WIDE, Place, RowLayout, placed, svg_number
from kshot.report.page.markup import together
from kshot.report.page.svg import Scale, axis_ticks, drawing, label, line, marker, percent, series_class, tick_text
from kshot.report.view import Cell, TableView, numbers, words

_ROW, _TOP, _BOTTOM = 24, 24, 30
_NEAR_END = 0.75
_BETWEEN = 18
"""The room between two columns of numbers."""


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """A row: its name, its figure, and up to two counts. ``group`` is a heading above it; ``hollow``: not decided."""

    name: str
    figure: Cell
    counts: Sequence[Cell | None] = ()
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
    table: TableView | None = None,
    limit: int = MAX_DRAWN,
    notes: Sequence[Markup | str] = (),
) -> Chart:
    """Draw rows of figures. ``heads`` name the numbers at the right; ``reference`` is a value to mark, with its name.

    ``bounds`` are the ends of the metric's scale. Without a ``table``, the one behind has the rows as they are
    drawn; the picture has so many of them (``limit``).
    """
    drawn = rows[:limit]
    values = [end for row in drawn for end in row.figure.ends] + ([] if reference is None else [reference[0]])
    ticks = axis_ticks(values, bounds)
    plots = [_IntervalPlot(drawn, ticks, heads, reference, layout) for layout in (WIDE, NARROW)]
    layers = [plot.layout.layer(plot.parts()) for plot in plots]
    picture = drawing(id_, title, layers, width=None, height=plots[0].bottom + _BOTTOM, class_="intervals")
    left_out = [f"{len(drawn)} of {len(rows)} rows are drawn; the table has more."]
    notes = (*notes, *(left_out if len(drawn) < len(rows) else ()))
    return Chart(id_, title, picture, table or _table(rows, heads), notes, wide=True)


def _table(rows: Sequence[IntervalRow], heads: Sequence[str]) -> TableView:
    grouped, counts = any(row.group for row in rows), max((len(row.counts) for row in rows), default=0)
    lines = [
        (
            *((row.group, row.name) if grouped else (row.name,)),
            row.figure,
            row.figure,
            *(row.counts[at] if at < len(row.counts) else None for at in range(counts)),
        )
        for row in rows
    ]
    return TableView([*words(*[""] * (1 + grouped)), *numbers(*heads[: 2 + counts])], lines)


class _IntervalPlot:
    """The picture on one kind of screen: names, points on intervals, numbers."""

    def __init__(
        self,
        rows: Sequence[IntervalRow],
        ticks: Sequence[float],
        heads: Sequence[str],
        reference: tuple[float, str] | None,
        layout: RowLayout,
    ) -> None:
        self.rows, self.ticks, self.reference, self.layout = rows, ticks, reference, layout
        self.heads = heads if layout is WIDE else heads[:1]  # a narrow screen has room for the value alone
        self.scale = Scale(ticks[0], ticks[-1])
        groups = [row.group for row in rows]
        self.places, end = placed(groups, _TOP, _ROW)
        self.bottom = end + 4
        self.written = layout.fitted(row.name for row in rows)
        self.start = layout.names_end(self.written.values(), groups)
        self.end, *self.columns = self._columns()

    def _columns(self) -> list[float]:
        """Return where the plot ends, and the right ends of the columns of numbers; the last ends with the chart."""
        texts: list[list[str]] = [[head] for head in self.heads]
        for row in self.rows:
            counts = [count.written if count else "" for count in row.counts]
            for held, written in zip(texts, [row.figure.written, row.figure.between, *counts], strict=False):
                held.append(written)
        ends = [1.0]
        for held in reversed(texts):
            ends.append(ends[-1] - self.layout.share(held) - _BETWEEN / self.layout.width)
        return ends[::-1]

    def parts(self) -> Iterator[Markup]:
        """Yield the pieces of the picture, those behind first."""
        for end, head in zip(self.columns, self.heads, strict=True):
            yield label(percent(end), _TOP - 10, head, "head end")
        yield self.layout.plot(self.start, self.end, self._axis())
        for row, place in zip(self.rows, self.places, strict=True):
            fits = self.written[row.name]
            yield from self.layout.names(row.name, row.group, place, fits=fits, height=_ROW, end=self.start)
            yield from self._numbers(row, place.middle + 4)
        marks = [part for row, place in zip(self.rows, self.places, strict=True) for part in self._mark(row, place)]
        yield self.layout.plot(self.start, self.end, marks)

    def _axis(self) -> Iterator[Markup]:
        for tick in self.ticks:
            x = percent(self.scale(tick))
            yield line(x, _TOP, x, self.bottom, "grid")
            if self.layout is WIDE or tick in {self.ticks[0], self.ticks[-1]}:
                yield label(x, self.bottom + 16, tick_text(tick, self.ticks), "tick mid")
        if self.reference is not None:
            x = percent(self.scale(self.reference[0]))
            yield line(x, _TOP - 4, x, self.bottom, "reference")
            yield label(x, _TOP - 10, self.reference[1], f"tick {self._reference_side()}")

    def _reference_side(self) -> str:
        """Return how the name of the reference stands at its line: before it, if it would run into the heads."""
        share = 0.0 if self.reference is None else self.scale(self.reference[0])
        return "end" if share > _NEAR_END else "mid"

    def _mark(self, row: IntervalRow, place: Place) -> Iterator[Markup]:
        value, between = row.figure.number, row.figure.interval
        if value is None:
            return
        if between is not None:
            ends = [percent(self.scale(end.number)) for end in between if end.number is not None]
            yield line(ends[0], place.middle, ends[-1], place.middle, f"whisker {series_class(row.series)}")
        said = f"{row.name}: {row.figure.said}"
        yield marker(row.series, percent(self.scale(value)), place.middle, said, hollow=row.hollow)

    def _numbers(self, row: IntervalRow, y: float) -> Iterator[Markup]:
        """Yield the numbers of a row, as many as have columns."""
        ends = row.figure.interval
        pair = together((svg_number(ends[0]), row.figure.dash, svg_number(ends[1]))) if ends else None
        counts = [None if count is None else svg_number(count) for count in row.counts]
        texts = [svg_number(row.figure), pair, *counts]
        for at, (place, written) in enumerate(zip(self.columns, texts, strict=False)):
            if written is not None:
                yield label(percent(place), y, written, "soft end" if at else "value end")
