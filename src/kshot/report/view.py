"""A view of results: what stands in a table, as data. Renderers for screens, pages and papers decide how it looks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Tone: TypeAlias = Literal["", "good", "bad", "poor", "warn", "dim", "strong"]
"""What a cell tells beside its text: ahead, behind or failed, doubtful, beside the point, or what to look at."""

Kind: TypeAlias = Literal["words", "number", "interval", "figure", "share"]
"""What a column shows of its cells: words, numbers, intervals, figures with their intervals, or shaded figures in %."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a cell: its text, the mark of many failed samples, its tone, and its number with its interval.

    ``source`` and ``field`` say where the number stands: the ``data-row`` and ``data-field`` of pages. ``parts`` are
    those of a name, such as a run and a model, for those who can put one below the other. ``signed``: a difference.
    """

    text: str = ""
    number: int | float | None = None
    source: str | None = None
    field: str | None = None
    mark: str = ""
    tone: Tone = ""
    interval: tuple[Cell, Cell] | None = None
    parts: tuple[str, ...] = ()
    signed: bool = False

    @property
    def written(self) -> str:
        """The text with its mark."""
        return self.text + self.mark

    @property
    def dash(self) -> str:
        """What stands between the ends of the interval: a dash, or "to" where signs would stand beside it."""
        return " to " if any(end.text[:1] in {"+", "-"} for end in self.interval or ()) else "–"

    @property
    def between(self) -> str:
        """The interval as text; nothing if it is not known."""
        return self.dash.join(end.text for end in self.interval or ())

    @property
    def low_high(self) -> str:
        """The interval as terminals write it: a dash between its ends, and "to" between those of a difference."""
        return (" to " if self.signed else "–").join(end.text for end in self.interval or ())

    @property
    def ends(self) -> tuple[float, ...]:
        """The numbers that a scale must reach: that of the cell and the ends that are known."""
        return tuple(each.number for each in (self, *(self.interval or ())) if each.number is not None)

    @property
    def said(self) -> str:
        """The figure in words, for a tooltip."""
        return self.written + (f", 95 %: {self.between}" if self.interval else "")


Content: TypeAlias = Cell | str | None
"""A cell, words without anything beside them, or nothing."""


def cell_of(content: Content) -> Cell:
    """Return the content of a table as a cell."""
    return content if isinstance(content, Cell) else Cell(content or "")


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, what it holds, and how it looks where there is little room.

    An ``interval`` column shows that of its cells, whose figures have a column of their own. ``key`` is
    what the column is chosen by, if that is not its heading.
    """

    heading: str
    kind: Kind = "words"
    key: str = ""
    tone: Tone = ""
    wraps: bool = True
    most: int | None = None
    least: int | None = None
    parts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the column is chosen by."""
        return self.key or self.heading


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a chart: its name, and a figure for each step; None where there is none."""

    name: str
    figures: Sequence[Cell | None]


@dataclass(frozen=True, slots=True)
class Lines:
    """A chart of figures over the steps of an axis: a line for each series; ``bounds`` are the ends of the scale.

    ``ordered``: the steps are numbers, so that figures belong on a line, and not side by side. The table of such a view
    has the columns ``line``, ``step``, ``value``, ``95 %`` and ``n``, and a row for each figure.
    """

    steps: Sequence[str]
    series: Sequence[Series]
    across: str
    bounds: Sequence[float | None] = ()
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class TableView:
    """A table: its title, columns and rows, sentences that belong below it, and a chart of its figures.

    ``marked`` are the places of rows that stand out.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Content]]
    title: str = ""
    notes: Sequence[str] = ()
    chart: Lines | None = None
    marked: Collection[int] = ()

    def only(self, *names: str) -> TableView:
        """Return the table with some of its columns, in this order; those that it does not have are left out."""
        places = {column.name: at for at, column in enumerate(self.columns)}
        kept = [places[name] for name in names if name in places]
        rows = [[row[at] for at in kept] for row in self.rows]
        return replace(self, columns=[self.columns[at] for at in kept], rows=rows)

    def without(self, *names: str) -> TableView:
        """Return the table without some of its columns."""
        return self.only(*(column.name for column in self.columns if column.name not in names))

    def renamed(self, headings: Mapping[str, str]) -> TableView:
        """Return the table with other headings, by the names of the columns."""
        columns = [replace(each, heading=headings.get(each.name, each.heading), key=each.name) for each in self.columns]
        return replace(self, columns=columns)

    def changed(self, name: str, change: Callable[[Cell], Content]) -> TableView:
        """Return the table with other cells in a column."""
        at = [column.name for column in self.columns].index(name)
        rows = [[*row[:at], change(cell_of(row[at])), *row[at + 1 :]] for row in self.rows]
        return replace(self, rows=rows)

    def joined(self, column: Column, cells: Sequence[Content], at: int | None = None) -> TableView:
        """Return the table with one more column, the last one unless its place is given."""
        place = len(self.columns) if at is None else at
        columns = [*self.columns[:place], column, *self.columns[place:]]
        rows = [[*row[:place], cell, *row[place:]] for row, cell in zip(self.rows, cells, strict=True)]
        return replace(self, columns=columns, rows=rows)

    def once(self, name: str) -> TableView:
        """Return the table with each text of a column once for all rows below that have it."""
        texts = [cell.text for cell in self.cells(name)]
        above = iter([None, *texts[:-1]])
        return self.changed(name, lambda cell: replace(cell, text="") if cell.text == next(above) else cell)

    def cells(self, name: str) -> list[Cell]:
        """Return the cells of a column."""
        at = [column.name for column in self.columns].index(name)
        return [cell_of(row[at]) for row in self.rows]

    def __contains__(self, name: str) -> bool:
        """Whether the table has a column of this name."""
        return any(column.name == name for column in self.columns)


def count_cell(value: int | None, field: str | None = None, source: str | None = None) -> Cell:
    """Return a count: 100,000; an empty cell for None."""
    return Cell("" if value is None else f"{value:,}", value, source, field)


def words(*headings: str) -> list[Column]:
    """Return columns of words."""
    return [Column(heading) for heading in headings]


def numbers(*headings: str) -> list[Column]:
    """Return columns of numbers; one that is called ``95 %`` holds intervals."""
    return [Column(heading, "interval" if heading == INTERVAL else "number") for heading in headings]


INTERVAL = "95 %"
