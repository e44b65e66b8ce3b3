"""Several replies to one prompt, to vote on or to count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kshot.core.records import Generate, Repeats, Request, RequestGenerator, Sample


def repeat(method: Callable[[Sample, Any], RequestGenerator], times: int) -> Callable[[Sample, Any], RequestGenerator]:
    """Run a method ``times`` times, each with its own replica number; the answer is ``Repeats`` of the answers."""

    def repeated(sample: Sample, prompt: Any) -> RequestGenerator:
        generators = [method(sample, prompt) for _ in range(times)]
        pending = {i: next(generator) for i, generator in enumerate(generators)}
        answers: dict[int, Any] = {}
        while pending:
            requests = [_replica(request, i) for i, requested in pending.items() for request in requested]
            replies = iter((yield requests))
            following = {}
            for i, requested in pending.items():
                try:
                    following[i] = generators[i].send([next(replies) for _ in requested])
                except StopIteration as stop:  # noqa: PERF203 - a generator ends this way
                    answers[i] = stop.value
            pending = following
        return Repeats(tuple(answers[i] for i in range(times)))

    return repeated


def _replica(request: Request, number: int) -> Request:
    return replace(request, replica=number) if isinstance(request, Generate) else request
