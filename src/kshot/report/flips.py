"""The samples whose answers flipped between two runs, one on a line, and the commands that show them whole."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table

from kshot.core.errors import UsageError
from kshot.core.records import UNANSWERED, ResultRow
from kshot.core.visible import one_line
from kshot.report.cells import cell, cut, fair_width, shortened
from kshot.report.comparison_view import PairNames, digits_of, pair_names, pair_of, task_name, task_of
from kshot.report.figures import number
from kshot.report.sample_look import ReadResponse, read_response
from kshot.report.sample_texts import option_letter, written
from kshot.runs.headline import TaskOnModel, headlines, task_rows
from kshot.runs.record import read_record
from kshot.runs.sample_filters import meant

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison


_SIGNS = {True: ("+", "bold green"), False: ("-", "bold red")}
_MAX_NAME, _MIN_TEXT = 20, 8
_SAID = ("baseline", "this run")
_GAP = 2
_LETTERS = 26
_MAX_CHARACTERS = 500
"""No terminal is wider; to measure a reply of megabytes would take long."""


class Flip(NamedTuple):
    """A sample that flipped: what ``Comparison.flips`` says, and its rows in ``samples.jsonl`` of both runs."""

    found: ResultRow
    before: ResultRow
    after: ResultRow

    @property
    def sides(self) -> tuple[str, str]:
        """The labels of the baseline and of the run."""
        return self.found["baseline"], self.found["run"]

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
        yield _table(flips, rows, graded=graded, width=width)


def _table(flips: Sequence[Flip], rows: Sequence[ResultRow], *, graded: bool, width: int) -> Table:
    pairs = pair_names([row for row in rows if any(pair_of(row) == flip.sides for flip in flips)])
    names, texts = _names(flips, pairs, several=len(set(map(task_name, rows))) > 1), _texts(flips, pairs)
    if graded:
        names.append(("score", [_scores(flip.found) for flip in flips]))
    columns = [(cut(one_line(name), _MAX_NAME), list(map(one_line, cells))) for name, cells in (*names, *texts)]
    widths = [max(map(cell_len, (name, *cells))) for name, cells in columns]
    room = width - 1 - _GAP * len(columns)
    most_name = _MAX_NAME if sum(widths) > room else max(widths)
    narrow = [min(each, most_name) for each in widths[: len(names)]]
    most = fair_width(widths[len(names) :], room - sum(narrow), _MIN_TEXT)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    limits = [most_name] * len(names) + [most] * len(texts)
    ways = [shortened] * len(names) + [cut] * len(texts)  # the ends of names tell them apart, those of texts do not
    for name, limit in zip(("", *(name for name, _ in columns)), (1, *limits), strict=True):
        table.add_column(cell(cut(name, limit)), no_wrap=True)
    for at, flip in enumerate(flips):
        shown = (cell(fit(cells[at], limit)) for (_, cells), limit, fit in zip(columns, limits, ways, strict=True))
        table.add_row(cell(*_SIGNS[flip.found["won"]]), *shown)
    return table


def _names(flips: Sequence[Flip], pairs: PairNames, *, several: bool) -> list[tuple[str, list[str]]]:
    """Return the columns that say which sample it is."""
    columns: list[tuple[str, list[str]]] = []
    if several:
        columns.append(("task", [task_name(flip.found) for flip in flips]))
    if pairs.several:
        columns.append((pairs.heading, [pairs.names[flip.sides] for flip in flips]))
    columns.append(("id", [flip.found["id"] for flip in flips]))
    if any(flip.found["category"] for flip in flips):
        columns.append(("category", [flip.found["category"] or "" for flip in flips]))
    return columns


def _texts(flips: Sequence[Flip], pairs: PairNames) -> list[tuple[str, list[str]]]:
    """Return the columns with the answers of both runs, and with what is right."""
    labels = (pairs.baseline, pairs.run)
    if not all(labels) or max(map(cell_len, labels)) > _MAX_NAME:
        labels = _SAID
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
    target = row.get("target")
    response = read_response(row, "")
    if isinstance(target, list):
        return " or ".join(_text(row, each, response, "") for each in target)
    return _text(row, target, response, "")


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
    groups: dict[tuple[str, str], list[Flip]] = {}
    by_pair = {(row["baseline"], row["run"]): (row["baseline_run"], row["run_run"]) for row in rows}
    for flip in flips:
        groups.setdefault(by_pair[flip.sides], []).append(flip)
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
    main = _headlines(folder)
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


def _headlines(folder: str) -> Mapping[TaskOnModel, str]:
    """Return the metric by which ``kshot samples`` judges each task and model of a run."""
    rows = headlines(task_rows(read_record(Path(folder)).results), lambda row: (row["task"], row["model"]))
    return {(row["task"], row["model"]): row["metric"] for row in rows}


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
