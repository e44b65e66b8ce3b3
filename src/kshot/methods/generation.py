"""Free generation: one reply, and the answer that is taken from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kshot.core.records import Generate, Prompt, RequestGenerator, Sample, ask

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
