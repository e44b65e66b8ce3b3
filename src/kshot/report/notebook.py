"""Results in a notebook: a table with a small chart of the intervals. It follows the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from kshot.core.records import ResultRow
from kshot.core.visible import one_line
from kshot.report.table import number, short_names
from kshot.report.verdicts import model_verdicts
from kshot.runs.record import RunRecord

MAX_ROWS = 30
"""Rows that a table shows; a notebook is no place for hundreds."""

_WIDTH, _HEIGHT, _MARGIN = 180, 16, 5
_ACCENT = "#3b82f6"
"""A blue that can be told from white and from black."""


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
    if len(rows) > MAX_ROWS:
        rest = f"… and {len(rows) - MAX_ROWS} more: to_pandas() has all of them"
        lines.append(f'<td colspan="{len(columns)}" style="text-align:left">{rest}</td>')
    return f'<table style="border-collapse:collapse;border:0">{"".join(f"<tr>{line}</tr>" for line in lines)}</table>'


_NUMBERS = {"n", "value", "95 %", "failed"}


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


def _chart(row: ResultRow, scale: tuple[float, float]) -> str:
    """Draw a figure as a point on its interval, as a small picture that a screen reader can say."""
    value, (low, high) = row.get("value"), scale
    if value is None or not math.isfinite(value) or not low < high:
        return "&nbsp;"

    def place(at: float) -> str:
        share = (min(max(at, low), high) - low) / (high - low)
        return f"{_MARGIN + share * (_WIDTH - 2 * _MARGIN):.1f}"

    middle = _HEIGHT // 2
    ends = row.get("ci95") or (value, value)
    said = f"{number(value, 2)}, 95 % {number(ends[0], 1)} to {number(ends[1], 1)}; drawn from {low:g} to {high:g}"
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{said}" style="vertical-align:middle">'
        f"<title>{said}</title>"
        f'<line x1="{_MARGIN}" x2="{_WIDTH - _MARGIN}" y1="{middle}" y2="{middle}" stroke="currentColor" '
        'stroke-opacity=".25"/>'
        f'<line x1="{place(ends[0])}" x2="{place(ends[1])}" y1="{middle}" y2="{middle}" stroke="{_ACCENT}" '
        'stroke-width="4" stroke-opacity=".5" stroke-linecap="round"/>'
        f'<circle cx="{place(value)}" cy="{middle}" r="3.5" fill="{_ACCENT}"/></svg>'
    )
