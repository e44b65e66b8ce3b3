"""Runs as the files of lm-evaluation-harness: results_*.json and samples_*.jsonl for each model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from kshot.core.durable import new_version
from kshot.core.errors import UsageError
from kshot.core.failed_parts import all_parts, failure_mark, failure_notes
from kshot.core.records import ResultRow
from kshot.core.shareable import shareable, well_formed_value
from kshot.core.text_files import FileNames, path_inside
from kshot.core.visible import metric_label, one_line
from kshot.report.exports.inspect_logs import ScoreForm, StandardErrors, figures_of, forms_of, run_times
from kshot.report.sample_look import parts_of, read_response, shots_in_prompts, task_facts, written
from kshot.runs.compared_run import by_task, checked_by_task
from kshot.runs.headline import TaskOnModel, finite
from kshot.runs.record import RunRecord

NO_FILTER = "none"
_SHOWN = {"task", "model", "prompt", "response", "answer", "answers", "target", "scores", "failed", "token_logprobs"}
"""What has a place of its own in a logged sample, or stands in none; the rest of a row is its ``doc``."""


class LoggedMetric(NamedTuple):
    """What a figure is in lm-eval: its metric, its filter, and how many times lm-eval's value it is."""

    metric: str
    filter: str = NO_FILTER
    scale: float = 1.0

    @property
    def key(self) -> str:
        """The name of the figure in lm-eval's results."""
        return f"{self.metric},{self.filter}"

    def share(self, figure: float) -> float:
        """Return a figure on lm-eval's scale: shares are 0 to 1."""
        return figure / self.scale


def logged_metrics(figures: Sequence[ResultRow]) -> dict[str, LoggedMetric]:
    """Return what each figure of a task is in lm-eval; a task file's own names, else kshot's."""
    forms = forms_of(figures)
    return {
        row["metric"]: LoggedMetric(
            str(row.get("lmeval_metric") or metric_label(row)),
            str(row.get("filter") or NO_FILTER),
            float(row.get("scale") or forms[row["metric"]].divisor),
        )
        for row in figures
    }


def logged_samples(row: ResultRow, number: int, metrics: Mapping[str, LoggedMetric]) -> Iterator[dict[str, Any]]:
    """Yield a sample once for each filter. ``number``: its place in the task, where its id is no number."""
    row = well_formed_value(row)
    identity = str(row.get("id", ""))
    doc = {name: value for name, value in row.items() if name not in _SHOWN}
    right, (arguments, responses) = row.get("target"), _requests(row)
    target = str(right) if isinstance(right, (list, int, float)) else written(right)
    first = next((request["arg_0"] for request in arguments.values()), "")
    scores = row.get("scores")
    known: Mapping[str, Any] = scores if isinstance(scores, dict) else {}
    for name in dict.fromkeys(metric.filter for metric in metrics.values()):
        own = {figure: metric for figure, metric in metrics.items() if metric.filter == name and figure in known}
        yield {
            "doc_id": int(identity) if identity.isdecimal() else number,
            "doc": doc,
            "target": target,
            "arguments": arguments,
            "resps": responses,
            "filtered_resps": _filtered(row, responses, own),
            "filter": name,
            "metrics": [metric.metric for metric in own.values()],
            "doc_hash": _digest(json.dumps(doc, indent=2, ensure_ascii=False)),
            "prompt_hash": _digest(first),
            "target_hash": _digest(target),
            **{metric.metric: _scaled(known[figure], metric) for figure, metric in own.items()},
        }


def _requests(row: ResultRow) -> tuple[dict[str, dict[str, Any]], list[Any]]:
    """Return the measured texts, each after its context, and the answers; else the prompt with its replies."""
    measured = [part for part in parts_of(row.get("response")) if isinstance(part, dict) and "logprob" in part]
    if len(measured) == 1 and not row.get("prompt"):  # a document by itself
        arguments = [{"arg_0": measured[0]["text"]}]
        responses: list[Any] = [[str(measured[0]["logprob"])]]
    elif measured:
        arguments = [
            {"arg_0": _prompt(each.get("prompt", row.get("prompt"))), "arg_1": each["text"]} for each in measured
        ]
        responses = [[[str(each["logprob"]), str(bool(each.get("greedy")))]] for each in measured]
    else:
        arguments = [{"arg_0": _prompt(row.get("prompt")), "arg_1": {}}]
        responses = [list(read_response(row, "").replies)]
    return {f"gen_args_{at}": each for at, each in enumerate(arguments)}, responses


def _prompt(prompt: Any) -> str:
    """Return a prompt as text; the turns of a chat as JSON, as lm-eval logs them."""
    return prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False)


def _filtered(row: ResultRow, responses: Sequence[Any], metrics: Mapping[str, LoggedMetric]) -> list[Any]:
    """Return what the filter left of the responses: the answer that was read in a reply."""
    if any(isinstance(each, dict) for each in parts_of(row.get("response"))):
        return [each[0] for each in responses]
    answers = row.get("answers")
    by_figure: Mapping[str, Any] = answers if isinstance(answers, dict) else {}
    found = next((by_figure[figure] for figure in metrics if figure in by_figure), row.get("answer"))
    return [written(found) if not isinstance(found, list) else [written(each) for each in found]]


def _scaled(score: Any, metric: LoggedMetric) -> Any:
    """Return the score of a sample; what adds to sums, and is no number, stays as it is."""
    return metric.share(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else score


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


_UNKNOWN = "N/A"
"""What lm-eval writes for a standard error that it does not compute."""


_Entries: TypeAlias = dict[str, dict[str, Any]]
"""The parts of the results of a model that have an entry for each task, by name."""


def write_results(folder: Path, record: RunRecord, spec: Mapping[str, Any]) -> Iterator[Path]:
    """Write the files of a run to a folder, one inside for each model; yield their paths."""
    _check_samples(record)
    started, ended = run_times(record, spec)
    stamp = ended.replace(tzinfo=None).isoformat(timespec="microseconds").replace(":", "-")
    folders, files = FileNames("__"), FileNames("_")
    models: dict[str, _Entries] = {}
    for (task, model), rows in by_task(record.iter_samples()):
        path = path_inside(folder / folders.of(model), f"samples_{files.of(task)}_{stamp}.jsonl")
        for name, entry in _write_task(path, record, spec, (task, model), rows).items():
            models.setdefault(model, {}).setdefault(name, {})[task] = entry
        yield path
    for model, entries in models.items():
        path = path_inside(folder / folders.of(model), f"results_{stamp}.json")
        with new_version(path) as file:
            file.write(json.dumps(_results(model, entries, record, started, ended), indent=2, ensure_ascii=False))
        yield path


def _check_samples(record: RunRecord) -> None:
    """Refuse samples that lm-eval has no form for, before a file is written."""
    for (task, _), rows in checked_by_task(record):
        for row in rows:
            if read_response(row, "").ranks:
                hint = "--to trec writes rankings."
                raise UsageError(f"{task} searches, which lm-eval has no form for", hint=hint)


def _write_task(
    path: Path, record: RunRecord, spec: Mapping[str, Any], key: TaskOnModel, rows: Iterable[ResultRow]
) -> dict[str, Any]:
    """Write the samples of a task, one in memory at a time; return its entries. Samples that failed have no line."""
    task, model = key
    figures = figures_of(record, task, model)
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
                hashes.setdefault(sample["filter"], []).append(
                    sample["doc_hash"] + sample["prompt_hash"] + sample["target_hash"]
                )
                file.write(json.dumps(sample, ensure_ascii=False) + "\n")
    facts = task_facts(spec, task, model)
    shots = facts.get("num_fewshot", shots_in_prompts(record, spec, task, model))
    answered, failed = (max((row[name] for row in figures), default=0) for name in ("n", "failed"))
    found: dict[str, Any] = {"name": task, "alias": _marked(task, figures), "sample_len": answered}
    known = errors.errors()
    for row in figures:
        found |= _figure(row, metrics[row["metric"]], known.get(row["metric"]))
    return {
        "results": found,
        "configs": _config(task, figures, metrics, facts, shots),
        "versions": facts.get("version"),
        "n-shot": shots,
        "higher_is_better": {
            metrics[row["metric"]].metric: row["higher_is_better"] for row in figures if "higher_is_better" in row
        },
        "n-samples": {"original": answered + failed, "effective": answered},
        "task_hashes": _digest("".join(each for found in hashes.values() for each in found)),
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


def _results(model: str, tasks: _Entries, record: RunRecord, started: datetime, ended: datetime) -> dict[str, Any]:
    groups, below, better = _groups(model, tasks["results"], record)
    limit, shots = record.settings.get("limit"), tasks["n-shot"]
    found = {
        "results": {**tasks["results"], **groups},
        **({"groups": groups} if groups else {}),
        "group_subtasks": below,
        "configs": tasks["configs"],
        "versions": {**tasks["versions"], **dict.fromkeys(groups)},
        "n-shot": {**shots, **{name: _shared(shots, below[name]) for name in groups}},
        "higher_is_better": {**tasks["higher_is_better"], **better},
        "n-samples": tasks["n-samples"],
        "config": {
            "model": model,
            "model_args": "",
            "limit": limit,
            "kshot": shareable(record.settings),
            "notes": shareable(list(failure_notes([row for row in record.results if row["model"] == model]))),
        },
        "git_hash": None,
        "date": started.timestamp(),
        "task_hashes": tasks["task_hashes"],
        "model_source": "kshot",
        "model_name": one_line(model),
        "model_name_sanitized": FileNames("__").of(model),
        "system_instruction": record.settings.get("system_prompt"),
        "chat_template": record.settings.get("chat_template"),
        "total_evaluation_time_seconds": str((ended - started).total_seconds()),
    }
    return dict(well_formed_value(found))


def _shared(shots: Mapping[str, Any], tasks: Sequence[str]) -> Any:
    """Return the number of examples of a group, if its tasks have the same."""
    found = {shots.get(task) for task in tasks}
    return found.pop() if len(found) == 1 else None


def _groups(
    model: str, tasks: Collection[str], record: RunRecord
) -> tuple[dict[str, dict[str, Any]], dict[str, list[str]], dict[str, dict[str, bool]]]:
    """Return the figures over several tasks, the tasks of each, and which way its metrics go."""
    totals = [
        row for row in record.results
        if row["model"] == model and row["task"] not in tasks and "category" not in row and "average" in row
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
