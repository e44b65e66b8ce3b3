"""``kshot report RUN…``: runs as one HTML file to share, which opens from the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    command.description = (
        "Write figures, charts, settings and samples of runs as one HTML file of at most 2 MB, which opens "
        "from the disk without a network. Every run with a folder has one; several runs are shown side by side, and "
        "the first is the baseline of the others."
    )
    command.add_argument("run", nargs="+", metavar="RUN", help="run folder")
    command.add_argument(
        "--out",
        metavar="FILE",
        help="file to write; a report that is there is replaced (default: report.html in the folder of one run; for "
        "several runs, report.html here)",
    )


def execute(parsed: argparse.Namespace) -> int:
    """Write the report; print where it is and what it holds."""
    from kshot.cli.streams import say, show
    from kshot.core.errors import UsageError
    from kshot.core.visible import one_line
    from kshot.reporting import report_on

    if parsed.out == "":
        raise UsageError("--out is empty", hint="Name a file, or leave it out.")
    written = report_on(parsed.run, parsed.out)
    show(one_line(written.path))
    samples = f"{written.here:,}" if written.here == written.all else f"{written.here:,} of {written.all:,}"
    say(f"{written.bytes / 1e6:.2f} MB, {samples} sample{'' if written.all == 1 else 's'}")
    return 0
