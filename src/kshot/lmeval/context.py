"""The messages of a context: description, examples and the question, as plain text or as turns of a chat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from kshot.core.errors import DataError


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """One message of a context; the delimiter follows it where the context is plain text."""

    role: Literal["system", "user", "assistant"]
    content: str
    delimiter: str = ""


@dataclass(frozen=True, slots=True)
class Delimiters:
    """What stands between a question and its answer, and after an answer."""

    target: str
    fewshot: str


def joined(first: str | None, second: str | None, delimiter: str) -> str:
    """Return two texts with a delimiter between them, unless there is white space where they meet."""
    if not first or not second:
        return first or second or ""
    return first + second if first[-1].isspace() or second[0].isspace() else first + delimiter + second


def turn(
    question: Any,
    delimiters: Delimiters,
    *,
    where: str,
    answer: Any = None,
    choices: Sequence[Any] | None = None,
    prefix: str | None = None,
) -> list[ContextMessage]:
    """Return the messages of a question, with its answer or with what the reply begins with, if there is either."""
    if not isinstance(question, str):
        raise DataError(f"the text of a document must be a text; it is {question!r:.80}", where=where)
    if prefix and not isinstance(prefix, str):
        raise DataError(f"gen_prefix must be a text; it is {prefix!r:.80}", where=where)
    answered = answer is not None and answer != ""
    apart = answered if not prefix else question != "" and not (question[-1].isspace() or prefix[0].isspace())
    messages = [ContextMessage("user", question, delimiters.target if apart else "")]
    if answered:
        text = joined(prefix, _answer_text(answer, choices, where), " ")
        messages.append(ContextMessage("assistant", text, delimiters.fewshot))
    elif prefix:
        messages.append(ContextMessage("assistant", prefix))
    return messages


def _answer_text(answer: Any, choices: Sequence[Any] | None, where: str) -> str:
    try:
        text = choices[answer] if choices and isinstance(answer, int) else answer
        text = answer[0] if isinstance(answer, list) else text
    except IndexError:
        raise DataError(f"the answer of an example is {answer!r:.80}, which chooses nothing", where=where) from None
    if not isinstance(text, str):
        what = f"the answer of an example must be a text; it is {answer!r:.80}"
        raise DataError(what, where=where, hint="Such a task cannot show examples: use num_fewshot 0.")
    return text


def plain_text(messages: Sequence[ContextMessage]) -> str:
    """Return a context as plain text."""
    return "".join(message.content + message.delimiter for message in messages)


def chat_turns(messages: Sequence[ContextMessage], *, multiturn: bool) -> list[dict[str, str]]:
    """Return a context as turns of a chat; not ``multiturn``: the examples are part of the one user message."""
    if not multiturn:
        messages = _single_turn(messages)
    return [{"role": message.role, "content": message.content} for message in messages]


def _single_turn(messages: Sequence[ContextMessage]) -> list[ContextMessage]:
    head = [message for message in messages[:1] if message.role == "system"]
    rest = list(messages[len(head) :])
    tail = [rest.pop()] if rest[-1].role == "assistant" else []
    rest[-1] = replace(rest[-1], delimiter="")
    return [*head, ContextMessage("user", plain_text(rest)), *tail]
