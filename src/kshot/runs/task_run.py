"""Run one task through the engine: answers, scores, and a row of ``samples.jsonl`` for each sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, is_dataclass, replace
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
    Generated,
    Likelihood,
    Loglik,
    Option,
    Outcome,
    Prompt,
    Ranking,
    Request,
    RequestGenerator,
    Response,
    ResultRow,
    Sample,
    Scored,
    Search,
    Value,
    reference,
)
from kshot.core.task import Task, TaskResult
from kshot.core.token_logprobs import asking_token_logprobs
from kshot.runs.data_digest import question_digest
from kshot.runs.replies import (
    count_replies,
    count_rules,
    count_token_logprobs,
    notes_on_replies,
    reply_fields,
    token_list,
)
from kshot.statistics.figures import OWN_AGGREGATE, reduced

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
    token_logprobs: bool = False,
) -> None:
    """Ask and score every sample of a task, into its result; ``emit`` receives the rows of the samples, in order.

    ``token_logprobs``: the evaluated model is asked for the log-probabilities of its tokens too.
    """
    task = result.task
    check_names(task)
    asking = partial(drive, backends=backends, memo=memo, budget=budget)
    ask_sample = partial(start_sample, task)
    started: Callable[[Sample], RequestGenerator] = (
        (lambda sample: asking_token_logprobs(ask_sample(sample))) if token_logprobs else ask_sample
    )
    with closing(_judgements(task, started, asking, progress)) as judgements:
        for position, judgement in enumerate(judgements):
            outcome, scores = judgement.item, judgement.answer
            result.spend((*outcome.exchanges, *judgement.exchanges))
            if token_logprobs:
                count_token_logprobs(result, outcome.exchanges)
            if isinstance(scores, Failed):
                result.failed_categories.append(outcome.item.category)
                _note_failure(result, scores)
            else:
                result.add(position, outcome.item, scores)
                _count_undecided(result, outcome)
                count_replies(result, outcome.item.category, outcome.exchanges)
                count_rules(result, _explanation(outcome.answer).get("rule"))
                for failed in _failed_replies(outcome):
                    result.count("failed_replies", outcome.item.category)
                    _note_failure(result, failed)
            row = _row(task, result.model, outcome, scores)
            if judgement.exchanges:
                row["judge"] = [{"prompt": _prompt(q), "response": _response([(q, r)])} for q, r in judgement.exchanges]
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
    if _identical(outcome.item.choices):
        result.identical.append(outcome.item.id)
    if chooses and not tied and _majority(answer) == UNANSWERED:
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


def _note_failure(result: TaskResult, failed: Failed) -> None:
    again = "; the same command asks again" if failed.retryable else ""
    result.first_failure = result.first_failure or f"{failed.kind}: {failed.message}{again}"


def _failed_replies(outcome: Outcome[Sample]) -> tuple[Failed, ...]:
    """Return the failures among several replies to a sample, which the others answered."""
    return outcome.answer.failures if isinstance(outcome.answer, Repeats) else ()


def _judgements(
    task: Task[Any],
    started: Callable[[Sample], RequestGenerator],
    asking: Callable[..., Generator[Outcome[Any]]],
    progress: Callable[[Outcome[Sample]], None],
) -> Generator[Outcome[Outcome[Sample]]]:
    """Ask and score every sample, in order. Samples are scored while others are asked, unless the task needs all."""

    def scoring(outcome: Outcome[Sample]) -> RequestGenerator:
        progress(outcome)
        return _scoring(task, outcome)

    jobs = ((sample, started(sample)) for sample in _distinct(task))
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
    if isinstance(answer, Explained) and metric.rule:
        return answer.others[metric.rule]
    answer = bare(answer)
    if metric.grouped:
        return answer.answers if isinstance(answer, Repeats) else (answer,)
    return _majority(answer)


def _majority(answer: Any) -> Any:
    answer = bare(answer)
    return answer.majority if isinstance(answer, Repeats) else answer


# ---- a sample as a row ----


def _row(
    task: Task[Any], model: str, outcome: Outcome[Sample], scores: Mapping[str, Value | Absent] | Failed
) -> ResultRow:
    sample, exchanges = outcome.item, outcome.exchanges
    row: ResultRow = {"task": task.name, "model": model, "id": sample.id, "question": question_digest(sample)}
    row["prompt"] = _prompt(_shown(exchanges)) if exchanges else None
    row["response"] = _response(exchanges)
    thoughts = [r.reasoning for _, r in exchanges if isinstance(r, Generated)]
    if any(thoughts):
        row["reasoning"] = thoughts[0] if len(thoughts) == 1 else thoughts
    row |= reply_fields(exchanges)
    if isinstance(outcome.answer, Failed):
        row["answer"] = None
    elif isinstance(outcome.answer, Repeats) and all(metric.grouped for metric in task.metrics):
        row["answer"] = list(bare(outcome.answer).answers)
    else:
        answer = _majority(outcome.answer)
        row["answer"] = _told(answer) if is_dataclass(answer) and not isinstance(answer, type) else answer
    row |= _explanation(outcome.answer)
    if sample.choices and not _are_shown(sample.choices, row["response"]):
        row["options"] = list(sample.choices)
    if twins := _identical(sample.choices):
        row["identical_options"] = twins
    row["target"] = reference(sample.target) if sample.target is not None else None
    row |= _explained(task, outcome)
    if sample.category is not None:
        row["category"] = sample.category
    if failed_replies := _failed_replies(outcome):
        row["failed_replies"] = len(failed_replies)
    if isinstance(scores, Failed):
        row["scores"] = {}
        row["failed"] = f"{scores.kind}: {scores.message}"
    else:
        by_name = {name: metric for metric in task.metrics for name in metric.names}
        where = f"dataset {task.name}, sample {sample.id}"
        told = {name: value for name, value in scores.items() if not isinstance(value, Absent)}
        row["scores"] = {name: reduced(by_name[name], name, where, [value]) for name, value in told.items()}
        if parts := {name: value for name, value in told.items() if _is_kept(by_name[name], name, value)}:
            row["parts"] = parts
    return row


def _explained(task: Task[Any], outcome: Outcome[Sample]) -> Mapping[str, Any]:
    """Return what a task itself says of an answer."""
    if task.explain is None or isinstance(outcome.answer, Failed):
        return {}
    return task.explain(outcome.item, bare(outcome.answer))


def _are_shown(options: Sequence[str], response: Any) -> bool:
    """Whether a response has the text of every option beside its log-probability; letters alone are not enough."""
    parts = response if isinstance(response, list) else []
    measured = [each["text"] for each in parts if isinstance(each, dict) and "text" in each and "prompt" not in each]
    pairs = zip(options, measured, strict=False)
    return len(measured) == len(options) and all(text.strip().endswith(option.strip()) for option, text in pairs)


def _is_kept(metric: Scorer, name: str, value: Value) -> bool:
    """Whether a row has the tuple, from which a comparison with another run computes the figure."""
    rule = metric.aggregates.get(name, OWN_AGGREGATE)
    return isinstance(value, tuple) and rule != OWN_AGGREGATE and name not in metric.details


def _told(answer: Any) -> dict[str, Any]:
    """Return the fields of a record that are known."""
    return {name: value for name, value in asdict(answer).items() if value is not None}


def _explanation(answer: Any) -> ResultRow:
    """Return what led to an answer; a list where there are several answers."""
    if isinstance(answer, Repeats):
        parts = [_explanation(each) for each in answer.answers]
        return {name: [part.get(name) for part in parts] for name in dict.fromkeys(n for part in parts for n in part)}
    if not isinstance(answer, Explained):
        return {}
    others = {"answers": dict(answer.others)} if answer.others else {}
    tied = {"tied": [rule for rule in answer.tied if rule] or True} if answer.tied else {}
    return {**answer.why, **others, **tied}


def _identical(options: Sequence[str]) -> list[list[int]]:
    """Return the groups of options that are the same, but for white space."""
    groups: dict[str, list[int]] = {}
    for index, each in enumerate(options):
        groups.setdefault(each.strip(), []).append(index)
    return [indices for indices in groups.values() if len(indices) > 1]


def _shown(exchanges: Sequence[tuple[Request, Response]]) -> Request:
    """Return the request whose prompt a row shows.

    That is the last one, which contains the replies before it; of likelihoods the first one: baselines come after it.
    """
    last = exchanges[-1][0]
    return (
        next(request for request, _ in exchanges if isinstance(request, Loglik)) if isinstance(last, Loglik) else last
    )


def _prompt(request: Request) -> Any:
    prompt = Prompt(request.query) if isinstance(request, Search) else request.prompt
    return [{"role": m.role, "content": m.content} for m in prompt.messages] or prompt.text


def _response(exchanges: Sequence[tuple[Request, Response]]) -> Any:
    """Return one reply as text; several replies, or the likelihoods of options, as a list."""
    shown = [part for request, response in exchanges for part in _parts(request, response, _shown(exchanges))]
    return shown[0] if len(shown) == 1 and isinstance(shown[0], str) else shown


def _tokens(measured: Likelihood) -> ResultRow:
    found = measured.token_logprobs
    return {} if found is None else {"token_logprobs": token_list(found)}


def _parts(request: Request, response: Response, main: Request) -> list[Any]:
    match response:
        case Generated(text):
            return [text]
        case Scored(likelihoods) if isinstance(request, Loglik):
            other = {} if _prompt(request) == _prompt(main) else {"prompt": _prompt(request)}
            return [
                {"text": text, **_told(each), **_tokens(each), **other}
                for text, each in zip(request.continuations, likelihoods, strict=True)
            ]
        case Ranking(hits):
            return [{"id": hit.id, "score": hit.score} for hit in hits]
        case _:
            return []
