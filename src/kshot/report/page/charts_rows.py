"""Charts of rows: names at the left, a plot, numbers at the right. Texts keep their size at any width.

Positions across are shares of the width. A narrow screen has shorter names and fewer numbers, by the style sheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kshot.report.cells import shortened
from kshot.report.page.markup import tag, together
from kshot.report.page.numbers import Number
from kshot.report.page.svg import label, percent

MAX_DRAWN = 60
"""Rows that a chart draws; the table behind it has all."""

NOMINAL_WIDTH = 760
"""The width for which shares are computed from the widths of texts."""

_CHARACTER = 6.9
_WIDE_NAME, _NARROW_NAME = 38, 17
"""Characters of a name that fit."""
_MOST_FOR_NAMES = 0.38
_GROUP_HEIGHT = 28
_LONGEST_TITLE = 600


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


def text_share(texts: Iterable[str]) -> float:
    """Return the share of the width that the longest of some texts takes."""
    return _CHARACTER * max(map(len, texts), default=0) / NOMINAL_WIDTH


def names_end(names: Sequence[str], groups: Sequence[str]) -> float:
    """Return where the names end and the plot begins."""
    inset = 10 / NOMINAL_WIDTH if any(groups) else 0.0
    return min(text_share(shortened(name, _WIDE_NAME) for name in names) + inset, _MOST_FOR_NAMES) + 0.03


def names_of(name: str, group: str, place: Place, height: float) -> Iterator[Markup]:
    """Yield the name of a row, and the heading of its group if it opens one."""
    if place.opens:
        yield from _fitting(group, "0", place.middle - height / 2 - 7, "group", factor=2)
    yield from _fitting(name, "10" if group else "0", place.middle + 4, "name")


def _fitting(name: str, x: str, y: float, class_: str, factor: int = 1) -> Iterator[Markup]:
    """Yield a text as it fits a wide and a narrow screen; a pointer over it reads all of it."""
    wide, narrow = (shortened(name, factor * room) for room in (_WIDE_NAME, _NARROW_NAME))
    if wide == narrow:
        yield label(x, y, wide, class_)
        return
    titled = tag("title", shortened(name, _LONGEST_TITLE))
    yield label(x, y, together((wide, titled)), f"{class_} wide")
    yield label(x, y, together((narrow, titled)), f"{class_} narrow")


def plot_area(start: float, end: float, parts: Iterable[Markup]) -> Markup:
    """Return pieces of the plot; positions within it are shares of its width."""
    size = {"x": percent(start), "width": percent(end - start)}
    return tag("svg", *parts, **size, height="100%", overflow="visible", class_="plot")


def svg_number(found: Number) -> Markup:
    """Return a number within a text of a picture, with its exact value and its place."""
    exact = None if found.value is None else repr(found.value)
    return tag("tspan", found.written, data_row=found.row, data_field=found.field, data_value=exact)
