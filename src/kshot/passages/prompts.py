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
    prompt = _prompts(settings)

    def write(sample: Sample) -> Prompt:
        return prompt(QUERY.format(question=sample.fields["question"]))

    return write


def answer_prompt(settings: PassageSettings) -> Callable[[Sample, Sequence[str]], Prompt]:
    """Return the function that asks for an answer from passages.

    ``--instruction`` with ``{passages}`` and ``{question}`` replaces the text.
    """
    render, prompt = compile_string(settings.instruction or ANSWER, where="--instruction"), _prompts(settings)

    def write(sample: Sample, passages: Sequence[str]) -> Prompt:
        listed = "\n\n".join(f"[{number}] {passage.strip()}" for number, passage in enumerate(passages, start=1))
        return prompt(render({**sample.fields, "passages": listed or "(none)"}))

    return write


def _prompts(settings: PassageSettings) -> Callable[[str], Prompt]:
    """Return what makes the prompt of a text, for a base or a chat model."""
    system, chat = settings.system_prompt or "", settings.model_type == "chat"

    def prompt(text: str) -> Prompt:
        if not chat:
            return Prompt(f"{system}\n\n{text}" if system else text)
        return Prompt(messages=(*((Message("system", system),) if system else ()), Message("user", text)))

    return prompt
