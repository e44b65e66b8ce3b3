"""Prompts and replies that are not whole: what the row of a sample says of them, and how many a task has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kshot.core.answers import NO_MATCH
from kshot.core.records import Generated, Request, Response, ResultRow, Scored
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
    """Return what a row says of its replies: how they ended, unless all came to their end, and what was cut off."""
    reasons = [response.stop_reason for _, response in exchanges if isinstance(response, Generated)]
    cut = [response.cut_tokens for _, response in exchanges if isinstance(response, Generated | Scored)]
    row: ResultRow = {}
    if any(reason != "stop" for reason in reasons):
        row["stop_reason"] = reasons[0] if len(reasons) == 1 else reasons
    if any(cut):
        row["cut_tokens"] = cut[0] if len(cut) == 1 else cut
    return row
