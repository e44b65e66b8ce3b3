"""``kshot export``: runs as tables for a paper or a program, and as files that other tools read."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kshot.cli.streams import say, show
from kshot.core.export_formats import FORMATS, PARTS, TEXTS
from kshot.core.visible import one_line

if TYPE_CHECKING:
    import argparse


def add(export: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    export.description = (
        "Write the figures or the samples of runs as a table (csv, parquet, markdown, latex), or a run for "
        "other tools: trec (rankings and a BEIR folder), inspect (logs of Inspect), lmeval (files of lm-eval), "
        "hf (.eval_results of the hub)."
    )
    export.add_argument("run", nargs="+", metavar="RUN", help="run folder; tables take several, side by side")
    export.add_argument("--to", required=True, choices=FORMATS, help="the format to write")
    export.add_argument(
        "--out",
        metavar="PATH",
        help="file (for trec, inspect, lmeval and hf: folder) to write; what is there is replaced (default: csv, "
        "markdown and latex are printed, the others get a name here after the run)",
    )
    export.add_argument("--what", choices=PARTS, help="what a table shows (default: results)")
    export.add_argument(
        "--raw",
        action="store_true",
        help="csv for programs: texts that look like formulas get no apostrophe, control characters no escapes",
    )
    export.add_argument("--no-intervals", action="store_true", help="markdown, latex: leave the intervals out")
    export.add_argument("--caption", metavar="TEXT", help="markdown, latex: plain text that stands with the table")
    export.add_argument("--label", metavar="NAME", help="latex: the label (default: tab:RUN-results)")
    export.add_argument(
        "--dataset-id",
        action="append",
        metavar="[TASK=]ID[:TASK_ID]",
        help="hf: what the run, or one task of it, is on the hub, such as cais/mmlu:anatomy (repeatable)",
    )
    export.add_argument(
        "--trust",
        action="append",
        metavar="FILE.py",
        help="trec: a file of yours that the run uses and that has changed since: its code may run (repeatable)",
    )


def execute(parsed: argparse.Namespace) -> int:
    """Write what the user wants; print a table, or the path of each file."""
    from kshot.core.errors import UsageError
    from kshot.exporting import Export

    asked = Export(
        parsed.run,
        parsed.to,
        parsed.what,
        parsed.raw,
        not parsed.no_intervals,
        parsed.caption,
        parsed.label,
        parsed.dataset_id or (),
        parsed.trust or (),
        say,
    )
    asked.check()
    if parsed.raw and parsed.out is None:
        raise UsageError("--raw needs --out", hint="A terminal is shown control characters as escapes.")
    if parsed.out is None and parsed.to in TEXTS:
        asked.write_text(sys.stdout)
        return 0
    for path in asked.files(parsed.out):
        show(one_line(path))
    return 0
