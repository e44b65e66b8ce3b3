"""The figures of a run as ``.eval_results/*.yaml``, which the Hugging Face hub shows on the page of a model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kshot.core.durable import new_version
from kshot.core.errors import RunError, UsageError
from kshot.core.failed_parts import failure_words
from kshot.core.records import ResultRow
from kshot.core.text_files import FileNames, path_inside, portable
from kshot.core.visible import metric_label, one_line
from kshot.report.figures import number
from kshot.report.sample_look import told_shots
from kshot.runs.headline import headline_figures
from kshot.runs.record import RunRecord
from kshot.runs.run_state import moment

_ID = re.compile(r"(?:\b[\w.-]{1,96}\b/)?\b[\w.-]{1,96}\b", re.ASCII)
_TASK_ID = re.compile(r"[\w.-]{1,96}", re.ASCII)
_DEFAULT_TASK = "default"
_FOLDER = ".eval_results"


class HubDataset(NamedTuple):
    """A dataset on the hub, and a task of it, by which the hub knows what a figure is of."""

    id: str
    task: str


def write_eval_results(
    folder: Path,
    record: RunRecord,
    spec: Mapping[str, Any],
    datasets: Sequence[str],
    known: Mapping[str, str] | None = None,
) -> Iterator[Path]:
    """Write a file for each model; yield their paths. The folder is a copy of the model's repository, or becomes one.

    ``datasets`` are ``[TASK=]ID[:TASK_ID]``: what the tasks of the run are on the hub; ``known`` are the ids there of
    datasets that need not be named, by their names in the run. Of several models each has a folder of its own.
    """
    figures = [row for row in headline_figures(record.results) if row["value"] is not None]
    if not figures:
        raise RunError("the run has no figures", where=str(record.path))
    named = _named(datasets, list(dict.fromkeys(row["task"] for row in figures)), _known(record, known or {}))
    _refuse_equal(named)
    models = list(dict.fromkeys(row["model"] for row in figures))
    names = FileNames()
    for model in models:
        place = folder if len(models) == 1 else path_inside(folder, names.of(model))
        name = portable("run" if record.path is None else record.path.absolute().name)
        path = path_inside(place, f"{_FOLDER}/{name}.yaml")
        own = [row for row in figures if row["model"] == model]
        with new_version(path) as file:
            file.writelines(_entry(row, named[row["task"]], record, spec) for row in own)
        yield path


# ---- what the tasks are on the hub ----


def _known(record: RunRecord, ids: Mapping[str, str]) -> dict[str, HubDataset]:
    """Return the tasks of known datasets: a subset is a task of the dataset on the hub."""
    found = {}
    for row in record.results:
        dataset, subset = str(row.get("dataset", row["task"])), str(row.get("subset", _DEFAULT_TASK))
        if dataset in ids and _TASK_ID.fullmatch(subset):
            found[row["task"]] = HubDataset(ids[dataset], subset)
    return found


def _named(datasets: Sequence[str], tasks: Sequence[str], known: Mapping[str, HubDataset]) -> dict[str, HubDataset]:
    """Return the dataset of each task; one message names all that have none."""
    given: dict[str | None, HubDataset] = {}
    for text in datasets:
        task, equals, rest = text.rpartition("=")
        if equals and task not in tasks:
            raise UsageError(f"the run has no task {task!r}", where=text, hint=f"It has: {', '.join(tasks)}.")
        if given.setdefault(task if equals else None, _dataset(rest, text)) != _dataset(rest, text):
            raise UsageError("--dataset-id is given twice, with different values", where=text)
    found = {task: given.get(task) or given.get(None) or known.get(task) for task in tasks}
    missing = [task for task, dataset in found.items() if dataset is None]
    if missing:
        what = f"the hub needs to know which dataset each figure is of; unknown for {', '.join(missing)}"
        raise UsageError(what, hint="Add --dataset-id ORG/NAME, or for each task --dataset-id TASK=ORG/NAME:TASK_ID.")
    return {task: dataset for task, dataset in found.items() if dataset is not None}


def _dataset(text: str, where: str) -> HubDataset:
    name, colon, task = text.partition(":")
    sound = _ID.fullmatch(name) and not any(part in name for part in ("--", "..")) and not name.endswith(".git")
    if not sound or (colon and not _TASK_ID.fullmatch(task)):
        raise UsageError("this is no dataset of the hub", where=where, hint="Write ORG/NAME or ORG/NAME:TASK_ID.")
    return HubDataset(name, task or _DEFAULT_TASK)


def _refuse_equal(named: Mapping[str, HubDataset]) -> None:
    """Refuse two tasks of the run that would be the same one on the hub."""
    owners: dict[HubDataset, str] = {}
    for task, dataset in named.items():
        other = owners.setdefault(dataset, task)
        if other != task:
            raise UsageError(
                f"{other} and {task} would both be the task {dataset.task!r} of {dataset.id}",
                hint="Tell them apart: --dataset-id TASK=ORG/NAME:TASK_ID.",
            )


# ---- an entry ----


def _entry(row: ResultRow, dataset: HubDataset, record: RunRecord, spec: Mapping[str, Any]) -> str:
    """Return one entry as YAML. Texts are written as JSON, which YAML reads as the same texts."""
    sessions = spec.get("sessions", ())
    began = moment(sessions[0].get("started")) if sessions else None
    lines = [
        "- dataset:",
        f"    id: {_text(dataset.id)}",
        f"    task_id: {_text(dataset.task)}",
        f"  value: {_number(row['value'])}",
        *([] if began is None else [f"  date: {_text(began.strftime('%Y-%m-%dT%H:%M:%SZ'))}"]),
        f"  notes: {_text(_notes(row, told_shots(record, spec, row)))}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _text(text: str) -> str:
    return json.dumps(one_line(text), ensure_ascii=False)


def _number(value: float) -> str:
    """Write a float as every reader of YAML takes it: with a point, also before a power of ten."""
    mantissa, letter, power = repr(float(value)).partition("e")
    return f"{mantissa}{'' if '.' in mantissa else '.0'}{letter}{power}"


def _notes(row: ResultRow, shots: str) -> str:
    """Say what the figure is, how many samples it rests on, and how many failed."""
    parts = [f"{metric_label(row)} of {row['task']}", shots, f"n = {row['n']}"]
    if row["failed"]:
        parts.append(f"{row['failed']} failed and are not in it")
    parts += [failure_words(row)] if {"left_out", "partly_failed"} & row.keys() else []
    if row["ci95"]:
        parts.append(f"95 % interval {' to '.join(number(end, 4) for end in row['ci95'])}")
    return f"{', '.join(filter(None, parts))}; measured with kshot"
