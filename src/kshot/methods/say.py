"""Free generation: one reply, several to vote on, or a conversation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kshot.core.records import Asking, Dialogue, Generate, Message, Prompt, Repeats, Sample, ask, glue

Extract = Callable[[Sample, Any], Any]


def raw(sample: Sample, reply: Any) -> Any:  # noqa: ARG001 - the extractor that changes nothing
    """Take the reply as it is."""
    return reply


def generate(extract: Extract = raw, **sampling: Any) -> Callable[[Sample, Prompt], Asking]:
    """Let the model write, and take the answer from its reply. ``sampling`` are the fields of ``Generate``."""

    def method(sample: Sample, prompt: Prompt) -> Asking:
        (reply,) = yield from ask(Generate(prompt, **sampling))
        return extract(sample, reply.text)

    return method


def converse(extract: Extract = raw, **sampling: Any) -> Callable[[Sample, Dialogue], Asking]:
    """Hold a conversation: every reply joins the history before the next turn. The answer is the tuple of replies."""

    def method(sample: Sample, dialogue: Dialogue) -> Asking:
        prompt, replies = dialogue.prompt, []
        for turn in (*dialogue.turns, None):
            (reply,) = yield from ask(Generate(prompt, **sampling))
            replies.append(reply.text)
            if turn is not None:
                prompt = _go_on(prompt, reply.text, turn)
        return extract(sample, tuple(replies))

    return method


def _go_on(prompt: Prompt, reply: str, turn: str) -> Prompt:
    if prompt.messages:
        return Prompt(messages=(*prompt.messages, Message("assistant", reply), Message("user", turn)))
    return Prompt(f"{glue(prompt.text, reply.strip())}\n\n{turn}".strip())


def repeat(method: Callable[[Sample, Any], Asking], times: int) -> Callable[[Sample, Any], Asking]:
    """Ask the same thing ``times`` times, each a replica of its own; the answer is all of theirs, as ``Repeats``."""

    def repeated(sample: Sample, prompt: Any) -> Asking:
        askings = [method(sample, prompt) for _ in range(times)]
        waiting = {i: next(asking) for i, asking in enumerate(askings)}
        answers: dict[int, Any] = {}
        while waiting:
            requests = [_replica(request, i) for i, asked in waiting.items() for request in asked]
            replies = iter((yield requests))
            following = {}
            for i, asked in waiting.items():
                try:
                    following[i] = askings[i].send([next(replies) for _ in asked])
                except StopIteration as stop:  # noqa: PERF203 - that is how a generator ends
                    answers[i] = stop.value
            waiting = following
        return Repeats(tuple(answers[i] for i in range(times)))

    return repeated


def _replica(request: Any, number: int) -> Any:
    return replace(request, replica=number) if isinstance(request, Generate) else request
