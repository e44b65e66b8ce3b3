"""Drawing: scales, ticks and marks. Colours come from classes, so that a chart follows the page into the dark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from kshot.report.page.markup import tag

SERIES = 7
"""Colours that can be told apart; classes ``s1`` to ``s7``."""

SHADES = 10
"""Steps of the ramp of heat maps; classes ``h0`` to ``h9``."""

_NICE_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


# ---- scales ----


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear scale from values to positions; what is beyond its ends is drawn at them."""

    low: float
    high: float
    start: float = 0.0
    end: float = 1.0

    def __call__(self, value: float) -> float:
        """Return the position of a value."""
        inside = min(max(value, self.low), self.high)
        # the parts are divided first: the difference of two large ends may be beyond all numbers
        share = (inside / 2 - self.low / 2) / (self.high / 2 - self.low / 2) if self.high > self.low else 0.5
        return self.start + share * (self.end - self.start)


@dataclass(frozen=True, slots=True)
class Bands:
    """A scale of categories: each has a band of the same width."""

    count: int
    start: float
    end: float

    @property
    def step(self) -> float:
        """The width of a band."""
        return (self.end - self.start) / max(self.count, 1)

    def __call__(self, at: int) -> float:
        """Return the middle of a band."""
        return self.start + (at + 0.5) * self.step


def nice_step(low: float, high: float, count: int = 5) -> float:
    """Return a step of 1, 2, 2.5 or 5 times a power of ten that divides a range into about so many parts."""
    raw = high / count - low / count
    if not raw > 0 or not math.isfinite(raw):
        return 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    return power * next((nice for nice in _NICE_STEPS if nice * power >= raw), _NICE_STEPS[-1])


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round numbers that cover a range: the first is not above its lower end, the last not below its upper."""
    if not low < high:
        low, high = low - 0.5, high + 0.5
        if not low < high:  # so large that a half is lost
            return [low]
    step = nice_step(low, high, count)
    first, last = math.floor(low / step), math.ceil(high / step)
    if abs(first) > 2**52 or abs(last) > 2**52:  # the range is smaller than what its numbers can tell apart
        return [low, high]
    return [0.0 if at == 0 else at * step for at in range(first, last + 1)]


def axis_ticks(values: Sequence[float], bounds: Sequence[float | None] | None = None, count: int = 5) -> list[float]:
    """Return the ticks of an axis: over the whole scale of a metric if it has two ends, else over the values."""
    low, high = bounds if bounds is not None and len(bounds) == len(("low", "high")) else (None, None)
    if low is not None and high is not None and low < high and math.isfinite(high - low):
        return nice_ticks(low, high, count)
    ends = [each for each in values if math.isfinite(each)] or [0.0, 1.0]
    return nice_ticks(min(ends), max(ends), count)


def ticks_within(values: Sequence[float], bounds: Sequence[float | None], count: int) -> list[float]:
    """Return round numbers around all values, and none beyond the ends of the metric."""
    low, high = bounds if len(bounds) == len(("low", "high")) else (None, None)
    found = nice_ticks(min(values, default=0.0), max(values, default=1.0), count)
    kept = [tick for tick in found if (low is None or tick >= low) and (high is None or tick <= high)]
    return kept if len(kept) > 1 else found


def tick_text(value: float, ticks: Sequence[float]) -> str:
    """Return the text of a tick: as many digits after the point as its axis needs."""
    step = min((abs(b - a) for a, b in pairwise(ticks)), default=1.0)
    largest = max(map(abs, ticks), default=0.0)
    if largest >= 1e6 or (0 < step < 1e-4):  # noqa: PLR2004 - more digits than an axis has room for
        return f"{value:.2g}"
    digits = 0 if step <= 0 else max(0, -math.floor(math.log10(step) + 1e-9))
    if digits < 4 and abs(round(step, digits) - step) > 1e-9 * step:  # noqa: PLR2004 - such as 2.5
        digits += 1
    return f"{value:.{digits}f}"


# ---- elements ----


def px(value: float) -> str:
    """Return a coordinate: at most two digits after the point."""
    return f"{value + 0.0:.2f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """Return a coordinate as a share of the width of the chart."""
    return f"{px(100 * share)}%"


def line(x1: str, y1: float, x2: str, y2: float, class_: str) -> Markup:
    """Return a straight line; its horizontal positions are texts, so that they may be percentages."""
    return tag("line", x1=x1, y1=px(y1), x2=x2, y2=px(y2), class_=class_)


def label(x: str, y: float, content: Markup | str, class_: str | None = None, **attributes: object) -> Markup:
    """Return a text. ``class_`` ``end`` and ``mid`` align it to its right end and its middle."""
    return tag("text", content, x=x, y=px(y), class_=class_, **attributes)


_MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",  # circle
    "M-3.6 -3.6h7.2v7.2h-7.2z",  # square
    "M0 -4.8L4.4 3.4H-4.4z",  # triangle
    "M0 -5L5 0L0 5L-5 0z",  # diamond
    "M0 4.8L4.4 -3.4H-4.4z",  # triangle on its point
    "M-1.4 -4.4h2.8v3h3v2.8h-3v3h-2.8v-3h-3v-2.8h3z",  # plus
    "M-4.4 -2.4L-2.4 -4.4L0 -2L2.4 -4.4L4.4 -2.4L2 0L4.4 2.4L2.4 4.4L0 2L-2.4 4.4L-4.4 2.4L-2 0z",  # cross
)


def marker(series: int, x: str, y: float, said: str | None = None, *, hollow: bool = False) -> Markup:
    """Return the mark of a series: each has a shape of its own; ``said`` is what a pointer over it reads."""
    shape = tag("path", d=_MARKERS[series % SERIES], class_="marker hollow" if hollow else "marker")
    title = () if said is None else (tag("title", said),)
    return tag("svg", *title, shape, x=x, y=px(y), overflow="visible", class_=series_class(series))


def series_class(series: int) -> str:
    """Return the class that gives a series its colour and its dash."""
    return f"s{series % SERIES + 1}"


def shade(value: float, scale: Scale) -> str:
    """Return the class of the shade that stands for a value of a scale."""
    return f"h{min(int(Scale(scale.low, scale.high)(value) * SHADES), SHADES - 1)}"


def apart(wanted: Sequence[float], distance: float, low: float, high: float) -> list[float]:
    """Return positions near the wanted ones that keep a distance, in their order, within two ends if there is room."""
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    placed: dict[int, float] = {}
    previous = -math.inf
    for at in order:
        previous = placed[at] = max(wanted[at], previous + distance, low)
    following = math.inf
    for at in reversed(order):
        following = placed[at] = min(placed[at], following - distance, high)
    return [placed[at] for at in range(len(wanted))]


def drawing(
    id_: str, title: str, parts: Iterable[Markup], *, width: float | None, height: float, class_: str
) -> Markup:
    """Return an accessible picture. With a width it scales as a whole; without, texts keep their size at any width."""
    size = (
        {"width": "100%", "height": px(height)}
        if width is None
        else {"viewBox": f"0 0 {px(width)} {px(height)}", "width": px(width), "height": px(height)}
    )
    named = tag("title", title, id=f"{id_}-title")
    return tag("svg", named, *parts, role="img", aria_labelledby=f"{id_}-title", class_=class_, **size)
