"""The section on the probabilities that models give to options: how often a likely option is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from kshot.report.page.charts import Chart, chart_grid, folded, svg_number, table_html
from kshot.report.page.markup import Section, tag, together
from kshot.report.page.packed_samples import BINS, Calibration, SamplesRead
from kshot.report.page.page_run import PageRun, system_names
from kshot.report.page.svg import Scale, drawing, label, line, marker, px, series_class
from kshot.report.view import Cell, TableView, count_cell, numbers, words

_SIDE, _LEFT, _TOP, _BARS, _BOTTOM = 250.0, 44.0, 12.0, 44.0, 40.0
_WIDTH = _LEFT + _SIDE + 16
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The answers within a range of probability: their mean probability, the share that is right, their number.

    Probabilities and shares go from 0 to 1.
    """

    low: float
    high: float
    probability: Cell
    right: Cell
    count: Cell


def reliability_chart(
    id_: str,
    title: str,
    bins: Sequence[ReliabilityBin],
    *,
    series: int = 0,
    notes: Sequence[Markup | str] = (),
) -> Chart:
    """Draw the share that is right over the probability, beside the diagonal on which both agree; counts are below."""
    height = _TOP + _SIDE + _BARS + _BOTTOM
    picture = drawing(id_, title, _parts(bins, series), width=_WIDTH, height=height, class_="reliability")
    rows = [(f"{each.low:.2f}–{each.high:.2f}", each.probability, each.right, each.right, each.count) for each in bins]
    table = TableView([*words("probability"), *numbers("mean probability", "right", "95 %", "answers")], rows)
    return Chart(id_, title, picture, table, notes)


def _parts(bins: Sequence[ReliabilityBin], series: int) -> Iterator[Markup]:
    x, y = Scale(0.0, 1.0, _LEFT, _LEFT + _SIDE), Scale(0.0, 1.0, _TOP + _SIDE, _TOP)
    floor = _TOP + _SIDE + _BARS
    for tick in _TICKS:
        yield line(px(_LEFT), y(tick), px(_LEFT + _SIDE), y(tick), "grid")
        yield line(px(x(tick)), _TOP, px(x(tick)), _TOP + _SIDE, "grid")
        yield label(px(_LEFT - 6), y(tick) + 4, f"{tick:g}", "tick end")
        yield label(px(x(tick)), floor + 15, f"{tick:g}", "tick mid")
    yield label(px(_LEFT + _SIDE / 2), floor + 33, "probability of the likeliest option", "axis mid")
    turned = f"rotate(-90 11 {px(_TOP + _SIDE / 2)})"
    yield label("11", _TOP + _SIDE / 2, "share that is right", "axis mid", transform=turned)
    yield line(px(x(0)), y(0), px(x(1)), y(1), "reference")
    along = f"rotate(-45 {px(x(0.5))} {px(y(0.5))})"
    yield label(px(x(0.5)), y(0.5) - 6, "calibrated", "tick mid", transform=along)
    most = max((each.count.number or 0 for each in bins), default=0) or 1
    points = []
    for each in bins:
        tall = (_BARS - 18) * (each.count.number or 0) / most
        left, right = x(each.low) + 1, x(each.high) - 1
        said = f"{each.low:.2f}–{each.high:.2f}: {each.count.written} answers, {each.right.said} right"
        bar = tag("rect", x=px(left), y=px(floor - tall), width=px(right - left), height=px(tall), class_="part")
        yield tag("g", tag("title", said), bar, class_=f"counts {series_class(series)}")
        yield label(px((left + right) / 2), floor - tall - 3, svg_number(each.count), "tick mid small")
        if each.probability.number is not None and each.right.number is not None:
            points.append((x(each.probability.number), y(each.right.number), each, said))
    for across, _, each, _ in points:
        if each.right.interval is not None:
            low, high = (y(end.number or 0.0) for end in each.right.interval)
            yield line(px(across), low, px(across), high, f"whisker thin {series_class(series)}")
    path = " ".join(f"{px(across)},{px(up)}" for across, up, *_ in points)
    yield tag("polyline", points=path, class_=f"path {series_class(series)}")
    yield together(marker(series, px(across), up, said) for across, up, _, said in points)


_MAX_DRAWN = 6
"""Diagrams of a section; the table has all."""

_ABOUT = (
    "The probability of an option is the softmax of the options' total log-probabilities, and the likeliest option is "
    "the answer here, whatever rule the headline goes by. ECE, the expected calibration error, is the mean distance "
    "between probability and share of right answers over ten bins, weighted by their answers (Guo et al. 2017)."
)


class _Calibrated(NamedTuple):
    """The calibration of one task by one model of one run."""

    system: str
    task: str
    found: Calibration


def calibration_section(runs: Sequence[PageRun], read: Mapping[str, SamplesRead]) -> Section | None:
    """Return the section; None if no sample has options whose probabilities are known."""
    names = system_names(runs)
    every = [
        _Calibrated(names.get((run.key, model), model), task, found)
        for run in runs
        if run.key in read
        for (task, model), found in read[run.key].calibrations.items()
    ]
    if not every:
        return None
    systems, tasks = dict.fromkeys(each.system for each in every), dict.fromkeys(each.task for each in every)
    colours = {system: at for at, system in enumerate(systems)}
    drawn = sorted(every, key=lambda each: -each.found.whole.samples)[:_MAX_DRAWN]
    drawn.sort(key=every.index)
    charts = [
        _chart(f"calibration-{at}", each, _title(each, len(systems), len(tasks)), colours[each.system]).html
        for at, each in enumerate(drawn, 1)
    ]
    parts = [tag("p", _ABOUT, class_="soft"), chart_grid(charts)]
    if len(every) > 1:
        parts.append(_table(every, several=len(systems) > 1, opened=len(every) <= len(drawn)))
    return Section("calibration", "Calibration", together(parts))


def _title(each: _Calibrated, systems: int, tasks: int) -> str:
    told = [each.task] if tasks > 1 or systems == 1 else []
    return " · ".join([*told, *([each.system] if systems > 1 else [])])


def _chart(id_: str, each: _Calibrated, title: str, series: int) -> Chart:
    found = each.found
    bins = []
    for at, one in enumerate(found.bins):
        if one.samples:
            mean, right = (Cell(f"{value:.3f}", value) for value in (one.mean_confidence, one.accuracy))
            bins.append(ReliabilityBin(at / BINS, (at + 1) / BINS, mean, right, count_cell(one.samples)))
    told = (
        f"ECE {100 * found.error:.1f} %: the likeliest option is right in {100 * found.whole.accuracy:.1f} % of "
        f"{found.whole.samples:,} samples, at a mean probability of {100 * found.whole.mean_confidence:.1f} %."
    )
    return reliability_chart(id_, title, bins, series=series, notes=[told])


def _table(every: Sequence[_Calibrated], *, several: bool, opened: bool) -> Markup:
    columns = [*words("task", *["system"] * several), *numbers("ECE", "right", "mean probability", "samples")]
    rows = [
        (
            each.task,
            *((each.system,) if several else ()),
            *(
                Cell(f"{100 * value:.1f} %", value)
                for value in (each.found.error, each.found.whole.accuracy, each.found.whole.mean_confidence)
            ),
            count_cell(each.found.whole.samples),
        )
        for each in every
    ]
    table = table_html(TableView(columns, rows), "Calibration of tasks")
    return table if opened else folded(f"All {len(every):,} tasks", table)
