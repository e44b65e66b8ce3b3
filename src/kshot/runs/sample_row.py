"""A sample as a row of ``samples.jsonl``: what was asked, what came back, the answer and its scores.

Prompts and replies that are not whole are marked in the row, and counted for the notes of a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from kshot.core.content import content_json
from kshot.core.metric import MEAN
from kshot.core.records import (
    NO_MATCH,
    Absent,
    Explained,
    Failed,
    Generate,
    Generated,
    Likelihood,
    Loglik,
    Outcome,
    Prompt,
    Ranking,
    Repeats,
    Request,
    Response,
    ResultRow,
    Sample,
    Scored,
    Search,
    bare,
    reference,
)
from kshot.core.serialization import token_list
from kshot.core.task import Task, TaskResult
from kshot.runs.data_digest import question_digest
from kshot.statistics.figures import reduced

_MEANINGS = {
    "cut_prompts": "prompts that did not fit into the context window were cut from the left: {}",
    "cut_replies": "replies that were cut because the context window was full: {} (samples.jsonl: stop_reason window)",
    "unfinished_thoughts": "replies that end before the model leaves its thoughts, and so have no answer: {} "
    "(a higher --max-tokens may help)",
}
"""What is counted, by the name that results have for it, and how a note says it."""


def count_replies(result: TaskResult, category: str | None, exchanges: Sequence[tuple[Request, Response]]) -> None:
    """Count the prompts and replies of a sample that are not whole."""
    for _, response in exchanges:
        if not isinstance(response, Generated | Scored):
            continue
        found = {"cut_prompts": response.cut_tokens > 0}
        if isinstance(response, Generated):
            found["cut_replies"] = response.stop_reason == "window"
            found["unfinished_thoughts"] = bool(response.reasoning) and not response.text.strip()
        for name, happened in found.items():
            if happened:
                result.count(name, category)


def count_token_logprobs(result: TaskResult, exchanges: Sequence[tuple[Request, Response]]) -> None:
    """Count the replies and texts of a sample whose tokens should have log-probabilities, and those that lack them."""
    for request, response in exchanges:
        if not isinstance(request, Generate | Loglik) or not request.token_logprobs:
            continue
        if isinstance(response, Generated | Scored):
            given = response.likelihoods if isinstance(response, Scored) else (response,)
            lacking = [each for each in given if each.token_logprobs is None]
            result.token_logprobs[0] += len(given)
            result.token_logprobs[1] += len(lacking)


def note_on_token_logprobs(model: str, results: Sequence[TaskResult]) -> str | None:
    """Return the note on a model that does not give all log-probabilities of tokens that were asked of it."""
    asked, lacking = (sum(result.token_logprobs[at] for result in results) for at in (0, 1))
    if not asked:
        return f"--token-logprobs has no effect on {model}: it was asked for no text"
    if not lacking:
        return None
    where = "" if lacking == asked else f" for {lacking:,} of {asked:,} replies and measured texts"
    return f"{model} gives no log-probabilities of tokens{where}"


def count_rules(result: TaskResult, rule: Any) -> None:
    """Count the rule that took the answer out of a reply, or each of several."""
    if isinstance(rule, str):
        result.rules[rule] = result.rules.get(rule, 0) + 1
    for each in rule if isinstance(rule, list) else ():
        count_rules(result, each)


def notes_on_replies(result: TaskResult) -> Iterator[str]:
    """Yield a note for each kind of prompt or reply that was counted, and for each figure that is left out."""
    where = f"{result.task.name} on {result.model}"
    counts = result.counted()
    for name, meaning in _MEANINGS.items():
        if count := counts.get(name, 0):
            yield f"{where}: {meaning.format(count)}"
    if set(result.rules) == {NO_MATCH}:
        yield f"{where}: --answer-pattern matched 0 of {result.rules[NO_MATCH]} replies"
    for name, (why, count) in result.absent.items():
        yield f"{where}: {name} is left out: {why} ({count} of {len(result.positions)} samples)"


_USUAL = {"reasoning": "", "stop_reason": "stop", "cut_tokens": 0, "token_logprobs": None}
"""What a row may say of its replies, each with the value of which it says nothing."""


def _reply_fields(exchanges: Sequence[tuple[Request, Response]]) -> ResultRow:
    """Return what a row says of its replies beside their texts, if one of them is not as usual."""
    told: dict[str, list[Any]] = {name: [] for name in _USUAL}
    for _, response in exchanges:
        if isinstance(response, Generated):
            tokens = response.token_logprobs
            told["reasoning"].append(response.reasoning)
            told["stop_reason"].append(response.stop_reason)
            told["token_logprobs"].append(None if tokens is None else token_list(tokens))
        if isinstance(response, Generated | Scored):
            told["cut_tokens"].append(response.cut_tokens)
    return {
        name: values[0] if len(values) == 1 else values
        for name, values in told.items()
        if values.count(_USUAL[name]) < len(values)
    }


def sample_row(task: Task[Any], model: str, outcome: Outcome[Sample], scores: Mapping[str, Any] | Failed) -> ResultRow:
    """Return the row of a sample."""
    sample, exchanges = outcome.item, outcome.exchanges
    row: ResultRow = {"task": task.name, "model": model, "id": sample.id, "question": question_digest(sample)}
    row["prompt"] = shown_prompt(_shown(exchanges)) if exchanges else None
    row["response"] = shown_response(exchanges)
    row |= _reply_fields(exchanges)
    if isinstance(outcome.answer, Failed):
        row["answer"] = None
    elif isinstance(outcome.answer, Repeats) and all(
        each.grouped for metric in task.metrics for each in metric.measures
    ):
        row["answer"] = list(bare(outcome.answer).answers)
    else:
        answer = majority(outcome.answer)
        row["answer"] = _told(answer) if is_dataclass(answer) and not isinstance(answer, type) else answer
    row |= explanation(outcome.answer)
    if sample.choices and not _are_shown(sample.choices, row["response"]):
        row["options"] = list(sample.choices)
    if twins := identical_options(sample.choices):
        row["identical_options"] = twins
    row["target"] = reference(sample.target) if sample.target is not None else None
    if task.explain is not None and not isinstance(outcome.answer, Failed):
        row |= task.explain(sample, bare(outcome.answer))
    if sample.category is not None:
        row["category"] = sample.category
    if failures := failed_replies(outcome):
        row["failed_replies"] = len(failures)
    return row | _score_fields(task, sample, scores)


def _score_fields(task: Task[Any], sample: Sample, scores: Mapping[str, Any] | Failed) -> ResultRow:
    """Return what a row says of the scores, and the tuples that a comparison with another run computes figures from."""
    if isinstance(scores, Failed):
        return {"scores": {}, "failed": f"{scores.kind}: {scores.message}"}
    measures = {measure.name: measure for metric in task.metrics for measure in metric.measures}
    own, parts = {}, {}
    for name, value in scores.items():
        measure = measures[name]
        if isinstance(value, Absent):
            continue
        if (score := reduced(measure, f"dataset {task.name}, sample {sample.id}", [value])) is not None:
            own[name] = score
        if isinstance(value, tuple) and measure.aggregate.key not in {"", MEAN.key} and not measure.detail:
            parts[name] = value
    return {"scores": own, **({"parts": parts} if parts else {})}


def _are_shown(options: Sequence[str], response: Any) -> bool:
    """Whether a response has the text of every option beside its log-probability; letters alone are not enough."""
    parts = response if isinstance(response, list) else []
    measured = [each["text"] for each in parts if isinstance(each, dict) and "text" in each and "prompt" not in each]
    pairs = zip(options, measured, strict=False)
    return len(measured) == len(options) and all(text.strip().endswith(option.strip()) for option, text in pairs)


def _told(answer: Any) -> dict[str, Any]:
    """Return the fields of a record that are known."""
    return {name: value for name, value in asdict(answer).items() if value is not None}


def explanation(answer: Any) -> ResultRow:
    """Return what led to an answer; a list where there are several answers."""
    if isinstance(answer, Repeats):
        parts = [explanation(each) for each in answer.answers]
        return {name: [part.get(name) for part in parts] for name in dict.fromkeys(n for part in parts for n in part)}
    if not isinstance(answer, Explained):
        return {}
    others = {"answers": dict(answer.others)} if answer.others else {}
    tied = {"tied": [rule for rule in answer.tied if rule] or True} if answer.tied else {}
    return {**answer.why, **others, **tied}


def identical_options(options: Sequence[str]) -> list[list[int]]:
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


def shown_prompt(request: Request) -> Any:
    """Return what a request asks: a text, or messages."""
    prompt = Prompt(request.query) if isinstance(request, Search) else request.prompt
    return [{"role": m.role, "content": content_json(m.content)} for m in prompt.messages] or prompt.text


def shown_response(exchanges: Sequence[tuple[Request, Response]]) -> Any:
    """Return one reply as text; several replies, or the likelihoods of options, as a list."""
    main = shown_prompt(_shown(exchanges)) if exchanges else None
    shown = [part for request, response in exchanges for part in _parts(request, response, main)]
    return shown[0] if len(shown) == 1 and isinstance(shown[0], str) else shown


def _measured(text: str, found: Likelihood) -> ResultRow:
    """Return what is known of the likelihood of a text."""
    greedy = {} if found.greedy is None else {"greedy": found.greedy}
    tokens = {} if found.token_logprobs is None else {"token_logprobs": token_list(found.token_logprobs)}
    return {"text": text, "logprob": found.logprob, "tokens": found.tokens, **greedy, **tokens}


def _parts(request: Request, response: Response, main: Any) -> list[Any]:
    """Return what a row shows of a response; the prompt with it, where it is not the ``main`` one of the row."""
    match response:
        case Generated(text):
            return [text]
        case Scored(likelihoods) if isinstance(request, Loglik):
            prompt = shown_prompt(request)
            other = {} if prompt == main else {"prompt": prompt}
            measured = map(_measured, request.continuations, likelihoods)
            return [{**each, **other} for each in measured]
        case Ranking(hits):
            return [{"id": hit.id, "score": hit.score} for hit in hits]
        case _:
            return []


def majority(answer: Any) -> Any:
    """Return the answer, or of several the most frequent one."""
    answer = bare(answer)
    return answer.majority if isinstance(answer, Repeats) else answer


def failed_replies(outcome: Outcome[Sample]) -> tuple[Failed, ...]:
    """Return the failures among several replies to a sample, which the others answered."""
    return outcome.answer.failures if isinstance(outcome.answer, Repeats) else ()
