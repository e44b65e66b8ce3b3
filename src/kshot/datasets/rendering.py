"""From the fields of an instance to the text of its question and answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Message


def stripped(value: Any) -> Any:
    """Strip the white space around text, inside lists too; leave everything else."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return [stripped(each) for each in value]
    if isinstance(value, tuple):
        return tuple(stripped(each) for each in value)
    return value


def copied(value: Any) -> Any:
    """Copy the dicts and lists of a row, so that a change of the copy does not reach the original."""
    if type(value) is dict:
        return {name: copied(each) for name, each in value.items()}
    if type(value) is list:
        return [copied(each) for each in value]
    return value


def as_index(value: Any, name: str, where: str) -> int:
    """Read an index that may be a number or digits; ``name`` is what a message calls it."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise DataError(f"{name} is {value!r}; it must be the index of an option", where=where) from exc
    if isinstance(value, float) and number != value:
        raise DataError(f"{name} is {value!r}; it must be a whole number", where=where)
    return number


def as_messages(examples: Any, where: str) -> list[Message]:
    """Read what ``construct_examples`` returned: text, or messages as records or role/content dicts."""
    if isinstance(examples, str):
        return [Message("user", examples)] if examples else []
    if not isinstance(examples, Sequence):
        raise DataError(f"construct_examples returned {type(examples).__name__}, not text or messages", where=where)
    messages = []
    for each in examples:
        if isinstance(each, Message):
            messages.append(each)
        elif isinstance(each, Mapping) and each.get("role") in {"system", "user", "assistant"} and "content" in each:
            messages.append(Message(each["role"], str(each["content"])))
        else:
            raise DataError(f"construct_examples returned {each!r:.80}, which is not a message", where=where)
    return messages
