"""Gates: what a run must reach for a build to go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kshot.core.errors import KshotError, RunError, UsageError
from kshot.core.records import ResultRow
from kshot.core.watcher import Meter, PlannedTask, Watcher
from kshot.runs.gate_checks import (
    Threshold,
    check_failed,
    check_names,
    check_under,
    check_worse,
    scale_notes,
    thresholds,
)
from kshot.runs.record import RunRecord, read_record
from kshot.runs.run_state import is_working
from kshot.runs.samples_file import sample_rows
from kshot.runs.spec_file import read_spec

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison

Baseline: TypeAlias = str | Path | RunRecord
CompareTwo: TypeAlias = "Callable[[Baseline, RunRecord], Comparison]"
"""What compares a run with its baseline, which comes first."""

_MAX_REASONS = 3
"""Reasons that the message of a failed gate tells; all of them are in the table, in the JSON and in the files."""


class GateFailed(KshotError):  # noqa: N818 - it is what has happened, and no fault of a command
    """A run does not pass its gates; ``gates`` has the rows of all of them."""

    def __init__(self, gates: Sequence[ResultRow]) -> None:
        """Tell the first reasons, and how many more there are."""
        self.gates = list(gates)
        reasons = [str(row["reason"]) for row in gates if not row["passed"]]
        more = len(reasons) - _MAX_REASONS
        told = "; ".join(reasons[:_MAX_REASONS]) + (f"; and {more} more" if more > 0 else "")
        failed = f"{len(reasons)} of {len(gates)} checks failed" if len(gates) > 1 else "the check failed"
        super().__init__(f"gate: {failed}: {told}")


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates that a user asks for."""

    under: tuple[Threshold, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    on_failed: bool = False

    @classmethod
    def of(
        cls,
        fail_under: str | Sequence[str] | Mapping[str, float] = (),
        fail_if_worse: Baseline | Sequence[Baseline] = (),
        *,
        fail_on_failed: bool = False,
    ) -> Gates:
        """Read what the user wrote; what cannot be read is an error."""
        many: Sequence[Any] = fail_if_worse if isinstance(fail_if_worse, (list, tuple)) else [fail_if_worse]
        for each in many:
            if not isinstance(each, (str, Path, RunRecord)) or each == "":
                raise UsageError(f"--fail-if-worse is {each!r:.60}; it must be a run folder")
        return cls(tuple(thresholds(fail_under)), tuple(many), bool(fail_on_failed))

    def __bool__(self) -> bool:
        """Whether there is any gate."""
        return bool(self.under or self.baselines or self.on_failed)

    def check_baselines(self, run: str | Path | None = None) -> None:
        """Refuse baselines that are not finished runs, or that are this run, before anything is asked."""
        for baseline in self.baselines:
            if not isinstance(baseline, RunRecord):
                _check_baseline(Path(baseline).expanduser(), run)

    def rows(self, record: RunRecord, compare: CompareTwo) -> tuple[list[ResultRow], list[str]]:
        """Return what every gate found, and notes on that; what makes no sense for this run is an error."""
        rows: list[ResultRow] = []
        notes = list(scale_notes(self.under, record.results))
        for threshold in self.under:
            rows += check_under(record.results, threshold)
        for baseline in self.baselines:
            if not isinstance(baseline, RunRecord):
                _check_baseline(Path(baseline).expanduser(), record.path)
            path = baseline.path if isinstance(baseline, RunRecord) else baseline
            found = compare(baseline, record)
            name = str(path or found.runs[0]["label"])
            rows += check_worse(found.rows, name)
            compared = {row["run_model"] for row in found.rows}
            alone = dict.fromkeys(row["model"] for row in record.results if row["model"] not in compared)
            notes += [*found.notes, *(f"{name} has no model to compare {model} with" for model in alone)]
        if self.on_failed:
            rows += check_failed(record.results, record.iter_samples())
        return rows, list(dict.fromkeys(notes))


class ThresholdWatcher(Watcher):
    """Refuses thresholds of metrics that no task of a run has, when the tasks are known and nothing is asked yet."""

    def __init__(self, gates: Gates) -> None:
        """Take the gates of the run."""
        self._gates = gates

    def planned(self, tasks: Sequence[PlannedTask], meter: Meter, *, complete: bool) -> None:
        """Compare the names."""
        del meter  # it counts what comes later
        metrics = [name for task in tasks for name in task.metrics]
        if complete and metrics:
            check_names(self._gates.under, metrics)


def enforce(rows: Iterable[ResultRow]) -> list[ResultRow]:
    """Return the rows if all passed; raise ``GateFailed`` if not."""
    found = list(rows)
    if not all(row["passed"] for row in found):
        raise GateFailed(found)
    return found


def check_finished(path: Path) -> None:
    """Refuse a run whose figures are older than its latest session, which goes on or did not come to its end."""
    _check_idle(path)
    sessions = read_spec(path).get("sessions", [])
    state = sessions[-1].get("state") if sessions else "done"  # a folder of version 0.1 has none
    if state != "done":
        what = f"its latest session did not come to its end ({state!r:.20}), so its figures are older"
        raise RunError(what, where=str(path), hint="The command that started it continues it.")


def _check_idle(path: Path) -> None:
    if is_working(path):
        hint = "Wait for it: gates are for finished runs."
        raise RunError("another process is working in this run folder", where=str(path), hint=hint)


def _check_baseline(path: Path, run: str | Path | None) -> None:
    read_record(path)
    _check_idle(path)
    if run is not None and path.resolve() == Path(run).expanduser().resolve():
        hint = "A run is never worse than itself: give the new run another folder with --out, or name another baseline."
        raise UsageError("the baseline is the run itself", where=str(path), hint=hint)
    first: dict[str, Any] | None = next(iter(sample_rows(path)), None)
    if first is not None and "question" not in first:
        what = "an earlier version of kshot made this run: its samples do not say which questions they are"
        raise RunError(what, where=str(path), hint=f"kshot score {path} adds that.")
