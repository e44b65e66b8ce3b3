"""Results in a notebook: a table with a small chart of the intervals. It follows the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from kshot.core.failed_parts import mark_legend
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label, one_line
from kshot.report.comparison import main_rows
from kshot.report.comparison_words import answers, digits_of, signed, task_name, warnings
from kshot.report.setting_table import setting_name, setting_text
from kshot.report.table import marked_figure, number, short_names
from kshot.report.verdicts import model_verdicts, p_value
from kshot.runs.comparing import Comparison
from kshot.runs.headline import failed_samples, finite
from kshot.runs.record import RunRecord
from kshot.runs.swept_rows import SAME, SWEEP, task_label

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
    parts += [f"<div>{_text(line)}</div>" for line in model_verdicts(_of_models(record.comparisons))]
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


def _of_models(comparisons: Sequence[ResultRow]) -> list[ResultRow]:
    """Return the comparisons that can be put into sentences: those of search engines name their passages, too."""
    return [row for row in comparisons if "a_chunks" not in row and SWEEP not in row]


def _table(rows: Sequence[ResultRow]) -> str:
    names = short_names(dict.fromkeys(str(row.get("model", "")) for row in rows))
    columns = ["task", *(["model"] if len(names) > 1 else []), "metric", "n", "value", "95 %", ""]
    columns += ["failed"] if any(row.get("failed") for row in rows) else []
    scales = _scales(rows)
    lines = ["".join(_cell(name, name, "th") if name else _ends(scales) for name in columns)]
    for row in rows[:MAX_ROWS]:
        texts = {
            "task": task_label(row),
            "model": names[str(row.get("model", ""))],
            "metric": metric_label(row),
            "n": row.get("n", ""),
            "value": marked_figure(row),
            "95 %": "" if row.get("ci95") is None else "–".join(number(end, 1) for end in row["ci95"]),
            "failed": row.get("failed") or "",
        }
        drawn = _chart(row, scales[row["metric"]])
        lines.append("".join(_cell(texts[name], name) if name else f"<td>{drawn}</td>" for name in columns))
    return _rows(lines, _rest(rows, len(columns))) + _legend(rows[:MAX_ROWS])


def _legend(rows: Sequence[ResultRow]) -> str:
    return "".join(f"<div>{_text(line)}</div>" for line in mark_legend(rows))


def _rest(rows: Sequence[ResultRow], columns: int) -> list[str]:
    """Return the line that counts the rows that are not shown."""
    if len(rows) <= MAX_ROWS:
        return []
    rest = f"… and {len(rows) - MAX_ROWS} more: to_pandas() has all of them"
    return [f'<td colspan="{columns}" style="text-align:left">{rest}</td>']


def _rows(lines: Sequence[str], more: Sequence[str] = ()) -> str:
    rows = "".join(f"<tr>{line}</tr>" for line in (*lines, *more))
    return f'<table style="border-collapse:collapse;border:0">{rows}</table>'


_NUMBERS = {"n", "value", "95 %", "failed", "before", "after", "difference", "p", "won", "lost"}


def _cell(value: object, column: str, tag: str = "td") -> str:
    """Return a cell: numbers stand to the right on one line, a foreign name may wrap."""
    side, wrap = ("right", "nowrap") if column in _NUMBERS else ("left", "normal")
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
        heads = [_cell(each["label"], "", "th") for each in comparison.runs]
        lines = [f"{_cell('setting', '', 'th')}{''.join(heads)}"]
        for row in comparison.settings:
            values = [_cell(setting_text(value, row), "") for value in row["values"]]
            lines.append(f"{_cell(setting_name(row), '')}{''.join(values)}")
        parts.append(f"<details><summary>What differs ({len(comparison.settings)})</summary>{_rows(lines)}</details>")
    parts += [f"<div>{_text(line)}</div>" for line in (*warnings(rows), *comparison.notes)]
    return f'<div class="kshot">{"".join(parts)}</div>'


def _differences(rows: Sequence[ResultRow]) -> str:
    systems = {(row["baseline"], row["run"]) for row in rows}
    several = ["baseline", "run"] if len(systems) > 1 else []
    columns = ["task", *several, "metric", "n", "before", "after", "difference", "95 %", "", "p", "won", "lost"]
    heads = {name: name for name in columns} | (
        dict(zip(("before", "after"), *systems, strict=True)) if not several else {}
    )
    metrics = dict.fromkeys(row["metric"] for row in rows)
    same = {metric: [row for row in rows if row["metric"] == metric] for metric in metrics}
    scales = {metric: _reach(found) for metric, found in same.items()}
    digits = {metric: digits_of(found) for metric, found in same.items()}
    lines = ["".join(_cell(heads[name], name, "th") for name in columns)]
    for row in rows[:MAX_ROWS]:
        texts = _compared_texts(row, digits[row["metric"]])
        drawn = _chart(row, scales[row["metric"]], "difference")
        lines.append("".join(_cell(texts[name], name) if name else f"<td>{drawn}</td>" for name in columns))
    return _rows(lines, _rest(rows, len(columns))) + _legend(rows[:MAX_ROWS])


def _reach(rows: Sequence[ResultRow]) -> tuple[float, float]:
    """Return the ends of the charts of the differences by one metric; 0 is in the middle."""
    ends = [abs(each) for row in rows for each in _known(row["difference"], *(row["ci95"] or ()))]
    furthest = max(ends, default=0.0)
    return -furthest, furthest


def _compared_texts(row: ResultRow, digits: int) -> dict[str, object]:
    """Return the cells of a comparison; "–" stands for a figure that no sample gives."""
    return {
        **{each: row[each] for each in ("baseline", "run", "n")},
        **{each: "" if row.get(each) is None else row[each] for each in ("won", "lost")},
        "before": marked_figure(row, digits, "baseline"),
        "after": marked_figure(row, digits, "run"),
        "task": f"{row['task']}[{row['category']}]" if "category" in row else task_name(row),
        "metric": f"{metric_label(row)}{'' if row['higher_is_better'] else ' ↓'}",
        "difference": "–" if row["difference"] is None else signed(row["difference"], digits),
        "95 %": "" if row["ci95"] is None else " to ".join(signed(end, digits) for end in row["ci95"]),
        "p": "" if row["p_corrected"] is None else p_value(row),
    }
