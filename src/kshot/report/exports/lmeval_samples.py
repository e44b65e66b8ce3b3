"""Samples of a run as lm-eval logs them: a line for each document and filter."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kshot.core.records import ResultRow
from kshot.core.shareable import well_formed_value
from kshot.core.visible import metric_label
from kshot.report.exports.inspect_samples import forms_of
from kshot.report.sample_responses import read_response
from kshot.report.sample_texts import parts_of, written

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
    target, requests = written_target(row.get("target")), _requests(row)
    first = next((request["arg_0"] for request in requests.arguments.values()), "")
    scores = row.get("scores")
    known: Mapping[str, Any] = scores if isinstance(scores, dict) else {}
    for name in dict.fromkeys(metric.filter for metric in metrics.values()):
        own = {figure: metric for figure, metric in metrics.items() if metric.filter == name and figure in known}
        yield {
            "doc_id": int(identity) if identity.isdecimal() else number,
            "doc": doc,
            "target": target,
            "arguments": requests.arguments,
            "resps": requests.responses,
            "filtered_resps": _filtered(row, requests, own),
            "filter": name,
            "metrics": [metric.metric for metric in own.values()],
            "doc_hash": _digest(json.dumps(doc, indent=2, ensure_ascii=False)),
            "prompt_hash": _digest(first),
            "target_hash": _digest(target),
            **{metric.metric: _scaled(known[figure], metric) for figure, metric in own.items()},
        }


def sample_hash(sample: Mapping[str, Any]) -> str:
    """Return what stands for a sample in the hash of its task."""
    return "".join(sample[name] for name in ("doc_hash", "prompt_hash", "target_hash"))


def task_hash(samples: Sequence[str]) -> str:
    """Return lm-eval's hash of a task, from those of its samples."""
    return _digest("".join(samples))


def written_target(target: Any) -> str:
    """Return the reference as lm-eval writes it."""
    return str(target) if isinstance(target, (list, int, float)) else written(target)


class _Requests(NamedTuple):
    """What was asked about a document, and the answers, as texts."""

    arguments: dict[str, dict[str, Any]]
    responses: list[Any]


def _requests(row: ResultRow) -> _Requests:
    """Return the measured texts, each after its context; else the prompt with its replies."""
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
    return _Requests({f"gen_args_{at}": each for at, each in enumerate(arguments)}, responses)


def _prompt(prompt: Any) -> str:
    """Return a prompt as text; the turns of a chat as JSON, as lm-eval logs them."""
    return prompt if isinstance(prompt, str) else json.dumps(prompt, ensure_ascii=False)


def _filtered(row: ResultRow, requests: _Requests, metrics: Mapping[str, LoggedMetric]) -> list[Any]:
    """Return what the filter left of the responses: the answer that was read in a reply."""
    if any(isinstance(each, dict) for each in parts_of(row.get("response"))):
        return [each[0] for each in requests.responses]
    answers = row.get("answers")
    by_figure: Mapping[str, Any] = answers if isinstance(answers, dict) else {}
    found = next((by_figure[figure] for figure in metrics if figure in by_figure), row.get("answer"))
    return [written(found) if not isinstance(found, list) else [written(each) for each in found]]


def _scaled(score: Any, metric: LoggedMetric) -> Any:
    """Return the score of a sample; what adds to sums, and is no number, stays as it is."""
    return metric.share(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else score


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
