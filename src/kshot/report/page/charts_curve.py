"""The curve of a sweep: a line for each series with its intervals as a ribbon, the name and the last figure beside it.

A picture has two forms, of which the style sheet shows one: that of a narrow screen is narrower, not smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kshot.report.cells import shortened
from kshot.report.page.charts import Chart
from kshot.report.page.markup import tag, together
from kshot.report.page.svg import (
    SERIES,
    Bands,
    Scale,
    apart,
    drawing,
    label,
    line,
    marker,
    nice_ticks,
    px,
    series_class,
    tick_text,
)
from kshot.report.view import Cell, Lines, Series, TableView, numbers, words

_MAX_RIBBONS = 3
"""Lines whose intervals are ribbons; of more, each figure has a thin line, so that none hides another."""
_CHARACTER = 7.7
_SHIFT = 5.5
_TEXT_HEIGHT = 16


@dataclass(frozen=True, slots=True)
class _Form:
    """One of the two forms of a picture: the class that the style sheet shows it by, and its size."""

    class_: str
    width: float
    height: float
    name_room: int
    left: float = 36
    top: float = 18
    bottom: float = 44


_FORMS = (_Form("wide", 780, 330, 24), _Form("narrow", 356, 290, 12, 30))


def curve_chart(
    id_: str,
    title: str,
    lines: Lines,
    *,
    notes: Sequence[Markup | str] = (),
) -> Chart:
    """Draw a line for each series over the steps of the axis; the scale is as high as the figures need.

    Of many series the first have colours and names; the table has all.
    """
    pictures, series, across = [], lines.series, lines.across
    for form in _FORMS:
        plot = _CurvePlot(lines, form)
        own = id_ if form.class_ == "wide" else f"{id_}-{form.class_}"
        picture = drawing(own, title, plot.parts(), width=form.width, height=form.height, class_="curve")
        pictures.append(tag("div", picture, class_=form.class_))
    left_out = [f"{SERIES} of {len(series)} lines have names; the table has all."] if len(series) > SERIES else []
    named = any(each.name for each in series)
    rows = [
        (*((each.name,) if named else ()), step, found, found)
        for each in series
        for step, found in zip(lines.steps, each.figures, strict=True)
        if found is not None
    ]
    table = TableView([*words(*[""] * named, across), *numbers("value", "95 %")], rows)
    return Chart(id_, title, together(pictures), table, (*notes, *left_out), wide=True)


class _CurvePlot:
    def __init__(self, lines: Lines, form: _Form) -> None:
        self.steps, self.series, self.across, self.form = lines.steps, lines.series, lines.across, form
        self.drawn = list(enumerate(self.series[:SERIES]))
        self.names = [self._label(each) for _, each in self.drawn] if len(self.series) > 1 else []
        self.right = form.width - 12 - _CHARACTER * max(map(len, self.names), default=0)
        values = [end for each in self.series for found in each.figures if found for end in found.ends]
        self.ticks = _ticks(values, lines.bounds)
        self.x = Bands(len(self.steps), form.left, self.right)
        self.y = Scale(self.ticks[0], self.ticks[-1], form.height - form.bottom, form.top)

    def parts(self) -> Iterator[Markup]:
        """Yield the pieces of the picture, those behind first."""
        form = self.form
        for tick in self.ticks:
            y = self.y(tick)
            yield line(px(form.left), y, px(self.right), y, "grid")
            yield label(px(form.left - 7), y + 4, tick_text(tick, self.ticks), "tick end")
        room = max(int(self.x.step / _CHARACTER), 3)
        for at, step in enumerate(self.steps):
            yield label(px(self.x(at)), form.height - form.bottom + 18, shortened(step, room), "tick mid")
        yield label(px((form.left + self.right) / 2), form.height - 6, self.across, "axis mid")
        ribbons = len(self.series) <= _MAX_RIBBONS
        for number, each in reversed(self.drawn):
            yield from self._ribbon(number, each) if ribbons else self._whiskers(number, each)
        for number, each in reversed(list(enumerate(self.series))):  # the first stands before the others
            yield from self._line(number, each)
        yield from self._labels() if self.names else self._values()

    def _points(self, number: int, each: Series) -> list[tuple[float, float, int, Cell]]:
        return [
            (self.x(at) + self._shift(number), self.y(found.number), at, found)
            for at, found in enumerate(each.figures)
            if found is not None and found.number is not None
        ]

    def _shift(self, number: int) -> float:
        """Return how far a series stands beside its step: intervals that are lines must not hide each other."""
        count = min(len(self.series), SERIES)
        beside = count > _MAX_RIBBONS and number < SERIES
        return (number - (count - 1) / 2) * min(_SHIFT, 0.6 * self.x.step / count) if beside else 0.0

    def _ribbon(self, number: int, each: Series) -> Iterator[Markup]:
        points = self._points(number, each)
        known = [(x, *(self.y(end.number or 0.0) for end in f.interval)) for x, _, _, f in points if f.interval]
        if len(known) > 1:
            above = [f"{px(x)},{px(high)}" for x, _, high in known]
            below = [f"{px(x)},{px(low)}" for x, low, _ in reversed(known)]
            yield tag("polygon", points=" ".join([*above, *below]), class_=f"ribbon {series_class(number)}")
        else:
            yield from self._whiskers(number, each)

    def _whiskers(self, number: int, each: Series) -> Iterator[Markup]:
        for x, _, _, found in self._points(number, each):
            if found.interval is not None:
                low, high = (self.y(end.number or 0.0) for end in found.interval)
                yield line(px(x), low, px(x), high, f"whisker thin {series_class(number)}")

    def _line(self, number: int, each: Series) -> Iterator[Markup]:
        points, many = self._points(number, each), number >= SERIES
        path = " ".join(f"{px(x)},{px(y)}" for x, y, _, _ in points)
        class_ = f"path {'rest' if many else series_class(number)}"
        yield tag("polyline", tag("title", each.name), points=path, class_=class_)
        for x, y, at, found in () if many else points:
            of = f"{each.name}, " if each.name else ""
            yield marker(number, px(x), y, f"{of}{self.across} {self.steps[at]}: {found.said}")

    def _label(self, each: Series) -> str:
        """Return the name beside the end of a line, with the last figure."""
        last = next((found for found in reversed(each.figures) if found is not None), None)
        name = shortened(each.name, self.form.name_room)
        return name if last is None else f"{name} {last.written}"

    def _labels(self) -> Iterator[Markup]:
        """Yield the names beside the ends of their lines, moved apart where they would cover each other."""
        ends = [(number, points[-1]) for number, each in self.drawn if (points := self._points(number, each))]
        places = apart(
            [y for _, (_, y, _, _) in ends], _TEXT_HEIGHT, self.form.top, self.form.height - self.form.bottom
        )
        for (number, (x, y, _, _)), place in zip(ends, places, strict=True):
            start = max(x + 8, self.right + 2)
            yield line(px(x + 7), y, px(start), place, "leader")
            yield label(px(start + 4), place + 4, self.names[number], f"lines-name {series_class(number)}")

    def _values(self) -> Iterator[Markup]:
        """Yield the figures of the only line above their points."""
        for number, each in self.drawn:
            for x, y, _, found in self._points(number, each):
                yield label(px(x), y - 10, found.written, f"mid lines-name {series_class(number)}")


def _ticks(values: Sequence[float], bounds: Sequence[float | None]) -> list[float]:
    """Return the ticks of the scale: round numbers around all figures, and none beyond the ends of the metric."""
    low, high = bounds if len(bounds) == len(("low", "high")) else (None, None)
    found = nice_ticks(min(values, default=0.0), max(values, default=1.0), 7)
    kept = [tick for tick in found if (low is None or tick >= low) and (high is None or tick <= high)]
    return kept if len(kept) > 1 else found
