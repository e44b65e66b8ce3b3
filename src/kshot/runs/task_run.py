"""Run tasks through the engine: answers, scores, and a row of ``samples.jsonl`` for each sample."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import chain, groupby
from numbers import Real
from typing import Any, TypeVar

from kshot.core.budget import Budget
from kshot.core.engine import SampleJob, drive
from kshot.core.errors import DataError, KshotError
from kshot.core.memo import Memo, Offsets, address
from kshot.core.metric import Measure, Metric, Observation, measure_names
from kshot.core.protocols import Backend
from kshot.core.reasoning import as_kept, asking_token_logprobs, keeping_thoughts
from kshot.core.records import (
    UNANSWERED,
    Absent,
    AnyOption,
    AskFailed,
    Explained,
    Failed,
    Generated,
    Option,
    Outcome,
    Repeats,
    RequestGenerator,
    ResultRow,
    Sample,
    bare,
)
from kshot.core.settings import Shard
from kshot.core.task import NOT_ASKED, Task, TaskResult
from kshot.core.visible import listed, without_text
from kshot.core.watcher import PlannedTask
from kshot.runs.sample_row import (
    count_replies,
    count_rules,
    count_token_logprobs,
    explanation,
    failed_replies,
    identical_options,
    majority,
    notes_on_replies,
    sample_row,
    shown_prompt,
    shown_response,
)
from kshot.runs.swept_rows import BASE

_LONGEST_PIECE = 32
"""Samples that stay together at most: neighbours often share the beginning of their prompts."""
_PIECES_EACH = 4
"""A shard has about so many pieces or more: then shards get equal parts of easy and of hard tasks."""


@dataclass(slots=True)
class Part:
    """The samples of one task that belong to a shard, by their positions. Pieces are dealt to the shards in turn."""

    shard: Shard
    piece: int
    """How many neighbours stay together."""
    first: int
    """The number of the task's first piece among those of the run."""
    passed: int = 0
    """The samples that ``take`` has seen."""

    def take(self, position: int) -> bool:
        """Whether the sample at this position belongs to the shard; it counts as seen."""
        self.passed = max(self.passed, position + 1)
        return position in self

    def __contains__(self, position: int) -> bool:
        return (self.first + position // self.piece) % self.shard.of == self.shard.number - 1

    @property
    def next(self) -> int:
        """The number of the piece after those that were seen."""
        return self.first - (-self.passed // self.piece)


class Split:
    """Deals the samples of a run to its shards, task by task.

    Tasks with the same samples (those of a sweep, of several draws, models or ways to cut passages) are split in the
    same way, so that what they ask alike is asked once. A task whose answers are finished together stays whole.
    """

    def __init__(self, shard: Shard, planned: Sequence[PlannedTask] | None) -> None:
        """Take the shard, and all tasks of the run as far as they are known."""
        self._shard = shard
        self.samples = sum({task.task: task.total or 0 for task in planned or ()}.values())
        """How many samples were planned: the length of the pieces depends on it."""
        self._first: dict[str, int] = {}
        self._last: Part | None = None

    def part(self, task: Task[Any]) -> Part:
        """Return the part of the next task; the tasks before it have passed."""
        following = 0 if self._last is None else self._last.next
        labels = task.labels
        alike = str(labels.get("benchmark") or labels.get(BASE) or labels.get("of") or task.name)
        known = self._first.get(alike)
        found = Part(self._shard, self._piece(task), following if known is None else known)
        if known is None:
            self._first[alike] = following
            self._last = found
        return found

    def _piece(self, task: Task[Any]) -> int:
        if task.finish is not None:
            return sys.maxsize
        samples = self.samples or (len(task.samples) if isinstance(task.samples, Sized) else 0)
        return max(1, min(_LONGEST_PIECE, samples // (self._shard.of * _PIECES_EACH)))


def size_of(task: Task[Any], part: Part | None) -> int | None:
    """Return how many samples a run asks of a task, as far as it is known before they are read."""
    if not isinstance(task.samples, Sized):
        return None
    size = len(task.samples)
    return size if part is None else sum(position in part for position in range(size))


T = TypeVar("T")

_MAX_LISTED = 5
"""Ids that a note lists."""

# ---- running ----


class TaskRun:
    """One task on its way through the engine: what is asked for its samples, and what becomes of their outcomes.

    ``emit`` receives the rows of the samples, in order. ``begin`` is called when the tasks before have ended, with the
    samples that were answered by then: ``answered_ahead`` got each of them, and ``answered`` gets those that follow.
    ``part``: those of the samples that are asked. ``token_logprobs``: the model is asked for those of its tokens too.
    """

    def __init__(
        self,
        result: TaskResult,
        emit: Callable[[Sample, ResultRow], None],
        begin: Callable[[Sequence[Outcome[Sample]]], None],
        answered: Callable[[Outcome[Sample]], None],
        *,
        answered_ahead: Callable[[Outcome[Sample]], None] = lambda _: None,
        part: Part | None = None,
        token_logprobs: bool = False,
    ) -> None:
        check_names(result.task)
        self.result, self._emit, self._begin = result, emit, begin
        self._answered, self._answered_ahead = answered, answered_ahead
        self._part, self._token_logprobs = part, token_logprobs
        self._early: list[Outcome[Sample]] | None = []  # None once the task has begun
        self._started = self._scored = 0
        self._all_started = False

    @property
    def done(self) -> bool:
        """Whether every sample is scored."""
        return self._all_started and self._scored == self._started

    def begin(self) -> None:
        """Show the task from now on."""
        early, self._early = self._early or [], None
        self._begin(early)

    def jobs(self) -> Iterator[SampleJob]:
        """Start every sample, and score it when it is answered, unless the task needs all answers for that."""
        task, part = self.result.task, self._part
        then = None if task.finish is not None else self._score
        for at, sample in enumerate(_distinct(task)):
            if part is None or part.take(at):
                self._started += 1
                asked = start_sample(task, sample)
                asked = keeping_thoughts(asked) if task.keep_thoughts else asked
                yield SampleJob(sample, asking_token_logprobs(asked) if self._token_logprobs else asked, then)
        self._all_started = True

    def _score(self, outcome: Outcome[Sample]) -> RequestGenerator:
        self.answered(outcome)
        return _scoring(self.result.task, outcome)

    def answered(self, outcome: Outcome[Sample]) -> None:
        """Tell that a sample is answered."""
        if self._early is None:
            self._answered(outcome)
        else:
            self._early.append(outcome)
            self._answered_ahead(outcome)

    def add(self, judgement: Outcome[Outcome[Sample]]) -> None:
        """Add the next sample to the result."""
        result, scores = self.result, judgement.answer
        outcome = judgement.item
        if result.task.keep_thoughts:  # the replies as the task's method got them
            kept = tuple((asked, as_kept(asked, reply)) for asked, reply in outcome.exchanges)
            outcome = replace(outcome, exchanges=kept)
        outcome = _with_text(outcome)
        position, self._scored = self._scored, self._scored + 1
        result.spend((*outcome.exchanges, *judgement.exchanges))
        if self._token_logprobs:
            count_token_logprobs(result, outcome.exchanges)
        if isinstance(scores, Failed):
            result.failed_categories.append(outcome.item.category)
            _note_failure(result, outcome.item, scores)
        else:
            result.add(position, outcome.item, scores)
            _count_undecided(result, outcome)
            count_replies(result, outcome.item.category, outcome.exchanges)
            count_rules(result, explanation(outcome.answer).get("rule"))
            for failed in failed_replies(outcome):
                result.count("failed_replies", outcome.item.category)
                _note_failure(result, outcome.item, failed)
        row = sample_row(result.task, result.model, outcome, scores)
        if judgement.exchanges:
            asked = judgement.exchanges
            row["judge"] = [{"prompt": shown_prompt(q), "response": shown_response([(q, r)])} for q, r in asked]
        self._emit(outcome.item, row)


def asked_together(
    tasks: Iterable[tuple[T, Task[Any]]], *, apart: bool = False
) -> Iterator[Iterator[tuple[T, Task[Any]]]]:
    """Group tasks that may be asked as one stream: neighbours that search the same passages, or none.

    A task whose answers are finished together is a group of its own; with ``apart`` every task is.
    """
    group = 0
    before: Task[Any] | None = None

    def place(entry: tuple[T, Task[Any]]) -> int:
        nonlocal group, before
        task = entry[1]
        joins = before is not None and before.corpus is task.corpus and not (before.finish or task.finish)
        group, before = group + (apart or not joins), task
        return group

    for _, entries in groupby(tasks, place):
        yield entries


def run_tasks(
    runs: Iterator[TaskRun], backends: Mapping[str, Backend], memo: Memo, *, budget: Budget | None = None
) -> Iterator[TaskRun]:
    """Ask and score the samples of a group of tasks; yield each task when all its samples are scored.

    The samples of the next task are asked while those of the task before are still open, so that no model waits for the
    last samples of a task. Tasks begin and end one after the other, in their order.
    """
    asking = partial(drive, backends=backends, memo=memo, budget=budget)
    first = next(runs)
    finish = first.result.task.finish
    yield from _run_stream(chain([first], runs), asking) if finish is None else _run_whole(first, finish, asking)


def _run_stream(runs: Iterable[TaskRun], asking: Callable[..., Generator[Outcome[Any]]]) -> Iterator[TaskRun]:
    """Ask the samples of all tasks as one stream, and score each when it is answered."""
    open_runs: deque[TaskRun] = deque()

    def jobs() -> Iterator[SampleJob]:
        for run in runs:
            open_runs.append(run)
            if len(open_runs) == 1:
                run.begin()
            yield from run.jobs()

    def ended() -> Iterator[TaskRun]:
        while open_runs and open_runs[0].done:
            yield open_runs.popleft()
            if open_runs:
                open_runs[0].begin()

    with closing(asking(jobs())) as judgements:
        for judgement in judgements:
            yield from ended()  # it is a sample of a later task if those before have no more
            open_runs[0].add(judgement)
            yield from ended()
    yield from ended()


def _run_whole(
    run: TaskRun, finish: Callable[[Sequence[Any]], Sequence[Any]], asking: Callable[..., Generator[Outcome[Any]]]
) -> Iterator[TaskRun]:
    """Ask all samples of a task, and score them when all are answered."""
    task, asked = run.result.task, list[Outcome[Sample]]()
    run.begin()
    with closing(asking(run.jobs())) as outcomes:
        for outcome in outcomes:
            run.answered(outcome)
            asked.append(outcome)
    scoring = ((outcome, _scoring(task, outcome)) for outcome in _finished(asked, finish))
    with closing(asking(scoring)) as judgements:
        for judgement in judgements:
            run.add(judgement)
    yield run


def check_names(task: Task[Any]) -> None:
    """Refuse metrics that report the same name."""
    names = measure_names(task.metrics)
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"two of its metrics report {twice!r}", where=f"dataset {task.name}")


def _count_undecided(result: TaskResult, outcome: Outcome[Sample]) -> None:
    """Count a sample whose options tie, or whose reply names no option."""
    answer, chooses = outcome.answer, isinstance(outcome.item.target, Option | AnyOption)
    tied = answer.tied if isinstance(answer, Explained) else ()
    if chooses and isinstance(answer, Repeats) and bare(answer).tied:
        tied = ("",)
    for metric in result.task.metrics if tied else ():
        for measure in metric.measures:
            if measure.rule in tied:
                result.count("ties", outcome.item.category, measure.name)
    if identical_options(outcome.item.choices):
        result.identical.append(outcome.item.id)
    if chooses and not tied and majority(answer) == UNANSWERED:
        result.count("unanswered", outcome.item.category)


def notes_of(result: TaskResult) -> Iterator[str]:
    """Yield what the user should know about the options and the replies of a task that ran."""
    yield from notes_on_replies(result)
    headline = next((measure.name for measure in result.measures() if not measure.detail), "")
    if tied := result.counted(headline).get("ties", 0):
        yield (
            f"{result.task.name} on {result.model}: in {tied} of {len(result.positions)} samples several options come "
            "first, equally likely or with as many votes"
        )
    if result.identical:
        ids = listed(result.identical, _MAX_LISTED)
        yield f"{result.task.name}: samples that list the same option twice: {len(result.identical)} (ids: {ids})"
    if fewer := len(result.task.facts.get("kept", ())):
        yield (
            f"{result.task.name} on {result.model}: {fewer} samples show fewer examples than were chosen for them; "
            "--max-example-tokens leaves out what does not fit"
        )


def _note_failure(result: TaskResult, sample: Sample, failed: Failed) -> None:
    if failed.kind == NOT_ASKED:
        result.not_asked.append(sample.id)
    again = "; the same command asks again" if failed.retryable else ""
    result.first_failure = result.first_failure or f"{failed.kind}: {failed.message}{again}"


def _distinct(task: Task[Any]) -> Iterator[Sample]:
    """Yield the samples; two samples with the same id are an error, because nothing could tell them apart later."""
    seen = Offsets()
    for position, sample in enumerate(task.samples):
        mark = address(blake2b(sample.id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest())
        if mark in seen:
            raise DataError(
                f"two samples have the id {sample.id!r}",
                where=f"dataset {task.name}",
                hint="Make the ids unique, or set id_column = None to number the rows.",
            )
        seen[mark] = position
        yield sample


def start_sample(task: Task[Any], sample: Sample) -> RequestGenerator:
    """Start a sample; any error of its template or method becomes an error that names the sample."""
    try:
        return (yield from task.ask(sample))
    except (KshotError, AskFailed):
        raise
    except Exception as exc:
        where = f"dataset {task.name}, sample {sample.id}"
        raise DataError(f"it cannot be asked: {type(exc).__name__}: {exc}", where=where) from exc


def _finished(
    outcomes: list[Outcome[Sample]], finish: Callable[[Sequence[Any]], Sequence[Any]]
) -> Iterator[Outcome[Sample]]:
    answers = finish([bare(outcome.answer) for outcome in outcomes])
    for outcome, answer in zip(outcomes, answers, strict=True):
        explained = isinstance(outcome.answer, Explained)
        own = replace(outcome.answer, answer=answer) if explained else answer
        yield outcome if outcome.failed else replace(outcome, answer=own)


def _scoring(task: Task[Any], outcome: Outcome[Sample]) -> RequestGenerator:
    """Score one answer; a metric that asks a judge does so through the same engine."""
    outcome = _with_text(outcome)
    if isinstance(outcome.answer, Failed):
        raise AskFailed(outcome.answer)
    scores: dict[str, Any] = {}
    for metric in task.metrics:
        where = f"dataset {task.name}, sample {outcome.item.id}"
        try:
            found = metric.score(outcome.item, _given(metric, outcome.answer))
            given = found if isinstance(found, Mapping) else (yield from found)
            scores |= _checked_values(metric, given, where)
        except KshotError as exc:
            exc.where = exc.where or where
            raise
        except AskFailed:
            raise
        except Exception as exc:
            raise DataError(
                f"{', '.join(measure_names([metric]))} failed: {type(exc).__name__}: {exc}", where=where
            ) from exc
    return scores


def _with_text(outcome: Outcome[Sample]) -> Outcome[Sample]:
    """Fail an outcome whose answer has no text of its own, such as a function that ``eval`` of a reply gave."""
    answer = bare(outcome.answer)
    given = answer.answers if isinstance(answer, Repeats) else answer
    if not without_text(given):
        return outcome
    replies = "\n".join(response.text for _, response in outcome.exchanges if isinstance(response, Generated))
    lost = without_text(given, known=replies)
    message = f"it is or holds {lost}, which has no text of its own"
    return replace(outcome, answer=Failed("answer", message)) if lost else outcome


def _checked_values(metric: Metric, given: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Refuse values that cannot be summed up: those of unknown names, and those that are not finite numbers.

    What is neither a number nor a tuple of numbers becomes an observation, if code alone knows how to aggregate it.
    """
    measures = {measure.name: measure for measure in metric.measures}
    if set(given) != set(measures):
        raise DataError(f"{', '.join(measures)} gave values for {', '.join(given) or 'nothing'}", where=where)
    return {name: _checked_value(measures[name], value, where) for name, value in given.items()}


def _checked_value(measure: Measure, value: Any, where: str) -> Any:
    numbers: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
    if isinstance(value, Absent) or all(isinstance(each, Observation) for each in numbers):
        return value
    numeric = measure.aggregate.key or value is None or all(isinstance(number, Real) for number in numbers)
    for number in numbers if numeric else (value,):
        if lost := without_text(number):
            raise AskFailed(Failed("score", f"{measure.name} gave {lost}, which is not a number"))
        if numeric and not (isinstance(number, Real) and math.isfinite(number)):
            raise DataError(f"{measure.name} gave {value!r}, which is not a finite number", where=where)
    return value if numeric else Observation(value)


def _given(metric: Metric, answer: Any) -> Any:
    """Return what a metric scores: the answer, that by the rule of its measures, or all repeats."""
    measure = next(iter(metric.measures), None)
    rule = "" if measure is None else measure.rule
    if isinstance(answer, Explained) and rule in answer.values:
        return answer.values[rule]
    if isinstance(answer, Explained) and rule:
        return answer.others[rule]
    answer = bare(answer)
    if measure is not None and measure.grouped:
        return answer.answers if isinstance(answer, Repeats) else (answer,)
    return majority(answer)
