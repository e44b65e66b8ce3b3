"""Runs as the files of lm-evaluation-harness: ``results_*.json`` and ``samples_*.jsonl`` for each model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from kshot.core.durable import new_version
from kshot.core.errors import UsageError
from kshot.core.failed_parts import all_parts, failure_mark, failure_notes
from kshot.core.records import ResultRow
from kshot.core.shareable import shareable, well_formed_value
from kshot.core.text_files import FileNames, path_inside
from kshot.core.visible import one_line
from kshot.report.exports.inspect_header import StandardErrors, figures_of
from kshot.report.exports.inspect_samples import ScoreForm
from kshot.report.exports.lmeval_samples import LoggedMetric, logged_metrics, logged_samples, sample_hash, task_hash
from kshot.report.exports.shots import shots_in_prompts
from kshot.report.sample_responses import read_response
from kshot.runs.compared_run import by_task, checked_by_task
from kshot.runs.folder import SUMMARY
from kshot.runs.headline import finite
from kshot.runs.record import RunRecord

_UNKNOWN = "N/A"
"""What lm-eval writes for a standard error that it does not compute."""


@dataclass
class _ModelResults:
    """What the results of one model are made of, task by task."""

    model: str
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    shots: dict[str, Any] = field(default_factory=dict)
    higher_is_better: dict[str, dict[str, bool]] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)


def write_results(folder: Path, record: RunRecord, spec: Mapping[str, Any]) -> Iterator[Path]:
    """Write the files of a run to a folder, one inside for each model; yield their paths."""
    _check_samples(record)
    started, ended = _times(record, spec)
    stamp = ended.replace(tzinfo=None).isoformat(timespec="microseconds").replace(":", "-")
    folders, files = FileNames("__"), FileNames("_")
    models: dict[str, _ModelResults] = {}
    for (task, model), rows in by_task(record.iter_samples()):
        own = models.setdefault(model, _ModelResults(model))
        place = folder / folders.of(model)
        path = path_inside(place, f"samples_{files.of(task)}_{stamp}.jsonl")
        _write_task(path, own, _Asked(record, spec, task), rows)
        yield path
    for model, own in models.items():
        path = path_inside(folder / folders.of(model), f"results_{stamp}.json")
        with new_version(path) as file:
            file.write(json.dumps(_results(own, record, started, ended), indent=2, ensure_ascii=False))
        yield path


def _check_samples(record: RunRecord) -> None:
    """Refuse samples that lm-eval has no form for, before a file is written."""
    for (task, _), rows in checked_by_task(record):
        for row in rows:
            if read_response(row, "").ranks:
                hint = "--to trec writes rankings."
                raise UsageError(f"{task} searches, which lm-eval has no form for", hint=hint)


class _Asked(NamedTuple):
    """A task of a run."""

    record: RunRecord
    spec: Mapping[str, Any]
    task: str


def _write_task(path: Path, own: _ModelResults, asked: _Asked, rows: Iterable[ResultRow]) -> None:
    """Write the samples of a task, one in memory at a time, and note its figures. Samples that failed have no line."""
    record, spec, task = asked
    figures = figures_of(record, task, own.model)
    metrics = logged_metrics(figures)
    errors = StandardErrors(figures, {name: ScoreForm(metric.scale) for name, metric in metrics.items()})
    hashes: dict[str, list[str]] = {}
    with new_version(path) as file:
        for number, row in enumerate(rows):
            if row.get("failed"):
                continue
            if isinstance(row.get("scores"), dict):
                errors.add(row["scores"])
            for sample in logged_samples(row, number, metrics):
                hashes.setdefault(sample["filter"], []).append(sample_hash(sample))
                file.write(json.dumps(sample, ensure_ascii=False) + "\n")
    own.hashes[task] = task_hash([each for found in hashes.values() for each in found])
    _note_task(own, task, figures, metrics, errors.errors())
    facts = _facts(spec, own.model, task)
    shots = facts.get("num_fewshot", shots_in_prompts(record, spec, task, own.model))
    own.versions[task], own.shots[task] = facts.get("version"), shots
    own.configs[task] = _config(task, figures, metrics, facts, shots)


def _note_task(
    own: _ModelResults,
    task: str,
    figures: Sequence[ResultRow],
    metrics: Mapping[str, LoggedMetric],
    errors: Mapping[str, float],
) -> None:
    answered = max((row["n"] for row in figures), default=0)
    failed = max((row["failed"] for row in figures), default=0)
    found: dict[str, Any] = {"name": task, "alias": _marked(task, figures), "sample_len": answered}
    for row in figures:
        found |= _figure(row, metrics[row["metric"]], errors.get(row["metric"]))
    own.results[task] = found
    own.counts[task] = {"original": answered + failed, "effective": answered}
    own.higher_is_better[task] = {
        metrics[row["metric"]].metric: row["higher_is_better"] for row in figures if "higher_is_better" in row
    }


def _marked(task: str, figures: Sequence[ResultRow]) -> str:
    """Return what lm-eval's table calls a task: its name, with the mark of its figures if many samples failed."""
    return task + max(map(failure_mark, figures), default="")  # the stronger one


def _figure(row: ResultRow, metric: LoggedMetric, error: float | None) -> dict[str, Any]:
    """Return a figure and its standard error under lm-eval's names."""
    value = finite(row["value"])
    return {
        metric.key: None if value is None else metric.share(value),
        f"{metric.metric}_stderr,{metric.filter}": _UNKNOWN if error is None else error,
    }


def _config(
    task: str,
    figures: Sequence[ResultRow],
    metrics: Mapping[str, LoggedMetric],
    facts: Mapping[str, Any],
    shots: int | None,
) -> dict[str, Any]:
    """Return what is known of a task in the form of a task file."""
    better = {metrics[row["metric"]].metric: row.get("higher_is_better", True) for row in figures}
    listed = [{"metric": name, "higher_is_better": higher} for name, higher in better.items()]
    split = {"test_split": facts["split"]} if "split" in facts else {}
    metadata = {"version": facts.get("version")}
    return {"task": task, **split, "num_fewshot": shots, "metric_list": listed, "repeats": 1, "metadata": metadata}


def _facts(spec: Mapping[str, Any], model: str, task: str) -> Mapping[str, Any]:
    of_model = spec.get("tasks", {}).get(model, {})
    found = of_model.get(task, {}) if isinstance(of_model, dict) else {}
    return found if isinstance(found, dict) else {}


def _results(own: _ModelResults, record: RunRecord, started: datetime, ended: datetime) -> dict[str, Any]:
    groups, below, better = _groups(own, record)
    limit = record.settings.get("limit")
    found = {
        "results": {**own.results, **groups},
        **({"groups": groups} if groups else {}),
        "group_subtasks": below,
        "configs": own.configs,
        "versions": {**own.versions, **dict.fromkeys(groups)},
        "n-shot": {**own.shots, **{name: _shared(own.shots, below[name]) for name in groups}},
        "higher_is_better": {**own.higher_is_better, **better},
        "n-samples": own.counts,
        "config": {"model": own.model, "model_args": "", "limit": limit, "kshot": shareable(record.settings)},
        "git_hash": None,
        "date": started.timestamp(),
        "task_hashes": own.hashes,
        "model_source": "kshot",
        "model_name": one_line(own.model),
        "model_name_sanitized": FileNames("__").of(own.model),
        "system_instruction": record.settings.get("system_prompt"),
        "chat_template": record.settings.get("chat_template"),
        "total_evaluation_time_seconds": str((ended - started).total_seconds()),
        "notes": shareable(list(failure_notes([row for row in record.results if row["model"] == own.model]))),
    }
    return dict(well_formed_value(found))


def _shared(shots: Mapping[str, Any], tasks: Sequence[str]) -> Any:
    """Return the number of examples of a group, if its tasks have the same."""
    found = {shots.get(task) for task in tasks}
    return found.pop() if len(found) == 1 else None


def _groups(
    own: _ModelResults, record: RunRecord
) -> tuple[dict[str, dict[str, Any]], dict[str, list[str]], dict[str, dict[str, bool]]]:
    """Return the figures over several tasks, the tasks of each, and which way its metrics go."""
    totals = [
        row for row in record.results
        if row["model"] == own.model and row["task"] not in own.results and "category" not in row and "average" in row
    ]  # fmt: skip
    groups: dict[str, dict[str, Any]] = {}
    below: dict[str, list[str]] = {}
    better: dict[str, dict[str, bool]] = {}
    for task, rows in groupby(sorted(totals, key=lambda row: str(row["task"])), key=lambda row: str(row["task"])):
        held = list(rows)
        metrics = logged_metrics([_with_bounds(row, record.results) for row in held])
        groups[task] = {"alias": _marked(task, held), "name": task, "sample_len": max(row["n"] for row in held)}
        for row in held:
            groups[task] |= _figure(row, metrics[row["metric"]], None)
        better[task] = {metrics[row["metric"]].metric: bool(row.get("higher_is_better", True)) for row in held}
        below[task] = list(dict.fromkeys(str(name) for row in held for name in all_parts(row)))
    return groups, below, better


def _with_bounds(row: ResultRow, figures: Sequence[ResultRow]) -> ResultRow:
    """Return the row of an average with the scale of its parts, which it does not record itself."""
    tasks = all_parts(row)

    def is_part(each: ResultRow) -> bool:
        same = all(each.get(name) == row.get(name) for name in ("model", "metric")) and "bounds" in each
        return same and (each["task"] in tasks if tasks else each.get("dataset") == row.get("dataset"))

    part = next(filter(is_part, figures), {})
    return {**row, "bounds": part.get("bounds", row.get("bounds"))}


def _times(record: RunRecord, spec: Mapping[str, Any]) -> tuple[datetime, datetime]:
    """Return when the run began and ended; if it recorded neither, when its figures were written."""
    sessions = spec.get("sessions", ())
    seconds = 0.0 if record.path is None else (record.path / SUMMARY).stat().st_mtime
    times = [datetime.fromtimestamp(seconds, timezone.utc)] * 2
    for at, (session, name) in enumerate(((0, "started"), (-1, "ended"))):
        with suppress(ValueError, TypeError, IndexError):
            times[at] = datetime.fromisoformat(sessions[session].get(name)).astimezone(timezone.utc)
    return times[0], times[1]
