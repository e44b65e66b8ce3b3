"""Results in a notebook: a table with a small chart of the intervals. It follows the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from kshot.core.records import ResultRow
from kshot.core.visible import one_line
from kshot.report.comparison_words import answers, digits_of, signed, task_name, warnings
from kshot.report.table import number, short_names
from kshot.report.verdicts import model_verdicts, p_value
from kshot.runs.comparing import Comparison
from kshot.runs.record import RunRecord

MAX_ROWS = 30
"""Rows that a table shows; a notebook is no place for hundreds."""

_WIDTH, _HEIGHT, _MARGIN = 180, 16, 5
_ACCENT = "#3b82f6"
"""A blue that can be told from white and from black."""


_SCALE = 'stroke="currentColor" stroke-opacity=".25"'
_INTERVAL = f'stroke="{_ACCENT}" stroke-width="4" stroke-opacity=".5" stroke-linecap="round"'


def results_html(record: RunRecord) -> str:
    """Return the figures of a run: averages and tasks first, then, folded, categories and details."""
    rows = [row for row in record.results if row.get("value") is not None or "n" in row]
    main = [row for row in rows if not row.get("detail") and "category" not in row]
    main.sort(key=lambda row: "average" not in row)  # it is stable: the rest keeps its order
    folded = {
        "By category": [row for row in rows if "category" in row and not row.get("detail")],
        "More figures": [row for row in rows if row.get("detail") and "category" not in row],
    }
    parts = [_table(main)]
    parts += [f"<div>{_text(line)}</div>" for line in model_verdicts(_of_models(record.comparisons))]
    parts += [
        f"<details><summary>{title} ({len(found)})</summary>{_table(found)}</details>"
        for title, found in folded.items()
        if found
    ]
    failed = sum(row.get("failed", 0) for row in _first_of_each_task(main))
    if failed:
        parts.append(f"<div><b>{failed} samples failed</b> and are in no figure.</div>")
    if record.path is not None:
        parts.append(f'<div style="opacity:.7">run folder: <code>{_text(record.path)}</code></div>')
    return f'<div class="kshot">{"".join(parts)}</div>'


def _of_models(comparisons: Sequence[ResultRow]) -> list[ResultRow]:
    """Return the comparisons that can be put into sentences: those of search engines name their passages, too."""
    return [row for row in comparisons if "a_chunks" not in row]


def _first_of_each_task(rows: Iterable[ResultRow]) -> Iterator[ResultRow]:
    """Yield one row for each task of each model: all metrics of a task have the same failures."""
    seen = set()
    for row in rows:
        key = (row["task"], row.get("model"))
        if key not in seen and "average" not in row:
            seen.add(key)
            yield row


def _table(rows: Sequence[ResultRow]) -> str:
    names = short_names(dict.fromkeys(str(row.get("model", "")) for row in rows))
    columns = ["task", *(["model"] if len(names) > 1 else []), "metric", "n", "value", "95 %", ""]
    columns += ["failed"] if any(row.get("failed") for row in rows) else []
    scales = _scales(rows)
    lines = ["".join(_cell(name, name, "th") if name else _ends(scales) for name in columns)]
    for row in rows[:MAX_ROWS]:
        texts = {
            "task": row["task"],
            "model": names[str(row.get("model", ""))],
            "metric": row["metric"],
            "n": row.get("n", ""),
            "value": "–" if row.get("value") is None else number(row["value"], 2),
            "95 %": "" if row.get("ci95") is None else "–".join(number(end, 1) for end in row["ci95"]),
            "failed": row.get("failed") or "",
        }
        drawn = _chart(row, scales[row["metric"]])
        lines.append("".join(_cell(texts[name], name) if name else f"<td>{drawn}</td>" for name in columns))
    return _rows(lines, _rest(rows, len(columns)))


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
        bounds = row.get("bounds")
        drawn = [each for each in (row.get("value"), *(row.get("ci95") or ())) if each is not None]
        finite = [each for each in (*(bounds or ()), *drawn) if math.isfinite(each)]
        low, high = scales.get(row["metric"], (math.inf, -math.inf))
        scales[row["metric"]] = (min([low, *finite]), max([high, *finite]))
    return scales


def _chart(row: ResultRow, scale: tuple[float, float], name: str = "value") -> str:
    """Draw a figure as a point on its interval, as a small picture that a screen reader can say.

    A difference has a mark at 0.
    """
    value, (low, high) = row.get(name), scale
    if value is None or not math.isfinite(value) or not low < high:
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
    parts = [f"<div>{_text(line)}</div>" for line in answers(comparison.rows)]
    parts.append(_differences(comparison.rows))
    if comparison.categories:
        table = _differences(comparison.categories)
        parts.append(f"<details><summary>By category ({len(comparison.categories)})</summary>{table}</details>")
    if comparison.settings:
        heads = [_cell(each["label"], "", "th") for each in comparison.runs]
        lines = [f"{_cell('setting', '', 'th')}{''.join(heads)}"]
        for row in comparison.settings:
            values = [_cell("default" if value is None else value, "") for value in row["values"]]
            lines.append(f"{_cell(row['setting'], '')}{''.join(values)}")
        parts.append(f"<details><summary>What differs ({len(comparison.settings)})</summary>{_rows(lines)}</details>")
    parts += [f"<div>{_text(line)}</div>" for line in (*warnings(comparison.rows), *comparison.notes)]
    return f'<div class="kshot">{"".join(parts)}</div>'


def _differences(rows: Sequence[ResultRow]) -> str:
    systems = {(row["baseline"], row["run"]) for row in rows}
    several = ["baseline", "run"] if len(systems) > 1 else []
    columns = ["task", *several, "metric", "n", "before", "after", "difference", "95 %", "", "p", "won", "lost"]
    heads = {name: name for name in columns} | (
        dict(zip(("before", "after"), *systems, strict=True)) if not several else {}
    )
    reach = max(
        [abs(each) for row in rows for each in (row["difference"], *(row["ci95"] or ())) if math.isfinite(each)],
        default=0.0,
    )
    digits = digits_of(rows)
    lines = ["".join(_cell(heads[name], name, "th") for name in columns)]
    for row in rows[:MAX_ROWS]:
        name = f"{row['task']}[{row['category']}]" if "category" in row else task_name(row)
        texts = {
            **{each: row[each] for each in ("baseline", "run", "metric", "n", "won", "lost")},
            "task": name,
            "before": number(row["baseline_value"], digits),
            "after": number(row["run_value"], digits),
            "difference": signed(row["difference"], digits),
            "95 %": "" if row["ci95"] is None else " to ".join(signed(end, digits) for end in row["ci95"]),
            "p": p_value(row),
        }
        drawn = _chart(row, (-reach, reach), "difference")
        lines.append("".join(_cell(texts[name], name) if name else f"<td>{drawn}</td>" for name in columns))
    return _rows(lines, _rest(rows, len(columns)))
