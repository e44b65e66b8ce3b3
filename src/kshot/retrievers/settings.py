"""The settings of the examples in a prompt."""

from __future__ import annotations

from dataclasses import dataclass

from kshot.core.options import Options, option


@dataclass(frozen=True, kw_only=True)
class ExampleSettings(Options):
    """How many examples a prompt shows, and which."""

    num_shots: int = option(
        0,
        "number of examples in the prompt, or several, such as 0,1,2,5",
        flags=("-k",),
        kind=int,
        least=0,
        sweeps=True,
    )
    retriever: str | None = option(
        None,
        "retriever that chooses the examples, such as bm25,k1=1.2, or several (kshot list retrievers; default: one "
        "random draw)",
        sweeps=True,
    )
    retriever_seeds: str | None = option(
        None, "repeat the run over these seeds of the retriever, such as 0..9, and report the spread", whole_run=True
    )
    max_example_tokens: int | None = option(
        None,
        "token budget for the examples; each is kept whole or left out (default: none; 1024 for LLMBox's files)",
        kind=int,
        least=0,
        former_default=1024,
    )
