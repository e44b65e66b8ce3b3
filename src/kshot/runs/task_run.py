"""Run one task through the engine: answers, scores, and a row of ``samples.jsonl`` for each sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from numbers import Real
from typing import Any

from kshot.core.answers import Explained, Repeats, bare
from kshot.core.budget import Budget
from kshot.core.engine import drive
from kshot.core.errors import DataError, KshotError
from kshot.core.memo import Memo
from kshot.core.offsets import Offsets, address
from kshot.core.protocols import Backend, Scorer
from kshot.core.records import (
    UNANSWERED,
    Absent,
    AnyOption,
    AskFailed,
    Failed,
    Option,
    Outcome,
    RequestGenerator,
    ResultRow,
    Sample,
    Value,
)
from kshot.core.task import NOT_ASKED, Task, TaskResult
from kshot.core.token_logprobs import asking_token_logprobs
from kshot.runs.replies import (
    count_replies,
    count_rules,
    count_token_logprobs,
    notes_on_replies,
)
from kshot.runs.sample_row import (
    explanation,
    failed_replies,
    identical_options,
    majority,
    sample_row,
    shown_prompt,
    shown_response,
)
from kshot.runs.shards import Part

_MAX_LISTED = 5
"""Ids that a note lists."""

# ---- running ----


def run_task(
    result: TaskResult,
    backends: Mapping[str, Backend],
    memo: Memo,
    emit: Callable[[Sample, ResultRow], None],
    progress: Callable[[Outcome[Sample]], None] = lambda _: None,
    *,
    budget: Budget | None = None,
    part: Part | None = None,
    token_logprobs: bool = False,
) -> None:
    """Ask and score every sample of a task, into its result; ``emit`` receives the rows of the samples, in order.

    ``part``: those of the samples that are asked. ``token_logprobs``: the evaluated model is asked for the
    log-probabilities of its tokens too.
    """
    task = result.task
    check_names(task)
    asking = partial(drive, backends=backends, memo=memo, budget=budget)
    ask_sample = partial(start_sample, task)
    started: Callable[[Sample], RequestGenerator] = (
        (lambda sample: asking_token_logprobs(ask_sample(sample))) if token_logprobs else ask_sample
    )
    with closing(_judgements(task, part, started, asking, progress)) as judgements:
        for position, judgement in enumerate(judgements):
            outcome, scores = judgement.item, judgement.answer
            result.spend((*outcome.exchanges, *judgement.exchanges))
            if token_logprobs:
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
            row = sample_row(task, result.model, outcome, scores)
            if judgement.exchanges:
                asked = judgement.exchanges
                row["judge"] = [{"prompt": shown_prompt(q), "response": shown_response([(q, r)])} for q, r in asked]
            emit(outcome.item, row)


def check_names(task: Task[Any]) -> None:
    """Refuse metrics that report the same name."""
    names = [name for metric in task.metrics for name in metric.names]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"two of its metrics report {twice!r}", where=f"dataset {task.name}")


def _count_undecided(result: TaskResult, outcome: Outcome[Sample]) -> None:
    """Count a sample whose options tie, or whose reply names no option."""
    answer, chooses = outcome.answer, isinstance(outcome.item.target, Option | AnyOption)
    tied = answer.tied if isinstance(answer, Explained) else ()
    if chooses and isinstance(answer, Repeats) and bare(answer).tied:
        tied = ("",)
    for metric in result.task.metrics:
        if metric.rule in tied:
            for name in metric.names:
                result.count("ties", outcome.item.category, name)
    if identical_options(outcome.item.choices):
        result.identical.append(outcome.item.id)
    if chooses and not tied and majority(answer) == UNANSWERED:
        result.count("unanswered", outcome.item.category)


def notes_of(result: TaskResult) -> Iterator[str]:
    """Yield what the user should know about the options and the replies of a task that ran."""
    yield from notes_on_replies(result)
    headline = next((name for name, metric in result.named() if name not in metric.details), "")
    if tied := result.counted(headline).get("ties", 0):
        yield (
            f"{result.task.name} on {result.model}: in {tied} of {len(result.positions)} samples several options come "
            "first, equally likely or with as many votes"
        )
    if result.identical:
        ids = ", ".join(result.identical[:_MAX_LISTED]) + (", …" if len(result.identical) > _MAX_LISTED else "")
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


def _judgements(
    task: Task[Any],
    part: Part | None,
    started: Callable[[Sample], RequestGenerator],
    asking: Callable[..., Generator[Outcome[Any]]],
    progress: Callable[[Outcome[Sample]], None],
) -> Generator[Outcome[Outcome[Sample]]]:
    """Ask and score every sample, in order. Samples are scored while others are asked, unless the task needs all."""

    def scoring(outcome: Outcome[Sample]) -> RequestGenerator:
        progress(outcome)
        return _scoring(task, outcome)

    samples = (sample for at, sample in enumerate(_distinct(task)) if part is None or part.take(at))
    jobs = ((sample, started(sample)) for sample in samples)
    if task.finish is None:
        yield from asking(jobs, then=scoring)
        return
    asked: list[Outcome[Sample]] = []
    with closing(asking(jobs)) as outcomes:
        for outcome in outcomes:
            progress(outcome)
            asked.append(outcome)
    finished = _finished(asked, task.finish)
    yield from asking((outcome, _scoring(task, outcome)) for outcome in finished)


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
    if isinstance(outcome.answer, Failed):
        raise AskFailed(outcome.answer)
    scores: dict[str, Value | Absent] = {}
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
            raise DataError(f"{', '.join(metric.names)} failed: {type(exc).__name__}: {exc}", where=where) from exc
    return scores


def _checked_values(metric: Scorer, given: Mapping[str, Value | Absent], where: str) -> Mapping[str, Value | Absent]:
    """Refuse values that cannot be summed up: those of unknown names, and those that are not finite numbers."""
    if set(given) != set(metric.names):
        raise DataError(f"{', '.join(metric.names)} gave values for {', '.join(given) or 'nothing'}", where=where)
    for name, value in given.items():
        if isinstance(value, Absent):
            continue
        numbers: tuple[Any, ...] = value if isinstance(value, tuple) else (value,)
        for number in numbers:
            if not isinstance(number, Real) or not math.isfinite(number):
                raise DataError(f"{name} gave {value!r}, which is not a finite number", where=where)
    return given


def _given(metric: Scorer, answer: Any) -> Any:
    if isinstance(answer, Explained) and metric.rule in answer.values:
        return answer.values[metric.rule]
    if isinstance(answer, Explained) and metric.rule:
        return answer.others[metric.rule]
    answer = bare(answer)
    if metric.grouped:
        return answer.answers if isinstance(answer, Repeats) else (answer,)
    return majority(answer)
