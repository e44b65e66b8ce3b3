"""Gates on the command line: ``kshot gate RUN``, and the same options of ``kshot run`` and ``kshot score``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from kshot.core.records import ResultRow
    from kshot.core.watcher import Watcher
    from kshot.result import Result
    from kshot.runs.gates import Gates

OK, NOTHING_ANSWERED, GATE_FAILED = 0, 1, 3
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Where GitHub says which file a step may write its summary to."""


def add(commands: Any) -> None:
    """Declare the command and its arguments."""
    command = commands.add_parser(
        "gate",
        help="fail a build if a finished run is not good enough",
        description="Check a finished run: exit code 0 if it passes all gates, 3 if it does not. Nothing is asked, "
        "and no code that the run names is imported.",
    )
    command.add_argument("run", metavar="RUN", help="run folder")
    add_gates(command)
    command.add_argument("--json", action="store_true", help="print JSON")


def add_gates(command: argparse.ArgumentParser) -> None:
    """Declare the options of gates, which several commands have."""
    group = command.add_argument_group("gates (exit code 3 if one fails)")
    group.add_argument(
        "--fail-under",
        action="append",
        metavar="METRIC=X",
        help="fail if this figure is below X in any task, or above X if lower is better; the figure itself counts, not "
        "its interval, and of a dataset with subsets the average; TASK:METRIC=X is for one task (repeatable)",
    )
    group.add_argument(
        "--fail-if-worse",
        action="append",
        metavar="RUN",
        help="fail if the run is worse than this finished run by the paired, corrected test (repeatable)",
    )
    group.add_argument("--fail-on-failed", action="store_true", help="fail if any sample failed")
    group.add_argument("--junit", metavar="FILE.xml", help="write the gates and figures as JUnit XML")
    group.add_argument(
        "--step-summary",
        nargs="?",
        const="",
        metavar="FILE.md",
        help=f"add a summary in Markdown to this file (default: the one that GitHub names in {SUMMARY_VARIABLE})",
    )


def execute(parsed: argparse.Namespace) -> int:
    """Check a finished run."""
    from kshot.core.errors import UsageError
    from kshot.result import load
    from kshot.runs.gates import check_finished

    wanted = gating(parsed)
    if not wanted.gates:
        hint = "Add --fail-under METRIC=X, --fail-if-worse RUN or --fail-on-failed."
        raise UsageError("no gate is named", hint=hint)
    result = load(parsed.run)
    check_finished(Path(parsed.run).expanduser())
    wanted.gates.check_baselines(parsed.run)
    return _Finish(result, wanted, as_json=parsed.json, figures=False).run()


@dataclass(frozen=True)
class Gating:
    """What a command line asks for: the gates, and the files that tell of them."""

    gates: Gates
    junit: Path | None = None
    summary: Path | None = None

    def watchers(self) -> list[Watcher]:
        """Return what refuses, before anything is asked, a threshold of a metric that the run will not have."""
        from kshot.runs.gates import ThresholdWatcher

        return [ThresholdWatcher(self.gates)] if self.gates.under else []


def gating(parsed: argparse.Namespace) -> Gating:
    """Return what the command line asks for. What cannot be read or written is an error, before anything is asked."""
    from kshot.core.errors import UsageError
    from kshot.runs.gates import Gates

    gates = Gates.of(parsed.fail_under or (), parsed.fail_if_worse or (), fail_on_failed=parsed.fail_on_failed)
    junit = None if parsed.junit is None else _file(parsed.junit, "--junit", ".xml")
    if parsed.step_summary is None:
        return Gating(gates, junit)
    place = parsed.step_summary or os.environ.get(SUMMARY_VARIABLE, "")
    if not place:
        hint = "Name a file: --step-summary summary.md."
        raise UsageError(f"--step-summary has no file, and {SUMMARY_VARIABLE} is not set", hint=hint)
    return Gating(gates, junit, _file(place, "--step-summary", ".md" if parsed.step_summary else ""))


def _file(text: str, option: str, suffix: str) -> Path:
    """Return the path of a file to write, if it can be one; without this suffix, it may be a file of another kind."""
    from kshot.core.errors import UsageError

    path = Path(text).expanduser()
    if text and suffix not in {"", path.suffix}:
        raise UsageError(f"{option} {text!r:.80} does not end in {suffix}", hint="Name another file.")
    if not text or path.is_dir():
        raise UsageError(f"{option} {text!r:.80} is not a file", hint="Name a file.")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"{option} {text!r:.80} cannot be written: {folder} is no folder that can be written to")
    return path


def finish(result: Result, wanted: Gating, *, as_json: bool) -> int:
    """Show the figures of a run, check its gates, and return the exit code."""
    return _Finish(result, wanted, as_json=as_json, figures=True).run()


class _Finish:
    """The end of a command: figures first, then the gates, whatever becomes of the output."""

    def __init__(self, result: Result, wanted: Gating, *, as_json: bool, figures: bool) -> None:
        self._result, self._wanted, self._as_json, self._figures = result, wanted, as_json, figures
        self._lost: list[Exception] = []

    def run(self) -> int:
        """Show, check, write and tell; a gate that fails decides the exit code even if something cannot be written."""
        from kshot.cli.streams import say
        from kshot.core.errors import KshotError
        from kshot.runs.gates import GateFailed

        if self._figures and not self._as_json:
            self._attempt(self._print_figures)
        rows = self._checked()
        self._attempt(lambda: self._print_gates(rows))
        self._write(rows)
        if not all(row["passed"] for row in rows):
            for error in (GateFailed(rows), *self._lost):
                if isinstance(error, KshotError):
                    say(error)
            return GATE_FAILED
        if self._lost:
            raise self._lost[0]
        return OK if any(row["n"] for row in self._result.results) else NOTHING_ANSWERED

    def _checked(self) -> list[ResultRow]:
        """Return what the gates found. If they make no sense for this run, the figures are printed all the same."""
        from kshot.cli.streams import say
        from kshot.core.errors import KshotError

        if not self._wanted.gates:
            return []
        from kshot.comparing import compare

        try:
            rows, notes = self._wanted.gates.rows(self._result, compare)
        except KshotError as exc:
            if self._as_json:
                wrong = [{"gate": None, "passed": False, "reason": str(exc)}]
                self._attempt(lambda: self._print_gates(wrong))
            raise
        for note in notes:
            say(note)
        return rows

    def _attempt(self, show: Callable[[], None]) -> None:
        """Print; that the reader has gone, or the disk is full, must not hide that a gate fails."""
        from kshot.cli.streams import OutputError, drop_output, flushed

        try:
            with flushed():
                show()
        except (BrokenPipeError, OutputError) as exc:
            self._lost.append(exc)
            drop_output()

    def _print_figures(self) -> None:
        from kshot.cli.results import show_result

        show_result(self._result, as_json=False)

    def _print_gates(self, rows: Sequence[ResultRow]) -> None:
        from kshot.cli.results import show_result
        from kshot.cli.screen import Screen
        from kshot.cli.streams import show_json
        from kshot.report.gates import gates_table

        if self._as_json and self._figures:
            show_result(self._result, as_json=True, gates=rows)
        elif self._as_json:
            passed = all(row["passed"] for row in rows)
            show_json({"passed": passed, "gates": rows, "run": str(self._result.path)}, indent=2)
        elif rows:
            Screen().print(gates_table(rows))

    def _write(self, rows: Sequence[ResultRow]) -> None:
        """Write the files; the figures are printed and stored by now."""
        from kshot.cli.gate_files import add_summary, write_junit
        from kshot.core.errors import KshotError

        for path, write in ((self._wanted.junit, write_junit), (self._wanted.summary, add_summary)):
            if path is None:
                continue
            try:
                write(path, self._result, rows)
            except KshotError as exc:  # the other file is written all the same
                self._lost.append(exc)
