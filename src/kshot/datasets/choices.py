"""The choices of a multiple-choice row: its options, or several contexts; and which of them is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshot.cleanups.letters import letter
from kshot.core.errors import DataError
from kshot.datasets.rendering import as_index


def choices_of(fields: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return the options of a formatted row, or its contexts."""
    if has_contexts(fields):
        choices = fields["source"]
        if not str(fields.get("target") or "").strip():
            raise DataError("several contexts need a target to measure after each", where=where)
    else:
        choices = fields.get("options")
    if choices is None:
        raise DataError("format_instance gave no options", where=where)
    if isinstance(choices, str) or not isinstance(choices, Sequence):
        raise DataError(f"options must be a list of texts, not {type(choices).__name__}", where=where)
    if not choices:
        raise DataError("the list of options is empty", where=where)
    texts = tuple("" if choice is None else str(choice) for choice in choices)
    for number, text in enumerate(texts):
        if not text.strip():
            raise DataError(f"option {number} is empty", where=where)
    return texts


def has_contexts(fields: Mapping[str, Any]) -> bool:
    """Whether the choices are contexts; beside options, a list called ``source`` is for the template alone."""
    return isinstance(fields.get("source"), (list, tuple)) and fields.get("options") is None


def right_choice(fields: Mapping[str, Any], choices: Sequence[str], where: str) -> int | None:
    """Return the index of the right choice: ``target_idx``, ``label`` or ``source_idx``, else that of ``target``."""
    for name in ("target_idx", "label", "source_idx"):
        if fields.get(name) is not None:
            return as_index(fields[name], name, where)
    target = fields.get("target")
    texts = [choice.strip() for choice in choices]
    return texts.index(str(target).strip()) if target is not None and str(target).strip() in texts else None


def referenced_choice(reference: Any, choices: Sequence[str], where: str) -> int:
    """Return the index that a reference means: a letter or an index."""
    letters = [letter(i) for i in range(len(choices))]
    if isinstance(reference, str) and reference.strip() in letters:
        return letters.index(reference.strip())
    return as_index(reference, "the reference", where)


def check_index(index: int, choices: Sequence[str], where: str) -> None:
    """Refuse an index that no choice has."""
    if not 0 <= index < len(choices):
        raise DataError(f"the target is {index}, but there are {len(choices)} options", where=where)
