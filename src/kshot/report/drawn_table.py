"""Views of results on the terminal: tables, and curves as wide as there is room, without colour too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.style import Style
from rich.table import Table
from rich.text import Text

from kshot.core.visible import one_line
from kshot.report.cells import broken, cell, shortened
from kshot.report.page.svg import Bands, Scale, apart, tick_text, ticks_within
from kshot.report.view import Cell, Column, Content, Kind, Lines, Series, TableView, Tone, cell_of
from kshot.runs.swept_rows import MAX_LINES

_MARKS = "●■▲◆▼✚✖"
_COLOURS = ("magenta", "green", "default", "red")
"""By number of the series; after the last, they begin again. These are readable on light and on dark ground."""

_HEIGHT = 15
_MAX_WIDTH, _LEAST_WIDTH = 92, 44
"""Columns of the whole picture: more would only stretch it, and with less the table alone is clearer."""
_CURVE_NAME_ROOM = 22
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The dots of a braille character, by line and column."""
_ACROSS, _DOWN = 2, 4
_BLANK = 0x2800


@dataclass(frozen=True, slots=True)
class ByWidth:
    """What depends on the width of the console: ``draw`` takes it, and returns what rich draws."""

    draw: Callable[[int], Iterable[RenderableType]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it."""
        del console
        yield from self.draw(options.max_width)


def drawn_curve(lines: Lines, width: int) -> Iterator[Text]:
    """Yield the lines of a picture of figures over the steps of an axis; none if there is no room for it."""
    if width >= _LEAST_WIDTH and any(map(_points, lines.series)):
        yield from _Canvas(lines, min(width, _MAX_WIDTH)).lines()


def _points(series: Series) -> list[tuple[int, Cell, float]]:
    """Return the figures that are known, with their steps and values."""
    return [(at, cell, cell.number) for at, cell in enumerate(series.figures) if cell and cell.number is not None]


class _Canvas:
    def __init__(self, curve: Lines, width: int) -> None:
        self.curve = curve
        ends = [end for each in curve.series for _, cell, value in _points(each) for end in _reach(cell, value)]
        self.ticks = ticks_within(ends, curve.bounds, 4)
        self.texts = [tick_text(tick, self.ticks) for tick in self.ticks]
        self.left = max(map(len, self.texts)) + 2
        named = [each for each in curve.series if each.name]
        room = max((min(cell_len(each.name), _CURVE_NAME_ROOM) + 3 for each in named), default=1)
        self.width = width - self.left - room
        self.cells: list[list[tuple[str, str]]] = [[(" ", "")] * self.width for _ in range(_HEIGHT)]
        self.dots: list[list[tuple[int, int]]] = [[(0, 0)] * self.width for _ in range(_HEIGHT)]
        self.x = Bands(len(curve.steps), 0, self.width)
        self.y = Scale(self.ticks[0], self.ticks[-1], _HEIGHT - 0.5, 0.5)

    def lines(self) -> Iterator[Text]:
        """Draw what is behind first: lines, intervals, marks."""
        for number, each in enumerate(self.curve.series):
            self._draw_line(number, each)
        for number, each in enumerate(self.curve.series):
            self._draw_intervals(number, each)
        for number, each in reversed(list(enumerate(self.curve.series))):  # the first stands before the others
            for column, value, _ in self._placed(number, each):
                self.cells[self._row(value)][column] = (_mark(number), _colour(number))
        names = self._names()
        at_ticks = {self._row(tick): text for tick, text in zip(self.ticks, self.texts, strict=True)}
        for at in range(_HEIGHT):
            text = Text(f"{at_ticks.get(at, ''):>{self.left - 2}} ", style="dim", no_wrap=True)
            text.append("┤" if at in at_ticks else "│", "dim")
            for column in range(self.width):
                text.append(*self._seen(at, column))
            text.append(*names.get(at, ("", "")))
            yield text
        yield from self._axis()

    def _column(self, number: int, step: int) -> int:
        """Return where a series stands at a step: its neighbours are beside it, so that no interval hides another."""
        count = len(self.curve.series)
        shift = (number - (count - 1) / 2) * min(2.0, 0.7 * self.x.step / count)
        return min(max(round(self.x(step) + shift - 0.5), 0), self.width - 1)

    def _placed(self, number: int, each: Series) -> list[tuple[int, float, Cell]]:
        return [(self._column(number, at), value, cell) for at, cell, value in _points(each)]

    def _row(self, value: float) -> int:
        return min(max(int(self.y(value)), 0), _HEIGHT - 1)

    def _draw_line(self, number: int, each: Series) -> None:
        for (left, one, _), (right, other, _) in pairwise(self._placed(number, each)):
            start, end = (left * _ACROSS + 1, self.y(one) * _DOWN), (right * _ACROSS, self.y(other) * _DOWN)
            count = max(abs(end[0] - start[0]), abs(round(end[1] - start[1])), 1)
            for at in range(int(count) + 1):
                across = round(start[0] + (end[0] - start[0]) * at / count)
                self._dot(across, int(start[1] + (end[1] - start[1]) * at / count), number)

    def _dot(self, across: int, down: int, number: int) -> None:
        row, column = min(down // _DOWN, _HEIGHT - 1), min(across // _ACROSS, self.width - 1)
        held, _ = self.dots[row][column]
        self.dots[row][column] = (held | _DOTS[down % _DOWN][across % _ACROSS], number)

    def _draw_intervals(self, number: int, each: Series) -> None:
        for column, value, figure in self._placed(number, each):
            if figure.interval is None:
                continue
            low, high = map(self._row, _reach(figure, value))
            for row in range(high, low + 1):
                sign = "╷" if row == high < low else "╵" if row == low > high else "│"
                self.cells[row][column] = (sign, _colour(number))

    def _seen(self, row: int, column: int) -> tuple[str, str]:
        """Return what stands in a cell: a mark or an interval, else the dots of a line."""
        sign, style = self.cells[row][column]
        held, number = self.dots[row][column]
        return (chr(_BLANK + held), _colour(number)) if sign == " " and held else (sign, style)

    def _names(self) -> dict[int, tuple[str, str]]:
        """Return the names beside the ends of their lines, by row: moved apart where two would share one."""
        last = [
            (number, each, self._placed(number, each)) for number, each in enumerate(self.curve.series) if each.name
        ]
        ended = [(number, each, placed[-1][1]) for number, each, placed in last if placed]
        rows = apart([self.y(value) - 0.5 for _, _, value in ended], 1, 0, _HEIGHT - 1)
        return {
            round(row): (f" {_mark(number)} {shortened(one_line(each.name), _NAME_ROOM)}", _colour(number))
            for (number, each, _), row in zip(ended, rows, strict=True)
        }

    def _axis(self) -> Iterator[Text]:
        rule, steps = ["─"] * self.width, [" "] * self.width
        free = 0
        for at, step in enumerate(self.curve.steps):
            middle = min(int(self.x(at)), self.width - 1)
            rule[middle] = "┬"
            text = shortened(one_line(step), max(int(self.x.step) - 1, 3))
            start = min(max(middle - len(text) // 2, free), self.width - len(text))
            if start >= free:
                steps[start : start + len(text)] = text
                free = start + len(text) + 1
        yield Text(f"{'└':>{self.left}}{''.join(rule)}", style="dim", no_wrap=True)
        yield Text(f"{'':>{self.left}}{''.join(steps)}".rstrip(), no_wrap=True)
        yield Text(f"{'':>{self.left}}{self.curve.across:^{self.width}}".rstrip(), style="dim", no_wrap=True)


def _reach(cell: Cell, value: float) -> tuple[float, ...]:
    """Return the ends of a figure's interval; without one, the figure alone."""
    return tuple(end.number for end in cell.interval or () if end.number is not None) or (value,)


def _mark(number: int) -> str:
    return _MARKS[number % len(_MARKS)]


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


_LOW_COLOUR, _HIGH_COLOUR = (150, 40, 40), (30, 110, 60)
_MAX_CURVES = 6
"""Pictures on the screen; every view has a table."""
_NAME_ROOM, _VALUE_ROOM = 28, 40
_BAR = 31
"""Columns of the bars of intervals."""

STYLES: dict[Tone, str] = {
    "": "",
    "good": "bold green",
    "bad": "bold red",
    "poor": "red",
    "warn": "magenta",
    "dim": "dim",
    "strong": "bold",
}
"""How a terminal shows what a cell tells beside its text."""


def drawn(
    view: TableView, *, beside: str = " {}", style: str = "", header_style: str = "bold", most: int | None = None
) -> Table:
    """Draw a view; names that are too wide are folded, and intervals are dim: ``beside`` writes that of a figure.

    ``most``: words wider than that are broken where their parts end, and nothing else is.
    """
    table = Table(box=None, pad_edge=False, header_style=header_style, style=style)
    for column in view.columns:
        table.add_column(
            cell(column.heading),
            justify=_SIDES.get(column.kind, "right"),
            style="dim" if column.kind == "interval" and most is None else STYLES[column.tone],
            overflow="fold" if most is None else "ellipsis",
            no_wrap=not column.wraps or column.kind == "interval" or (most is not None and column.kind != "words"),
            max_width=column.most,
            min_width=column.least,
        )
    for texts in _texts(view, beside):
        pairs = zip(view.columns, texts, strict=True)
        table.add_row(*(broken(text, most) if most and column.kind == "words" else text for column, text in pairs))
    return table


def widths(view: TableView) -> list[int]:
    """Return how wide each column is when it is drawn."""
    rows = [[cell(column.heading) for column in view.columns], *_texts(view, "")]
    return [max(text.cell_len for text in column) for column in zip(*rows, strict=True)]


def _texts(view: TableView, beside: str) -> Iterator[list[Text]]:
    for at, row in enumerate(view.rows):
        pairs = zip(view.columns, row, strict=True)
        yield [_drawn(*pair, beside, stands_out=at in view.marked) for pair in pairs]


_SIDES: dict[Kind, Literal["left", "center"]] = {"words": "left", "share": "center"}


def _drawn(column: Column, content: Content, beside: str, *, stands_out: bool) -> Text:
    found = cell_of(content)
    if column.kind == "share" and found.number is not None:
        ends, share = zip(_LOW_COLOUR, _HIGH_COLOUR, strict=True), found.number / 100
        shade = ",".join(str(round(low + (high - low) * share)) for low, high in ends)
        return Text(f" {found.written} ", style=Style(color="white", bgcolor=f"rgb({shade})"), justify="center")
    if column.kind == "interval":
        return cell(found.low_high, "dim")
    is_name = stands_out and column.kind == "words"
    shown = cell(found.written, STYLES[found.tone] or "bold" * is_name)
    if column.kind == "figure" and found.interval:
        shown.append(beside.format(found.low_high), "dim")
    return shown


# ---- views with charts ----


def drawn_views(views: Iterable[TableView]) -> Iterator[RenderableType]:
    """Draw each view with its title, the curve if its steps are numbers, the table, and what explains its marks."""
    for at, view in enumerate(views):
        lines = view.chart
        parts: list[RenderableType] = [cell(_title(view), "bold", overflow="fold")]
        if lines is not None and lines.ordered and at < _MAX_CURVES and len(lines.steps) > 1:
            parts.append(ByWidth(partial(drawn_curve, replace(lines, series=lines.series[:MAX_LINES]))))
        notes = [cell(line, "dim", overflow="fold") for line in view.notes]
        table = drawn(view) if lines is None else ByWidth(partial(_lines_table, view, lines))
        yield Group(*parts, table, *notes, Text(""))


def _title(view: TableView) -> str:
    """Return the title of a view, with the number of samples if it has such a column."""
    sizes = sorted({int(each.number or 0) for each in view.cells("n")}) if "n" in view else []
    return f"{view.title}, n = {'–'.join(map(str, dict.fromkeys((sizes[0], sizes[-1]))))}" if sizes else view.title


def _lines_table(view: TableView, lines: Lines, width: int) -> Iterator[Table]:
    """Yield the figures of lines: steps down, and lines across if there is room, else below each other."""
    beside = _beside(view, lines)
    wide = max(map(cell_len, (beside.columns[0].heading, *map(str, (row[0] for row in beside.rows)))))
    wide += sum(max(cell_len(each.name), len("100.00  100.0–100.0")) + 4 for each in lines.series)
    fits = lines.ordered and wide <= width
    yield drawn(beside, beside="  {:>11}") if fits else drawn(_below(view, lines, width))


def _beside(view: TableView, lines: Lines) -> TableView:
    """Return the steps down and the lines across."""
    _, step, value, *_ = view.columns
    columns = [Column(step.heading, "number")]
    columns += [Column(each.name or value.heading, "figure", wraps=False) for each in lines.series]
    rows = [
        [shortened(step, _VALUE_ROOM), *(each.figures[at] for each in lines.series)]
        for at, step in enumerate(lines.steps)
    ]
    return TableView(columns, rows)


def _below(view: TableView, lines: Lines, width: int) -> TableView:
    """Return a line for each figure; where there is room, with a bar that shows its interval."""
    several = any(each.name for each in lines.series)
    known = [sum(figure is not None for figure in each.figures) for each in lines.series]
    starts = {
        place: shortened(each.name, _NAME_ROOM)
        for each, place in zip(lines.series, accumulate(known, initial=0), strict=False)
    }
    names = iter([starts.get(at, "") for at in range(len(view.rows))])
    shown = view.changed("line", lambda _: next(names))
    shown = shown.changed("step", lambda each: shortened(each.text, _VALUE_ROOM))
    if width >= _BAR + _NAME_ROOM * several + _VALUE_ROOM:
        ends = [end for each in view.cells("value") for end in each.ends] or [0.0, 1.0]
        bars = [_bar(each, min(ends), max(ends)) for each in view.cells("value")]
        shown = shown.joined(Column("", key="bar"), bars)
    return shown.only(*["line"] * several, "step", "value", "95 %", "bar")


def _bar(found: Cell, low: float, high: float) -> str:
    if found.number is None:
        return ""

    def column(value: float) -> int:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(min(max(share, 0.0), 1.0) * (_BAR - 1))

    start, end = min(map(column, found.ends)), max(map(column, found.ends))
    line = [" "] * start + ["─"] * (end - start + 1)
    if end > start:
        line[start], line[end] = "├", "┤"
    line[column(found.number)] = "●"
    return "".join(line)
