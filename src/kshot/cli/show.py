"""``kshot show RUN``: the figures of a finished run again, whole or by category."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Declare the command and its arguments."""
    command = commands.add_parser(
        "show",
        help="print the figures of a finished run again, or its worst categories",
        description="Print the figures of a finished run, as the run did. Nothing is asked or computed again.",
    )
    command.add_argument("run", metavar="RUN", help="run folder")
    command.add_argument("--by", choices=("category", "subset"), help="print the figures of each category or subset")
    ends = command.add_mutually_exclusive_group()
    for order in ("worst", "best"):
        ends.add_argument(
            f"--{order}", type=int, metavar="N", help=f"print only the N {order} categories, or subsets with --by"
        )
    command.add_argument("--metric", metavar="NAME", help="the metric to sort by (default: the headline)")
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
    if count is None and parsed.by is None and parsed.metric is None:
        show_result(result, as_json=parsed.json)
        return 0
    return _show_parts(result.results, parsed, count)


def _show_parts(rows: Any, parsed: argparse.Namespace, count: int | None) -> int:
    from kshot.cli.screen import Screen
    from kshot.cli.streams import show_json
    from kshot.core.visible import one_line
    from kshot.report.breakdown import Order, below, breakdown, breakdown_table

    order: Order = "worst" if parsed.best is None else "best"
    found = breakdown(rows, parsed.by, metric=parsed.metric, order=order, limit=count)
    if parsed.json:
        show_json(found.rows, indent=2)
        return 0
    console = Screen()
    console.print(breakdown_table(found, console.width))
    for line in below(found, order):
        console.print(one_line(line))
    return 0
