"""The figures of a run on the screen, or as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kshot.cli.screen import Screen
from kshot.cli.streams import OutputError, flushed, say, show_json
from kshot.core.failed_parts import mark_legend
from kshot.core.visible import one_line
from kshot.report.drawn_table import drawn_views
from kshot.report.subjects import every_subject
from kshot.report.table import details_tables, findings, grids, results_table, spending
from kshot.report.verdicts import model_verdicts, spreads, systems_tables, verdicts
from kshot.reporting import own_report
from kshot.runs.swept_rows import SWEEP, is_swept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kshot.core.records import ResultRow
    from kshot.result import Result


_MAX_FAILURES = 3
"""Tasks whose first failure is told; a dataset may have dozens of subsets."""


def show_result(result: Result, *, as_json: bool, gates: Sequence[ResultRow] | None = None) -> None:
    """Print the figures, and on stderr the first failures. If they cannot be printed, say where they are.

    ``gates``: what the gates of the command found, which is part of the JSON.
    """
    try:
        with flushed():
            _show(result, as_json=as_json, gates=gates)
    except OutputError as exc:
        exc.hint = f"The results are stored in the run folder {result.path}."
        raise


def _show(result: Result, *, as_json: bool, gates: Sequence[ResultRow] | None) -> None:
    for line in _failures(result):
        say(line)
    if as_json:
        shown = {
            "results": result.results,
            "comparisons": result.comparisons,
            "notes": result.notes,
            "usage": result.usage,
            "run": str(result.path),
            **({} if gates is None else {"gates": gates}),
        }
        show_json(shown, indent=2)
    else:
        _print(result)


def _failures(result: Result) -> Iterator[str]:
    """Yield the first failure of each task, of a few tasks, and where to see the others."""
    yield from result.first_failures[:_MAX_FAILURES]
    more = len(result.first_failures) - _MAX_FAILURES
    if more > 0:
        where = "" if result.path is None else f"; kshot samples {shlex.quote(str(result.path))} --failed shows them"
        yield f"… and failures in {more} more tasks{where}"


def _print(result: Result) -> None:
    console = Screen()
    if (shard := result.settings.get("shard")) is not None:
        console.print(one_line(f"shard {shard} of a run has no figures: kshot merge joins the shards"))
    single = [row for row in result.results if not is_swept(row)]
    looked_up = [row for row in single if row.get("kind") == "lookup"]
    searched = [row for row in single if row.get("kind") == "passages"]
    others = [row for row in single if "kind" not in row]
    tables = [*grids(looked_up), *systems_tables(searched)]
    if any(not row.get("detail") for row in others):
        tables.append(results_table(others))
    alone = not tables and not others  # details of token lookup, by a metric that the user named
    tables += details_tables(single if alone else others)
    found = list(every_subject())
    for subject in found:
        tables += drawn_views(subject.views(result, lambda _: None))
    for table in tables:
        console.print(table)
    for line in mark_legend(single):
        console.print(one_line(line), style="dim")
    names = {row["benchmark"] for row in searched}
    of_systems = [row for row in result.comparisons if row["task"] in names]
    of_models = [row for row in result.comparisons if row["task"] not in names and SWEEP not in row]
    for line in findings(looked_up):
        console.print(one_line(line), soft_wrap=True)
    compared = (*verdicts(of_systems, searched), *model_verdicts(of_models))
    compared += tuple(line for subject in found for line in subject.sentences(result))
    for line in (*compared, *spreads(result.results)):
        console.print(one_line(line))  # as wide as the table above
    path = None if result.path is None else own_report(result.path)
    where = [f"run folder: {result.path}", *([] if path is None else [f"report: {path}"])]
    for line in (*spending(result.usage), *where):
        console.print(one_line(line), soft_wrap=True)
