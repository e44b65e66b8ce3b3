"""``kshot samples RUN``: single samples of a run, chosen by outcome, name, score or text."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from kshot.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kshot.core.records import ResultRow
    from kshot.runs.record import RunRecord
    from kshot.runs.sample_filters import SampleFilter
    from kshot.runs.sample_flips import FlippedSamples
    from kshot.runs.sample_selection import SampleSelection

_USUAL_LIMIT = 10
"""Samples on a terminal; a pipe or a file gets all."""

_EXAMPLES = """examples:
  kshot samples runs/first --wrong
  kshot samples runs/first --failed
  kshot samples runs/first --task physics --sort score --limit 5
  kshot samples runs/first --id 17 --full
  kshot samples runs/five-shot --flipped runs/zero-shot --wrong
  kshot samples runs/first --wrong --json > wrong.jsonl
"""


class _Help(argparse.HelpFormatter):
    """Fits the description to the terminal, and leaves the lines of the examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text == _EXAMPLES else super()._fill_text(text, width, indent)


def add(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    command.description = (
        "Show single samples of a run: prompt, reply, answer and how it was read, target and score. "
        "A sample must meet every option; of --wrong, --right and --failed any one is enough, and so is one of "
        "several names."
    )
    command.epilog = _EXAMPLES
    command.formatter_class = _Help
    command.add_argument("run", metavar="RUN", help="run folder")
    chosen = command.add_argument_group("which samples")
    chosen.add_argument(
        "--wrong", action="store_true", help="not fully right: the score is below the best of its scale"
    )
    chosen.add_argument("--right", action="store_true", help="fully right")
    chosen.add_argument("--failed", action="store_true", help="no answer: the model, a server or the judge failed")
    names = {
        "task": ("NAME", "of this task, dataset or subset; the beginning of a name is enough"),
        "model": ("NAME", "of this model; the beginning of its name is enough"),
        "id": ("ID", "with this id"),
        "category": ("NAME", "of this category; the beginning of its name is enough"),
    }
    for name, (metavar, text) in names.items():
        chosen.add_argument(f"--{name}", action="append", default=[], metavar=metavar, help=f"{text} (repeatable)")
    chosen.add_argument(
        "--contains",
        metavar="TEXT",
        help="with this text in the prompt, reply, answer, target or failure, in capital letters or not",
    )
    chosen.add_argument(
        "--flipped", metavar="RUN2", help="right in one of the two runs and not in the other; both replies are shown"
    )
    chosen.add_argument(
        "--metric",
        metavar="NAME",
        help="judge by this metric (default: the headline of each task, as kshot runs has it)",
    )
    chosen.add_argument("--below", type=float, metavar="X", help="with a score below X")
    chosen.add_argument("--above", type=float, metavar="X", help="with a score above X")
    shown = command.add_argument_group("how they are shown")
    shown.add_argument(
        "--sort",
        choices=("score", "id", "task", "category", "prompt", "reply"),
        help="score: the worst first; prompt, reply: the shortest first (default: as in the run)",
    )
    shown.add_argument("--reverse", action="store_true", help="the other way round")
    shown.add_argument(
        "--limit",
        type=int,
        metavar="N",
        help=f"show only the first N (default: {_USUAL_LIMIT} on a terminal, else all)",
    )
    shown.add_argument("--full", action="store_true", help="show all of each sample: every message, score and rule")
    shown.add_argument("--json", action="store_true", help="print the rows of samples.jsonl, one on each line")


def execute(parsed: argparse.Namespace) -> int:
    """Show samples."""
    from pathlib import Path

    from kshot.cli.streams import show_json
    from kshot.runs.record import read_record
    from kshot.runs.sample_filters import sample_filter
    from kshot.runs.sample_selection import SampleSelection

    if parsed.limit is not None and parsed.limit < 1:
        raise UsageError(f"--limit is {parsed.limit}; it must be 1 or more")
    record = read_record(parsed.run)
    names = ("wrong", "right", "failed", "task", "model", "id", "category", "contains", "metric", "below", "above")
    wanted = sample_filter(record, **{name: getattr(parsed, name) for name in names})
    flipped = None if parsed.flipped is None else _flipped(record, parsed.flipped, wanted)
    selection = SampleSelection(Path(parsed.run).expanduser(), wanted, flipped)
    limit = parsed.limit
    if limit is None and not parsed.json and sys.stdout.isatty():
        limit = _USUAL_LIMIT
    rows = selection.rows(parsed.sort, limit, reverse=parsed.reverse)
    if parsed.json:
        for _, row in rows:
            show_json(row)
    else:
        _print(rows, selection, parsed)
    return 0


def _flipped(record: RunRecord, other: str, wanted: SampleFilter) -> FlippedSamples:
    from kshot.runs.record import read_record
    from kshot.runs.sample_flips import flipped_samples

    return flipped_samples(record, read_record(other), wanted.chosen_scales())


def _print(rows: Iterable[tuple[int, ResultRow]], selection: SampleSelection, parsed: argparse.Namespace) -> None:
    from kshot.cli.screen import Screen
    from kshot.report.sample_look import SampleLooks
    from kshot.report.samples import flip_view, sample_view
    from kshot.runs.samples_file import rows_at

    console = Screen()
    looks = SampleLooks(parsed.run, selection.wanted, full=parsed.full)
    others = None if selection.flipped is None else SampleLooks(parsed.flipped, selection.wanted, full=parsed.full)
    failed = False
    for place, row in rows:
        look = looks.of(row)
        failed |= bool(row.get("failed"))
        if selection.flipped is None or others is None:
            parts = sample_view(look)
        else:
            found = selection.flipped.counterparts[place]
            there = rows_at(others.folder, [each.place for each in found])
            both = [look, *(others.of(other, each.scale) for each, other in zip(found, there, strict=True))]
            parts = flip_view(both, selection.flipped.labels)
        for part in parts:
            console.print(part)
        console.print()
    for line in _summary(selection, full=parsed.full):
        console.print(line, style="dim")
    if failed:
        console.print("the command that made the run, given again, asks the failed samples again", style="dim")


def _summary(selection: SampleSelection, *, full: bool) -> Iterator[str]:
    """Yield how many samples match, and how to see more."""
    every = f"{selection.total:,} sample{'' if selection.total == 1 else 's'}"
    matching, shown = selection.matching, selection.shown
    if not matching:
        yield f"none of the {every} matches" if selection.total else "this run has no samples"
        if selection.unrated:
            metrics = ", ".join(sorted({scale.label for scale in selection.wanted.scales.values()}))
            yield (
                f"of {selection.unrated:,}, {metrics or 'no metric'} says neither right nor wrong: "
                "--below and --above choose by the score, --metric takes another metric"
            )
        return
    chosen = every if matching == selection.total else f"{matching:,} of {every} match{'es' if matching == 1 else ''}"
    before = f", {shown:,} {'is' if shown == 1 else 'are'} shown" if shown < matching else ""
    more = [f"--limit {matching} shows all"] if shown < matching else []
    more += [] if full else ["--full shows all of it" if shown == 1 else "--full shows all of each"]
    yield f"{chosen}{before}{'; ' if more else ''}{', '.join(more)}"
