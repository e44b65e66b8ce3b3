"""Comparisons on pages: of the systems of a run with each other, and of runs with their baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from kshot.core.records import ResultRow
from kshot.report.comparison import ShortNames, comparison_sentences, headline_rows, main_rows
from kshot.report.comparison_words import digits_of, signed, task_name, warnings
from kshot.report.page.charts import folded
from kshot.report.page.markup import Section, figure, tag, text, together
from kshot.report.page.tables import Column, TableRow, count, data_table
from kshot.report.systems import shown_measures
from kshot.report.table import number, short_names
from kshot.report.verdicts import correction, model_verdicts, p_value, verdicts

if TYPE_CHECKING:
    from kshot.report.page.page_run import PageRun
    from kshot.runs.comparing import Comparison

_VERDICTS = {"better": "ahead", "worse": "behind", None: "open"}
_COUNTS = ("won", "lost", "both", "neither", "tied")
_SHOWN = 12
"""Rows of a table that are seen without a click."""


def between_runs(comparison: Comparison, keys: Mapping[str, str]) -> Section:
    """Return the section on a comparison of runs: who is ahead, and by how much; ``keys`` of its runs, by label."""
    names = ShortNames(comparison.rows)
    every = names.renamed(comparison.rows)
    main = main_rows(every)
    parts: list[Markup] = [tag("p", text(line), class_="answer") for line in comparison_sentences(comparison)]
    parts += _tables(main, "Figures of both, and their difference")
    if others := [row for row in every if row not in main]:
        parts.append(folded(f"{len(others):,} more by other measures", *_tables(others, "By other measures")))
    if categories := headline_rows(names.renamed(comparison.categories)):
        largest = sorted(categories, key=lambda row: -abs(row["difference"] or 0.0))
        parts.append(folded(f"By category ({len(categories):,})", *_tables(largest, "By category")))
    parts += [tag("p", text(line), class_="warning") for line in warnings(main)]
    if comparison.notes:
        parts.append(tag("ul", *(tag("li", text(note)) for note in comparison.notes), class_="notes"))
    return Section("comparison", "Comparison", together((*parts, _flip_links(main, keys))))


def _tables(rows: Sequence[ResultRow], name: str) -> Iterator[Markup]:
    """Yield the first rows of a table, and the others in one that opens."""
    columns, cells = _columns(rows), [TableRow(_cells(row, rows), kind=row["verdict"]) for row in rows]
    yield data_table(columns, cells[:_SHOWN], name=name)
    if len(cells) > _SHOWN:
        rest = data_table(columns, cells[_SHOWN:], name=f"{name}, continued")
        yield folded(f"{len(cells) - _SHOWN:,} more", rest)
    family = max((row["family"] for row in rows if row["p_corrected"] is not None), default=1)
    if family > 1:
        yield tag("p", f"{correction(family)}; the intervals are not.", class_="soft")


def _columns(rows: Sequence[ResultRow]) -> list[Column]:
    words = ["task", *(["category"] if any("category" in row for row in rows) else []), "metric", "baseline", "run"]
    numbers = ["n", "baseline", "run", "difference", "95 %", "p"]
    held = [name for name in _COUNTS if any(row.get(name) is not None for row in rows)]
    return [*map(Column, words), *(Column(name, numbers=True) for name in numbers), Column("verdict")] + [
        Column(name, numbers=True) for name in held
    ]


def _cells(row: ResultRow, rows: Sequence[ResultRow]) -> list[Markup | str]:
    digits = digits_of([each for each in rows if each["metric"] == row["metric"]])
    more = max(digits, 2)
    direction = "" if row["higher_is_better"] else " ↓"
    found: list[Markup | str] = [task_name(row)]
    if any("category" in each for each in rows):
        found.append(str(row.get("category", "")))
    found += [f"{row['metric']}{direction}", str(row["baseline"]), str(row["run"]), count(row["n"])]
    for side in ("baseline_value", "run_value"):
        found.append(figure(row[side], "" if row[side] is None else number(row[side], more)))
    difference = row["difference"]
    found.append(figure(difference, "" if difference is None else signed(difference, more)))
    ends = row["ci95"]
    between = [figure(end, signed(end, digits)) for end in ends or ()]
    found.append(together((between[0], " to ", between[1])) if between else "")
    found.append("" if row["p_corrected"] is None else figure(row["p_corrected"], p_value(row)))
    found.append(_VERDICTS[row["verdict"]])
    held = [name for name in _COUNTS if any(each.get(name) is not None for each in rows)]
    return [*found, *(count(row[name]) if row.get(name) is not None else "" for name in held)]


def _flip_links(rows: Sequence[ResultRow], keys: Mapping[str, str]) -> Markup:
    """Return links to the samples that one of two runs alone gets right."""
    links = []
    for before, after in dict.fromkeys((row["baseline_run"], row["run_run"]) for row in rows):
        if before in keys and after in keys and before != after:
            base = f"#/run/{keys[after]}/samples?other={keys[before]}&flip="
            for way, what in (("won", "got right"), ("lost", "lost")):
                words = f"samples that {after} {what} compared with {before}"
                links.append(tag("li", tag("a", text(words), href=base + way)))
    return tag("ul", *links, class_="links screen-only") if links else Markup("")


# ---- within a run ----


def within_run(runs: Sequence[PageRun]) -> Section | None:
    """Return the section on the comparisons that runs made of their own systems; None if there are none."""
    parts = [part for run in runs if run.record.comparisons for part in _within(run, named=len(runs) > 1)]
    return Section("systems-compared", "Models compared", together(parts)) if parts else None


def _within(run: PageRun, *, named: bool) -> Iterator[Markup]:
    record = run.record
    if named:
        yield tag("h3", text(run.name))
    searched = [row for row in record.results if row.get("kind") == "passages"]
    benchmarks = {row["benchmark"] for row in searched}
    of_systems = [row for row in record.comparisons if row["task"] in benchmarks]
    of_models = [row for row in record.comparisons if row["task"] not in benchmarks]
    for line in (*verdicts(of_systems, searched), *model_verdicts(of_models)):
        yield tag("p", text(line), class_="answer")
    shown = set(shown_measures(searched))
    placed = list(enumerate(record.comparisons))
    main = [(at, row) for at, row in placed if row["task"] not in benchmarks or row["metric"] in shown]
    others = [(at, row) for at, row in placed if row["task"] in benchmarks and row["metric"] not in shown]
    names = short_names(row[side] for row in record.comparisons for side in ("a_model", "b_model"))
    yield from _pair_tables(run.key, main, names, "Differences between systems")
    if others:
        inner = _pair_tables(run.key, others, names, "Differences by other measures")
        yield folded(f"{len(others):,} more by other measures", *inner)


def _pair_tables(
    key: str, placed: Sequence[tuple[int, ResultRow]], names: Mapping[str, str], name: str
) -> Iterator[Markup]:
    """Yield the clearest differences, and the others in a table that opens."""
    ordered = sorted(placed, key=lambda each: ("average" not in each[1], each[1]["p_corrected"]))
    words, numbers = ("task", "metric", "a", "b"), ("a − b", "95 %", "p", "a better", "b better", "tied")
    columns = [*map(Column, words), *(Column(each, numbers=True) for each in numbers), Column("ahead")]
    cells = [TableRow(_pair_cells(row, names), f"{key}/comparisons/{at}") for at, row in ordered]
    if cells:
        yield data_table(columns, cells[:_SHOWN], name=name)
    if len(cells) > _SHOWN:
        rest = data_table(columns, cells[_SHOWN:], name=f"{name}, continued")
        yield folded(f"{len(cells) - _SHOWN:,} more", rest)
    family = max((row["family"] for _, row in placed), default=1)
    if family > 1:
        yield tag("p", f"{correction(family)}; the intervals are not.", class_="soft")


def _pair_cells(row: ResultRow, names: Mapping[str, str]) -> list[Markup | str]:
    systems = {row[side]: _system(row, side, names) for side in ("a", "b")}
    ends = row["ci95"]
    digits = 3 if abs(row["difference"]) <= 1 and abs((ends or [0])[-1]) <= 1 else 1
    return [
        str(row["task"]),
        str(row["metric"]) + ("" if row["higher_is_better"] else " ↓"),
        systems[row["a"]],
        systems[row["b"]],
        figure(row["difference"], signed(row["difference"], max(digits, 2)), "difference"),
        _between(ends, digits),
        figure(row["p_corrected"], p_value(row), "p_corrected"),
        *(count(row.get(name), name) for name in ("wins", "losses", "ties")),
        "open" if row["ahead"] is None else systems.get(row["ahead"], str(row["ahead"])),
    ]


def _between(ends: Sequence[float] | None, digits: int) -> Markup | str:
    if ends is None:
        return ""
    low, high = (figure(end, signed(end, digits), f"ci95.{at}") for at, end in enumerate(ends))
    return together((low, " to ", high))


def _system(row: ResultRow, side: str, names: Mapping[str, str]) -> str:
    chunks = row.get(f"{side}_chunks")
    return names[row[f"{side}_model"]] + ("" if chunks is None else f" · {chunks}")
