"""Passage search; a model may rewrite the query first, and answer from the passages that were found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from kshot.core.records import Generate, Prompt, RequestGenerator, Sample, Search, ask

REWRITER = "rewriter"
"""The role of the model that rewrites queries."""


def search(rewrite: Callable[[Sample], Prompt] | None = None) -> Callable[[Sample, Search], RequestGenerator]:
    """Search; the answer is the ids of the passages, best first. ``rewrite`` makes the prompt that asks for a query."""

    def method(sample: Sample, request: Search) -> RequestGenerator:
        hits = yield from find_passages(sample, request, rewrite)
        return tuple(hit.id for hit in hits)

    return method


def find_passages(sample: Sample, request: Search, rewrite: Callable[[Sample], Prompt] | None) -> RequestGenerator:
    """Ask for the passages; the query is that of the request, or the one that the rewriter writes."""
    if rewrite is not None:
        (reply,) = yield from ask(Generate(rewrite(sample), max_tokens=64, role=REWRITER))
        query = " ".join(reply.text.split())
        request = replace(request, query=query or request.query)  # an empty reply is no query: the question stays
    (found,) = yield from ask(request)
    return found.hits


PromptWriter: TypeAlias = Callable[[Sample, Sequence[str]], Prompt]
"""Makes the prompt for a sample and the texts of its passages."""


@dataclass(frozen=True, slots=True)
class Grounded:
    """An answer, and the ids of the passages that it was written from."""

    text: str
    passages: tuple[str, ...]


def rag(
    write: PromptWriter,
    text_of: Callable[[str], str],
    rewrite: Callable[[Sample], Prompt] | None = None,
    **sampling: Any,
) -> Callable[[Sample, Search], RequestGenerator]:
    """Search, then let the model answer from the passages; the answer is ``Grounded``.

    ``write(sample, passages)`` makes the prompt; ``text_of`` gives the text of a passage that came without it.
    """

    def method(sample: Sample, request: Search) -> RequestGenerator:
        hits = yield from find_passages(sample, request, rewrite)
        prompt = write(sample, [hit.text or text_of(hit.id) for hit in hits])
        (reply,) = yield from ask(Generate(prompt, **sampling))
        return Grounded(reply.text.strip(), tuple(hit.id for hit in hits))

    return method
