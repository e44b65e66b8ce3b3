"""What all charts have, with the table behind them; and charts of rows: names, a plot, numbers at the right.

Texts keep their size at any width: positions across are shares of it. A picture has two layers, of which the style
sheet shows one: that of a narrow screen has shorter names and fewer numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup
from rich.cells import cell_len

from kshot.report.cells import shared_start, shortened
from kshot.report.page.markup import figure, tag, text, together
from kshot.report.page.svg import (
    SERIES,
    Scale,
    axis_ticks,
    drawing,
    label,
    line,
    marker,
    nice_ticks,
    percent,
    series_class,
    tick_text,
)
from kshot.report.view import INTERVAL, Cell, Column, Content, TableView, cell_of, numbers, words

MAX_LISTED = 200
"""Rows of a table; ``summary.json`` has all."""


def table_html(view: TableView, name: str) -> Markup:
    """Return a table within a box that scrolls; ``name`` says to those who cannot see it what it holds.

    A text that is ``Markup`` stays as it is. The first cell of a row names it.
    """
    head = tag(
        "tr",
        *(
            tag("th", column.heading, scope="col", class_=None if column.kind == "words" else "num")
            for column in view.columns
        ),
    )
    shown, left = view.rows[:MAX_LISTED], len(view.rows) - MAX_LISTED
    body = [
        tag(
            "tr",
            *(_cell(*each, first=not at) for at, each in enumerate(zip(view.columns, row, strict=True))),
            class_="differs" if number in view.marked else None,
        )
        for number, row in enumerate(shown)
    ]
    more = tag("p", f"… and {left:,} more in summary.json", class_="chart-note") if left > 0 else ""
    inner = tag("table", tag("thead", head), tag("tbody", *body))
    return together((tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=name), more))


def _cell(column: Column, content: Content, *, first: bool) -> Markup:
    if column.kind == "words":
        shown = content if isinstance(content, Markup) else text(cell_of(content).written)
        return tag("th", shown, scope="row") if first and shown else tag("td", shown)
    if not isinstance(content, Cell):
        return tag("td", content or "", class_=None if content is None else "num")
    if column.kind == "number":
        return tag("td", figure(content.number, content.written, content.field), class_="num", data_row=content.source)
    if content.interval is None:
        return tag("td", class_="num")
    low, high = content.interval
    ends = figure(low.number, low.text, low.field), content.dash, figure(high.number, high.text, high.field)
    return tag("td", *ends, class_="num", data_row=low.source)


_VALUES = re.compile(r"(?<=\d) (?=%)|(?<=\bp) (?=[<\d])|(?<=\bp <) (?=\d)|(?<=\bk) (?==)|(?<=\bk =) (?=\d)")
"""Blanks within a value, at which no line is broken: 95 %, p < 0.0001, k = 5."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture and what stands around it. ``id`` is unique on its page; ``wide`` takes the whole width of a grid.

    One that is ``tall`` has two others beside it, one below the other, where a grid has two columns.

    A picture that ``scrolls`` keeps its size on a narrow screen; the keyboard can reach it.
    """

    id: str
    title: str
    picture: Markup
    table: TableView
    notes: Sequence[Markup | str] = ()
    legend: Markup = field(default_factory=Markup)
    wide: bool = False
    tall: bool = False
    scrolls: bool = False

    @property
    def html(self) -> Markup:
        """The whole figure."""
        notes = [tag("p", note, class_="chart-note") for note in self.notes]
        reached = {"tabindex": 0, "role": "group", "aria_label": self.title} if self.scrolls else {}
        numbers = table_html(self.table, f"{self.title}: the numbers")
        behind = tag("details", tag("summary", "The numbers"), numbers, class_="numbers")
        caption, box = tag("figcaption", self.title), tag("div", self.picture, class_="scroll", **reached)
        class_ = " ".join(["chart", *(["wide"] if self.wide else []), *(["tall"] if self.tall else [])])
        return tag("figure", caption, self.legend, box, *notes, behind, class_=class_, id=self.id)


def numbers_behind(
    names: Sequence[str],
    lines: Iterable[tuple[Sequence[str], Cell, Sequence[Cell | None]]],
    heads: Sequence[str] = ("value", INTERVAL),
) -> TableView:
    """Return the table behind a picture: names, a figure with its interval, and counts.

    ``names`` and ``heads`` are the headings of names and of numbers; a first name that is empty in all lines goes.
    """
    found = list(lines)
    first = 0 if any(own[0] for own, _, _ in found) else 1
    rows = [(*own[first:], figure, figure, *counts) for own, figure, counts in found]
    return TableView([*words(*names[first:]), *numbers(*heads)], rows)


def left_out(drawn: int, every: int, what: str) -> list[str]:
    """Say how many rows of a chart are drawn, if not all are."""
    return [f"{drawn} of {every} {what} are drawn; the table has more."] if drawn < every else []


def chart_grid(charts: Iterable[Markup]) -> Markup:
    """Return charts side by side, as many as fit."""
    return tag("div", *charts, class_="charts")


def folded(title: str, *inner: Markup | str) -> Markup:
    """Return a part of a page that opens on demand."""
    return tag("details", tag("summary", title), *inner, class_="folded")


def sentences(found: Iterable[str]) -> Markup:
    """Return what figures say, as a list; nothing if they say nothing."""
    said = [tag("li", _VALUES.sub("\xa0", line)) for line in found]
    return tag("ul", *said, class_="findings") if said else Markup("")


MAX_DRAWN = 60
"""Rows that a chart draws; the table behind it has more."""
_CHARACTER = 6.9
_GROUP_HEIGHT = 28
_INSET = 10
_LONGEST_TITLE = 600


@dataclass(frozen=True, slots=True)
class RowLayout:
    """How wide a screen is for which shares are computed, and how many characters of a name it has room for."""

    class_: str
    width: float
    name_room: int
    most_for_names: float
    gap: float

    def share(self, texts: Iterable[str]) -> float:
        """Return the share of the width that the longest of some texts takes."""
        return _CHARACTER * max(map(cell_len, texts), default=0) / self.width

    def fitted(self, names: Iterable[str]) -> dict[str, str]:
        """Return each name as there is room for it: if cut names were the same, without what all names share."""
        whole = dict.fromkeys(names)
        cut = {name: shortened(name, self.name_room) for name in whole}
        if len(set(cut.values())) == len(cut):
            return cut
        return {name: shortened(own, self.name_room) for name, own in zip(whole, _own_parts(list(whole)), strict=True)}

    def names_end(self, names: Iterable[str], groups: Sequence[str]) -> float:
        """Return where the names, as they are fitted, end and the plot begins."""
        inset = _INSET / self.width if any(groups) else 0.0
        longest = self.share(names)
        return min(longest + inset, self.most_for_names) + self.gap / self.width

    def names(self, name: str, group: str, place: Place, *, fits: str, height: float, end: float) -> Iterator[Markup]:
        """Yield the name of a row as it ``fits``, and the heading of its group if it opens one."""
        if place.opens:
            heading = shortened(group, 2 * self.name_room)
            yield self._text(group, heading, "0", place.middle - height / 2 - 7, "group")
        inset = str(_INSET) if group else "0"
        written = self._text(name, fits, inset, place.middle + 4, "name")
        yield tag("svg", written, width=percent(end - 4 / self.width), height="100%", class_="names")

    def _text(self, name: str, fits: str, x: str, y: float, class_: str) -> Markup:
        """Return a text as it fits; a pointer over it reads all of it."""
        titled = tag("title", shortened(name, _LONGEST_TITLE)) if fits != name else ""
        return label(x, y, together((fits, titled)), class_)

    def plot(self, start: float, end: float, parts: Iterable[Markup]) -> Markup:
        """Return pieces of the plot; positions within it are shares of its width."""
        size = {"x": percent(start), "width": percent(end - start)}
        return tag("svg", *parts, **size, height="100%", class_="plot")

    def layer(self, parts: Iterable[Markup]) -> Markup:
        """Return the picture as it is on such a screen."""
        return tag("g", *parts, class_=self.class_)


def _own_parts(names: Sequence[str]) -> list[str]:
    """Return of each name what the others do not have: whole words at the begin and at the end are left out."""
    shared = re.sub(r"\w+$", "", shared_start(*names))
    ends = [name[len(shared) :] for name in names]
    tail = re.sub(r"^\w+", "", shared_start(*(end[::-1] for end in ends))[::-1])
    return [f"{'…' * bool(shared)}{end[: len(end) - len(tail)]}{'…' * bool(tail)}" for end in ends]


WIDE = RowLayout("wide", width=760, name_room=40, most_for_names=0.38, gap=24)
NARROW = RowLayout("narrow", width=330, name_room=19, most_for_names=0.4, gap=14)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row stands: its middle, and whether the heading of its group stands above it."""

    middle: float
    opens: bool


def placed(groups: Sequence[str], top: float, height: float) -> tuple[list[Place], float]:
    """Return the place of each row, by the groups of the rows, and where the last one ends."""
    places, group = [], ""
    for each in groups:
        opens = bool(each) and each != group
        group = each
        top += _GROUP_HEIGHT if opens else 0
        places.append(Place(top + height / 2, opens))
        top += height
    return places, top


def svg_number(found: Cell) -> Markup:
    """Return a number within a text of a picture, with its exact value and its place."""
    exact = None if found.number is None else repr(found.number)
    return tag("tspan", found.written, data_row=found.source, data_field=found.field, data_value=exact)


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
    if table is None:
        counts = max((len(row.counts) for row in rows), default=0)
        lines = [
            ((row.group, row.name), row.figure, [*row.counts, *[None] * (counts - len(row.counts))]) for row in rows
        ]
        table = numbers_behind(("", ""), lines, heads[: 2 + counts])
    return Chart(id_, title, picture, table, (*notes, *left_out(len(drawn), len(rows), "rows")), wide=True)


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
            share = self.scale(self.reference[0])
            x, side = percent(share), "end" if share > _NEAR_END else "mid"  # else it would run into the heads
            yield line(x, _TOP - 4, x, self.bottom, "reference")
            yield label(x, _TOP - 10, self.reference[1], f"tick {side}")

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


_BAR_ROW, _BAR, _BARS_TOP, _BARS_BOTTOM = 26, 18, 6, 40
_TICK = 14
"""The room at the end of the axis: half of its last number."""
_PRINTED_SHARE = 0.055
"""How much of the width of a chart a part takes, at least, that has its number printed."""

_PATTERNS = ("", "M0 6L6 0", "M0 3H6", "M0 0L6 6", "M3 0V6", "M0 0L6 6M0 6L6 0", "M0 3H6M3 0V6")


@dataclass(frozen=True, slots=True)
class CellsRow:
    """A row of a heat map or a bar: its name, and a figure for each column or part. ``group`` is a heading above it."""

    name: str
    cells: Sequence[Cell | None]
    group: str = ""


def stacked_bars(
    id_: str,
    title: str,
    kinds: Sequence[str],
    rows: Sequence[CellsRow],
    *,
    across: str,
    limit: int = MAX_DRAWN,
    notes: Sequence[Markup | str] = (),
) -> Chart:
    """Draw a bar for each of the first rows: parts of one kind have one colour and pattern. The table has more."""
    drawn = rows[:limit]
    totals = [sum(part.number or 0.0 for part in row.cells if part) for row in drawn]
    ticks = nice_ticks(0.0, max([*totals, 1e-9]), 4)
    scale = Scale(0.0, ticks[-1])
    groups = [row.group for row in drawn]
    places, last = placed(groups, _BARS_TOP, _BAR_ROW)
    bottom = last + 2
    parts = [tag("defs", *_patterns(id_, len(kinds)))]
    for layout in (WIDE, NARROW):
        written = layout.fitted(row.name for row in drawn)
        start, end = layout.names_end(written.values(), groups), 1 - _TICK / layout.width
        layer = [layout.plot(start, end, _axis(ticks, scale, bottom, across))]
        for row, place in zip(drawn, places, strict=True):
            layer += layout.names(row.name, row.group, place, fits=written[row.name], height=_BAR_ROW, end=start)
            layer.append(layout.plot(start, end, _bar(id_, kinds, row, place.middle, scale)))
        parts.append(layout.layer(layer))
    picture = drawing(id_, title, parts, width=None, height=bottom + _BARS_BOTTOM, class_="stacked")
    parts_of_rows = ((row, *each) for row in rows for each in zip(kinds, row.cells, strict=True))
    lines = (((row.group, row.name, kind), part, ()) for row, kind, part in parts_of_rows if part and part.number)
    table = numbers_behind(("", "", "kind"), lines)
    notes = (*notes, *left_out(len(drawn), len(rows), "bars"))
    return Chart(id_, title, picture, table, notes, _legend(id_, kinds), wide=True)


def _axis(ticks: Sequence[float], scale: Scale, bottom: float, across: str) -> Iterator[Markup]:
    for tick in ticks:
        x = percent(scale(tick))
        yield line(x, _BARS_TOP, x, bottom, "grid")
        yield label(x, bottom + 16, tick_text(tick, ticks), "tick mid")
    yield label("50%", bottom + 34, across, "axis mid")


def _bar(id_: str, kinds: Sequence[str], row: CellsRow, middle: float, scale: Scale) -> Iterator[Markup]:
    start, top = 0.0, middle - _BAR / 2
    for at, (kind, part) in enumerate(zip(kinds, row.cells, strict=True)):
        if part is None or not part.number:
            continue
        left, right = scale(start), scale(start + part.number)
        start += part.number
        size = {"x": percent(left), "y": top, "width": percent(right - left), "height": _BAR}
        boxes = [tag("rect", **size, class_="part"), tag("rect", **size, fill=f"url(#{id_}-p{at})")]
        title = tag("title", f"{row.name}, {kind}: {part.said}")
        if right - left >= _PRINTED_SHARE:
            boxes.append(label(percent((left + right) / 2), middle + 4, svg_number(part), "mid"))
        yield tag("g", title, *boxes, class_=series_class(at))


def _patterns(id_: str, count: int) -> Iterator[Markup]:
    for at in range(count):
        lines = tag("path", d=_PATTERNS[at % SERIES], class_="hatch")
        yield tag("pattern", lines, id=f"{id_}-p{at}", width=6, height=6, patternUnits="userSpaceOnUse")


def _legend(id_: str, kinds: Sequence[str]) -> Markup:
    items = []
    for at, kind in enumerate(kinds):
        boxes = [tag("rect", width=14, height=14, rx=2, class_="part")]
        boxes.append(tag("rect", width=14, height=14, rx=2, fill=f"url(#{id_}-p{at})"))
        swatch = tag("svg", *boxes, width=14, height=14, aria_hidden="true", class_=series_class(at))
        items.append(tag("li", swatch, kind))
    return tag("ul", *items, class_="legend")
