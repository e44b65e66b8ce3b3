"""A comparison of runs on the screen: who is ahead, the figures, what differs, and the samples that flipped."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table

from kshot.core.errors import UsageError
from kshot.core.failed_parts import mark_legend
from kshot.core.records import UNANSWERED, ResultRow
from kshot.core.visible import metric_label, one_line
from kshot.report.cells import SafeText, block, cell, cut, fair_width, shortened
from kshot.report.comparison_view import (
    COUNTS,
    GLUE,
    SENTENCES,
    PairNames,
    answers,
    comparison_view,
    digits_of,
    not_compared,
    pair_names,
    pair_of,
    task_name,
    task_of,
    warnings,
)
from kshot.report.drawn_table import drawn, widths
from kshot.report.figures import number, short_names
from kshot.report.sample_look import ReadResponse, option_letter, parts_of, read_response, written
from kshot.report.setting_table import setting_table
from kshot.report.verdicts import correction, shown_measures
from kshot.report.view import Cell, Column, TableView
from kshot.runs.headline import grouped, headlines, task_rows
from kshot.runs.record import read_record
from kshot.runs.sample_filters import meant

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison


_SIDES = ("baseline", "run")
_COMPARED = (*_SIDES, "task", "run_task", "category")
"""What tells the tasks of a comparison apart."""


def drawn_comparison(
    comparison: Comparison,
    flips: Sequence[Flip],
    flipped: Sequence[ResultRow],
    *,
    width: int,
    everything: bool = False,
) -> Iterator[RenderableType]:
    """Draw a comparison for a terminal of this width; the smallest of many differences fold, but for ``everything``.

    ``flips`` are some of the samples that the rows ``flipped`` count as won or lost.
    """
    names = ShortNames(comparison.rows)
    every, parts = names.renamed(comparison.rows), names.renamed(comparison.categories)
    rows, categories = (every, parts) if everything else (main_rows(every), main_rows(parts))
    yield from (_wrapped(line, width) for line in answers(rows))
    yield from task_tables(rows, width=width, everything=everything)
    if left := len(every) - len(rows):
        yield cell(f"… and {left:,} more by other measures; --all shows them", "dim")
    yield from category_tables(categories, width=width, everything=everything)
    if comparison.settings:
        yield ""
        yield setting_table(comparison.settings, [run["label"] for run in comparison.runs], width)
    careful, notes = warnings(rows), comparison.notes
    if careful or notes:
        yield ""
    yield from (_wrapped(f"warning: {line}", width, "red") for line in careful)
    yield from (_wrapped(f"note: {line}", width) for line in notes)
    main = names.renamed(flipped)
    if any(row["won"] or row["lost"] for row in main):
        yield ""
        yield from flips_view([flip.renamed(names.labels) for flip in flips], main, width=width)


def comparison_sentences(comparison: Comparison) -> Iterator[str]:
    """Say who is ahead, without line breaks."""
    rows = ShortNames(comparison.rows).renamed(comparison.rows)
    return (one_line(line.replace(GLUE, " ")) for line in answers(main_rows(rows)))


def main_rows(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Return the rows without those of search by measures that no table shows."""
    shown = set(shown_measures([row for row in rows if row.get("kind") == "passages"]))
    return [row for row in rows if row.get("kind") != "passages" or row["metric"] in shown]


def headline_rows(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Return the rows of tasks or categories, each by the metric that stands for it."""
    whole = [row for row in main_rows(rows) if "average" not in row]
    return headlines(whole, lambda row: tuple(row.get(name) for name in _COMPARED))


def _wrapped(line: str, width: int, style: str = "") -> SafeText:
    """Return a line that is broken at its spaces, but for those that belong to one value."""
    lines = [""]
    for word in one_line(line).split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if lines[-1] and cell_len(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return block("\n".join(lines).replace(GLUE, " "), style)


class ShortNames:
    """The short names of models, and the labels of systems with them."""

    def __init__(self, rows: Sequence[ResultRow]) -> None:
        systems = {row[side]: (row[f"{side}_run"], row[f"{side}_model"]) for row in rows for side in _SIDES}
        self.models = short_names(dict.fromkeys(model for _, model in systems.values()))
        self.labels: dict[str, str] = {}
        for label, (run, model) in systems.items():
            named = label != run and label.endswith(model)
            self.labels[label] = label[: len(label) - len(model)] + self.models[model] if named else label

    def renamed(self, rows: Sequence[ResultRow]) -> list[ResultRow]:
        """Return rows with the short names."""
        return [
            {
                **row,
                **{side: self.labels[row[side]] for side in _SIDES},
                **{f"{side}_model": self.models[row[f"{side}_model"]] for side in _SIDES},
            }
            for row in rows
        ]


_MAX_ROWS = 12
"""Comparisons that a table of tasks shows; of more, those with the largest differences."""

_MAX_CATEGORIES = 8
_MAX_HEADING = 12
"""The width of a label that fits above a column of figures."""

_MAX_WORDS = 28
"""Wider names may be folded so that more columns fit."""

_MAX_PART = 100
"""Columns of the name of a category; strangers may have chosen it."""

_MIN_WORDS = 12
_NARROW: tuple[set[str], ...] = (set(), {"95 %"}, {"95 %", "n"})
"""What goes on a terminal that is narrower than most."""


_GAP = 2
"""The space between columns."""

_OTHER_COUNTS = COUNTS[2:]
_TOLD: tuple[tuple[str, ...], ...] = ((), ("verdict",), ("verdict", *_OTHER_COUNTS), ("verdict", *COUNTS))
"""What a table does without, until it fits, where sentences tell the counts."""

_UNTOLD: tuple[tuple[str, ...], ...] = ((), ("verdict",), COUNTS, ("verdict", *COUNTS))
"""The same where a second table has the counts."""

_CATEGORIES: tuple[tuple[str, ...], ...] = (
    *_TOLD[:3],
    ("verdict", *_OTHER_COUNTS, "95 %"),
    ("verdict", *COUNTS, "95 %"),
)


def task_tables(rows: Sequence[ResultRow], *, width: int, everything: bool) -> Iterator[RenderableType]:
    """Draw the figures of each task, averages over subsets first."""
    if not rows:
        return
    told = len(rows) <= SENTENCES
    if not told and not everything:
        rows = [row for row in rows if row["difference"] is not None]  # a sentence names the others
    shown = _folded(rows, None if everything else _MAX_ROWS)
    if not shown:
        return
    view = _view(shown, "")
    fitting = _fitting(view, _TOLD if told else _UNTOLD, width)
    yield ""
    yield cell(_title(shown), "bold")
    yield _table(fitting, width)
    if not told and not any(name in fitting for name in COUNTS):
        yield ""
        yield _table(view.only(*(each.name for each in view.columns if _is_name(each)), *COUNTS), width)
    yield from _below(rows, shown)


def category_tables(rows: Sequence[ResultRow], *, width: int, everything: bool) -> Iterator[RenderableType]:
    """Draw the figures of each category, the largest differences first; by its first metric, but for ``everything``."""
    main = list(rows) if everything else headlines(rows, lambda row: tuple(row.get(name) for name in _COMPARED))
    compared = [row for row in main if row["difference"] is not None]
    shown = _largest_first(main if everything else compared)[: None if everything else _MAX_CATEGORIES]
    if not main:
        return
    yield ""
    if shown:
        yield cell(f"By category: {_title(shown)}", "bold")
        yield _table(_fitting(_view(shown, "category"), _CATEGORIES, width), width)
        yield from _below(main if everything else compared, shown)
    yield from (cell(line) for line in not_compared(main, "category"))
    if len(main) < len(rows):
        yield cell(f"… and {len(rows) - len(main):,} more by other metrics; --all shows them", "dim")


def _folded(rows: Sequence[ResultRow], limit: int | None) -> list[ResultRow]:
    """Return the rows to show, averages first; of too many, those with the largest differences."""
    averages = [row for row in rows if "average" in row]
    others = [row for row in rows if "average" not in row]
    if limit is not None and len(rows) > limit:
        others = _largest_first(others)[: max(limit - len(averages), 1)]
    else:
        order = list(dict.fromkeys(row["task"] for row in others))
        others.sort(key=lambda row: order.index(row["task"]))  # the runs that are compared on one task stay together
    return [*averages, *others]


def _largest_first(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Sort rows by the size of the difference, as a share of the largest one by the same metric."""
    largest: dict[str, float] = {}
    for row in rows:
        largest[row["metric"]] = max(largest.get(row["metric"], 0.0), abs(row["difference"] or 0.0))

    def share(row: ResultRow) -> float:
        whole = largest[row["metric"]]
        return -1.0 if row["difference"] is None else abs(row["difference"]) / whole if whole else 0.0

    return sorted(rows, key=share, reverse=True)


def _title(rows: Sequence[ResultRow]) -> str:
    """Say what all rows of a table share."""
    metrics = {metric_label(row): row["higher_is_better"] for row in rows}
    name, higher = next(iter(metrics.items()))
    what = "Figures" if len(metrics) > 1 else name if higher else f"{name}, lower is better"
    baseline = pair_names(rows).baseline
    return f"{what} (baseline: {baseline})" if baseline else what


def _below(rows: Sequence[ResultRow], shown: Sequence[ResultRow]) -> Iterator[RenderableType]:
    """Say what the table leaves out, and what its p stands for."""
    yield from (cell(line, "dim", overflow="fold") for line in mark_legend(shown))
    if len(shown) < len(rows):
        yield cell(f"… and {len(rows) - len(shown):,} more with smaller differences; --all shows them", "dim")
    family = max((row["family"] for row in shown if row["p_corrected"] is not None), default=1)
    if family > 1:
        yield cell(f"{correction(family)}; the intervals are not", "dim")


# ---- columns ----


def _view(rows: Sequence[ResultRow], part: str) -> TableView:
    """Return all columns that rows can have; ``part``: what they are about beside a task."""
    pairs, headings = pair_names(rows), {"difference": "diff", "verdict": ""}
    if pairs.several and pairs.heading == "run":
        headings["run"] = "value"
    labels = (pairs.baseline, pairs.run)
    if all(labels) and max(map(cell_len, labels)) <= _MAX_HEADING:
        headings |= dict(zip(("baseline", "run"), labels, strict=True))
    view = comparison_view(rows).renamed(headings)
    view = view.joined(Column(pairs.heading, key="pair"), [pairs.names[pair_of(row)] for row in rows])
    view = view.once("task").changed("category", lambda each: shortened(each.text, _MAX_PART))
    view = view.changed("verdict", lambda each: each if each.tone else "")
    view = view.changed("difference", lambda each: replace(each, mark=""))
    names = {
        "task": not part or len(set(map(task_name, rows))) > 1,
        "category": bool(part),
        "metric": len(set(map(metric_label, rows))) > 1,
        "pair": pairs.several,
    }
    verdict = ["verdict"] if any(each.tone for each in view.cells("difference")) else []
    shown = [name for name, is_shown in names.items() if is_shown]
    view = view.only(*shown, "n", "baseline", "run", "difference", "95 %", "p", *verdict, *COUNTS)
    return replace(view, marked=[at for at, row in enumerate(rows) if "average" in row])


def _is_name(column: Column) -> bool:
    """Whether a column has words that may be broken."""
    return column.kind == "words" and column.wraps


def _fitting(view: TableView, steps: Sequence[Collection[str]], width: int) -> TableView:
    """Return the columns that fit. If no step is enough, names are folded more, and the interval and n go too."""
    last = set(steps[-1])
    tried = [*((step, _MAX_WORDS) for step in steps), *((last | more, _MIN_WORDS) for more in _NARROW)]
    chosen = view
    for without, most in tried:
        chosen = view.without(*without)
        wide = [min(each, most) if _is_name(column) else each for column, each in _widths(chosen)]
        if sum(wide) + _GAP * (len(wide) - 1) <= width:
            break
    return chosen


def _table(view: TableView, width: int) -> Table:
    """Draw columns; names that are too wide are broken where their parts end."""
    wide = _widths(view)
    room = width - sum(each for column, each in wide if not _is_name(column)) - _GAP * (len(wide) - 1)
    return drawn(view, most=fair_width([each for column, each in wide if _is_name(column)], room, _MIN_WORDS))


def _widths(view: TableView) -> list[tuple[Column, int]]:
    return list(zip(view.columns, widths(view), strict=True))


_SIGNS = {True: Cell("+", tone="good"), False: Cell("-", tone="bad")}
_MAX_NAME, _MIN_TEXT = 20, 8
_LETTERS = 26
_MAX_CHARACTERS = 500
"""No terminal is wider; to measure a reply of megabytes would take long."""


class Flip(NamedTuple):
    """A sample that flipped: what ``Comparison.flips`` says, and its rows in ``samples.jsonl`` of both runs."""

    found: ResultRow
    before: ResultRow
    after: ResultRow

    def renamed(self, labels: Mapping[str, str]) -> Flip:
        """Return the sample with other labels of the systems."""
        names = {side: labels.get(self.found[side], self.found[side]) for side in ("baseline", "run")}
        return self._replace(found={**self.found, **names})


def flips_view(flips: Sequence[Flip], rows: Sequence[ResultRow], *, width: int) -> Iterator[RenderableType]:
    """Draw some of the samples that flipped; ``rows`` are those of all tasks, by the metric that counts."""
    won, lost = (sum(row[name] for row in rows) for name in ("won", "lost"))
    graded = any("both" not in row for row in rows)
    changed = "Changed" if graded else "Flipped"
    some = f"; {len(flips):,} of them" if 0 < len(flips) < won + lost else ""
    yield cell(f"{changed}: {won:,} won (+) and {lost:,} lost (-){some}", "bold")
    if flips:
        yield _flips_table(flips, rows, graded=graded, width=width)


def _flips_table(flips: Sequence[Flip], rows: Sequence[ResultRow], *, graded: bool, width: int) -> Table:
    pairs = pair_names([row for row in rows if any(pair_of(row) == pair_of(flip.found) for flip in flips)])
    names, texts = _names(flips, pairs, several=len(set(map(task_name, rows))) > 1), _texts(flips, pairs)
    if graded:
        names.append(("score", [_scores(flip.found) for flip in flips]))
    columns = [(cut(one_line(name), _MAX_NAME), list(map(one_line, cells))) for name, cells in (*names, *texts)]
    wide = [max(map(cell_len, (name, *cells))) for name, cells in columns]
    room = width - 1 - _GAP * len(columns)
    most_name = _MAX_NAME if sum(wide) > room else max(wide)
    narrow = [min(each, most_name) for each in wide[: len(names)]]
    most = fair_width(wide[len(names) :], room - sum(narrow), _MIN_TEXT)
    limits = [most_name] * len(names) + [most] * len(texts)
    ways = [shortened] * len(names) + [cut] * len(texts)  # the ends of names tell them apart, those of texts do not
    view = TableView([Column("", wraps=False)], [[_SIGNS[flip.found["won"]]] for flip in flips])
    for (name, cells), limit, fit in zip(columns, limits, ways, strict=True):
        view = view.joined(Column(cut(name, limit), wraps=False), [fit(text, limit) for text in cells])
    return drawn(view)


def _names(flips: Sequence[Flip], pairs: PairNames, *, several: bool) -> list[tuple[str, list[str]]]:
    """Return the columns that say which sample it is."""
    columns: list[tuple[str, list[str]]] = []
    if several:
        columns.append(("task", [task_name(flip.found) for flip in flips]))
    if pairs.several:
        columns.append((pairs.heading, [pairs.names[pair_of(flip.found)] for flip in flips]))
    columns.append(("id", [flip.found["id"] for flip in flips]))
    if any(flip.found["category"] for flip in flips):
        columns.append(("category", [flip.found["category"] or "" for flip in flips]))
    return columns


def _texts(flips: Sequence[Flip], pairs: PairNames) -> list[tuple[str, list[str]]]:
    """Return the columns with the answers of both runs, and with what is right."""
    labels = (pairs.baseline, pairs.run)
    if not all(labels) or max(map(cell_len, labels)) > _MAX_NAME:
        labels = ("baseline", "this run")
    return [
        (labels[0], [answer_text(flip.before)[:_MAX_CHARACTERS] for flip in flips]),
        (labels[1], [answer_text(flip.after)[:_MAX_CHARACTERS] for flip in flips]),
        ("target", [target_text(flip.before)[:_MAX_CHARACTERS] for flip in flips]),
    ]


def _scores(found: ResultRow) -> str:
    values = (found["baseline_score"], found["run_score"])
    digits = digits_of([{"baseline_value": values[0], "run_value": values[1]}])
    return " → ".join(number(value, digits) for value in values)


# ---- texts ----


def answer_text(row: ResultRow) -> str:
    """Return the answer of a sample on one line: the text of the option that was chosen, or what was said."""
    return _text(row, row.get("answer"), read_response(row, ""), "none")


def target_text(row: ResultRow) -> str:
    """Return what would have been right."""
    response = read_response(row, "")
    return " or ".join(_text(row, each, response, "") for each in parts_of(row.get("target")))


def _text(row: ResultRow, value: Any, response: ReadResponse, none: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and isinstance(row.get("answer"), int):  # an option
        if value == UNANSWERED:
            return none
        options = response.options.texts
        if 0 <= value < len(options):
            return options[value]
        return option_letter(value) if 0 <= value < _LETTERS else str(value)
    if isinstance(value, dict) and isinstance(value.get("text"), str):
        value = value["text"]
    if value is None:
        return none
    if isinstance(value, list):
        return ", ".join(written(each) for each in value)
    return " ".join(written(value).split())


_MAX_COMMANDS = 3
_MAX_TASKS = 3


class FlipOptions(NamedTuple):
    """The options of ``kshot compare`` that say which samples are listed."""

    tasks: Sequence[str] = ()
    categories: Sequence[str] = ()


def sample_commands(
    comparison: Comparison, rows: Sequence[ResultRow], flips: Sequence[Flip], given: FlipOptions
) -> Iterator[str]:
    """Say which commands show the listed samples whole, one for each two runs; ``rows`` are what the samples are of.

    ``kshot samples --flipped`` finds samples that are right in one run alone. That is all that flipped by a metric of
    right and wrong; of graded ones a command for a single sample is named.
    """
    paths = {run["label"]: run["path"] for run in comparison.runs}
    by_pair = {pair_of(row): (row["baseline_run"], row["run_run"]) for row in rows}
    groups = grouped(flips, lambda flip: by_pair[pair_of(flip.found)])
    several = len(groups) > _MAX_COMMANDS
    for (before, after), shown in list(groups.items())[: 1 if several else None]:
        if paths[before] is None or paths[after] is None:
            continue
        own = [row for row in rows if (row["baseline_run"], row["run_run"]) == (before, after)]
        options = None if paths[before] == paths[after] else _options(own, paths[after], given)
        start = f"kshot samples {shlex.quote(paths[after])}"
        if options is None:
            whose = "the first" if len(groups) == 1 else f"the first of {after} and {before}"
            yield one_line(f"{start} {_single(shown[0], own)} shows {whose} whole")
        else:
            whose = "them" if len(groups) == 1 else f"those of {after} and {before}"
            yield one_line(" ".join((start, "--flipped", shlex.quote(paths[before]), *options, f"shows {whose} whole")))
    if several:
        yield "other runs are shown in the same way"


def _options(rows: Sequence[ResultRow], folder: str, given: FlipOptions) -> list[str] | None:
    """Return the options with which ``kshot samples`` finds the samples that flipped; None: there are none."""
    if any("both" not in row for row in rows):
        return None
    every = headlines(task_rows(read_record(Path(folder)).results), itemgetter("task", "model"))
    main = {(row["task"], row["model"]): row["metric"] for row in every}  # by which kshot samples judges
    options: list[str] = []
    if any(main.get((task_of(row, "run"), row["run_model"])) != row["metric"] for row in rows):
        metrics = {row["metric"] for row in rows}
        if len(metrics) > 1:
            return None
        options += ["--metric", *metrics]
    if given.tasks:
        wanted = list(dict.fromkeys(task_of(row, "run") for row in rows))
        known = list(dict.fromkeys(task for task, _ in main))
        names = given.tasks if _meant(given.tasks, known) == set(wanted) else wanted
        if len(names) > max(_MAX_TASKS, len(given.tasks)):
            return None
        options += [part for name in names for part in ("--task", name)]
    options += [part for name in given.categories for part in ("--category", name)]
    return list(map(shlex.quote, options))


def _meant(names: Sequence[str], known: Sequence[str]) -> set[str]:
    try:
        return {task for name in names for task in meant("task", name, known)}
    except UsageError:
        return set()


def _single(flip: Flip, rows: Sequence[ResultRow]) -> str:
    """Return the options that name one sample, of all models."""
    options = ["--id", flip.found["id"]]
    if len({task_of(row, "run") for row in rows}) > 1:
        options += ["--task", task_of(flip.found, "run")]
    return " ".join(map(shlex.quote, options))
