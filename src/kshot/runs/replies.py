"""Prompts and replies that are not whole: what the row of a sample says of them, and how many a task has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kshot.core.records import NO_MATCH, Generate, Generated, Loglik, Request, Response, ResultRow, Scored
from kshot.core.serialization import token_list
from kshot.core.task import TaskResult

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


def reply_fields(exchanges: Sequence[tuple[Request, Response]]) -> ResultRow:
    """Return what a row says of its replies: how they ended, what was cut off, and the tokens where they are known.

    Nothing is said of replies that all came to their end.
    """
    reasons = [response.stop_reason for _, response in exchanges if isinstance(response, Generated)]
    cut = [response.cut_tokens for _, response in exchanges if isinstance(response, Generated | Scored)]
    row: ResultRow = {}
    if any(reason != "stop" for reason in reasons):
        row["stop_reason"] = reasons[0] if len(reasons) == 1 else reasons
    if any(cut):
        row["cut_tokens"] = cut[0] if len(cut) == 1 else cut
    tokens = [response.token_logprobs for _, response in exchanges if isinstance(response, Generated)]
    if any(each is not None for each in tokens):
        listed = [None if each is None else token_list(each) for each in tokens]
        row["token_logprobs"] = listed[0] if len(listed) == 1 else listed
    return row
