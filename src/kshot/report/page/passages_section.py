"""Search in passages: systems and their measures, recall and rank by k, and which system is ahead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from markupsafe import Markup

from kshot.core.records import ResultRow
from kshot.report.page.charts import Chart, IntervalRow, chart_grid, interval_chart, sentences
from kshot.report.page.charts_lines import line_chart
from kshot.report.page.markup import Section, tag, together
from kshot.report.page.page_run import (
    PageRun,
    estimate,
    field_number,
    interval_html,
    mark_notes,
    number_html,
    system_names,
)
from kshot.report.verdicts import searched_where, shown_measures, verdicts
from kshot.report.view import Cell, Series

_AT_K = re.compile(r"(?P<family>.+)@(?P<k>[0-9]{1,9})")
"""The name of a measure of the first k passages; one with a token budget ends in a letter."""

_MAX_SYSTEMS = 40
"""Systems that the table shows; the charts have tables with all."""


class _System(NamedTuple):
    """A search engine over passages that were cut in one way, in one run."""

    run: str
    model: str
    chunks: str | None


def passages_section(runs: Sequence[PageRun]) -> Section | None:
    """Return the section on search; None if no run has any."""
    names = system_names(runs)
    found: dict[str, list[tuple[PageRun, ResultRow]]] = {}
    for run in runs:
        for row in run.record.results:
            if row.get("kind") == "passages" and "category" not in row:
                found.setdefault(row["benchmark"], []).append((run, row))
    benchmarks = [_Benchmark(name, rows, names, f"passages-{at}") for at, (name, rows) in enumerate(found.items(), 1)]
    parts = [part for each in benchmarks for part in each.parts(runs)]
    return Section("passages", "Search", together(parts)) if parts else None


class _Benchmark:
    """What systems find in one benchmark."""

    def __init__(
        self,
        name: str,
        found: Sequence[tuple[PageRun, ResultRow]],
        names: Mapping[tuple[str, str], str],
        id_: str,
    ) -> None:
        self.name, self.names, self.id = name, names, id_
        self.rows = [row for _, row in found]
        self.cells = {
            (_System(run.key, row["model"], row.get("chunks")), row["metric"]): (run, row) for run, row in found
        }
        self.systems = list(dict.fromkeys(system for system, _ in self.cells))
        self.cuts = list(dict.fromkeys(system.chunks for system in self.systems))
        self.measures = list(dict.fromkeys(row["metric"] for row in self.rows))

    def parts(self, runs: Sequence[PageRun]) -> Iterator[Markup]:
        """Yield what was searched, who is ahead, the table, and the charts."""
        yield tag("h3", self.name)
        yield tag("p", _described(self.rows), class_="chart-note")
        yield self._table(runs)
        yield sentences(self._sentences(runs))
        yield chart_grid(chart.html for chart in (*self._by_budget(), *self._by_k()))
        yield mark_notes(self.rows)

    def _figure(self, system: _System, measure: str) -> Cell | None:
        found = self.cells.get((system, measure))
        return None if found is None else estimate(*found)

    def _system_name(self, system: _System) -> str:
        name = self.names[system.run, system.model]
        return f"{name} · {system.chunks}" if len(self.cuts) > 1 and system.chunks else name

    def _sentences(self, runs: Sequence[PageRun]) -> Iterator[str]:
        for run in runs:
            own = [row for row in run.record.results if row.get("kind") == "passages"]
            compared = [row for row in run.record.comparisons if row["task"] == self.name]
            yield from (f"{run.name}: {line}" if len(runs) > 1 else line for line in verdicts(compared, own))

    # ---- the table ----

    def _table(self, runs: Sequence[PageRun]) -> Markup:
        measures = shown_measures(self.rows)
        best = {measure: self._best(runs, measure) for measure in measures}
        failed = any(row["failed"] for row in self.rows)
        heads = ["system", *measures, "n", *(["failed"] if failed else [])]
        head = [tag("th", each, scope="col", class_="num" if at else None) for at, each in enumerate(heads)]
        lines = []
        for system in self.systems[:_MAX_SYSTEMS]:
            cells = [self._cell(system, measure, best=best[measure] == system) for measure in measures]
            run, row = next(self.cells[system, each] for each in self.measures if (system, each) in self.cells)
            counts = [field_number(run, row, name) for name in ("n", *(["failed"] if failed else []))]
            numbers = [tag("td", number_html(count), class_="num") for count in counts]
            lines.append(tag("tr", tag("th", self._system_name(system), scope="row"), *cells, *numbers))
        table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *lines), class_="systems")
        notes = ["▲ is ahead of every other system by the paired test, p corrected."] if any(best.values()) else []
        if len(self.systems) > _MAX_SYSTEMS:
            notes.append(f"{_MAX_SYSTEMS} of {len(self.systems)} systems; the tables behind the charts have all.")
        written = [tag("p", note, class_="chart-note") for note in notes]
        return tag("div", tag("div", table, class_="scroll", tabindex=0), *written, class_="systems-box")

    def _cell(self, system: _System, measure: str, *, best: bool) -> Markup:
        found = self._figure(system, measure)
        if found is None or found.number is None:
            return tag("td", "–", class_="num none")
        mark = tag("span", "▲ ", class_="best", title="ahead of every other system") if best else ""
        return tag("td", mark, tag("b", number_html(found)), " ", tag("small", interval_html(found)), class_="num")

    def _best(self, runs: Sequence[PageRun], measure: str) -> _System | None:
        """Return the system that a test finds ahead of all others; None if not all were compared."""
        if len(runs) > 1:
            return None  # no test of a run knows the systems of another
        ahead: dict[_System, int] = {}
        for row in runs[0].record.comparisons:
            if (row["task"], row["metric"]) == (self.name, measure) and row["ahead"] is not None:
                side = "a" if row["ahead"] == row["a"] else "b"
                cut = row.get(f"{side}_chunks", self.cuts[0])
                system = _System(runs[0].key, row[f"{side}_model"], cut)
                ahead[system] = ahead.get(system, 0) + 1
        measured = sum((system, measure) in self.cells for system in self.systems)
        return next((system for system, count in ahead.items() if count == measured - 1), None)

    # ---- charts ----

    def _by_k(self) -> Iterator[Chart]:
        """Yield the measures of the first k passages as lines over k. Passages of other sizes have charts of their own.

        At equal k, larger passages win by their size alone.
        """
        families: dict[str, list[tuple[int, str]]] = {}
        for measure in self.measures:
            if found := _AT_K.fullmatch(measure):
                families.setdefault(found["family"], []).append((int(found["k"]), measure))
        for family, steps in families.items():
            if len(steps) < len(("from", "to")):
                continue
            steps.sort()
            for cut in self.cuts:
                yield self._lines(family, steps, cut)

    def _lines(self, family: str, steps: Sequence[tuple[int, str]], cut: str | None) -> Chart:
        systems = [system for system in self.systems if system.chunks == cut]
        series = [
            Series(self.names[system.run, system.model], [self._figure(system, measure) for _, measure in steps])
            for system in systems
        ]
        known = (self.cells[each] for each in product(systems, [measure for _, measure in steps]) if each in self.cells)
        id_, of = f"{self.id}-{family}-{self.cuts.index(cut)}", f" · {cut}" if len(self.cuts) > 1 else ""
        bounds = next(known)[1].get("bounds")
        return line_chart(id_, f"{family} by k{of}", [str(k) for k, _ in steps], series, across="k", bounds=bounds)

    def _by_budget(self) -> Iterator[Chart]:
        """Yield the measures by which passages of several sizes can be compared."""
        if len(self.cuts) < len(("one", "other")):
            return
        budgeted = dict.fromkeys(row["metric"] for row in self.rows if row.get("token_budget"))
        models = list(dict.fromkeys(each.model for each in self.systems))
        for at, measure in enumerate(budgeted):
            rows = []
            for system in sorted(self.systems, key=lambda system: self.cuts.index(system.chunks)):
                if (system, measure) in self.cells:
                    run, row = self.cells[system, measure]
                    name, counts = self.names[system.run, system.model], [field_number(run, row, "n")]
                    number = models.index(system.model)
                    rows.append(IntervalRow(name, estimate(run, row), counts, system.chunks or "", number))
            title = f"{measure} by chunking: as many passages as the budget of tokens holds"
            bounds = next((row.get("bounds") for row in self.rows if row["metric"] == measure), None)
            yield interval_chart(f"{self.id}-budget-{at}", title, rows, bounds=bounds)


def _described(rows: Sequence[ResultRow]) -> str:
    """Say what was searched: how many questions and passages, how they were cut, and where questions look."""
    counts = sorted({row["passages"] for row in rows})
    passages = f"{counts[0]:,} passages" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,} passages"
    cuts = list(dict.fromkeys(str(row["chunks"]) for row in rows if row.get("chunks")))
    parts = [f"{max(row['n'] + row['failed'] for row in rows):,} questions", passages]
    parts += [f"cut by {', '.join(cuts)}"] if cuts else []
    engines = list(dict.fromkeys(str(row["search"]) for row in rows if row.get("search")))
    parts += [f"found by {', '.join(engines)}"] if engines else []
    parts += [where] if (where := searched_where(rows[0])) else []
    return ", ".join(parts)
