"""Passage search as a method, with the query rewritten by a model if wished, and answering from what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kshot.core.records import Asking, Generate, Prompt, Sample, Search, ask

REWRITER = "rewriter"
"""The role of the model that rewrites queries."""

Write = Callable[[Sample, Sequence[str]], Prompt]


@dataclass(frozen=True, slots=True)
class Grounded:
    """An answer, and the ids of the passages it was written from."""

    text: str
    passages: tuple[str, ...]


def search(rewrite: Callable[[Sample], Prompt] | None = None) -> Callable[[Sample, Search], Asking]:
    """Search; the answer is the passages' ids, best first. ``rewrite`` writes the prompt that asks for a query."""

    def method(sample: Sample, request: Search) -> Asking:
        hits = yield from _hits(sample, request, rewrite)
        return tuple(hit.id for hit in hits)

    return method


def rag(
    write: Write,
    text_of: Callable[[str], str],
    rewrite: Callable[[Sample], Prompt] | None = None,
    **sampling: Any,
) -> Callable[[Sample, Search], Asking]:
    """Search, then let the model answer from the passages; the answer is ``Grounded``.

    ``write(sample, passages)`` makes the prompt; ``text_of`` gives the text of a passage that came without it.
    """

    def method(sample: Sample, request: Search) -> Asking:
        hits = yield from _hits(sample, request, rewrite)
        prompt = write(sample, [hit.text or text_of(hit.id) for hit in hits])
        (reply,) = yield from ask(Generate(prompt, **sampling))
        return Grounded(reply.text.strip(), tuple(hit.id for hit in hits))

    return method


def _hits(sample: Sample, request: Search, rewrite: Callable[[Sample], Prompt] | None) -> Asking:
    if rewrite is not None:
        (reply,) = yield from ask(Generate(rewrite(sample), max_tokens=64, to=REWRITER))
        query = " ".join(reply.text.split())
        request = replace(request, query=query or request.query)  # silence is no query: the question stands
    (found,) = yield from ask(request)
    return found.hits
