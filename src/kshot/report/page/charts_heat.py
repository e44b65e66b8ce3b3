"""Figures as shaded cells, with the value printed in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kshot.report.cells import shortened
from kshot.report.page.charts import Chart
from kshot.report.page.charts_rows import svg_number
from kshot.report.page.markup import tag, together
from kshot.report.page.svg import Scale, drawing, label, px, shade
from kshot.report.view import Cell, Content, TableView, numbers, words

_CELL, _ROW, _GROUP, _TOP, _CHARACTER = 46.0, 26.0, 26.0, 28.0, 7.0
_MAX_NAME, _MAX_HEAD, _MAX_GROUP = 26, 12, 60
"""Characters of names that are shown."""


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A row of cells: its name, and a figure for each column. ``group`` is a heading above it."""

    name: str
    cells: Sequence[Cell | None]
    group: str = ""


def heat_map(
    id_: str,
    title: str,
    columns: Sequence[str],
    rows: Sequence[HeatRow],
    *,
    across: str = "",
    scale: tuple[float, float] = (0.0, 100.0),
    notes: Sequence[Markup | str] = (),
) -> Chart:
    """Draw rows of shaded cells; ``scale`` has the values of the lightest and of the darkest shade."""
    plot = _HeatPlot(columns, rows, across, Scale(*scale))
    picture = drawing(id_, title, plot.parts(), width=plot.width, height=plot.height, class_="heat")
    return Chart(id_, title, picture, _table(columns, rows), notes, scrolls=True)


class _HeatPlot:
    def __init__(self, columns: Sequence[str], rows: Sequence[HeatRow], across: str, scale: Scale) -> None:
        self.rows, self.across, self.scale = rows, across, scale
        self.names = [shortened(row.name, _MAX_NAME) for row in rows]
        self.heads = [shortened(column, _MAX_HEAD) for column in columns]
        self.left = _CHARACTER * max(map(len, [*self.names, across]), default=0) + 14
        self.cell = max(_CELL, _CHARACTER * max(map(len, self.heads), default=0) + 10)
        opened = [
            row.group for at, row in enumerate(rows) if row.group and (at == 0 or rows[at - 1].group != row.group)
        ]
        longest = max((len(shortened(group, _MAX_GROUP)) for group in opened), default=0)
        self.width = max(self.left + self.cell * len(columns), _CHARACTER * longest)
        self.height = _TOP + len(rows) * _ROW + len(opened) * _GROUP + 4

    def parts(self) -> Iterator[Markup]:
        """Yield the heads, and then the rows with their names."""
        yield label(px(self.left - 10), _TOP - 10, self.across, "axis end")
        for at, head in enumerate(self.heads):
            yield label(px(self.left + (at + 0.5) * self.cell), _TOP - 10, head, "tick mid")
        top, group = _TOP, ""
        for name, row in zip(self.names, self.rows, strict=True):
            if row.group and row.group != group:
                titled = together((shortened(row.group, _MAX_GROUP), tag("title", row.group)))
                yield label("0", top + 17, titled, "group")
                top += _GROUP
            group = row.group
            yield label(px(self.left - 10), top + _ROW / 2 + 4, together((name, tag("title", row.name))), "name end")
            for at, found in enumerate(row.cells):
                if found is not None:
                    said = f"{row.group} {row.name} {self.heads[at]}".strip()
                    yield _cell(found, (self.left + at * self.cell, top), self.cell, said, self.scale)
            top += _ROW


def _cell(found: Cell, place: tuple[float, float], width: float, name: str, scale: Scale) -> Markup:
    value, (x, y) = found.number, place
    class_ = "none" if value is None else shade(value, scale)
    box = tag("rect", x=px(x + 1), y=px(y + 1), width=px(width - 2), height=px(_ROW - 2), rx=3)
    written = label(px(x + width / 2), y + _ROW / 2 + 4, svg_number(found), "mid")
    return tag("g", tag("title", f"{name}: {found.said}"), box, written, class_=f"cell {class_}")


def _table(columns: Sequence[str], rows: Sequence[HeatRow]) -> TableView:
    grouped = any(row.group for row in rows)
    lines: list[list[Content]] = [
        [*([row.group] if grouped else []), row.name, column, found, found]
        for row in rows
        for column, found in zip(columns, row.cells, strict=True)
        if found is not None
    ]
    return TableView([*words(*[""] * (2 + grouped)), *numbers("value", "95 %")], lines)
