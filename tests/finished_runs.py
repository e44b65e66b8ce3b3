"""Finished runs whose scores a test chooses: a model that replies the score, and metrics that believe it."""

from __future__ import annotations

from typing import Any, NamedTuple

import kshot
from kshot import Answers, Failed, Generate, Generated, Metric, Prompt, Sample, Task
from kshot.methods.generation import generate


class Item(NamedTuple):
    """One sample: its score (None: it fails), what it asks, and its category."""

    score: float | str | None
    question: str = ""
    category: str | None = None


class Right(Metric):
    """The score that the reply states: 0 or 100."""

    name, bounds, binary = "Right", (0.0, 100.0), True

    def rate(self, prediction, reference):
        return float(prediction)


class Points(Right):
    """The score that the reply states."""

    name, binary = "Points", False


class Replies:
    """Replies what the prompt ends with, and fails where that is nothing."""

    answers = (Generate,)

    def __init__(self, name: str = "model") -> None:
        self.name = self.fingerprint = name

    def serve(self, queue):
        for request in queue:
            _, _, reply = request.prompt.text.partition(" says ")
            yield request, Generated(reply) if reply else Failed("timeout", "no answer")


def task(name: str, items: dict[str, Item], *metrics: Metric, **options: Any) -> Task[Any]:
    """Make a task with these samples."""
    samples = [
        Sample(key, {"question": item.question}, Answers(("x",)), category=item.category, position=at)
        for at, (key, item) in enumerate(items.items())
    ]
    said = {key: "" if item.score is None else f" says {item.score}" for key, item in items.items()}
    return Task(
        name,
        samples,
        lambda sample, _: Prompt(f"{name} {sample.id}{said[sample.id]}"),
        generate(max_tokens=9),
        metrics or (Right(),),
        **options,
    )


def finished(path: Any, *tasks: Task[Any], model: str = "model") -> Any:
    """Run these tasks; return the folder, or without one the result."""
    result = kshot.evaluate(Replies(model), list(tasks), out=path, fsync="never")
    return result if path is None else path
