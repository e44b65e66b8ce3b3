"""The choices of a multiple-choice row: its options, or several contexts; and which of them is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshot.cleanups.letters import letter
from kshot.core.errors import DataError
from kshot.core.records import AnyOption, Option
from kshot.datasets.rendering import as_index


def choices_of(fields: Mapping[str, Any], where: str, *, may_be_empty: bool = False) -> tuple[str, ...]:
    """Return the options of a formatted row, or its contexts; those that are asked by their letters may be empty."""
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
        if not text.strip() and not may_be_empty:
            raise DataError(f"option {number} is empty", where=where)
    return texts


def has_contexts(fields: Mapping[str, Any]) -> bool:
    """Whether the choices are contexts; beside options, a list called ``source`` is for the template alone."""
    return isinstance(fields.get("source"), (list, tuple)) and fields.get("options") is None


def right_choices(fields: Mapping[str, Any], choices: Sequence[str], where: str) -> Option | AnyOption | None:
    """Return what is right: ``target_idx``, ``label`` or ``source_idx``, one index or a list, else that of ``target``.

    None: the row names no right choice.
    """
    for name in ("target_idx", "label", "source_idx"):
        given = fields.get(name)
        if given is not None:
            several = given if isinstance(given, (list, tuple)) else (given,)
            if len(several) > 1:
                _refuse_mask(several, name, where)
            return _target([as_index(each, name, where) for each in several], choices, where)
    target = fields.get("target")
    texts = [choice.strip() for choice in choices]
    return Option(texts.index(str(target).strip())) if target is not None and str(target).strip() in texts else None


def referenced_choices(reference: Any, choices: Sequence[str], where: str) -> Option | AnyOption:
    """Return what a reference means: a letter or an index, or a list of them."""
    letters = [letter(i) for i in range(len(choices))]

    def index(one: Any) -> int:
        known = isinstance(one, str) and one.strip() in letters
        return letters.index(one.strip()) if known else as_index(one, "the reference", where)

    several = reference if isinstance(reference, (list, tuple)) else (reference,)
    return _target([index(each) for each in several], choices, where)


def _refuse_mask(several: Sequence[Any], name: str, where: str) -> None:
    """Refuse what looks like a 0 or 1 for each option: it would be read as the indices 0 and 1."""
    if any(isinstance(each, bool) for each in several) or len(set(map(str, several))) < len(several):
        raise DataError(
            f"{name} is {list(several)!r:.80}; it must list each right option once, by its index",
            where=where,
            hint="Of a 0 or 1 for each option make indices: [i for i, right in enumerate(labels) if right].",
        )


def option_index(answer: Any, choices: Sequence[str]) -> Any:
    """Return the index of the option whose letter or text is the answer; an answer that is neither as it is."""
    if not isinstance(answer, str):
        return answer
    names = [letter(i) for i in range(len(choices))]
    for known in (names, [choice.strip() for choice in choices]):
        if known.count(answer.strip()) == 1:
            return known.index(answer.strip())
    return answer


def _target(indices: Sequence[int], choices: Sequence[str], where: str) -> Option | AnyOption:
    if not indices:
        raise DataError("the list of right options is empty", where=where)
    for index in indices:
        if not 0 <= index < len(choices):
            raise DataError(f"the target is {index}, but there are {len(choices)} options", where=where)
    distinct = tuple(dict.fromkeys(indices))
    return Option(distinct[0]) if len(distinct) == 1 else AnyOption(distinct)
