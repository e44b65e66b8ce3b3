"""Charts of rows: names at the left, a plot, numbers at the right. Texts keep their size at any width.

Positions across are shares of the width. A picture has two layers, of which the style sheet shows one: that of a narrow
screen has shorter names and fewer numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from markupsafe import Markup
from rich.cells import cell_len

from kshot.report.cells import shortened
from kshot.report.page.markup import tag, together
from kshot.report.page.svg import label, percent
from kshot.report.view import Cell

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


def _shared_start(texts: Sequence[str]) -> str:
    """Return what all texts begin with: what the first and the last of them in order do."""
    one, other = min(texts), max(texts)
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _own_parts(names: Sequence[str]) -> list[str]:
    """Return of each name what the others do not have: whole words at the begin and at the end are left out."""
    shared = re.sub(r"\w+$", "", _shared_start(names))
    ends = [name[len(shared) :] for name in names]
    tail = re.sub(r"^\w+", "", _shared_start([end[::-1] for end in ends])[::-1])
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
