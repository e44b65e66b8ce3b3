"""The section on the probabilities that models give to options: how often a likely option is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from kshot.report.page.calibration import BINS, Bin, Calibration
from kshot.report.page.charts import Chart, chart_grid, folded
from kshot.report.page.charts_reliability import ReliabilityBin, reliability_chart
from kshot.report.page.markup import Section, tag, together
from kshot.report.page.page_run import PageRun, system_names
from kshot.report.page.samples_read import SamplesRead
from kshot.report.page.tables import table_html
from kshot.report.view import Cell, TableView, count_cell, numbers, words

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
    drawn = sorted(every, key=lambda each: -each.found.samples)[:_MAX_DRAWN]
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
    bins = [_bin(at, one) for at, one in enumerate(found.bins) if one.samples]
    told = (
        f"ECE {100 * found.error:.1f} %: the likeliest option is right in {100 * found.accuracy:.1f} % of "
        f"{found.samples:,} samples, at a mean probability of {100 * found.confidence:.1f} %."
    )
    return reliability_chart(id_, title, bins, series=series, notes=[told])


def _bin(at: int, found: Bin) -> ReliabilityBin:
    share = Cell(f"{found.accuracy:.3f}", found.accuracy)
    mean = Cell(f"{found.mean_confidence:.3f}", found.mean_confidence)
    return ReliabilityBin(at / BINS, (at + 1) / BINS, mean, share, count_cell(found.samples))


def _table(every: Sequence[_Calibrated], *, several: bool, opened: bool) -> Markup:
    columns = [*words("task", *["system"] * several), *numbers("ECE", "right", "mean probability", "samples")]
    rows = [
        (
            each.task,
            *((each.system,) if several else ()),
            *(Cell(f"{100 * value:.1f} %", value) for value in _shares(each.found)),
            count_cell(each.found.samples),
        )
        for each in every
    ]
    table = table_html(TableView(columns, rows), "Calibration of tasks")
    return table if opened else folded(f"All {len(every):,} tasks", table)


def _shares(found: Calibration) -> tuple[float, float, float]:
    return found.error, found.accuracy, found.confidence
