"""Figures along an axis of steps, such as lengths or k: a line for each series, with intervals and direct labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup

from kshot.report.cells import shortened
from kshot.report.page.charts import Chart, numbers_behind
from kshot.report.page.markup import tag, together
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
    ticks_within,
)
from kshot.report.view import Cell, Lines, Series, TableView

_MARKER, _FEW = 9.0, 4
"""The height of a mark: an interval that is no longer only hides others. Of more than a few lines, twice as long."""
_MAX_RIBBONS = 3
"""Lines whose intervals are ribbons; of more, each figure has a thin line, so that none hides another."""
_SHIFT = 5.5
"""How far apart the intervals of neighbouring series stand, so that none hides another."""


@dataclass(frozen=True, slots=True)
class _Form:
    """How a picture is laid out: the class that the style sheet shows it by, its size, and the room around the plot.

    ``name_room`` are the characters of a name beside its line, ``character`` is the width of one, and ``gap`` is how
    far texts stand from what they name, beyond the least distance.
    """

    class_: str
    width: float
    height: float
    name_room: int
    left: float = 36
    top: float = 18
    bottom: float = 44
    right: float = 12
    character: float = 7.7
    gap: int = 1


_SMALL = _Form("lines", 356, 236, 16, left=34, top=14, bottom=40, right=16, character=8, gap=0)
_FORMS = (_Form("wide", 780, 330, 24), _Form("narrow", 356, 290, 12, left=30))
"""A curve has two forms, of which the style sheet shows one: that of a narrow screen is narrower, not smaller."""


_Band: TypeAlias = tuple[str, Sequence[tuple[float, float] | None]]
"""The name of a range, and its ends at each step."""


def line_chart(
    id_: str,
    title: str,
    steps: Sequence[str],
    series: Sequence[Series],
    *,
    across: str,
    bounds: Sequence[float | None] | None = None,
    band: _Band | None = None,
    notes: Sequence[Markup | str] = (),
) -> Chart:
    """Draw a line for each series over the steps of the axis ``across``.

    ``band`` names a range at each step, such as the chance level, that is drawn behind. Of many series the first have
    colours and names, and the others are thin lines; the table has all.
    """
    lines = Lines(steps, series, across, bounds or ())
    size = {"width": _SMALL.width, "height": _SMALL.height}
    picture = drawing(id_, title, _line_parts(lines, band), **size, class_=_SMALL.class_)
    return Chart(id_, title, picture, _table(lines), (*notes, *_unnamed(series)))


def curve_chart(id_: str, title: str, lines: Lines, *, notes: Sequence[Markup | str] = ()) -> Chart:
    """Draw a line for each series over the steps of the axis; the scale is as high as the figures need.

    Intervals are ribbons, and the last figure stands beside the name. Of many series the first have colours and names;
    the table has all.
    """
    pictures = []
    for form in _FORMS:
        own = id_ if form.class_ == "wide" else f"{id_}-{form.class_}"
        picture = drawing(own, title, _curve_parts(lines, form), width=form.width, height=form.height, class_="curve")
        pictures.append(tag("div", picture, class_=form.class_))
    return Chart(id_, title, together(pictures), _table(lines), (*notes, *_unnamed(lines.series)), wide=True)


def _unnamed(series: Sequence[Series]) -> list[str]:
    return [f"{SERIES} of {len(series)} lines have names; the table has all."] if len(series) > SERIES else []


def _table(lines: Lines) -> TableView:
    points = ((each.name, *point) for each in lines.series for point in zip(lines.steps, each.figures, strict=True))
    return numbers_behind(("", lines.across), (((*names,), found, ()) for *names, found in points if found is not None))


class _Plot:
    """The axes of a picture, and the line, the intervals and the name of each series."""

    def __init__(self, lines: Lines, form: _Form, names: Sequence[str], ticks: Sequence[float]) -> None:
        self.steps, self.series, self.across, self.form = lines.steps, lines.series, lines.across, form
        self.names, self.ticks = names, ticks
        self.right = form.width - form.right - form.character * max(map(len, names), default=0)
        self.x = Bands(len(self.steps), form.left, self.right)
        self.y = Scale(ticks[0], ticks[-1], form.height - form.bottom, form.top)
        self.beside = True
        """Whether the intervals of the series stand beside each other."""

    def axes(self, room: int) -> Iterator[Markup]:
        """Yield the ticks with their lines, and the steps in so many characters."""
        form, floor = self.form, self.form.height - self.form.bottom
        for tick in self.ticks:
            y = self.y(tick)
            yield line(px(form.left), y, px(self.right), y, "grid")
            yield label(px(form.left - 6 - form.gap), y + 4, tick_text(tick, self.ticks), "tick end")
        for at, step in enumerate(self.steps):
            yield label(px(self.x(at)), floor + 16 + 2 * form.gap, shortened(step, room), "tick mid")
        yield label(px((form.left + self.right) / 2), form.height - 6, self.across, "axis mid")

    def points(self, number: int) -> list[tuple[float, float, int, Cell]]:
        """Return where the figures of a series stand: across, down, and at which step."""
        count = min(len(self.series), SERIES)
        shift = (number - (count - 1) / 2) * min(_SHIFT, 0.6 * self.x.step / count)
        beside = shift if self.beside and number < SERIES else 0.0
        return [
            (self.x(at) + beside, self.y(found.number), at, found)
            for at, found in enumerate(self.series[number].figures)
            if found is not None and found.number is not None
        ]

    def whiskers(self, number: int, least: float = -1.0) -> Iterator[Markup]:
        """Yield the intervals of a series that are higher than so much."""
        for x, _, _, found in self.points(number):
            if found.interval is not None:
                low, high = (self.y(end.number or 0.0) for end in found.interval)
                if abs(high - low) > least:
                    yield line(px(x), low, px(x), high, f"whisker thin {series_class(number)}")

    def ribbon(self, number: int) -> Iterator[Markup]:
        """Yield the intervals of a series as one band; that of a single one is a line."""
        points = self.points(number)
        known = [(x, *(self.y(end.number or 0.0) for end in f.interval)) for x, _, _, f in points if f.interval]
        if len(known) > 1:
            above = [f"{px(x)},{px(high)}" for x, _, high in known]
            below = [f"{px(x)},{px(low)}" for x, low, _ in reversed(known)]
            yield tag("polygon", points=" ".join([*above, *below]), class_=f"ribbon {series_class(number)}")
        else:
            yield from self.whiskers(number)

    def line(self, number: int) -> Iterator[Markup]:
        """Yield a line with its marks; the others of many lines are thin and have none."""
        name, points, many = self.series[number].name, self.points(number), number >= SERIES
        path = " ".join(f"{px(x)},{px(y)}" for x, y, _, _ in points)
        class_ = f"path {'rest' if many else series_class(number)}"
        yield tag("polyline", tag("title", name), points=path, class_=class_)
        for x, y, at, found in () if many else points:
            of = f"{name}, " if name else ""
            yield marker(number, px(x), y, f"{of}{self.across} {self.steps[at]}: {found.said}")

    def ends(self) -> Iterator[tuple[str, str, float, float]]:
        """Yield the name of each line that has one, its class, and where the line ends."""
        for number, name in enumerate(self.names[: len(self.series)]):
            if points := self.points(number):
                yield name, f"lines-name {series_class(number)}", points[-1][0], points[-1][1]

    def labels(self, named: Iterable[tuple[str, str, float, float]]) -> Iterator[Markup]:
        """Yield names beside the ends of their lines, moved apart where they would cover each other."""
        ends, form = list(named), self.form
        places = apart([y for *_, y in ends], 14 + 2 * form.gap, form.top, form.height - form.bottom)
        for (name, class_, x, y), place in zip(ends, places, strict=True):
            start = max(x + 7 + form.gap, self.right + 2)
            yield line(px(x + 6 + form.gap), y, px(start), place, "leader")
            yield label(px(start + 3 + form.gap), place + 4, name, class_)


def _line_parts(lines: Lines, band: _Band | None) -> Iterator[Markup]:
    """Yield the pieces of a picture, those behind first; the name of the band stands beside its end."""
    names = [shortened(each.name, _SMALL.name_room) for each in lines.series[:SERIES]]
    plot = _Plot(lines, _SMALL, [*names, *([] if band is None else [band[0]])], axis_ticks(*_scale(lines)))
    yield from plot.axes(9)
    ends = list(plot.ends())
    if band is not None:
        name, levels = band
        known = [(plot.x(at), *level) for at, level in enumerate(levels) if level is not None]
        outline = [f"{px(x)},{px(plot.y(high))}" for x, _, high in known]
        outline += [f"{px(x)},{px(plot.y(low))}" for x, low, _ in known[::-1]]
        yield tag("polygon", tag("title", name), points=" ".join(outline), class_="band")
        ends += [(name, "name soft", x, plot.y((low + high) / 2)) for x, low, high in known[-1:]]
    least = _MARKER if len(lines.series) <= _FEW else 2 * _MARKER
    for number in reversed(range(len(lines.series))):  # the first stands before the others
        yield from plot.whiskers(number, least) if number < SERIES else ()
        yield from plot.line(number)
    yield from plot.labels(ends)


def _curve_parts(lines: Lines, form: _Form) -> Iterator[Markup]:
    """Yield the pieces of a picture, those behind first; a line that is alone has its figures above its points."""
    names = [_with_last(each, form.name_room) for each in lines.series[:SERIES]] if len(lines.series) > 1 else []
    values, bounds = _scale(lines)
    plot = _Plot(lines, form, names, ticks_within(values, bounds, 7))
    plot.beside = len(lines.series) > _MAX_RIBBONS
    yield from plot.axes(max(int(plot.x.step / form.character), 3))
    for number in reversed(range(min(len(lines.series), SERIES))):
        yield from plot.whiskers(number) if plot.beside else plot.ribbon(number)
    for number in reversed(range(len(lines.series))):  # the first stands before the others
        yield from plot.line(number)
    if names:
        yield from plot.labels(plot.ends())
        return
    for number, _ in enumerate(lines.series):
        for x, y, _, found in plot.points(number):
            yield label(px(x), y - 10, found.written, f"mid lines-name {series_class(number)}")


def _scale(lines: Lines) -> tuple[list[float], Sequence[float | None]]:
    """Return the values that the scale must reach, and the ends of the metric."""
    return [end for each in lines.series for found in each.figures if found for end in found.ends], lines.bounds


def _with_last(each: Series, room: int) -> str:
    """Return the name of a line, with its last figure."""
    last = next((found for found in reversed(each.figures) if found is not None), None)
    name = shortened(each.name, room)
    return name if last is None else f"{name} {last.written}"
