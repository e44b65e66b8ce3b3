"""What models save that read once what several prompts begin with, in words for the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def note_on_sharing(tokens: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """Yield what models saved that read once what several prompts begin with: one note for all of them.

    ``tokens``: by model, those of all its requests, and those that it has read.
    """
    saved = [
        f"{model} read {read:,} tokens instead of {wanted:,} ({100 * (wanted - read) // wanted} % less)"
        for model, (wanted, read) in tokens.items()
        if 100 * (wanted - read) >= wanted > 0
    ]
    if saved:
        yield f"{'; '.join(saved)}: the beginnings that prompts share are read once"
