"""The commands that show whole what a comparison lists: samples that flipped."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kshot.core.errors import UsageError
from kshot.core.records import ResultRow
from kshot.core.visible import one_line
from kshot.report.comparison_words import task_of
from kshot.report.flips import Flip
from kshot.runs.headline import TaskOnModel, headlines, task_rows
from kshot.runs.record import read_record
from kshot.runs.sample_filters import meant

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison

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
