"""The figures of runs as tables for a text: what stands where, and which figure a test puts ahead of all others."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from operator import itemgetter
from typing import NamedTuple, TypeAlias, TypeVar

from kshot.core.failed_parts import mark_legend, p_text
from kshot.core.records import ResultRow
from kshot.core.visible import listed, metric_label
from kshot.report.figures import ends_of, figure_cell, short_names
from kshot.report.verdicts import shown_measures
from kshot.report.view import Cell, Column, Content, TableView, numbers, words
from kshot.runs.headline import finite, grouped
from kshot.runs.record import RunRecord
from kshot.runs.swept_rows import SAME, task_label

_AHEAD = {"better": "run", "worse": "baseline"}
_LETTERS = {"baseline": "a", "run": "b"}


def in_summary_form(row: ResultRow) -> ResultRow:
    """Return a row with the names of ``summary.json``; differences are ``b`` minus ``a`` in both."""
    ahead = _AHEAD.get(row["verdict"] or "")
    found: ResultRow = {letter: row[side] for side, letter in _LETTERS.items()}
    for name in ("run", "model", "value"):
        found |= {f"{letter}_{name}": row[f"{side}_{name}"] for side, letter in _LETTERS.items()}
    if "run_task" in row:
        found |= {"a_task": row["task"], "b_task": row["run_task"]}
    counts = {f"{what}_{side}": f"{what}_{letter}" for what in ("only", "failed") for side, letter in _LETTERS.items()}
    left_out = {"verdict", "run_task", *_LETTERS} | {
        f"{side}_{n}" for side in _LETTERS for n in ("run", "model", "value")
    }
    rest = {counts.get(name, name): value for name, value in row.items() if name not in left_out}
    return {**found, **rest, "ahead": None if ahead is None else row[ahead]}


Question: TypeAlias = tuple[str, str]
"""What systems are compared by: a task, or a whole benchmark of passages, and a metric."""


class SystemId(NamedTuple):
    """A model of a run; search engines differ also by how passages are cut."""

    run: str
    model: str
    chunks: str = ""


class Standings:
    """What paired tests found about some figures: who is ahead of whom, and who was tested at all.

    The best number alone is no reason to be ahead: each of its comparisons must be decided, and both figures must be
    of exactly the samples that were compared. A test on those that two systems share says nothing about the others.
    """

    def __init__(
        self, rows: Sequence[tuple[SystemId, ResultRow]], comparisons: Iterable[ResultRow], run: str = ""
    ) -> None:
        """Take figures with their systems, and comparisons; ``run`` is that of comparisons that name none."""
        self._rivals: dict[Question, list[int]] = {}
        self._beaten: dict[int, set[int]] = {}
        self._families: dict[frozenset[int], int] = {}
        self._partial: set[frozenset[int]] = set()
        counts = {id(row): row["n"] for _, row in rows}
        places: dict[tuple[SystemId, str, str], int] = {}
        for system, row in rows:
            self._rivals.setdefault(question_of(row), []).append(id(row))
            places[system._replace(chunks=""), row["task"], row["metric"]] = id(row)
            places[system, question_of(row)[0], row["metric"]] = id(row)
        for row in comparisons:
            one, other = (places.get(_side(row, side, run)) for side in ("a", "b"))
            if one is None or other is None or finite(row["p_corrected"]) is None:
                continue
            pair = frozenset((one, other))
            self._families[pair] = row["family"]
            if {counts[one], counts[other]} != {row.get("n")}:
                self._partial.add(pair)
            elif row["ahead"] in {row["a"], row["b"]}:
                winner, loser = (one, other) if row["ahead"] == row["a"] else (other, one)
                self._beaten.setdefault(winner, set()).add(loser)

    def is_ahead(self, row: ResultRow) -> bool:
        """Whether a figure is ahead of all others that answer the same question."""
        others = set(self._rivals[question_of(row)]) - {id(row)}
        return bool(others) and others <= self._beaten.get(id(row), set())

    def families(self, rows: Iterable[ResultRow]) -> set[int]:
        """Return how many comparisons those of these figures were corrected for; nothing if none was tested."""
        questions = {question_of(row) for row in rows}
        return {self._families[pair] for each in questions for pair in self._pairs(each) if pair in self._families}

    def untested(self, rows: Iterable[ResultRow]) -> list[Question]:
        """Return the tasks and metrics of these figures by which not every two systems were tested."""
        questions = dict.fromkeys(map(question_of, rows))
        return [each for each in questions if any(pair not in self._families for pair in self._pairs(each))]

    def partial(self, rows: Iterable[ResultRow]) -> list[Question]:
        """Return the tasks and metrics of these figures of which some are not of the samples that were compared."""
        questions = dict.fromkeys(map(question_of, rows))
        return [each for each in questions if any(pair in self._partial for pair in self._pairs(each))]

    def _pairs(self, question: Question) -> Iterator[frozenset[int]]:
        return map(frozenset, combinations(self._rivals[question], 2))


def question_of(row: ResultRow) -> Question:
    """Return what a figure is an answer to."""
    whole = row.get("kind") == "passages" and "category" not in row
    return str(row["benchmark"] if whole else row["task"]), row["metric"]


def _side(row: ResultRow, side: str, run: str) -> tuple[SystemId, str, str]:
    """Return whose figure is compared: that of a system, by the name of the task, and by the metric."""
    model, chunks = row.get(f"{side}_model", row[side]), row.get(f"{side}_chunks", "")
    task = str(row.get(f"{side}_task", row["task"]))
    named = f"{task}[{row['category']}]" if "category" in row else task
    return SystemId(str(row.get(f"{side}_run", run)), str(model), str(chunks)), named, row["metric"]


_DEFAULT_DIGITS, _MAX_DIGITS = 2, 6

_COUNTS = ("n", "failed")
_OWN_TABLES = ("lookup", "passages")
"""The kinds of tasks that have tables of their own."""


ColumnName: TypeAlias = tuple[str, ...]
Key = TypeVar("Key", bound=Hashable)
_Line: TypeAlias = tuple[Sequence[str], Sequence[ResultRow | None]]
"""The names at the left of a line, and its figures."""


class _Figures(NamedTuple):
    """The rows to show with their systems, the names of these, and what tests found about them."""

    rows: Sequence[tuple[SystemId, ResultRow]]
    names: Mapping[SystemId, ColumnName]
    standings: Standings
    intervals: bool

    def name(self, system: SystemId) -> str:
        """Return the name of a system on one line."""
        return joined_name(self.names[system])


def figures_tables(
    runs: Mapping[str, RunRecord], comparisons: Sequence[ResultRow], *, intervals: bool = True
) -> Iterator[TableView]:
    """Yield the tables of some runs: token lookup, each passage benchmark, and everything else.

    ``comparisons`` are rows as ``summary.json`` has them, with ``a_run`` and ``b_run`` where there are several runs.
    """
    rows = [
        (SystemId(label, row["model"], str(row.get("chunks", ""))), row)
        for label, record in runs.items()
        for row in record.results
        if not row.get("detail") and "gap" not in row and SAME not in row
    ]
    standings = Standings(rows, comparisons, next(iter(runs)))
    figures = _Figures(rows, _names([system for system, _ in rows]), standings, intervals)
    yield from _lookup_tables(figures)
    for benchmark in dict.fromkeys(row["benchmark"] for _, row in rows if row.get("kind") == "passages"):
        yield _benchmark_table(benchmark, figures)
    if any(row.get("kind") not in _OWN_TABLES for _, row in rows):
        yield _tasks_table(figures)


# ---- the tables ----


def _tasks_table(figures: _Figures) -> TableView:
    """Return tasks down and systems across."""
    rows = [(system, row) for system, row in figures.rows if row.get("kind") not in _OWN_TABLES]
    systems = list(dict.fromkeys(system for system, _ in rows))
    lines: list[_Line] = []
    for own in _pivot(rows, lambda _, row: (row["task"], row["metric"]), lambda system, _: system).values():
        lower = all(row.get("higher_is_better") is False for row in own.values())
        names = [task_label(*own.values()), metric_label(*own.values()) + " ↓" * lower]
        lines.append((names, [own.get(system) for system in systems]))
    columns = [figures.names[system] for system in systems] if len(systems) > 1 else [("value",)]
    title = "" if len(systems) > 1 else f"Results of {systems[0].model}"
    return _table(title, ["task", "metric"], columns, lines, figures)


def _benchmark_table(benchmark: str, figures: _Figures) -> TableView:
    """Return search engines down and measures across."""
    rows = [(system, row) for system, row in figures.rows if row.get("benchmark") == benchmark]
    rows = [(system, row) for system, row in rows if row.get("kind") == "passages" and "category" not in row]
    measures = shown_measures([row for _, row in rows])
    found = _pivot(rows, lambda system, _: system, lambda _, row: row["metric"])
    lines: list[_Line] = [([figures.name(each)], [own.get(name) for name in measures]) for each, own in found.items()]
    return _table(f"Search on {benchmark}", ["system"], [(measure,) for measure in measures], lines, figures)


def _lookup_tables(figures: _Figures) -> Iterator[TableView]:
    """Return tasks of token lookup down and lengths across, if there are any."""
    rows = [(system, row) for system, row in figures.rows if row.get("kind") == "lookup"]
    lengths = sorted({row["length"] for _, row in rows})
    several = len({system for system, _ in rows}) > 1

    def names(system: SystemId, row: ResultRow) -> tuple[str, ...]:
        return *[figures.name(system)] * several, row["variant"], row["lookup"], row["metric"]

    found = _pivot(rows, names, lambda _, row: row["length"])
    lines: list[_Line] = [(line, [own.get(length) for length in lengths]) for line, own in found.items()]
    labels = [*["system"] * several, "variant", "task", "metric"]
    if lines:
        yield _table("Token lookup by length", labels, [(str(length),) for length in lengths], lines, figures)


def _pivot(
    rows: Iterable[tuple[SystemId, ResultRow]],
    down: Callable[[SystemId, ResultRow], Key],
    across: Callable[[SystemId, ResultRow], Hashable],
) -> dict[Key, dict[Hashable, ResultRow]]:
    """Return the lines of a table by what stands at their left, and the figures of each by what stands above."""
    found: dict[Key, dict[Hashable, ResultRow]] = {}
    for system, row in rows:
        found.setdefault(down(system, row), {})[across(system, row)] = row
    return found


def comparisons_table(comparisons: Sequence[ResultRow], *, intervals: bool = True) -> TableView:
    """Return a difference in each line: of which two systems, with its interval and corrected p."""
    digits = {
        metric: _digits(rows, "difference") for metric, rows in grouped(comparisons, itemgetter("metric")).items()
    }
    lines: list[list[Content]] = []
    for row in comparisons:
        p = "–" if finite(row["p_corrected"]) is None else p_text(row["p_corrected"])
        names: list[Content] = [_compared_task(row), metric_label(row), *(_side_name(row, side) for side in ("a", "b"))]
        few = digits[row["metric"]]
        cell = figure_cell(row, (few, few), "difference", "+", tone="strong" if row["ahead"] is not None else "")
        lines.append([*names, str(row.get("n", "")), p, cell if intervals else replace(cell, interval=None)])
    tested = [row for row in comparisons if finite(row["p_corrected"]) is not None]
    wholes, parts = ({row["family"] for row in tested if ("category" in row) is part} for part in (False, True))
    notes = [f"The difference is the second system minus the first{', with its 95 % interval' * intervals}."]
    if any(row.get("higher_is_better") is False for row in comparisons):
        notes.append("Where lower is better, a negative difference is in favour of the second.")
    notes.append(f"p is that of a paired test{_corrected(wholes, parts)}.")
    notes.append("A difference in bold is beyond chance (p < 5 %).")
    notes += [f"{line}." for line in mark_legend(comparisons)]
    columns = [*words("task", "metric", "first", "second"), *numbers("n", "p"), Column("difference", "figure")]
    return TableView(columns, lines, "Systems compared", notes)


def _side_name(row: ResultRow, side: str) -> Cell:
    """Return the name of a system: its run and its model, where it has both."""
    parts = str(row.get(f"{side}_run", "")), str(row.get(f"{side}_model", ""))
    return Cell(str(row[side]), parts=parts if row[side] == joined_name(parts) else ())


def _compared_task(row: ResultRow) -> str:
    """Return the name of a task, or those of both systems, and the category."""
    names = dict.fromkeys((row["task"], row.get("b_task", row["task"])))
    return " / ".join(names) + (f"[{row['category']}]" if "category" in row else "")


def _table(
    title: str,
    labels: Sequence[str],
    columns: Sequence[ColumnName],
    lines: Sequence[_Line],
    figures: _Figures,
) -> TableView:
    """Return a table of figures, with how many samples are behind those of a line, and how many failed if any did."""
    shown = [row for _, cells in lines for row in cells if row is not None]
    counted = _COUNTS[: 1 + any(row.get("failed") for row in shown)]
    digits = {metric: _digits(rows, "value") for metric, rows in grouped(shown, itemgetter("metric")).items()}

    def cell(row: ResultRow | None) -> Cell | None:
        if row is None:
            return None
        few, is_ahead = digits[row["metric"]], figures.standings.is_ahead(row)
        found = figure_cell(row, (few, few), tone="strong" if is_ahead else "")
        return found if figures.intervals else replace(found, interval=None)

    heads = [*words(*labels), *numbers(*counted)]
    heads += [Column(joined_name(parts), "figure", key=f"figure {at}", parts=parts) for at, parts in enumerate(columns)]
    rows: list[list[Content]] = [
        [*names, *(_count(name, own) for name in counted), *map(cell, own)] for names, own in lines
    ]
    notes = _notes([each for row in rows for each in row if isinstance(each, Cell)], shown, figures.standings)
    return TableView(heads, rows, title, notes)


def _count(name: str, cells: Sequence[ResultRow | None]) -> str:
    """Return a count of the figures of a line; one number if all are the same."""
    found = [str(row.get(name, 0)) for row in cells if row is not None]
    return found[0] if len(set(found)) == 1 else " / ".join(found)


# ---- notes ----


def _notes(cells: Sequence[Cell], shown: Sequence[ResultRow], standings: Standings) -> list[str]:
    notes = ["Brackets are 95 % intervals."] if any(cell.interval for cell in cells) else []
    if any(row.get("higher_is_better") is False for row in shown):
        notes.append("↓: lower is better.")
    if any(row.get("failed") for row in shown):
        notes.append("Failed samples are in no figure.")
    notes += [f"{line}." for line in mark_legend(shown)]
    return [*notes, *_test_notes(shown, standings, bold=any(cell.tone for cell in cells))]


def _test_notes(shown: Sequence[ResultRow], standings: Standings, *, bold: bool) -> Iterator[str]:
    """Say what bold stands for, or why nothing is bold, and which figures no test has compared."""
    wholes, parts = ([row for row in shown if ("category" in row) is part] for part in (False, True))
    families = standings.families(wholes), standings.families(parts)
    untested = standings.untested(wholes), standings.untested(parts)
    if not any(families):
        if any(untested):
            yield "The systems were not tested against each other."
        return
    how = f"by a paired test (p < 5 %{_corrected(*families)})"
    partial = standings.partial(shown)
    if bold:
        yield f"Bold: ahead of every other system, {how}."
    else:
        yield f"No figure is {'known to be ' if any(untested) or partial else ''}ahead of all others {how}."
    if untested[1] and not families[1]:
        yield "Categories were not tested."
    if left := [*untested[0], *(untested[1] if families[1] else ())]:
        yield f"Not every two systems could be tested on {_question_names(left, shown)}."
    if partial:
        names = _question_names(partial, shown)
        yield f"Not all systems answered the same samples of {names}, so no figure is bold there."


def _question_names(questions: Sequence[Question], shown: Sequence[ResultRow]) -> str:
    """Name tasks, with their metrics if the table has several."""
    labels = {row["metric"]: metric_label(row) for row in shown}
    return listed([task if len(labels) == 1 else f"{task} by {labels[metric]}" for task, metric in questions])


def _corrected(wholes: Collection[int], parts: Collection[int]) -> str:
    """Say for how many comparisons p was corrected; those of categories are a family of their own."""
    told = [f"{'up to ' if len(each) > 1 else ''}{max(each, default=0)}" for each in (wholes, parts)]
    if wholes and parts and max(*wholes, *parts) > 1 and told[0] != told[1]:
        own = "" if max(wholes) == 1 else f"for {told[0]} comparisons, "
        return f", corrected {own}on categories for {told[1]}{'' if own else ' comparisons'}"
    most = max((*wholes, *parts), default=0)
    return f", corrected for {told[0] if wholes else told[1]} comparisons" if most > 1 else ""


# ---- names ----


def joined_name(parts: ColumnName) -> str:
    """Return the name of a system on one line."""
    return " · ".join(parts)


def _names(systems: Iterable[SystemId]) -> dict[SystemId, ColumnName]:
    """Name each system by its model if no other has the same one, or else by its run, or by both."""
    found = dict.fromkeys(systems)
    models = short_names(dict.fromkeys(system.model for system in found))
    forms: list[Callable[[SystemId], ColumnName]] = [
        lambda system: (models[system.model],),
        lambda system: (models[system.model], system.chunks),
        lambda system: (system.run,),
        lambda system: (system.run, models[system.model]),
        lambda system: (system.run, models[system.model], system.chunks),
    ]
    for form in forms:
        names = {system: tuple(filter(None, form(system))) for system in found}
        if len(set(names.values())) == len(found):
            return names
    return names


# ---- numbers ----


def _digits(rows: Iterable[ResultRow], name: str) -> int:
    """Return the digits after the point that the narrowest interval allows: its half has two that count."""
    known = [ends for row in rows if finite(row.get(name)) is not None and (ends := ends_of(row))]
    halves = [abs(high - low) / 2 for low, high in known]
    narrowest = min((half for half in halves if 0 < half < math.inf), default=None)
    if narrowest is None:
        return _DEFAULT_DIGITS
    return min(max(1 - math.floor(math.log10(narrowest)), 1), _MAX_DIGITS)
