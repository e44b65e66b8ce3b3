"""``kshot compare RUN RUN…``: who is ahead, on which questions, and what differs between the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from kshot.report.flips import Flip
    from kshot.runs.comparing import Comparison

_FEW, _MANY = 5, 20
"""Samples that flipped: shown in any case, and with a bare ``--flips``."""


def add(commands: Any) -> None:
    """Declare the command and its arguments."""
    command = commands.add_parser(
        "compare",
        help="compare finished runs question by question: who is ahead, where, and what differs",
        description="Compare finished runs, question by question. Models, prompts, shots and clean-ups may differ; the "
        "questions may not. The first run is the baseline of all others. Of one run alone, the models are compared "
        "with its first one.",
    )
    command.add_argument("run", nargs="+", metavar="RUN", help="run folders")
    command.add_argument("--metric", metavar="NAME", help="compare by this metric only")
    command.add_argument("--task", metavar="NAME", help="compare on this task or dataset only")
    command.add_argument("--all-pairs", action="store_true", help="compare every two runs, not only with the first")
    command.add_argument("--all", action="store_true", help="show all tasks and categories, not only large differences")
    command.add_argument(
        "--flips",
        nargs="?",
        const=str(_MANY),
        metavar="N",
        help=f"show N samples that flipped (default: {_FEW}; without N: {_MANY})",
    )
    command.add_argument("--json", action="store_true", help="print JSON")


def execute(parsed: argparse.Namespace) -> int:
    """Compare runs, and print what was found."""
    from kshot.comparing import compare

    count = _flip_count(parsed.flips)
    found = compare(*parsed.run, metric=parsed.metric, task=parsed.task, all_pairs=parsed.all_pairs)
    flips = list(_flips(found, count))
    if parsed.json:
        from kshot.cli.streams import show_json

        show_json({**found.as_dict(), "flips": [flip.found for flip in flips]}, indent=2)
        return 0
    _show(found, flips, everything=parsed.all)
    return 0


def _flip_count(given: str | None) -> int:
    from kshot.core.errors import UsageError

    if given is None:
        return _FEW
    if not given.isdecimal():
        hint = "Write the runs before it: kshot compare RUN RUN --flips."
        raise UsageError(f"--flips is {given!r}; it must be a number of samples", hint=hint)
    return int(given)


def _flips(comparison: Comparison, count: int) -> Iterator[Flip]:
    """Yield some of the samples that flipped, from all tasks in turn: as many lost as won, if there are so many."""
    from itertools import chain, islice, zip_longest

    from kshot.report.comparison import headlines
    from kshot.report.flips import Flip

    rows = headlines(comparison.rows)
    lost, won = (sum(row[name] for row in rows) for name in ("lost", "won"))
    shares = {False: min(lost, max(count - count // 2, count - won)), True: min(won, max(count // 2, count - lost))}
    for wins, share in shares.items():
        having = [row for row in rows if row["won" if wins else "lost"]][:share]
        names = ("task", "metric", "baseline", "run")
        sources = (comparison.flip_rows(**{name: row[name] for name in names}, won=wins) for row in having)
        in_turn = chain.from_iterable(zip_longest(*sources))
        yield from (Flip(*found) for found in islice(filter(None, in_turn), share))


def _show(comparison: Comparison, flips: Sequence[Flip], *, everything: bool) -> None:
    from kshot.cli.screen import Screen
    from kshot.report.comparison import comparison_view

    console = Screen()
    for part in comparison_view(comparison, flips, width=console.width, everything=everything):
        console.print(part)
    if flips and len({run["path"] for run in comparison.runs}) > 1:
        console.print(_more(comparison), soft_wrap=True)


def _more(comparison: Comparison) -> str:
    """Return the command that shows the samples whole."""
    import shlex

    from kshot.core.visible import one_line

    baseline, run = (str(each["path"]) for each in comparison.runs[:2])
    return one_line(f"kshot samples {shlex.quote(run)} --flipped {shlex.quote(baseline)} shows them whole")
