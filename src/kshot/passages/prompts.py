"""The prompts of passage search: they ask for a query, or for an answer from passages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kshot.core.records import Message, Prompt, Sample
from kshot.passages.settings import PassageSettings
from kshot.prompts.strings import compile_string

QUERY = """Write the words to type into a search engine to find the passage that answers this question. \
Give the words only, on one line.

Question: {question}
Words:"""

ANSWER = """Answer the question from these passages.

{passages}

Question: {question}
Answer:"""


def query_prompt(settings: PassageSettings) -> Callable[[Sample], Prompt]:
    """Return the function that asks for the query of a question."""

    def write(sample: Sample) -> Prompt:
        return _prompt(QUERY.format(question=sample.fields["question"]), settings)

    return write


def answer_prompt(settings: PassageSettings) -> Callable[[Sample, Sequence[str]], Prompt]:
    """Return the function that asks for an answer from passages.

    ``--instruction`` with ``{passages}`` and ``{question}`` replaces the text.
    """
    render = compile_string(settings.instruction or ANSWER, where="--instruction")

    def write(sample: Sample, passages: Sequence[str]) -> Prompt:
        listed = "\n\n".join(f"[{number}] {passage.strip()}" for number, passage in enumerate(passages, start=1))
        return _prompt(render({**sample.fields, "passages": listed or "(none)"}), settings)

    return write


def _prompt(text: str, settings: PassageSettings) -> Prompt:
    if settings.model_type != "chat":
        return Prompt(f"{settings.system_prompt}\n\n{text}" if settings.system_prompt else text)
    system = (Message("system", settings.system_prompt),) if settings.system_prompt else ()
    return Prompt(messages=(*system, Message("user", text)))
