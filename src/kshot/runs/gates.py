"""Gates: what a run must reach for a build to go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kshot.core.arguments import checked_flag
from kshot.core.errors import KshotError, RunError, UsageError, naming
from kshot.core.records import ResultRow
from kshot.core.watcher import Meter, PlannedTask, Watcher
from kshot.runs.baseline_checks import Sides, brief_reason, check_worse
from kshot.runs.gate_checks import (
    Threshold,
    check_failed,
    check_names,
    check_tasks,
    check_under,
    scale_notes,
    thresholds,
)
from kshot.runs.record import RunRecord, read_record
from kshot.runs.run_state import is_working
from kshot.runs.samples_file import made_earlier, sample_rows
from kshot.runs.sessions import interrupted
from kshot.runs.spec_file import read_spec

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison

Baseline: TypeAlias = str | Path | RunRecord
CompareTwo: TypeAlias = "Callable[[Baseline, RunRecord], Comparison]"
"""What compares a run with its baseline, which comes first."""
_Found: TypeAlias = tuple[list[ResultRow], list[str]]
"""The rows of a gate, and notes."""

_MAX_REASONS, _MAX_REASON = 3, 160
"""Reasons that the message of a failed gate tells, and their characters; the table, the JSON and the files have all."""


class GateFailed(KshotError):  # noqa: N818 - it is what has happened, and no fault of a command
    """A run does not pass its gates; ``gates`` has the rows of all of them."""

    def __init__(self, gates: Sequence[ResultRow]) -> None:
        """Tell the first reasons, and how many more there are."""
        self.gates = list(gates)
        failed = [row for row in gates if row["passed"] is False and row["gate"] is not None]
        total = sum(row["passed"] is not None and row["gate"] is not None for row in gates)
        more = len(failed) - _MAX_REASONS
        told = "; ".join(_cut(brief_reason(row)) for row in failed[:_MAX_REASONS])
        told += f"; and {more} more" if more > 0 else ""
        many = f"{len(failed)} of {total} checks failed" if total > 1 else "the check failed"
        super().__init__(f"gate: {many}: {told}")


def _cut(reason: str) -> str:
    return reason if len(reason) <= _MAX_REASON else f"{reason[: _MAX_REASON - 1]}…"


@dataclass(frozen=True, slots=True)
class Checked:
    """What gates found: a row for each check, notes, and why gates could not be decided.

    A row that did not pass is False, one that could not be compared None. A gate that could not be decided has one row,
    whose ``gate`` is None.
    """

    rows: list[ResultRow]
    notes: list[str]
    errors: list[KshotError]

    @property
    def failed(self) -> bool:
        """Whether a gate failed: one that could not be decided did not."""
        return any(row["passed"] is False and row["gate"] is not None for row in self.rows)

    def enforce(self) -> list[ResultRow]:
        """Return the rows if nothing failed and every gate was decided; raise if not."""
        if self.failed:
            raise GateFailed(self.rows)
        if self.errors:
            raise self.errors[0]
        return self.rows


def undecided(errors: Sequence[KshotError]) -> Checked:
    """Return that gates could not be decided, and why."""
    return Checked([{"gate": None, "passed": False, "reason": str(each)} for each in errors], [], list(errors))


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
        return cls(tuple(thresholds(fail_under)), tuple(many), checked_flag("fail_on_failed", fail_on_failed))

    def __bool__(self) -> bool:
        """Whether there is any gate."""
        return bool(self.under or self.baselines or self.on_failed)

    def check_baselines(self, run: str | Path | None = None) -> None:
        """Refuse baselines that are not finished runs, or that are this run, before anything is asked."""
        with naming("gate", "fail_if_worse"):
            for baseline in self.baselines:
                _baseline(baseline, run)

    def check(self, record: RunRecord, compare: CompareTwo) -> Checked:
        """Return what every gate found. One that makes no sense for this run does not hide what the others found."""
        found = Checked([], [], [])
        for gate in self._gates(record, compare):
            try:
                rows, notes = gate()
            except KshotError as exc:
                rows, notes = undecided([exc]).rows, []
                found.errors.append(exc)
            found.rows.extend(rows)
            found.notes.extend(note for note in notes if note not in found.notes)
        return found

    def _gates(self, record: RunRecord, compare: CompareTwo) -> Iterator[Callable[[], _Found]]:
        for threshold in self.under:
            yield partial(_check_threshold, threshold, record)
        for baseline, labels in zip(self.baselines, _labels(self.baselines, record), strict=True):
            yield partial(_check_against, baseline, record, compare, labels)
        if self.on_failed:
            yield lambda: (check_failed(record.results, record.iter_samples()), [])


def _check_threshold(threshold: Threshold, record: RunRecord) -> _Found:
    with naming("gate", "fail_under"):
        return check_under(record.results, threshold), list(scale_notes([threshold], record.results))


def _check_against(given: Baseline, record: RunRecord, compare: CompareTwo, labels: tuple[str, str]) -> _Found:
    baseline = _baseline(given, record if record.path is None else record.path)
    found = compare(given, record)
    return check_worse(found.rows, Sides.of(baseline, record, labels)), found.notes


def _labels(baselines: Sequence[Baseline], record: RunRecord) -> list[tuple[str, str]]:
    """Return how each baseline is named, and how the run is: several folders may have the same name."""
    from kshot.runs.compared_run import ComparedRun, name_runs

    paths = [each.path if isinstance(each, RunRecord) else Path(each).expanduser() for each in baselines]
    runs = [ComparedRun(RunRecord([], [], path), {}, label="the baseline") for path in paths]
    runs.append(ComparedRun(RunRecord([], [], record.path), {}, label="this run"))
    name_runs(runs)
    return [(each.label, runs[-1].label) for each in runs[:-1]]


class ThresholdWatcher(Watcher):
    """Refuses thresholds that no task of a run has, when the tasks are known and nothing is asked yet."""

    def __init__(self, gates: Gates) -> None:
        """Take the gates of the run."""
        self._gates = gates

    def planned(self, tasks: Sequence[PlannedTask], meter: Meter, *, complete: bool) -> None:
        """Compare the names."""
        del meter  # it counts what comes later
        metrics = [name for task in tasks for name in task.metrics]
        if complete and metrics:
            with naming("gate", "fail_under"):
                check_names(self._gates.under, metrics)
                check_tasks(self._gates.under, tasks)


def check_finished(path: Path) -> None:
    """Refuse a run whose figures are older than its latest session, which goes on or did not come to its end."""
    _check_idle(path)
    if what := interrupted(read_spec(path)):
        raise RunError(what, where=str(path), hint="The command that started it continues it.")


def _check_idle(path: Path) -> None:
    if is_working(path):
        hint = "Wait for it: gates are for finished runs."
        raise RunError("another process is working in this run folder", where=str(path), hint=hint)


def _baseline(given: Baseline, run: str | Path | RunRecord | None) -> RunRecord:
    """Return a baseline, if it is a finished run, and another one than the run."""
    if isinstance(given, RunRecord) and given.path is None:
        if given is run:
            raise UsageError("the baseline is the run itself", hint=_NEVER_WORSE)
        return given
    path = Path(given.path or "" if isinstance(given, RunRecord) else given).expanduser()
    baseline = read_record(path)
    check_finished(path)
    if isinstance(run, (str, Path)) and path.resolve() == Path(run).expanduser().resolve():
        hint = f"{_NEVER_WORSE}: give the new run another folder with --out, or name another baseline."
        raise UsageError("the baseline is the run itself", where=str(path), hint=hint)
    first: dict[str, Any] | None = next(iter(sample_rows(path)), None)
    if first is not None and "question" not in first:
        raise made_earlier(str(path))
    return baseline


_NEVER_WORSE = "A run is never worse than itself"
