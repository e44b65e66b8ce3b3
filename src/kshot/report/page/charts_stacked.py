"""Shares of a whole as stacked bars: each part has a colour, a pattern, and its number where there is room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kshot.report.page.charts import Chart
from kshot.report.page.charts_rows import MAX_DRAWN, NARROW, WIDE, placed, svg_number
from kshot.report.page.markup import tag
from kshot.report.page.svg import SERIES, Scale, drawing, label, line, nice_ticks, percent, series_class, tick_text
from kshot.report.view import Cell, Content, TableView, numbers, words

_ROW, _BAR, _TOP, _BOTTOM = 26, 18, 6, 40
_TICK = 14
"""The room at the end of the axis: half of its last number."""
_PRINTED_SHARE = 0.055
"""How much of the width of a chart a part takes, at least, that has its number printed."""

_PATTERNS = ("", "M0 6L6 0", "M0 3H6", "M0 0L6 6", "M3 0V6", "M0 0L6 6M0 6L6 0", "M0 3H6M3 0V6")


@dataclass(frozen=True, slots=True)
class StackedRow:
    """A bar: its name, and a figure for each part. ``group`` is a heading above it."""

    name: str
    parts: Sequence[Cell]
    group: str = ""


def stacked_bars(
    id_: str,
    title: str,
    kinds: Sequence[str],
    rows: Sequence[StackedRow],
    *,
    across: str,
    limit: int = MAX_DRAWN,
    notes: Sequence[Markup | str] = (),
) -> Chart:
    """Draw a bar for each of the first rows: parts of one kind have one colour and pattern. The table has more."""
    drawn = rows[:limit]
    totals = [sum(part.number or 0.0 for part in row.parts) for row in drawn]
    ticks = nice_ticks(0.0, max([*totals, 1e-9]), 4)
    scale = Scale(0.0, ticks[-1])
    groups = [row.group for row in drawn]
    places, last = placed(groups, _TOP, _ROW)
    bottom = last + 2
    parts = [tag("defs", *_patterns(id_, len(kinds)))]
    for layout in (WIDE, NARROW):
        written = layout.fitted(row.name for row in drawn)
        start, end = layout.names_end(written.values(), groups), 1 - _TICK / layout.width
        layer = [layout.plot(start, end, _axis(ticks, scale, bottom, across))]
        for row, place in zip(drawn, places, strict=True):
            layer += layout.names(row.name, row.group, place, fits=written[row.name], height=_ROW, end=start)
            layer.append(layout.plot(start, end, _bar(id_, kinds, row, place.middle, scale)))
        parts.append(layout.layer(layer))
    picture = drawing(id_, title, parts, width=None, height=bottom + _BOTTOM, class_="stacked")
    left_out = [f"{len(drawn)} of {len(rows)} bars are drawn; the table has more."]
    notes = (*notes, *(left_out if len(drawn) < len(rows) else ()))
    return Chart(id_, title, picture, _table(kinds, rows), notes, _legend(id_, kinds), wide=True)


def _table(kinds: Sequence[str], rows: Sequence[StackedRow]) -> TableView:
    grouped = any(row.group for row in rows)
    lines: list[list[Content]] = [
        [*([row.group] if grouped else []), row.name, kind, part, part]
        for row in rows
        for kind, part in zip(kinds, row.parts, strict=True)
        if part.number
    ]
    return TableView([*words(*[""] * (1 + grouped), "kind"), *numbers("value", "95 %")], lines)


def _axis(ticks: Sequence[float], scale: Scale, bottom: float, across: str) -> Iterator[Markup]:
    for tick in ticks:
        x = percent(scale(tick))
        yield line(x, _TOP, x, bottom, "grid")
        yield label(x, bottom + 16, tick_text(tick, ticks), "tick mid")
    yield label("50%", bottom + 34, across, "axis mid")


def _bar(id_: str, kinds: Sequence[str], row: StackedRow, middle: float, scale: Scale) -> Iterator[Markup]:
    start, top = 0.0, middle - _BAR / 2
    for at, (kind, part) in enumerate(zip(kinds, row.parts, strict=True)):
        value = part.number
        if not value:
            continue
        left, right = scale(start), scale(start + value)
        start += value
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
