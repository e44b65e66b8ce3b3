"""Free generation: one reply, a conversation whose replies join its history, or several replies to vote on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from kshot.core.content import glue
from kshot.core.records import (
    AskFailed,
    Dialogue,
    Failed,
    Generate,
    Message,
    Prompt,
    Repeats,
    Request,
    RequestGenerator,
    Response,
    Sample,
    ask,
    resume,
    translated,
)

Extract: TypeAlias = Callable[[Sample, Any], Any]
"""Takes the answer from a reply, or from the tuple of replies in a conversation."""


def raw(sample: Sample, reply: Any) -> Any:  # noqa: ARG001 - the extractor that changes nothing
    """Take the reply as it is."""
    return reply


def generate(extract: Extract = raw, **sampling: Any) -> Callable[[Sample, Prompt], RequestGenerator]:
    """Ask for one reply and take the answer from it; ``sampling`` are fields of ``Generate``."""

    def method(sample: Sample, prompt: Prompt) -> RequestGenerator:
        (reply,) = yield from ask(Generate(prompt, **sampling))
        return extract(sample, reply.text)

    return method


def converse(extract: Extract = raw, **sampling: Any) -> Callable[[Sample, Dialogue], RequestGenerator]:
    """Hold a conversation, turn by turn; the answer is taken from the tuple of all replies."""

    def method(sample: Sample, dialogue: Dialogue) -> RequestGenerator:
        prompt, replies = dialogue.prompt, []
        for turn in (*dialogue.turns, None):
            (reply,) = yield from ask(Generate(prompt, **sampling))
            replies.append(reply.text)
            if turn is not None:
                prompt = _next_prompt(prompt, reply.text, turn)
        return extract(sample, tuple(replies))

    return method


def _next_prompt(prompt: Prompt, reply: str, turn: str) -> Prompt:
    if prompt.messages:
        return Prompt(messages=(*prompt.messages, Message("assistant", reply), Message("user", turn)))
    return Prompt(f"{glue(prompt.text, reply.strip())}\n\n{turn}".strip())


RepeatedMethod: TypeAlias = Callable[[Sample, Any], RequestGenerator]


def repeat(method: RepeatedMethod, times: int, *, at_least: int = 1) -> RepeatedMethod:
    """Run a method ``times`` times, each with its own replica number; the answer is ``Repeats`` of the answers.

    A repeat may fail: its failure reaches its method, which may catch it. If fewer than ``at_least`` answers are left,
    the sample fails.
    """

    def repeated(sample: Sample, prompt: Any) -> RequestGenerator:
        repeats = [_Repeat(method(sample, prompt)) for _ in range(times)]
        try:
            for each in repeats:
                each.step()
            while any(each.requests is not None for each in repeats):
                try:
                    responses: Sequence[Response] = yield [
                        _replica(request, number, times)
                        for number, each in enumerate(repeats)
                        for request in each.requests or ()
                    ]
                except AskFailed as exc:
                    responses = exc.responses
                remaining = iter(responses)
                for each in repeats:
                    if each.requests is not None:
                        each.step([next(remaining) for _ in each.requests])
        finally:
            for each in repeats:
                each.method.close()
        answers = tuple(answer for each in repeats for answer in each.answers)
        failures = tuple(each.failed for each in repeats if each.failed is not None)
        if len(answers) < at_least and failures:
            raise AskFailed(failures[0])
        return Repeats(answers, failures)

    return repeated


def sampled_anew(method: RepeatedMethod, first: int) -> RepeatedMethod:
    """Give what a method samples numbers from ``first`` on, so that its replies are not those of an equal method."""

    def numbered(request: Request) -> Request:
        if not isinstance(request, Generate) or not request.temperature:
            return request
        return replace(request, replica=request.replica + first)

    def asked(sample: Sample, prompt: Any) -> RequestGenerator:
        return translated(method(sample, prompt), numbered)

    return asked if first else method


class _Repeat:
    """One run of the method: what it asks now (None: it has ended), and its answer or failure."""

    def __init__(self, method: RequestGenerator) -> None:
        self.method = method
        self.requests: Sequence[Request] | None = None
        self.answers: tuple[Any, ...] = ()
        self.failed: Failed | None = None

    def step(self, responses: Sequence[Response] | None = None) -> None:
        """Start the method, or go on with the responses to its requests."""
        self.requests = None
        try:
            self.requests = next(self.method) if responses is None else resume(self.method, responses)
        except StopIteration as stop:
            self.answers = (stop.value,)
        except AskFailed as exc:
            self.failed = exc.failed


def _replica(request: Request, number: int, times: int) -> Request:
    """Number a request; one that has a number of its own, because its method repeats too, stays different."""
    if not isinstance(request, Generate):
        return request
    return replace(request, replica=request.replica * times + number)
