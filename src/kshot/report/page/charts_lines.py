"""Figures along an axis of steps, such as lengths or k: a line for each series, with intervals and direct labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from kshot.report.cells import shortened
from kshot.report.page.charts import Chart
from kshot.report.page.markup import tag
from kshot.report.page.svg import (
    SERIES,
    Bands,
    Scale,
    apart,
    axis_ticks,
    drawing,
    label,
    line,
    marker,
    px,
    series_class,
    tick_text,
)
from kshot.report.view import Cell, Series, TableView, numbers, words

_WIDTH, _HEIGHT = 356, 236
_LEFT, _TOP, _BOTTOM = 34, 14, 40
_NAME_ROOM, _CHARACTER = 16, 8
"""Characters of a name beside its line, and the width of one."""
_MARKER, _FEW = 9.0, 4
"""The height of a mark: an interval that is no longer only hides others. Of more than a few lines, twice as long."""
_SHIFT = 5.5
"""How far apart the intervals of neighbouring series stand, so that none hides another."""


def line_chart(
    id_: str,
    title: str,
    steps: Sequence[str],
    series: Sequence[Series],
    *,
    across: str,
    bounds: Sequence[float | None] | None = None,
    band: tuple[str, Sequence[tuple[float, float] | None]] | None = None,
    notes: Sequence[Markup | str] = (),
) -> Chart:
    """Draw a line for each series over the steps of the axis ``across``.

    ``band`` names a range at each step, such as the chance level, that is drawn behind. Of many series the first have
    colours and names, and the others are thin lines; the table has all.
    """
    plot = _LinePlot(steps, series, across, bounds, band)
    picture = drawing(id_, title, plot.parts(), width=_WIDTH, height=_HEIGHT, class_="lines")
    left_out = [f"{SERIES} of {len(series)} lines have names; the table has all."]
    notes = (*notes, *(left_out if len(series) > SERIES else ()))
    rows = [
        (each.name, step, found, found)
        for each in series
        for step, found in zip(steps, each.figures, strict=True)
        if found is not None
    ]
    return Chart(id_, title, picture, TableView([*words("", across), *numbers("value", "95 %")], rows), notes)


class _LinePlot:
    def __init__(
        self,
        steps: Sequence[str],
        series: Sequence[Series],
        across: str,
        bounds: Sequence[float | None] | None,
        band: tuple[str, Sequence[tuple[float, float] | None]] | None,
    ) -> None:
        self.steps, self.series, self.across, self.band = steps, series, across, band
        self.names = [shortened(each.name, _NAME_ROOM) for each in series[:SERIES]]
        if band is not None:
            self.names.append(band[0])
        self.right = _WIDTH - 16 - _CHARACTER * max(map(len, self.names), default=0)
        self.least = _MARKER if len(series) <= _FEW else 2 * _MARKER
        values = [end for each in series for found in each.figures if found for end in found.ends]
        self.ticks = axis_ticks(values, bounds)
        self.x = Bands(len(steps), _LEFT, self.right)
        self.y = Scale(self.ticks[0], self.ticks[-1], _HEIGHT - _BOTTOM, _TOP)

    def parts(self) -> Iterator[Markup]:
        """Yield the pieces of the picture, those behind first."""
        for tick in self.ticks:
            y = self.y(tick)
            yield line(px(_LEFT), y, px(self.right), y, "grid")
            yield label(px(_LEFT - 6), y + 4, tick_text(tick, self.ticks), "tick end")
        for at, step in enumerate(self.steps):
            yield label(px(self.x(at)), _HEIGHT - _BOTTOM + 16, shortened(step, 9), "tick mid")
        yield label(px((_LEFT + self.right) / 2), _HEIGHT - 6, self.across, "axis mid")
        yield from self._band()
        for number, each in reversed(list(enumerate(self.series))):  # the first stands before the others
            yield from self._intervals(number, each) if number < SERIES else ()
            yield from self._line(number, each)
        yield from self._labels()

    def _band(self) -> Iterator[Markup]:
        if self.band is None:
            return
        known = [(self.x(at), *map(self.y, ends)) for at, ends in enumerate(self.band[1]) if ends is not None]
        outline = [f"{px(x)},{px(high)}" for x, _, high in known] + [f"{px(x)},{px(low)}" for x, low, _ in known[::-1]]
        yield tag("polygon", tag("title", self.band[0]), points=" ".join(outline), class_="band")

    def _shift(self, number: int) -> float:
        count = min(len(self.series), SERIES)
        return (number - (count - 1) / 2) * min(_SHIFT, 0.6 * self.x.step / count) if number < SERIES else 0.0

    def _points(self, number: int, each: Series) -> list[tuple[float, float, Cell]]:
        return [
            (self.x(at) + self._shift(number), self.y(found.number), found)
            for at, found in enumerate(each.figures)
            if found is not None and found.number is not None
        ]

    def _intervals(self, number: int, each: Series) -> Iterator[Markup]:
        for x, _, found in self._points(number, each):
            if found.interval is not None:
                low, high = (self.y(end.number or 0.0) for end in found.interval)
                if abs(high - low) > self.least:
                    yield line(px(x), low, px(x), high, f"whisker thin {series_class(number)}")

    def _line(self, number: int, each: Series) -> Iterator[Markup]:
        points = self._points(number, each)
        many = number >= SERIES
        path = " ".join(f"{px(x)},{px(y)}" for x, y, _ in points)
        yield tag(
            "polyline", tag("title", each.name), points=path, class_=f"path {'rest' if many else series_class(number)}"
        )
        for x, y, found in () if many else points:
            step = self.steps[next(at for at, own in enumerate(each.figures) if own is found)]
            yield marker(number, px(x), y, f"{each.name}, {self.across} {step}: {found.said}")

    def _labels(self) -> Iterator[Markup]:
        """Yield the names beside the ends of their lines, moved apart where they would cover each other."""
        ends: list[tuple[str, str, float, float]] = []
        for number, each in enumerate(self.series[:SERIES]):
            if points := self._points(number, each):
                x, y, _ = points[-1]
                ends.append((self.names[number], f"lines-name {series_class(number)}", x, y))
        if self.band is not None and any(self.band[1]):
            at, found = [(at, found) for at, found in enumerate(self.band[1]) if found is not None][-1]
            ends.append((self.band[0], "name soft", self.x(at), self.y((found[0] + found[1]) / 2)))
        places = apart([y for *_, y in ends], 14, _TOP, _HEIGHT - _BOTTOM)
        for (name, class_, x, y), place in zip(ends, places, strict=True):
            start = max(x + 7, self.right + 2)
            yield line(px(x + 6), y, px(start), place, "leader")
            yield label(px(start + 3), place + 4, name, class_)
