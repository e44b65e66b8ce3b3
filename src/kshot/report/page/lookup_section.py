"""Token lookup: accuracy by length, by variant and task, the kinds of errors, and gaps between tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from markupsafe import Markup

from kshot.core.failed_parts import p_text
from kshot.core.records import ResultRow
from kshot.report.cells import shortened
from kshot.report.page.charts import (
    CellsRow,
    Chart,
    IntervalRow,
    chart_grid,
    interval_chart,
    numbers_behind,
    sentences,
    stacked_bars,
    svg_number,
)
from kshot.report.page.charts_lines import line_chart
from kshot.report.page.markup import Section, command, tag, together
from kshot.report.page.page_run import PageRun, estimate, mark_notes, system_names
from kshot.report.page.svg import Scale, drawing, label, px, shade
from kshot.report.table import findings, preview_of
from kshot.report.verdicts import correction
from kshot.report.view import Cell, Series, TableView, numbers, words
from kshot.runs.headline import finite
from kshot.runs.swept_rows import is_swept

_CELL, _ROW, _GROUP, _TOP, _CHARACTER = 46.0, 26.0, 26.0, 28.0, 7.0
_MAX_NAME, _MAX_HEAD, _MAX_GROUP = 26, 12, 60
"""Characters of names that are shown."""


def heat_map(
    id_: str,
    title: str,
    columns: Sequence[str],
    rows: Sequence[CellsRow],
    *,
    across: str = "",
    scale: tuple[float, float] = (0.0, 100.0),
    notes: Sequence[Markup | str] = (),
) -> Chart:
    """Draw rows of shaded cells; ``scale`` has the values of the lightest and of the darkest shade."""
    plot = _HeatPlot(columns, rows, across, Scale(*scale))
    picture = drawing(id_, title, plot.parts(), width=plot.width, height=plot.height, class_="heat")
    cells = ((row, *each) for row in rows for each in zip(columns, row.cells, strict=True))
    lines = (((row.group, row.name, column), found, ()) for row, column, found in cells if found is not None)
    return Chart(id_, title, picture, numbers_behind(("", "", ""), lines), notes, scrolls=True)


class _HeatPlot:
    def __init__(self, columns: Sequence[str], rows: Sequence[CellsRow], across: str, scale: Scale) -> None:
        self.rows, self.across, self.scale = rows, across, scale
        self.names = [shortened(row.name, _MAX_NAME) for row in rows]
        self.heads = [shortened(column, _MAX_HEAD) for column in columns]
        self.left = _CHARACTER * max(map(len, [*self.names, across]), default=0) + 14
        self.cell = max(_CELL, _CHARACTER * max(map(len, self.heads), default=0) + 10)
        opened = [
            row.group for at, row in enumerate(rows) if row.group and (at == 0 or rows[at - 1].group != row.group)
        ]
        longest = max((len(shortened(group, _MAX_GROUP)) for group in opened), default=0)
        self.width = max(self.left + self.cell * len(columns), _CHARACTER * longest)
        self.height = _TOP + len(rows) * _ROW + len(opened) * _GROUP + 4

    def parts(self) -> Iterator[Markup]:
        """Yield the heads, and then the rows with their names."""
        yield label(px(self.left - 10), _TOP - 10, self.across, "axis end")
        for at, head in enumerate(self.heads):
            yield label(px(self.left + (at + 0.5) * self.cell), _TOP - 10, head, "tick mid")
        top, group = _TOP, ""
        for name, row in zip(self.names, self.rows, strict=True):
            if row.group and row.group != group:
                titled = together((shortened(row.group, _MAX_GROUP), tag("title", row.group)))
                yield label("0", top + 17, titled, "group")
                top += _GROUP
            group = row.group
            yield label(px(self.left - 10), top + _ROW / 2 + 4, together((name, tag("title", row.name))), "name end")
            for at, found in enumerate(row.cells):
                if found is not None:
                    said = f"{row.group} {row.name} {self.heads[at]}".strip()
                    yield _cell(found, (self.left + at * self.cell, top), self.cell, said, self.scale)
            top += _ROW


def _cell(found: Cell, place: tuple[float, float], width: float, name: str, scale: Scale) -> Markup:
    value, (x, y) = found.number, place
    class_ = "none" if value is None else shade(value, scale)
    box = tag("rect", x=px(x + 1), y=px(y + 1), width=px(width - 2), height=px(_ROW - 2), rx=3)
    written = label(px(x + width / 2), y + _ROW / 2 + 4, svg_number(found), "mid")
    return tag("g", tag("title", f"{name}: {found.said}"), box, written, class_=f"cell {class_}")


_Cell: TypeAlias = tuple[str, str, int]
"""A cell of the grid: variant, task and length."""

_SCALE = (0.0, 100.0)
_WHOLE = (0, 0)
"""Digits after the point: grids have none."""
_MAX_GROUPED_VARIANTS = 3
"""Variants whose lengths stand side by side in one heat map; of more, each length has a map of variant × task."""
_MAX_LINE_CHARTS = 6
_MAX_BARS, _MAX_GAPS = 12, 12


def lookup_section(runs: Sequence[PageRun]) -> Section | None:
    """Return the section on token lookup; None if no run has any."""
    names = system_names(runs)
    parts: list[Markup] = []
    for run in runs:
        rows = [row for row in run.record.results if row.get("kind") == "lookup" and not is_swept(row)]
        models = list(dict.fromkeys(row["model"] for row in rows))
        for model in models:
            own = _ModelLookup(run, [row for row in rows if row["model"] == model], f"lookup-{len(parts)}")
            head = [tag("h3", names[run.key, model])] if len(runs) > 1 or len(models) > 1 else []
            parts.append(together([*head, *own.parts()]))
    return Section("lookup", "Token lookup", together(parts)) if parts else None


class _ModelLookup:
    """What one model does at token lookup."""

    def __init__(self, run: PageRun, rows: Sequence[ResultRow], id_: str) -> None:
        self.run, self.rows, self.id = run, rows, id_
        self.gaps = [row for row in _complete(rows) if "gap" in row]
        self.errors = [row for row in _complete(rows) if "error" in row]
        whole = [row for row in rows if not row.get("detail") and "gap" not in row]
        self.cells = {(row["variant"], row["lookup"], row["length"]): row for row in whole}
        self.variants = list(dict.fromkeys(variant for variant, _, _ in self.cells))
        self.tasks = list(dict.fromkeys(task for _, task, _ in self.cells))
        self.lengths = sorted({length for _, _, length in self.cells})

    def parts(self) -> Iterator[Markup]:
        """Yield what is found, in sentences, and then the charts."""
        complete = [row for row in _complete(self.rows) if row["ci95"] is not None]
        yield sentences(findings(complete, look=False))
        if preview := preview_of(complete):
            yield tag("p", "To see a question where it falls", class_="label")
            yield command(preview)
        lines = enumerate(self.variants[:_MAX_LINE_CHARTS] if len(self.lengths) > 1 else [])
        by_length, heat_maps = [self._by_length(*each) for each in lines], list(self._heat_maps())
        if len(self.variants) <= _MAX_GROUPED_VARIANTS and len(by_length) > 1:  # the lines stand beside the large map
            charts = [replace(heat_maps[0], tall=True), *by_length, *heat_maps[1:]]
        else:
            charts = [*heat_maps, *by_length]
        yield chart_grid(chart.html for chart in (*charts, *self._error_kinds(), *self._gap_chart()))
        yield mark_notes((*self.cells.values(), *self.gaps))

    def _figure(self, variant: str, task: str, length: int) -> Cell | None:
        row = self.cells.get((variant, task, length))
        return None if row is None else estimate(self.run, row, _WHOLE)

    def _heat_maps(self) -> Iterator[Chart]:
        counts = sorted({row["n"] for row in self.cells.values()})
        each = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,}–{counts[-1]:,}" if counts else "0"
        note = f"Each cell is the share of {each} records that is right."
        if len(self.variants) <= _MAX_GROUPED_VARIANTS:
            rows = [
                CellsRow(task, found, variant)
                for variant in self.variants
                for task in self.tasks
                if any(found := [self._figure(variant, task, length) for length in self.lengths])
            ]
            title = "Accuracy in %"
            columns = [str(length) for length in self.lengths]
            yield heat_map(f"{self.id}-heat", title, columns, rows, across="length", scale=_SCALE, notes=[note])
            several = len(self.variants) > 1 and len(self.tasks) > 1 and len(self.lengths) > 1
            yield from (self._by_variant(length, note) for length in (self.lengths[-1:] if several else []))
            return
        yield from (self._by_variant(length, note) for length in self.lengths)

    def _by_variant(self, length: int, note: str) -> Chart:
        rows = [
            CellsRow(variant, [self._figure(variant, task, length) for task in self.tasks]) for variant in self.variants
        ]
        title = f"Accuracy in % by variant and task, length {length}"
        return heat_map(f"{self.id}-heat-{length}", title, self.tasks, rows, scale=_SCALE, notes=[note])

    def _by_length(self, at: int, variant: str) -> Chart:
        series = [
            Series(task, found)
            for task in self.tasks
            if any(found := [self._figure(variant, task, length) for length in self.lengths])
        ]
        more = len(self.variants) - _MAX_LINE_CHARTS
        last = at == _MAX_LINE_CHARTS - 1 and more > 0
        return line_chart(
            f"{self.id}-lines-{at}",
            f"Accuracy in % by length{f' · {variant}' if len(self.variants) > 1 else ''}",
            [str(length) for length in self.lengths],
            series,
            across="length",
            bounds=_SCALE,
            band=("chance", [self._chance(variant, length) for length in self.lengths]),
            notes=[f"{more} more variants are in the heat maps."] if last else (),
        )

    def _chance(self, variant: str, length: int) -> tuple[float, float] | None:
        """Return the lowest and the highest chance level of the tasks."""
        rows = [self.cells.get((variant, task, length)) for task in self.tasks]
        found = [level for row in rows if row is not None and (level := finite(row.get("chance"))) is not None]
        return (min(found), max(found)) if found else None

    def _error_kinds(self) -> Iterator[Chart]:
        by_cell: dict[_Cell, dict[str, ResultRow]] = {}
        for row in self.errors:
            by_cell.setdefault((row["variant"], row["lookup"], row["length"]), {})[row["error"]] = row
        totals = {cell: sum(row["value"] for row in parts.values()) for cell, parts in by_cell.items()}
        found = {cell: parts for cell, parts in by_cell.items() if totals[cell] > 0}
        if not found:
            return
        named = dict.fromkeys(row["error"] for row in self.errors)
        kinds = [kind for kind in named if any(kind in parts and parts[kind]["value"] for parts in found.values())]
        rows = []
        for variant, task, length in _few_first(sorted(found, key=lambda cell: -totals[cell]), _MAX_BARS):
            parts = found[variant, task, length]
            figures = [estimate(self.run, parts[kind], _WHOLE) if kind in parts else None for kind in kinds]
            rows.append(CellsRow(f"{task}, length {length}", figures, variant))
        without = len(self.cells) - len(found)
        yield stacked_bars(
            f"{self.id}-errors",
            "Kinds of errors, in % of the records",
            kinds,
            rows,
            across="% of records",
            limit=_MAX_BARS,
            notes=[f"Without any error: {without} of {len(self.cells)} cells of the grid."] if without > 0 else (),
        )

    def _gap_chart(self) -> Iterator[Chart]:
        if not self.gaps:
            return
        decided = sum(row["ahead"] is not None for row in self.gaps)
        shown = max(_MAX_GAPS, min(decided, 3 * _MAX_GAPS))
        largest = sorted(range(len(self.gaps)), key=lambda at: -abs(self.gaps[at]["value"]))
        largest.sort(key=lambda at: self.gaps[at]["ahead"] is None)
        order = _few_first([(self.gaps[at]["variant"], at) for at in largest], shown)
        rows, lines = [], []
        for _, at in order:
            row = self.gaps[at]
            who = f"{row['better']} − {row['worse']}"
            p = Cell(p_text(row["p_corrected"]), row["p_corrected"], self.run.address(row), "p_corrected")
            found = estimate(self.run, row, (1, 1), sign="+")
            name = f"{row['better']}−{row['worse']}, {row['length']}"  # short: phones show it
            rows.append(IntervalRow(name, found, [p], row["variant"], hollow=row["ahead"] is None))
            lines.append((who, str(row["length"]), row["variant"], found, found, p, row["ahead"] or ""))
        corrected = correction(self.gaps[0]["family"])
        yield interval_chart(
            f"{self.id}-gaps",
            "Gaps between tasks at each length, on the same records, in points",
            rows,
            heads=("points", "95 %", "p"),
            reference=(0.0, "no gap"),
            table=TableView(
                [*words("gap", "length", "variant"), *numbers("points", "95 %", "p"), *words("ahead")], lines
            ),
            limit=shown,
            notes=[
                f"Filled marks: beyond chance ({decided} of {len(self.gaps)} gaps; {corrected}). Hollow marks: not."
            ],
        )


_Ranked = TypeVar("_Ranked", bound=tuple[Any, ...])


def _few_first(ranked: Sequence[_Ranked], count: int) -> list[_Ranked]:
    """Return the first few of ranked things, those of one variant together, and then the others.

    The variant is the first part of each.
    """
    few, rest = ranked[:count], ranked[count:]
    variants = list(dict.fromkeys(each[0] for each in few))
    return [*sorted(few, key=lambda each: variants.index(each[0])), *rest]


def _complete(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Return the rows that have all that a chart or a sentence needs; a file of a stranger may lack some."""
    return [row for row in rows if finite(row["value"]) is not None and row.keys() >= _needed(row)]


def _needed(row: ResultRow) -> set[str]:
    if "gap" in row:
        return {"better", "worse", "p_corrected", "family", "ahead"}
    return set() if row.get("detail") else {"chance"}
