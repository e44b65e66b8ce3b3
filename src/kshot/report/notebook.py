"""Results in a notebook: a table with a small chart of the intervals. It follows the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from operator import itemgetter

from kshot.core.failed_parts import mark_legend
from kshot.core.records import ResultRow
from kshot.core.visible import one_line
from kshot.report.comparison import main_rows
from kshot.report.comparison_view import COUNTS, SYSTEMS, answers, comparison_view, task_name, warnings
from kshot.report.figures import figures_view, model_names, number
from kshot.report.setting_table import settings_view
from kshot.report.verdicts import model_verdicts
from kshot.report.view import Column, Content, TableView, cell_of
from kshot.runs.comparing import Comparison
from kshot.runs.headline import failed_samples, finite, grouped
from kshot.runs.record import RunRecord
from kshot.runs.swept_rows import SAME, SWEEP

MAX_ROWS = 30
"""Rows that a table shows; a notebook is no place for hundreds."""

_WIDTH, _HEIGHT, _MARGIN = 180, 16, 5
_ACCENT = "#3b82f6"
"""A blue that can be told from white and from black."""


_SCALE = 'stroke="currentColor" stroke-opacity=".25"'
_INTERVAL = f'stroke="{_ACCENT}" stroke-width="4" stroke-opacity=".5" stroke-linecap="round"'


def results_html(record: RunRecord) -> str:
    """Return the figures of a run: averages and tasks first, then, folded, categories and details."""
    rows = [row for row in record.results if (row.get("value") is not None or "n" in row) and SAME not in row]
    whole = [row for row in rows if "category" not in row]
    main = main_rows([row for row in whole if not row.get("detail")])
    shown = set(map(id, main))
    main.sort(key=lambda row: "average" not in row)  # it is stable: the rest keeps its order
    folded = {
        "By category": main_rows([row for row in rows if "category" in row and not row.get("detail")]),
        "More figures": [row for row in whole if id(row) not in shown],
    }
    parts = [_table(main)]
    # sentences are on models: those on search engines name their passages, too
    compared = [row for row in record.comparisons if "a_chunks" not in row and SWEEP not in row]
    parts += [f"<div>{_text(line)}</div>" for line in model_verdicts(compared)]
    parts += [
        f"<details><summary>{title} ({len(found)})</summary>{_table(found)}</details>"
        for title, found in folded.items()
        if found
    ]
    if failed := failed_samples(record.results):
        told = "1 sample failed</b> and is" if failed == 1 else f"{failed:,} samples failed</b> and are"
        parts.append(f"<div><b>{told} in no figure.</div>")
    if record.path is not None:
        parts.append(f'<div style="opacity:.7">run folder: <code>{_text(record.path)}</code></div>')
    return f'<div class="kshot">{"".join(parts)}</div>'


def _table(rows: Sequence[ResultRow]) -> str:
    view, scales = figures_view(rows, systems=model_names(rows)), _scales(rows)
    view = view.only("task", "model", "metric", "n", "value", "95 %", "failed")
    drawn = [_chart(row, scales[row["metric"]]) for row in rows[:MAX_ROWS]]
    return _drawn_table(view, drawn, _ends(scales)) + _legend(rows[:MAX_ROWS])


def _drawn_table(view: TableView, charts: Sequence[str], head: str) -> str:
    """Return the rows that have a chart, which stands after the interval; ``head`` is that of the charts."""
    place = [column.name for column in view.columns].index("95 %") + 1
    lines = _lines(view)
    drawn = [head, *(f"<td>{chart}</td>" for chart in charts)]
    shown = ["".join([*line[:place], chart, *line[place:]]) for line, chart in zip(lines, drawn, strict=False)]
    rest = f"… and {len(view.rows) - MAX_ROWS} more: to_pandas() has all of them"
    more = f'<td colspan="{len(view.columns) + 1}" style="text-align:left">{rest}</td>'
    return _rows([*shown, *[more] * (len(view.rows) > MAX_ROWS)])


def _lines(view: TableView) -> list[list[str]]:
    """Return the cells of the head and of each row."""
    rows = [[_cell(_shown(*each), each[0]) for each in zip(view.columns, row, strict=True)] for row in view.rows]
    return [[_cell(column.heading, column, "th") for column in view.columns], *rows]


def _shown(column: Column, content: Content) -> str:
    """Return the text of a cell; counts are plain, and the marks of a difference stand beside its figures."""
    found = cell_of(content)
    if column.kind == "interval":
        return found.low_high
    if column.name == "difference":
        return found.text
    return str(found.number) if isinstance(found.number, int) and found.text else found.written


def _legend(rows: Sequence[ResultRow]) -> str:
    return "".join(f"<div>{_text(line)}</div>" for line in mark_legend(rows))


def _rows(lines: Sequence[str]) -> str:
    rows = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="border-collapse:collapse;border:0">{rows}</table>'


def _cell(value: object, column: Column, tag: str = "td") -> str:
    """Return a cell: numbers stand to the right on one line, a foreign name may wrap."""
    side, wrap = ("left", "normal") if column.kind == "words" else ("right", "nowrap")
    return f'<{tag} style="text-align:{side};white-space:{wrap};padding:2px 10px 2px 0">{_text(value)}</{tag}>'


def _text(value: object) -> str:
    return escape(one_line(value))


def _ends(scales: Mapping[str, tuple[float, float]]) -> str:
    """Return the head of the charts: the ends of their scale, if they have one scale."""
    ends = set(scales.values())
    texts = [f"{end:g}" for end in next(iter(ends))] if len(ends) == 1 else ["", ""]
    return (
        f'<th style="font-weight:normal;opacity:.7"><div style="display:flex;justify-content:space-between;'
        f'width:{_WIDTH}px"><span>{texts[0]}</span><span>{texts[1]}</span></div></th>'
    )


def _scales(rows: Sequence[ResultRow]) -> dict[str, tuple[float, float]]:
    """Return the ends of the chart of each metric: those of its scale, or of what is drawn on it."""
    scales: dict[str, tuple[float, float]] = {}
    for row in rows:
        ends = _known(*(row.get("bounds") or ()), row.get("value"), *(row.get("ci95") or ()))  # a bound may be open
        low, high = scales.get(row["metric"], (math.inf, -math.inf))
        scales[row["metric"]] = (min([low, *ends]), max([high, *ends]))
    return scales


def _known(*values: object) -> list[float]:
    """Return the numbers among values that are known and finite."""
    return [number for value in values if (number := finite(value)) is not None]


def _chart(row: ResultRow, scale: tuple[float, float], name: str = "value") -> str:
    """Draw a figure as a point on its interval, as a small picture that a screen reader can say.

    A difference has a mark at 0.
    """
    value, (low, high) = finite(row.get(name)), scale
    if value is None or not low < high:
        return "&nbsp;"

    def place(at: float) -> str:
        share = (min(max(at, low), high) - low) / (high - low)
        return f"{_MARGIN + share * (_WIDTH - 2 * _MARGIN):.1f}"

    def line(start: float, end: float, more: str) -> str:
        return f'<line x1="{place(start)}" x2="{place(end)}" y1="{middle}" y2="{middle}" {more}/>'

    middle = _HEIGHT // 2
    ends = row.get("ci95") or (value, value)
    said = f"{number(value, 2)}, 95 % {number(ends[0], 1)} to {number(ends[1], 1)}; drawn from {low:g} to {high:g}"
    zero = f'<line x1="{place(0)}" x2="{place(0)}" y1="1" y2="{_HEIGHT - 1}" stroke="currentColor"/>'
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{said}" style="vertical-align:middle">'
        f"<title>{said}</title>"
        f"{line(low, high, _SCALE)}{zero if name == 'difference' else ''}{line(ends[0], ends[1], _INTERVAL)}"
        f'<circle cx="{place(value)}" cy="{middle}" r="3.5" fill="{_ACCENT}"/></svg>'
    )


# ---- comparisons ----


def comparison_html(comparison: Comparison) -> str:
    """Return what a comparison of runs found: who is ahead, in sentences and in a table, and what differs."""
    rows, categories = main_rows(comparison.rows), main_rows(comparison.categories)
    shown = set(map(id, rows))
    folded = {"By category": categories, "More figures": [row for row in comparison.rows if id(row) not in shown]}
    parts = [f"<div>{_text(line)}</div>" for line in answers(rows)]
    parts.append(_differences(rows))
    parts += [
        f"<details><summary>{title} ({len(found)})</summary>{_differences(found)}</details>"
        for title, found in folded.items()
        if found
    ]
    if comparison.settings:
        view = settings_view(comparison.settings, [each["label"] for each in comparison.runs])
        different = _rows(list(map("".join, _lines(view))))
        parts.append(f"<details><summary>What differs ({len(comparison.settings)})</summary>{different}</details>")
    parts += [f"<div>{_text(line)}</div>" for line in (*warnings(rows), *comparison.notes)]
    return f'<div class="kshot">{"".join(parts)}</div>'


def _differences(rows: Sequence[ResultRow]) -> str:
    systems = {(row["baseline"], row["run"]) for row in rows}
    tasks = [f"{row['task']}[{row['category']}]" if "category" in row else task_name(row) for row in rows]
    view = comparison_view(rows, tasks=tasks, digits=lambda few: (few, few))
    heads = ("before", "after") if len(systems) > 1 else next(iter(systems), ("", ""))
    names = SYSTEMS if len(systems) > 1 else ()
    view = view.only("task", *names, "metric", "n", "baseline", "run", "difference", "95 %", "p", *COUNTS[:2])
    view = view.renamed(dict(zip(("baseline", "run"), heads, strict=True)))
    scales = {metric: _reach(own) for metric, own in grouped(rows, itemgetter("metric")).items()}
    drawn = [_chart(row, scales[row["metric"]], "difference") for row in rows[:MAX_ROWS]]
    return _drawn_table(view, drawn, _cell("", Column(""), "th")) + _legend(rows[:MAX_ROWS])


def _reach(rows: Sequence[ResultRow]) -> tuple[float, float]:
    """Return the ends of the charts of the differences by one metric; 0 is in the middle."""
    ends = [abs(each) for row in rows for each in _known(row["difference"], *(row["ci95"] or ()))]
    furthest = max(ends, default=0.0)
    return -furthest, furthest
