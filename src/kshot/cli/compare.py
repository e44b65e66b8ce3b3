"""``kshot compare RUN RUN…``: who is ahead, on which questions, and what differs between the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from kshot.comparing import ComparisonResult
    from kshot.core.records import ResultRow
    from kshot.report.comparison import Flip
    from kshot.runs.comparing import Comparison

_FEW, _MANY = 5, 20
"""Samples that flipped: shown in any case, and with a bare ``--flips``."""


def add(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    command.description = (
        "Compare finished runs, question by question. Models, prompts, shots and clean-ups may differ; the "
        "questions may not. The first run is the baseline of all others. Of one run alone, the models are compared "
        "with its first one."
    )
    command.add_argument("run", nargs="+", metavar="RUN", help="run folders")
    command.add_argument("--metric", metavar="NAME", help="compare by this metric only")
    names = {
        "task": "compare on this task, dataset or subset only; the beginning of a name is enough",
        "category": "show the figures and flips of this category; the beginning of its name is enough",
    }
    for name, text in names.items():
        command.add_argument(f"--{name}", action="append", default=[], metavar="NAME", help=f"{text} (repeatable)")
    command.add_argument("--all-pairs", action="store_true", help="compare every two runs, not only with the first")
    command.add_argument("--all", action="store_true", help="show all tasks and categories, not only large differences")
    command.add_argument(
        "--flips",
        nargs="?",
        const=str(_MANY),
        metavar="N",
        help=f"show N samples that flipped (default: {_FEW}, with --json all; without N: {_MANY})",
    )
    command.add_argument("--json", action="store_true", help="print JSON")


def execute(parsed: argparse.Namespace) -> int:
    """Compare runs, and print what was found."""
    from kshot.comparing import compare
    from kshot.report.comparison import headline_rows

    count = _flip_count(parsed.flips)
    found = compare(*parsed.run, metric=parsed.metric, task=parsed.task, all_pairs=parsed.all_pairs)
    if parsed.category:
        found = _of_categories(found, parsed.category)
    rows = headline_rows(found.categories if parsed.category else found.rows)
    if parsed.json:
        from kshot.cli.streams import show_json

        flips = _flips(found, rows, count) if parsed.flips is not None else _every_flip(found, rows)
        show_json({**found.as_dict(), "flips": [flip.found for flip in flips]}, indent=2)
        return 0
    _show(found, rows, list(_flips(found, rows, count)), parsed)
    return 0


def _of_categories(found: ComparisonResult, names: Sequence[str]) -> ComparisonResult:
    """Leave out the other categories; their tests were made together, and are not made again."""
    from dataclasses import replace

    from kshot.runs.sample_filters import meant

    known = list(dict.fromkeys(row["category"] for row in found.categories))
    wanted = {each for name in names for each in meant("category", name, known, nobody="no run has the")}
    return replace(found, categories=[row for row in found.categories if row["category"] in wanted])


def _flip_count(given: str | None) -> int:
    from kshot.core.errors import UsageError

    if given is None:
        return _FEW
    if not given.isdecimal():
        hint = "Write the runs before it: kshot compare RUN RUN --flips."
        raise UsageError(f"--flips is {given!r}; it must be a number of samples", hint=hint)
    return int(given)


def _flips(comparison: Comparison, rows: Sequence[ResultRow], count: int) -> Iterator[Flip]:
    """Yield some of the samples that flipped, from all rows in turn: as many lost as won, if there are so many."""
    from itertools import chain, islice, zip_longest

    from kshot.report.comparison import Flip

    lost, won = (sum(row[name] for row in rows) for name in ("lost", "won"))
    shares = {False: min(lost, max(count - count // 2, count - won)), True: min(won, max(count // 2, count - lost))}
    for wins, share in shares.items():
        having = [row for row in rows if row["won" if wins else "lost"]][:share]
        in_turn = chain.from_iterable(zip_longest(*(comparison.flips_of(row, won=wins) for row in having)))
        yield from (Flip(*found) for found in islice(filter(None, in_turn), share))


def _every_flip(comparison: Comparison, rows: Sequence[ResultRow]) -> Iterator[Flip]:
    from kshot.report.comparison import Flip

    return (Flip(*found) for row in rows for found in comparison.flips_of(row))


def _show(comparison: Comparison, rows: Sequence[ResultRow], flips: Sequence[Flip], parsed: argparse.Namespace) -> None:
    from kshot.cli.screen import Screen
    from kshot.report.comparison import FlipOptions, drawn_comparison, sample_commands

    console = Screen()
    for part in drawn_comparison(comparison, flips, rows, width=console.width, everything=parsed.all):
        console.print(part)
    categories = dict.fromkeys(row["category"] for row in rows) if parsed.category else ()
    given = FlipOptions(parsed.task, tuple(categories))
    for line in sample_commands(comparison, rows, flips, given):
        console.print(line, soft_wrap=True)
