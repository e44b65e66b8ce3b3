"""Gates: what a run must reach for a build to go on.

A row says which gate it belongs to (``fail_under``, ``fail_if_worse``, ``fail_on_failed``), whether it ``passed``, a
``reason`` in words for both cases, and what it is about: the task, the model, the metric, the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kshot.core.arguments import checked_flag
from kshot.core.errors import KshotError, RunError, UsageError, naming
from kshot.core.failed_parts import failure_words, p_text
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.core.watcher import Meter, PlannedTask, Watcher
from kshot.runs.headline import task_rows
from kshot.runs.record import RunRecord, read_record
from kshot.runs.run_state import is_working
from kshot.runs.samples_file import made_earlier, sample_rows
from kshot.runs.spec_file import interrupted, read_spec

if TYPE_CHECKING:
    from kshot.runs.comparing import Comparison
import difflib
import math
import re

from kshot.core.failed_parts import failure_mark
from kshot.core.visible import listed
from kshot.runs.headline import finite
from kshot.runs.swept_rows import BASE

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_MAX_KNOWN = 20
_MAX_IDS = 5
_LABELS = ("dataset", "benchmark", BASE)
"""Labels of figures that a threshold may name in the place of a task."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a figure must reach: ``name`` is a metric, or TASK:METRIC for the figure of one task."""

    name: str
    value: float

    def __str__(self) -> str:
        """Return it as a user writes it."""
        return f"{self.name}={self.value:g}"


def thresholds(given: str | Sequence[str] | Mapping[str, float]) -> list[Threshold]:
    """Read ``METRIC=X`` or ``TASK:METRIC=X``, several of them, or a mapping of names to numbers."""
    if isinstance(given, Mapping):
        return [_threshold(name, value, f"{name}={value}") for name, value in given.items()]
    if not isinstance(given, (str, list, tuple)):
        raise UsageError(f"fail_under is {given!r:.60}", hint=_FORM)
    return [_read(text) for text in ([given] if isinstance(given, str) else given)]


_FORM = "Write METRIC=NUMBER or TASK:METRIC=NUMBER, as in Accuracy=60."


def _read(text: Any) -> Threshold:
    if not isinstance(text, str):
        raise UsageError(f"fail_under has {text!r:.60}", hint=_FORM)
    name, _, number = (part.strip() for part in text.rpartition("="))
    return _threshold(name, float(number) if _NUMBER.fullmatch(number) else None, text)


def _threshold(name: Any, value: Any, written: str) -> Threshold:
    number = finite(value)
    if not isinstance(name, str) or not name or number is None:
        raise UsageError(f"--fail-under {written!r:.80} is not a metric and a number", hint=_FORM)
    return Threshold(name, number)


# ---- figures ----


def check_under(results: Sequence[ResultRow], threshold: Threshold) -> list[ResultRow]:
    """Return a row for each figure that the threshold is for; a name that no figure has is an error."""
    chosen = _chosen(results, threshold.name)
    if not chosen:
        of_metric = [row for row in results if threshold.name.endswith(f":{row['metric']}")]
        tasks = [str(row[label]) for label in ("task", *_LABELS) for row in of_metric if label in row]
        raise _unknown(threshold.name, _names(results), tasks)
    directions = _directions(results)
    return [_under(row, threshold, upwards=_is_better_upwards(row, directions)) for row in chosen]


def check_names(wanted: Iterable[Threshold], metrics: Iterable[str]) -> None:
    """Refuse thresholds that none of these metrics can have, before anything is asked."""
    known = list(dict.fromkeys(metrics))
    for threshold in wanted:
        if not any(threshold.name == name or threshold.name.endswith(f":{name}") for name in known):
            raise _unknown(threshold.name, known)


def check_tasks(wanted: Iterable[Threshold], tasks: Sequence[PlannedTask]) -> None:
    """Refuse thresholds of a planned task with settings that it does not have, before anything is asked.

    Averages, categories and means of draws have names of their own, which are not planned: those that go on after a
    planned name, or stop before its end, may come.
    """
    planned = {name for task in tasks for name in (task.task, task.group) if name}
    metrics = {name for task in tasks for name in task.metrics}
    for threshold in wanted:
        for metric in metrics:
            task = threshold.name.removesuffix(f":{metric}")
            own = [name for name in planned if _without_settings(name) == _without_settings(task)]
            fits = any(name.startswith(task) or task.startswith(name) for name in planned)
            if task != threshold.name and own and not fits:
                raise _unknown(threshold.name, sorted(metrics), own)


def _without_settings(task: str) -> str:
    return task.partition(",")[0]


def _unknown(name: str, known: Sequence[str], tasks: Sequence[str] = ()) -> UsageError:
    """Return the error of a name that no figure has; ``tasks`` have the metric that it ends in."""
    task = name.rpartition(":")[0]
    longer = sorted((each for each in tasks if each.startswith(task)), key=len)
    near = difflib.get_close_matches(task, tasks, 1) or longer
    if task and near:
        hint = f"Do you mean {near[0]}:{name.rpartition(':')[2]}?"
        return UsageError(f"--fail-under: the run has no figure {name!r:.200}", hint=hint)
    hint = f"It has: {listed(known, _MAX_KNOWN, counted=True)}." if known else "It has none."
    return UsageError(f"--fail-under: the run has no figure {name!r:.80}", hint=hint)


def _names(results: Iterable[ResultRow]) -> list[str]:
    return list(dict.fromkeys(str(row["metric"]) for row in results if not row.get("detail")))


def _chosen(results: Sequence[ResultRow], name: str) -> list[ResultRow]:
    """Return the figures that a name stands for.

    A metric stands for its figures of all tasks, or of the averages over them; TASK:METRIC for that of one task, of a
    category, of a dataset or of all values of a sweep. The names are compared whole, so that they may contain any
    character.
    """
    whole = [row for row in results if "category" not in row and row["metric"] == name]
    of_task = [row for row in results if f"{row['task']}:{row['metric']}" == name]
    if whole and of_task:
        hint = f"Write {whole[0]['task']}:{name} for the one, and rename the other."
        raise UsageError(f"--fail-under: {name!r:.80} is a metric, and a metric of a task too", hint=hint)
    of_dataset = [
        row
        for row in results
        if "category" not in row and any(f"{row[label]}:{row['metric']}" == name for label in _LABELS if label in row)
    ]
    return of_task or _topmost(whole or of_dataset, results)


def _topmost(rows: Sequence[ResultRow], results: Sequence[ResultRow]) -> list[ResultRow]:
    """Leave out the figures that another one stands for: an average for its subsets, a mean for its draws.

    A figure without value stays: no average contains it.
    """
    inside = {
        (row["model"], task): row["task"]
        for row in results
        if isinstance(row.get("tasks"), list)
        for task in row["tasks"]
        if isinstance(task, str)
    }
    totals = {(row["model"], row["metric"], row["task"]) for row in rows if "tasks" in row}
    spreads = {(row["model"], row["metric"]) for row in rows if "sd" in row}
    found = []
    for row in rows:
        if "average" in row and "tasks" not in row:
            continue  # that of some subsets
        averaged = (row["model"], row["metric"], inside.get((row["model"], row["task"]))) in totals
        drawn = "example_seed" in row and (row["model"], row["metric"]) in spreads
        if not (averaged or drawn) or finite(row["value"]) is None:
            found.append(row)
    return found


def _directions(results: Iterable[ResultRow]) -> dict[tuple[str, str], set[Any]]:
    """Return by model and task whether more of its figures is better, of those that are no details."""
    found: dict[tuple[str, str], set[Any]] = {}
    for row in results:
        if not row.get("detail"):
            found.setdefault((row["model"], row["task"]), set()).add(row.get("higher_is_better"))
    return found


def _is_better_upwards(row: ResultRow, directions: Mapping[tuple[str, str], set[Any]]) -> bool:
    """Return whether more of a figure is better. A detail has the direction of the other figures, if they have one."""
    own = {row.get("higher_is_better")}
    found = directions.get((row["model"], row["task"]), set()) if row.get("detail") else own
    if "error" in row:  # the share of a kind of error breaks an accuracy down, and less of it may be better
        raise UsageError(
            f"--fail-under: {row['metric']} is a kind of error", hint="Name the figure that it breaks down."
        )
    if found not in ({True}, {False}):
        hint = "kshot score RUN writes the figures again, with that; or name another figure."
        raise RunError(f"the folder does not say whether higher or lower {row['metric']} is better", hint=hint)
    return True in found


def _under(row: ResultRow, threshold: Threshold, *, upwards: bool) -> ResultRow:
    """Return whether a figure reaches a threshold: from above, where lower figures are better."""
    what = f"{row['task']} {metric_label(row)} on {row['model']}"
    value, least = finite(row["value"]), threshold.value
    if value is None:
        failed = f" ({row['failed']} failed)" if row["failed"] else ""
        passed, reason = False, f"{what} has no value: no sample was scored{failed}"
    else:
        passed = math.isclose(value, least, rel_tol=1e-9, abs_tol=1e-9) or (value > least) == upwards
        words = ("at least", "below") if upwards else ("at most", "above")
        ceiling = "" if upwards else " (lower is better)"
        failed = f" ({failure_words(row)})" if failure_mark(row) else ""
        reason = f"{what} is {_shown(value, least)}, {words[not passed]} {least:g}{ceiling}{failed}"
    return {
        "gate": "fail_under",
        "passed": passed,
        "reason": reason,
        **{name: row[name] for name in ("task", "model", "metric", "rule") if name in row},
        "higher_is_better": upwards,
        "value": value,
        "threshold": least,
        **{name: row[name] for name in ("n", "failed", "ci95", "left_out", "partly_failed") if name in row},
    }


def _shown(value: float, threshold: float) -> str:
    """Return a value with two digits after the point, or with all where it would look like the threshold."""
    rounded = f"{value:.2f}"
    same_side = (float(rounded) < threshold) == (value < threshold) and float(rounded) != threshold
    return rounded if same_side or value == threshold else repr(value)


def scale_notes(wanted: Iterable[Threshold], results: Sequence[ResultRow]) -> Iterator[str]:
    """Say which thresholds look like shares of 1 where figures go up to 100."""
    for threshold in wanted:
        bounds = [row.get("bounds") for row in _chosen(results, threshold.name)]
        if 0 < threshold.value < 1 and any(isinstance(each, list) and each == [0, 100] for each in bounds):
            yield f"--fail-under {threshold}: this figure is between 0 and 100, so {threshold.value:g} is less than 1 %"


# ---- failed samples ----


def check_failed(results: Sequence[ResultRow], samples: Iterable[ResultRow]) -> list[ResultRow]:
    """Return a row for each model and task: it passes if every sample was answered, by every reply that was wanted."""
    totals: dict[tuple[str, str], int] = {}
    failed: dict[tuple[str, str], list[str]] = {}
    for sample in samples:
        key = str(sample.get("model")), str(sample.get("task"))
        totals[key] = totals.get(key, 0) + 1
        if sample.get("failed"):
            failed.setdefault(key, []).append(str(sample.get("id")))
    replies: dict[tuple[str, str], int] = {}
    for row in task_rows(results):
        key = row["model"], row["task"]
        totals.setdefault(key, 0)
        replies[key] = max(replies.get(key, 0), row.get("failed_replies", 0))
    if not totals:
        raise RunError("the run has no sample", hint="Run the command again.")
    return [_failed(*key, total, failed.get(key, []), replies.get(key, 0)) for key, total in totals.items()]


def _failed(model: str, task: str, total: int, ids: Sequence[str], replies: int) -> ResultRow:
    what, samples = f"{task} on {model}", f"{total} sample{'s' * (total != 1)}"
    if ids:
        reason = f"{what}: {len(ids)} of {samples} failed ({listed(ids, _MAX_IDS)})"
    elif replies:
        reason = f"{what}: {replies} of several replies to a sample failed"
    else:
        reason = f"{what}: {samples}, none failed" if total else f"{what}: there is no sample"
    return {
        "gate": "fail_on_failed",
        "passed": bool(total) and not ids and not replies,
        "reason": reason,
        "task": task,
        "model": model,
        "n": total - len(ids),
        "failed": len(ids),
        "failed_replies": replies,
        "ids": list(ids[:_MAX_IDS]),
    }


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
    if is_working(path):
        hint = "Wait for it: gates are for finished runs."
        raise RunError("another process is working in this run folder", where=str(path), hint=hint)
    if what := interrupted(read_spec(path)):
        raise RunError(what, where=str(path), hint="The command that started it continues it.")


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


# ---- the gate of a baseline ----

_SAME_QUESTIONS = "A baseline has the same questions, and the same metric."
_KEPT = (
    *("task", "average", "metric", "rule", "run_rule", "higher_is_better", "baseline", "run", "baseline_run"),
    *("baseline_model", "run_model", "baseline_value", "run_value", "difference", "ci95", "p", "p_corrected", "family"),
    *("n", "won", "lost", "only_baseline", "only_run", "failed_baseline", "failed_run", "failed", "verdict"),
    *("left_out", "partly_failed"),
)
_Key: TypeAlias = tuple[str, str, str]
_PARTS = ("model", "task", "metric")


@dataclass(frozen=True)
class Sides:
    """A baseline and a run: their figures, and how messages name them. ``place`` is the folder of the baseline."""

    place: str
    baseline: str
    run: str
    before: Sequence[ResultRow] = ()
    after: Sequence[ResultRow] = ()

    @classmethod
    def of(cls, baseline: RunRecord, run: RunRecord, labels: Sequence[str]) -> Sides:
        """Name two runs by the labels of their comparison."""
        return cls(str(baseline.path or labels[0]), labels[0], labels[1], baseline.results, run.results)

    @cached_property
    def models(self) -> tuple[set[str], set[str]]:
        """The models of the baseline, and of the run."""
        before, after = ({row["model"] for row in rows} for rows in (self.before, self.after))
        return before, after

    def system(self, side: str, model: str) -> str:
        """Return the name of a system: its model, too, where the run has several."""
        label, models = (self.run, self.models[1]) if side == "run" else (self.baseline, self.models[0])
        return f"{label} · {model}" if len(models) > 1 else label

    def named(self, row: ResultRow) -> ResultRow:
        """Return a comparison with these names."""
        systems = {side: self.system(side, row[f"{side}_model"]) for side in ("baseline", "run")}
        return {**row, **systems, "baseline_run": self.baseline}


def check_worse(compared: Sequence[ResultRow], sides: Sides) -> list[ResultRow]:
    """Return a row for each comparison with a baseline, and for each figure that only one side has.

    If nothing at all could be compared, that is an error.
    """
    rows = [_worse(sides.named(row), sides.place) for row in compared]
    if all(row["passed"] is None for row in rows):
        why = unpaired_samples(rows[0]) if rows else ""
        what = f"nothing of this run can be compared with it{f' ({why})' if why else ''}"
        raise RunError(what, where=sides.place, hint=_SAME_QUESTIONS)
    return [*rows, *_left_out(compared, sides)]


def _worse(row: ResultRow, place: str) -> ResultRow:
    task, unpaired = row.get("run_task", row["task"]), unpaired_samples(row)
    found = {
        "gate": "fail_if_worse",
        "passed": row["verdict"] != "worse",
        "reason": "",
        "baseline_path": place,
        "model": row.get("run_model"),
        **{name: row[name] for name in _KEPT if name in row},
        "task": task,
    }
    if row["difference"] is None or row["p_corrected"] is None:
        # what the run failed to answer must not pass; what the baseline does not answer says nothing about the run
        found |= {"passed": False} if row.get("failed_run") else {"passed": None, "only": None, "lacks": None}
    samples = f", {row['n']} sample{'s' * (row['n'] != 1)} paired" if row["difference"] is not None else ""
    found["reason"] = f"{brief_reason(found)}{samples}" + (f" ({unpaired})" if unpaired else "")
    return found


def brief_reason(row: ResultRow) -> str:
    """Return the reason of a check, without the samples that could be paired."""
    if row["gate"] != "fail_if_worse":
        return str(row["reason"])
    what = f"{row['task']} {metric_label(row)} on {row['run']}"
    if "lacks" in row:
        return f"{what} is not compared with {row['baseline']}: {why_left_out(row)}"
    if row["difference"] is None or row["p_corrected"] is None:
        return f"{what} cannot be compared with {row['baseline']}"
    # the same model is named once
    baseline = row["baseline_run" if row["baseline_model"] == row["run_model"] else "baseline"]
    verdict = "not worse than" if row["verdict"] is None else f"{row['verdict']} than"
    lower = "" if row["higher_is_better"] else ", lower is better"
    values = f"{_figure(row['run_value'])} after {_figure(row['baseline_value'])}{lower}"
    return f"{what} is {verdict} {baseline}: {values}, p {p_text(row['p_corrected'])}"


def _figure(value: float | None) -> str:
    return "no value" if value is None else f"{value:.2f}"


# ---- what is not compared ----


def _left_out(compared: Sequence[ResultRow], sides: Sides) -> Iterator[ResultRow]:
    """Yield a row for each figure of either side that no comparison is about."""
    before, after = _figures(sides.before), _figures(sides.after)
    ours = {(row["run_model"], row.get("run_task", row["task"]), row["metric"]) for row in compared}
    theirs = {(row["baseline_model"], row["task"], row["metric"]) for row in compared}
    left = {key: None for key in after if key not in ours}
    known = _beginnings(before, sides)
    yield from (_alone(after[key], key, known, "run", sides) for key in left)
    lost = [key for key in before if key not in theirs and key not in left]
    found = _beginnings(after, sides)
    yield from (_alone(before[key], key, found, "baseline", sides) for key in lost)


def _figures(results: Sequence[ResultRow]) -> dict[_Key, ResultRow]:
    """Return the figures by which runs are compared: those of whole tasks, and averages over all subsets."""
    averages = (row for row in results if "average" in row and "tasks" in row)
    rows = (row for row in (*task_rows(results), *averages) if not row.get("detail"))
    return {(row["model"], row["task"], row["metric"]): row for row in rows}


def _beginnings(keys: Iterable[_Key], sides: Sides) -> set[tuple[str, ...]]:
    """Return what one side has: models, tasks of models, and metrics of tasks."""
    return {_by_name(key, sides)[:size] for key in keys for size in (1, 2, 3)}


def _by_name(key: _Key, sides: Sides) -> _Key:
    """Return a key without its model, if the runs share none: then each model is compared with each of the others."""
    before, after = sides.models
    return key if before & after else ("", *key[1:])


def _alone(row: ResultRow, key: _Key, others: Collection[tuple[str, ...]], side: str, sides: Sides) -> ResultRow:
    whole = _by_name(key, sides)
    lacks = next((name for size, name in enumerate(_PARTS, start=1) if whole[:size] not in others), None)
    found = {
        "gate": "fail_if_worse",
        "passed": None,
        "reason": "",
        "baseline_path": sides.place,
        **dict(zip(_PARTS, key, strict=True)),
        **({"rule": row["rule"]} if "rule" in row else {}),
        "higher_is_better": row.get("higher_is_better", True),
        "baseline": sides.baseline,
        "run": sides.run,
        "baseline_run": sides.baseline,
        "only": side if lacks else None,
        "lacks": lacks,
        "n": 0,
    }
    found[side] = sides.system(side, key[0])
    found["reason"] = brief_reason(found)
    return found


def why_left_out(row: ResultRow) -> str:
    """Say why a figure is not compared."""
    if row["lacks"]:
        return f"only the {row['only']} has this {row['lacks']}"
    return unpaired_samples(row) or "the runs cannot be compared by it"


def unpaired_samples(row: ResultRow) -> str:
    """Say how many samples only one side has or answered, and which parts had too many failures."""
    parts = failure_words(row) if {"left_out", "partly_failed"} & row.keys() else ""
    counts = {
        "only in the baseline": row.get("only_baseline"),
        "only in the run": row.get("only_run"),
        "failed in the baseline": row.get("failed_baseline"),
        "failed in the run": row.get("failed_run"),
    }
    told = ", ".join(f"{count} {where}" for where, count in counts.items() if count)
    return "; ".join(filter(None, (told, parts)))
