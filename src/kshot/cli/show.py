"""``kshot show RUN``: the figures of a finished run again, whole or by category, subset or task."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kshot.core.records import ResultRow
    from kshot.result import Result


def add(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    command.description = "Print the figures of a finished run, as the run did. Nothing is asked or computed again."
    command.add_argument("run", metavar="RUN", help="run folder")
    command.add_argument("--by", choices=("category", "subset", "task"), help="print the figures of each of them")
    ends = command.add_mutually_exclusive_group()
    for order in ("worst", "best"):
        ends.add_argument(
            f"--{order}",
            type=int,
            metavar="N",
            help=f"print only the N {order} categories; without categories, subsets, and without those, tasks",
        )
    command.add_argument(
        "--metric", metavar="NAME", help="only figures by this metric (default: all; with --by, the headline)"
    )
    command.add_argument("--json", action="store_true", help="print JSON")


def execute(parsed: argparse.Namespace) -> int:
    """Print the figures."""
    from kshot.cli.results import show_result
    from kshot.core.errors import UsageError
    from kshot.result import load

    result = load(parsed.run)
    count = parsed.worst if parsed.worst is not None else parsed.best
    if count is not None and count < 1:
        raise UsageError(f"--{'worst' if parsed.worst is not None else 'best'} is {count}; it must be 1 or more")
    if count is None and parsed.by is None:
        show_result(result if parsed.metric is None else _by_metric(result, parsed.metric), as_json=parsed.json)
        return 0
    return _show_parts(result.results, parsed, count)


def _by_metric(result: Result, metric: str) -> Result:
    """Return only the figures by one metric."""
    from dataclasses import replace

    from kshot.core.errors import UsageError

    chosen = [row for row in result.results if row["metric"] == metric]
    if not chosen:
        known = ", ".join(dict.fromkeys(row["metric"] for row in result.results))
        raise UsageError(f"this run has no metric {metric!r:.80}", hint=f"It has: {known or 'none'}.")
    return replace(result, results=chosen, comparisons=[row for row in result.comparisons if row["metric"] == metric])


def _show_parts(rows: Sequence[ResultRow], parsed: argparse.Namespace, count: int | None) -> int:
    from kshot.cli.screen import Screen
    from kshot.cli.streams import show_json
    from kshot.core.visible import one_line
    from kshot.report.breakdown import Order, below, breakdown, breakdown_table

    order: Order = "worst" if parsed.best is None else "best"
    found = breakdown(rows, parsed.by, metric=parsed.metric, order=order, limit=count)
    if parsed.json:
        show_json({"by": found.by, "rows": found.rows}, indent=2)
        return 0
    console = Screen()
    console.print(breakdown_table(found, console.width))
    for line in below(found, order):
        console.print(one_line(line))
    return 0
