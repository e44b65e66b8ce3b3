"""A task is an evaluation as a value: the samples, how they are asked, how the answers are scored; and its result."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from kshot.core.corpus import Corpus
from kshot.core.memo import Offsets
from kshot.core.metric import MEAN, Measure, Metric
from kshot.core.records import Absent, Failed, Ranking, Request, RequestGenerator, Response, Sample

P = TypeVar("P")

TaskKind: TypeAlias = Literal["plain", "lookup", "passages"]
"""How the results of a task are shown: in a plain table, as a grid of lengths, or as systems side by side."""

COUNTED = ("unanswered", "ties", "failed_replies", "cut_prompts", "cut_replies", "unfinished_thoughts")
"""What is counted beside failed samples: replies without an option, ties of options (by metric), replies that failed
among several to one sample, and prompts and replies that are not whole."""


NOT_ASKED = "not_asked"
"""The kind of failure of a request to which a run that is scored again holds no answer."""


def no_shots(sample: Sample) -> Sequence[Sample]:  # noqa: ARG001 - other selectors use the sample
    """Show no examples."""
    return ()


@dataclass(frozen=True, slots=True)
class Task(Generic[P]):
    """An evaluation as a value.

    ``template(sample, shots(sample))`` returns what ``method(sample, …)`` puts to the model: a Prompt in most cases.
    ``finish`` turns the raw answers of all samples, in order, into the answers that are scored; without it the
    method's own answers are scored. ``samples`` may be any re-iterable collection: it is read as a stream.

    ``notes`` are for the user, ``facts`` go to ``spec.json``, ``labels`` become columns of the results,
    ``metric_labels`` columns of the results of one metric. For a sample and its row of ``samples.jsonl``, ``export``
    returns a file of the run folder and a line for that file. For a sample and its answer, ``explain`` returns more
    that its row says. ``corpus`` is what a search engine searches. ``kind`` says how the results are shown.
    ``keep_thoughts``: replies keep the model's thoughts. ``provisional``: its examples are only for a rehearsal.
    """

    name: str
    samples: Iterable[Sample]
    template: Callable[[Sample, Sequence[Sample]], P]
    method: Callable[[Sample, P], RequestGenerator]
    metrics: tuple[Metric, ...]
    shots: Callable[[Sample], Sequence[Sample]] = no_shots
    finish: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, Any] = field(default_factory=dict)
    metric_labels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    export: Callable[[Sample, Mapping[str, Any]], tuple[str, Mapping[str, Any]]] | None = None
    explain: Callable[[Sample, Any], Mapping[str, Any]] | None = None
    corpus: Corpus | None = None
    kind: TaskKind = "plain"
    keep_thoughts: bool = False
    provisional: bool = False

    def ask(self, sample: Sample) -> RequestGenerator:
        """Start asking one sample."""
        return self.method(sample, self.template(sample, self.shots(sample)))


class TriedTasks:
    """Keeps the tasks that are compiled before a model is open, so that the first model is asked these very tasks."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Sequence[Task[Any]]] = {}

    def take(self, key: Hashable, compiled: Callable[[], Sequence[Task[Any]]], *, keep: bool) -> Sequence[Task[Any]]:
        """Return the tasks that are kept under a key, which is then free, or compile them.

        ``key`` stands for all that they depend on. ``keep``: they are only tried out now, and kept for a model.
        """
        tasks = self._kept.pop(key, None) or compiled()
        if keep and not any(task.provisional for task in tasks):
            self._kept[key] = tasks
        return tasks

    def clear(self) -> None:
        """Let go of the tasks that nobody has taken."""
        self._kept.clear()


@dataclass(slots=True)
class TaskResult:
    """The scores of one task on one model, sample by sample."""

    task: Task[Any]
    model: str
    values: dict[str, MutableSequence[Any]] = field(default_factory=dict)
    """The values of each metric, in the order of ``positions``."""
    positions: array[int] = field(default_factory=lambda: array("q"))
    """The positions of the scored samples in the task."""
    categories: list[str | None] = field(default_factory=list)
    failed_categories: list[str | None] = field(default_factory=list)
    counts: dict[tuple[str | None, str, str], int] = field(default_factory=dict)
    """How often something of ``COUNTED`` happened, by category (None: in the whole task), metric ("": any) and name."""
    identical: list[str] = field(default_factory=list)
    """The ids of samples that list one option twice."""
    absent: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The names whose figures are left out: why, and how many samples do not tell them."""
    rules: dict[str, int] = field(default_factory=dict)
    """By rule: the replies that it took the answer out of."""
    first_failure: str = ""
    not_asked: list[str] = field(default_factory=list)
    """The ids of samples to which a run that is scored again holds no answer."""
    usage: dict[str, list[int]] = field(default_factory=dict)
    """By role (``model``, ``judge``): tokens read and written; equal requests are counted once."""
    token_logprobs: list[int] = field(default_factory=lambda: [0, 0])
    """The replies and texts whose tokens should have log-probabilities, and how many of them lack these."""
    _counted: Offsets = field(default_factory=Offsets)

    @property
    def failed(self) -> int:
        """The number of samples without an answer."""
        return len(self.failed_categories)

    @property
    def failed_replies(self) -> int:
        """The replies that failed among several to one sample, which is scored by the others."""
        return self.counted().get("failed_replies", 0)

    def count(self, what: str, category: str | None, metric: str = "") -> None:
        """Count something that happened to a sample, for the task and for the sample's category."""
        for part in {None, category}:
            self.counts[part, metric, what] = self.counts.get((part, metric, what), 0) + 1

    def counted(self, metric: str = "", category: str | None = None) -> dict[str, int]:
        """Return what happened, and how often: in a category, or in the whole task."""
        if not self.counts:
            return {}
        found = {what: sum(self.counts.get((category, name, what), 0) for name in {"", metric}) for what in COUNTED}
        return {what: count for what, count in found.items() if count}

    def measures(self) -> list[Measure]:
        """Return the measures that are reported."""
        every = [measure for metric in self.task.metrics for measure in metric.measures]
        return [measure for measure in every if measure.name not in self.absent]

    def add(self, position: int, sample: Sample, scores: Mapping[str, Any]) -> None:
        """Add the scores of the sample at this position of the task."""
        self.positions.append(position)
        self.categories.append(sample.category)
        for name, value in scores.items():
            if isinstance(value, Absent) or name in self.absent:
                self._leave_out(name, value)
                continue
            if name not in self.values:  # those of means go into a flat array, a quarter of a list's memory
                means = {measure.name for measure in self.measures() if measure.aggregate is MEAN}
                self.values[name] = array("d") if name in means else []
            self.values[name].append(value)

    def _leave_out(self, name: str, value: Any) -> None:
        """Leave a figure out: one over some of the samples would be taken for one over all of them."""
        why, count = self.absent.get(name, ("", 0))
        self.values.pop(name, None)
        missing = isinstance(value, Absent)
        self.absent[name] = (value.why if isinstance(value, Absent) and not why else why, count + missing)

    def spend(self, exchanges: Iterable[tuple[Request, Response]]) -> None:
        """Count the tokens of these responses; equal requests are counted once."""
        for request, response in exchanges:
            if isinstance(response, (Failed, Ranking)) or response.usage is None:
                continue
            mark = hash(request) % 2**64
            if mark in self._counted:
                continue
            self._counted[mark] = 0
            sums = self.usage.setdefault(request.role, [0, 0, 0])
            sums[0] += response.usage.prompt_tokens
            sums[1] += response.usage.completion_tokens
            sums[2] += response.usage.cached_tokens
