"""The gate of a baseline: a run must not be worse than it by the paired, corrected test.

A row whose ``passed`` is None was not compared: ``only`` says which side has it (None: both), and ``lacks`` what the
other one does not have: that ``model``, ``task`` or ``metric`` (None: the runs cannot be compared by it).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from kshot.core.errors import RunError
from kshot.core.failed_parts import failure_words, p_text
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.runs.headline import task_rows
from kshot.runs.record import RunRecord

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
