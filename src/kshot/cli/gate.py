"""Gates on the command line: ``kshot gate RUN``, and the same options of ``kshot run`` and ``kshot score``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from kshot.core.errors import KshotError
    from kshot.core.watcher import Watcher
    from kshot.result import Result
    from kshot.runs.gates import Checked, Gates

OK, NOTHING_ANSWERED, GATE_FAILED = 0, 1, 3
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Where GitHub says which file a step may write its summary to."""
_MAX_NOTES = 5


def add(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    command.description = (
        "Check a finished run: exit code 0 if it passes all gates, 3 if it does not. Nothing is asked, "
        "and no code that the run names is imported."
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
    from kshot.core.errors import KshotError, UsageError
    from kshot.result import Result, load
    from kshot.runs.gates import check_finished

    wanted = gating(parsed)
    if not wanted.gates:
        hint = "Add --fail-under METRIC=X, --fail-if-worse RUN or --fail-on-failed."
        raise UsageError("no gate is named", hint=hint)
    path = Path(parsed.run).expanduser()
    try:
        result = load(path)
        check_finished(path)
    except KshotError as exc:  # the files of the build before this one must not stay for this one
        tell_undecided(Result([], [], path), wanted, exc, as_json=parsed.json)
        raise
    return _Finish(result, wanted, as_json=parsed.json, figures=False).run()


@dataclass(frozen=True)
class Gating:
    """What a command line asks for: the gates, and the files that tell of them."""

    gates: Gates
    junit: Path | None = None
    summary: Path | None = None

    @contextmanager
    def telling(self, run: str | Path) -> Iterator[None]:
        """Say in the files what ends a run before its gates; a limit that the user has set is no error."""
        from kshot.core.budget import LimitReached
        from kshot.core.errors import KshotError
        from kshot.result import Result

        try:
            yield
        except LimitReached:
            raise
        except KshotError as exc:
            tell_undecided(Result([], [], Path(run).expanduser()), self, exc)
            raise

    def watchers(self) -> list[Watcher]:
        """Return what refuses, before anything is asked, a threshold of a metric that the run will not have."""
        from kshot.runs.gates import ThresholdWatcher

        return [ThresholdWatcher(self.gates)] if self.gates.under else []


def gating(parsed: argparse.Namespace) -> Gating:
    """Return what the command line asks for. What cannot be read or written is an error, before anything is asked."""
    from kshot.core.errors import UsageError, naming
    from kshot.runs.gates import Gates

    gates, junit, summary = Gates(), None, None
    if parsed.fail_under or parsed.fail_if_worse or parsed.fail_on_failed:
        gates = Gates.of(parsed.fail_under or (), parsed.fail_if_worse or (), fail_on_failed=parsed.fail_on_failed)
    if parsed.junit is not None:
        with naming("gate", "junit"):
            junit = _file(parsed.junit, "--junit", ".xml")
    if parsed.step_summary is not None:
        place = parsed.step_summary or os.environ.get(SUMMARY_VARIABLE, "")
        with naming("gate", "step_summary"):
            if not place:
                hint = "Name a file: --step-summary summary.md."
                raise UsageError(f"--step-summary has no file, and {SUMMARY_VARIABLE} is not set", hint=hint)
            summary = _file(place, "--step-summary", ".md" if parsed.step_summary else "")
    return Gating(gates, junit, summary)


def _file(text: str, option: str, suffix: str) -> Path:
    """Return the path of a file to write, if it can be one; without this suffix, it may be a file of another kind."""
    from kshot.core.errors import UsageError
    from kshot.report.gates import written_to
    from kshot.runs.run_state import spare_runs

    path = Path(text).expanduser()
    if text and suffix not in {"", path.suffix}:
        raise UsageError(f"{option} {text!r:.80} does not end in {suffix}", hint="Name another file.")
    if not text or (path.exists() and not path.is_file()):
        raise UsageError(f"{option} {text!r:.80} is not a file", hint="Name a file.")
    spare_runs(path if option == "--junit" else written_to(path))  # a link is replaced by the former
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"{option} {text!r:.80} cannot be written: {folder} is no folder that can be written to")
    return path


def finish(result: Result, wanted: Gating, *, as_json: bool) -> int:
    """Show the figures of a run, check its gates, and return the exit code."""
    return _Finish(result, wanted, as_json=as_json, figures=True).run()


def tell_undecided(result: Result, wanted: Gating, error: KshotError, *, as_json: bool = False) -> None:
    """Say in the files, and in the JSON, why the gates of a run could not be decided."""
    from kshot.runs.gates import undecided

    _Finish(result, wanted, as_json=as_json, figures=False).tell_only(undecided([error]))


class _Finish:
    """The end of a command: figures first, then the gates, whatever becomes of the output."""

    def __init__(self, result: Result, wanted: Gating, *, as_json: bool, figures: bool) -> None:
        self._result, self._wanted, self._as_json, self._figures = result, wanted, as_json, figures
        self._lost: list[Exception] = []

    def run(self) -> int:
        """Show, check, write and tell; a gate that fails decides the exit code even if something cannot be written."""
        from kshot.cli.results import show_result
        from kshot.cli.streams import say
        from kshot.comparing import compare_with_baseline
        from kshot.runs.gates import GateFailed

        if self._figures and not self._as_json:
            self._attempt(lambda: show_result(self._result, as_json=False))
        checked = self._wanted.gates.check(self._result, compare_with_baseline)
        for note in checked.notes[:_MAX_NOTES]:
            say(note)
        if len(checked.notes) > _MAX_NOTES:
            say(f"… and {len(checked.notes) - _MAX_NOTES} more notes; --json has all")
        self.tell(checked)
        if checked.failed:
            self._say([GateFailed(checked.rows), *checked.errors, *self._lost])
            return GATE_FAILED
        if errors := [*checked.errors, *self._lost]:
            self._say(errors[1:])
            raise errors[0]
        return OK if any(row["n"] for row in self._result.results) else NOTHING_ANSWERED

    def tell(self, checked: Checked) -> None:
        """Print what the gates found, and write the files."""
        self._attempt(lambda: self._print_gates(checked))
        self._write(checked)

    def tell_only(self, checked: Checked) -> None:
        """Do the same before another error ends the command."""
        self.tell(checked)
        self._say(self._lost)

    @staticmethod
    def _say(errors: Iterable[Exception]) -> None:
        from kshot.cli.streams import say
        from kshot.core.errors import KshotError

        for error in errors:
            if isinstance(error, KshotError):
                say(error)

    def _attempt(self, show: Callable[[], None]) -> None:
        """Print; that the reader has gone, or the disk is full, must not hide that a gate fails."""
        from kshot.cli.streams import OutputError, drop_output, flushed

        try:
            with flushed():
                show()
        except (BrokenPipeError, OutputError) as exc:
            self._lost.append(exc)
            drop_output()

    def _print_gates(self, checked: Checked) -> None:
        from kshot.cli.results import show_result
        from kshot.cli.screen import Screen
        from kshot.cli.streams import show_json
        from kshot.core.visible import one_line
        from kshot.report.gates import gate_legend, gates_table, pairing_lines

        rows, notes = checked.rows, checked.notes
        if self._as_json and self._figures:
            show_result(replace(self._result, notes=[*self._result.notes, *notes]), as_json=True, gates=rows)
        elif self._as_json:
            passed = not any(row["passed"] is False for row in rows)
            show_json({"passed": passed, "gates": rows, "notes": notes, "run": str(self._result.path)}, indent=2)
        elif any(row["gate"] is not None for row in rows):  # stderr says what could not be decided
            screen = Screen()
            screen.print(gates_table(rows, screen.width))
            for line in (*gate_legend(rows), *pairing_lines(rows)):
                screen.print(one_line(line), soft_wrap=True)

    def _write(self, checked: Checked) -> None:
        """Write the files; the figures are printed and stored by now."""
        from kshot.core.errors import KshotError
        from kshot.report.gates import add_summary, write_junit

        for path, write in ((self._wanted.junit, write_junit), (self._wanted.summary, add_summary)):
            if path is None:
                continue
            try:
                write(path, self._result, checked)
            except KshotError as exc:  # the other file is written all the same
                self._lost.append(exc)
