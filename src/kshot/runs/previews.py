"""What a sample asks first, for a preview."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from kshot.core.metric import judged
from kshot.core.records import Choice, Loglik, Prompt, Request, Sample
from kshot.core.task import Task
from kshot.core.validation import check_requests
from kshot.runs.task_run import start_sample


@dataclass(frozen=True, slots=True)
class Preview:
    """The first requests of a sample's method, and what a judge would be asked, with a placeholder for the reply."""

    task: str
    id: str
    requests: tuple[Request, ...]
    judge: tuple[Request, ...] = ()
    baselines: frozenset[Prompt] = frozenset()
    """The prompts after which options are measured only to compare: see ``Choice``."""

    def is_baseline(self, request: Request) -> bool:
        """Whether a request measures options after a baseline prompt."""
        return isinstance(request, Loglik) and request.prompt in self.baselines


def previewed(task: Task[Any], sample: Sample, *, judged: bool) -> Preview:
    """Return the preview of one sample; ``judged``: with what the judge would be asked."""
    prompts: list[Any] = []

    def template(sample: Sample, shots: Sequence[Sample]) -> Any:
        prompts.append(task.template(sample, shots))
        return prompts[-1]

    with closing(start_sample(replace(task, template=template), sample)) as method:
        requests = next(method, ())  # a method may ask nothing
        check_requests(requests, method)
        judge = _judge_requests(task, sample) if judged else ()
        return Preview(task.name, sample.id, tuple(requests), judge, _baselines(prompts))


def _baselines(prompts: Sequence[Any]) -> frozenset[Prompt]:
    made = [each for prompt in prompts if isinstance(prompt, list | tuple) for each in prompt]
    choices = [each for each in made if isinstance(each, Choice)]
    baselines = {choice.baseline for choice in choices if choice.baseline is not None}
    return frozenset(baselines - {choice.prompt for choice in choices})


def _judge_requests(task: Task[Any], sample: Sample) -> tuple[Request, ...]:
    return tuple(request for metric in judged(task.metrics) for request in metric.judge_requests(sample))
