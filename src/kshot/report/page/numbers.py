"""Numbers on pages: as people read them, with their exact values and their places in ``summary.json``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from kshot.core.failed_parts import failure_mark, mark_legend
from kshot.core.records import ResultRow
from kshot.report.page.markup import figure, tag, together
from kshot.report.page.page_run import PageRun
from kshot.report.systems import written_figure
from kshot.report.table import number
from kshot.runs.headline import finite


@dataclass(frozen=True, slots=True)
class Number:
    """A number, how it is written, and where it stands: the ``data-row`` and ``data-field`` of pages.

    ``row`` is None for a number that no summary has. ``value`` is None where a figure is unknown.
    """

    value: float | None
    written: str
    row: str | None = None
    field: str | None = None

    @property
    def html(self) -> Markup:
        """The number within HTML."""
        found = figure(self.value, self.written, self.field)
        return found if self.row is None else tag("span", found, data_row=self.row)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with the ends of its 95 % interval, if that is known."""

    value: Number
    low: Number | None = None
    high: Number | None = None

    @property
    def interval(self) -> tuple[Number, Number] | None:
        """The two ends, if both are known."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def dash(self) -> str:
        """What stands between the ends: a dash, or "to" where signs would stand beside it."""
        signed = any(each.written[:1] in {"+", "-"} for each in (self.low, self.high) if each)
        return " to " if signed else "–"

    @property
    def between(self) -> str:
        """The interval as text; nothing if it is not known."""
        return self.dash.join(end.written for end in self.interval or ())

    @property
    def ends(self) -> tuple[float, ...]:
        """The numbers that a scale must reach: the value and the ends that are known."""
        return tuple(each.value for each in (self.value, self.low, self.high) if each and each.value is not None)

    @property
    def said(self) -> str:
        """The figure in words, for a tooltip."""
        return self.value.written + (f", 95 %: {self.between}" if self.interval else "")


def field_number(run: PageRun, row: ResultRow, name: str, digits: int | None = None, sign: str = "") -> Number:
    """Return a field of a row, such as ``value``, ``n`` or ``p_corrected``, with so many digits after the point."""
    value, mark = finite(row.get(name)), failure_mark(row) if name == "value" else ""
    if value is None:
        return Number(None, f"–{mark}")
    whole = digits is None
    written = f"{row[name]:,}" if whole else number(value, digits or 0, sign)
    return Number(row[name] if whole else value, written + mark, run.address(row), name)


def estimate(
    run: PageRun, row: ResultRow, digits: tuple[int, int] | None = None, field: str = "value", sign: str = ""
) -> Estimate:
    """Return a figure of a row with its interval, written as the tables of a terminal write them.

    ``digits``: other than those, for the figure and for its interval. ``field`` is ``difference`` in comparisons.
    """
    value, ends = finite(row.get(field)), [finite(end) for end in row.get("ci95") or ()]
    if value is None:
        return Estimate(Number(None, f"–{failure_mark(row)}"))
    place = run.address(row)
    if digits is None:
        texts = written_figure(row) if row.get("kind") == "passages" else _plain_texts(row)
    else:
        texts = [
            number(value, digits[0], sign) + failure_mark(row),
            *(number(end, digits[1], sign) for end in ends if end is not None),
        ]
    shown = Number(value, texts[0], place, field)
    if len(ends) != len(("low", "high")) or None in ends:
        return Estimate(shown)
    low, high = (Number(end, texts[1 + at], place, f"ci95.{at}") for at, end in enumerate(ends))
    return Estimate(shown, low, high)


def _plain_texts(row: ResultRow) -> list[str]:
    """Return a figure and the ends of its interval as ``results_table`` writes them."""
    return [number(row["value"], 2) + failure_mark(row), *(number(end, 1) for end in row.get("ci95") or ())]


def mark_notes(rows: Iterable[ResultRow]) -> Markup:
    """Return what the marks of these figures mean, to stand below a chart or a table."""
    return together(tag("p", line, class_="chart-note") for line in mark_legend(rows))


def interval_html(found: Estimate) -> Markup:
    """Return an interval within HTML, or nothing."""
    between = found.interval
    return Markup("") if between is None else together((between[0].html, found.dash, between[1].html))
