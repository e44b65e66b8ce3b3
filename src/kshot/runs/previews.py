"""Trying a task out: what a sample asks first, for a preview, and for every task before a run costs anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from kshot.core.content import needs
from kshot.core.errors import BackendError, KshotError, OriginKind, UsageError, located
from kshot.core.metric import judged as asking_judges, measure_names
from kshot.core.records import Choice, Loglik, Prompt, Request, Sample, Search
from kshot.core.task import Task
from kshot.core.validation import check_requests
from kshot.core.watcher import PlannedTask
from kshot.runs.task_run import check_names, start_sample


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
        asking = asking_judges(task.metrics) if judged else ()
        judge = tuple(request for metric in asking for request in metric.judge_requests(sample))
        return Preview(task.name, sample.id, tuple(requests), judge, _baselines(prompts))


def _baselines(prompts: Sequence[Any]) -> frozenset[Prompt]:
    made = [each for prompt in prompts if isinstance(prompt, list | tuple) for each in prompt]
    choices = [each for each in made if isinstance(each, Choice)]
    baselines = {choice.baseline for choice in choices if choice.baseline is not None}
    return frozenset(baselines - {choice.prompt for choice in choices})


REHEARSED_SAMPLES = 10
"""Samples of each task that are tried out. All rows of its files are read; the other samples are made in their turn."""


def rehearse(task: Task[Any], *, judged: bool) -> tuple[frozenset[type], frozenset[str]]:
    """Ask the first requests of the first samples of nobody. ``judged``: the run has a judge.

    Return what they ask of the evaluated model: types of request, and what its prompts hold beside text.
    """
    check_names(task)
    if not judged and asking_judges(task.metrics):
        raise BackendError(
            "its metrics ask a judge, and none is named",
            where=f"dataset {task.name}",
            hint="Name the judging model with --judge MODEL.",
        )
    if iter(task.samples) is task.samples:  # they can be read once only
        return frozenset(), frozenset()
    samples = islice(task.samples, REHEARSED_SAMPLES)
    previews = [previewed(task, sample, judged=judged) for sample in samples]
    requests = [request for shown in previews for request in shown.requests if request.role == "model"]
    media = [part for request in requests if not isinstance(request, Search) for part in request.prompt.media]
    return frozenset(map(type, requests)), needs(media)


def planned_task(task: Task[Any]) -> PlannedTask:
    """Return the name, the metrics and the size of a task, as far as it is known without reading its samples."""
    total = len(task.samples) if isinstance(task.samples, Sized) else None
    group = str(task.labels["dataset"]) if {"dataset", "subset"} <= set(task.labels) else ""
    names = measure_names(task.metrics)
    metrics = tuple(name for name in names if "error" not in task.metric_labels.get(name, {}))
    return PlannedTask(task.name, total=total, group=group, metrics=metrics)


class Faults:
    """Collects what is wrong with a run, so that one message can tell all of it."""

    def __init__(self) -> None:
        self._found: list[KshotError] = []
        self._of_settings: set[str] = set()

    @contextmanager
    def collected(self, kind: OriginKind = "file", *texts: Any) -> Iterator[None]:
        """Keep an error of this block, and go on after it. It names the place where the user wrote these texts.

        A fault of a setting is told once, and not again for every dataset.
        """
        try:
            yield
        except KshotError as exc:
            located(exc, kind, *(text for text in texts if isinstance(text, str)))
            same = any(each.what == exc.what and each.where in ("", exc.where) for each in self._found)
            if not same and exc.what not in self._of_settings:
                self._found.append(exc)
            if kind == "setting":
                self._of_settings.add(exc.what)

    def tell(self) -> None:
        """Raise the fault, if there is one, or one error that tells all of them."""
        if not self._found:
            return
        first, *others = self._found
        if not others:
            raise first
        listed = " ".join(f"({number}) {str(exc).rstrip('.')}." for number, exc in enumerate(self._found, start=1))
        raise UsageError(f"{len(self._found)} faults: {listed}") from first
