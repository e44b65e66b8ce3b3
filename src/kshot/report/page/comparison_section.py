"""Comparisons on pages: of the systems of a run with each other, and of runs with their baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from kshot.core.failed_parts import mark_legend, p_text
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.report.comparison import ShortNames, comparison_sentences, headline_rows, main_rows
from kshot.report.comparison_view import COUNTS, SYSTEMS, comparison_view, pair_names, pair_of, task_name, warnings
from kshot.report.figures import short_names
from kshot.report.page.charts import IntervalRow, chart_grid, folded, interval_chart, sentences
from kshot.report.page.markup import Section, tag, text, together
from kshot.report.page.page_run import estimate, field_number
from kshot.report.verdicts import correction, shown_measures, system_name
from kshot.report.view import Cell, Content, TableView, numbers, words
from kshot.runs.headline import grouped
from kshot.runs.swept_rows import SWEEP

if TYPE_CHECKING:
    from kshot.report.page.page_run import PageRun
    from kshot.runs.comparing import Comparison

_MAX_CHARTS = 8
_ZERO = (0.0, "no difference")
_HEADS = ("difference", "95 %", "won", "lost")
_HOLLOW = "Filled marks are differences beyond chance, hollow ones cannot be told from 0."


# ---- between runs ----


def between_runs(comparison: Comparison, keys: Mapping[str, str]) -> Section:
    """Return the section on a comparison of runs: who is ahead, and by how much; ``keys`` of its runs, by label."""
    names = ShortNames(comparison.rows)
    every = names.renamed(comparison.rows)
    main = main_rows(every)
    shown = {id(row) for row in main}
    others = [row for row in every if id(row) not in shown]
    parts: list[Markup] = [*_differences("comparison", main), sentences(comparison_sentences(comparison))]
    if others:
        parts.append(folded(f"{len(others):,} more by other measures", *_differences("comparison-more", others)))
    if categories := headline_rows(names.renamed(comparison.categories)):
        largest = sorted(categories, key=lambda row: -abs(row["difference"] or 0.0))
        inner = _differences("comparison-categories", largest)
        parts.append(folded(f"By category, the largest differences first ({len(categories):,})", *inner))
    parts += [tag("p", text(line), class_="warning") for line in warnings(main)]
    if comparison.notes:
        parts.append(tag("ul", *(tag("li", text(note)) for note in comparison.notes), class_="notes"))
    return Section("comparison", "Differences", together((*parts, _flip_links(main, keys))))


def _differences(id_: str, rows: Sequence[ResultRow]) -> Iterator[Markup]:
    """Yield a chart of differences for each metric, with all counts in the table behind it."""
    return _by_metric(id_, rows, _chart, ": kshot compare shows them.")


def _by_metric(
    id_: str, rows: Sequence[ResultRow], chart: Callable[[str, str, Sequence[ResultRow]], Markup], where: str
) -> Iterator[Markup]:
    """Yield a chart for each metric; of very many metrics, the first ones, and where the others are."""
    by_metric = grouped(rows, metric_label)
    shown = list(by_metric.items())[:_MAX_CHARTS]
    yield chart_grid(chart(f"{id_}-{at}", metric, own) for at, (metric, own) in enumerate(shown, start=1))
    if left := len(by_metric) - len(shown):
        yield tag("p", f"… and {left:,} more metrics{where}", class_="soft")


def _chart(id_: str, metric: str, rows: Sequence[ResultRow]) -> Markup:
    pairs, view = pair_names(rows), comparison_view(rows)
    grouped = pairs.several and len({task_name(row) for row in rows}) > 1
    counted = [view.cells(name) for name in COUNTS[:2] if name in view]
    drawn = []
    for row, figure, *counts in zip(rows, view.cells("difference"), *counted, strict=True):
        name = task_name(row) + (f" [{row['category']}]" if "category" in row else "")
        shown = pairs.names[pair_of(row)] if pairs.several else name
        known = [each if each.number is not None else None for each in counts]
        drawn.append(IntervalRow(shown, figure, known, name if grouped else "", hollow=row["verdict"] is None))
    against = f": {pairs.run} − {pairs.baseline}" if pairs.run and pairs.baseline else ""
    title = f"Difference in {metric}{'' if rows[0]['higher_is_better'] else ' (lower is better)'}{against}"
    named = ["task", *["category"] * any("category" in row for row in rows), *(SYSTEMS if pairs.several else ())]
    table = view.only(*named, "n", "baseline", "run", "difference", "95 %", "p", "verdict", *COUNTS)
    return _drawn(id_, title, rows, drawn, table)


def _drawn(id_: str, title: str, rows: Sequence[ResultRow], drawn: Sequence[IntervalRow], table: TableView) -> Markup:
    """Return a chart of differences, with what explains its marks and p below it."""
    family = max((row["family"] for row in rows if row["p_corrected"] is not None), default=1)
    notes = [_HOLLOW] if any(each.hollow for each in drawn) else []
    notes += [f"{correction(family)}; the intervals are not."] if family > 1 else []
    notes += mark_legend(rows)
    return interval_chart(id_, title, drawn, heads=_HEADS, reference=_ZERO, table=table, notes=notes).html


def _flip_links(rows: Sequence[ResultRow], keys: Mapping[str, str]) -> Markup:
    """Return links to the samples that one of two runs alone gets right."""
    links = []
    for (before, after), own in grouped(rows, lambda row: (row["baseline_run"], row["run_run"])).items():
        if before in keys and after in keys and before != after:
            base = f"#/run/{keys[after]}/samples?other={keys[before]}&flip="
            for way, one, other in (("won", after, before), ("lost", before, after)):
                if any(row.get(way) != 0 for row in own):
                    words = f"Samples that {one} gets right and {other} does not"
                    links.append(tag("li", tag("a", text(words), href=base + way)))
    return tag("ul", *links, class_="links screen-only") if links else Markup("")


# ---- within a run ----


def within_run(runs: Sequence[PageRun]) -> Section | None:
    """Return the section on the comparisons that runs made of their own systems; None if there are none."""
    parts = [part for run in runs if _compared(run) for part in _within(run, named=len(runs) > 1)]
    return Section("systems-compared", "Systems compared", together(parts)) if parts else None


def _compared(run: PageRun) -> list[ResultRow]:
    """Return the comparisons of systems; those of the values of a sweep are in its section."""
    return [row for row in run.record.comparisons if SWEEP not in row]


def _within(run: PageRun, *, named: bool) -> Iterator[Markup]:
    """Yield the differences between the systems of a run, the clearest first; sections above say who is ahead."""
    record = run.record
    if named:
        yield tag("h3", text(run.name))
    searched = [row for row in record.results if row.get("kind") == "passages"]
    benchmarks, shown = {row["benchmark"] for row in searched}, set(shown_measures(searched))
    compared = _compared(run)
    main = [row for row in compared if row["task"] not in benchmarks or row["metric"] in shown]
    chosen = {id(row) for row in main}
    others = [row for row in compared if id(row) not in chosen]
    names = short_names(row[side] for row in compared for side in ("a_model", "b_model"))
    id_ = f"systems-{run.key}"
    yield from _pairs(id_, run, main, names)
    if others:
        yield folded(f"{len(others):,} more by other measures", *_pairs(f"{id_}-more", run, others, names))


def _pairs(id_: str, run: PageRun, rows: Sequence[ResultRow], names: Mapping[str, str]) -> Iterator[Markup]:
    def chart(id_: str, metric: str, own: Sequence[ResultRow]) -> Markup:
        tasks = list(dict.fromkeys(str(row["task"]) for row in own))
        where = f" on {tasks[0]}" if len(tasks) == 1 else ""
        title = f"Difference in {metric}{where}{'' if own[0]['higher_is_better'] else ' (lower is better)'}"
        table = TableView(_PAIR_COLUMNS, [_pair_cells(run, row, names) for row in own])
        drawn = []
        for row, figure, won, lost in zip(own, *(table.cells(name) for name in _DRAWN), strict=True):
            name = f"{system_name(row, 'b', names)} − {system_name(row, 'a', names)}"
            group = str(row["task"]) if len(tasks) > 1 else ""
            drawn.append(IntervalRow(name, figure, [won, lost], group, hollow=row["ahead"] is None))
        return _drawn(id_, title, own, drawn, table)

    clearest = sorted(rows, key=lambda row: ("average" not in row, row["p_corrected"]))
    return _by_metric(id_, clearest, chart, " in summary.json.")


_PAIR_COLUMNS = [
    *words("task", "a", "b"),
    *numbers("b − a", "95 %", "p", "b is better", "a is better", "tied"),
    *words("ahead"),
]
_DRAWN = ("b − a", "b is better", "a is better")


def _pair_cells(run: PageRun, row: ResultRow, names: Mapping[str, str]) -> list[Content]:
    systems = {row[side]: system_name(row, side, names) for side in ("a", "b")}
    small = all(abs(each) <= 1 for each in (row["difference"], *(row["ci95"] or ())))
    found = estimate(run, row, (3, 3) if small else (2, 1), "difference", "+")
    return [
        str(row["task"]),
        systems[row["a"]],
        systems[row["b"]],
        found,
        found,
        Cell(p_text(row["p_corrected"]), row["p_corrected"], run.address(row), "p_corrected"),
        *(field_number(run, row, name) for name in ("won", "lost", "tied")),
        "open" if row["ahead"] is None else systems.get(row["ahead"], str(row["ahead"])),
    ]
