"""How a column of answers names the right option: by its label, letter, text, index (from 0) or number (from 1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from kshot.cleanups.letters import letter, letter_index
from kshot.core.errors import DataError
from kshot.datasets.rows.cells import Listed, text_of

Find: TypeAlias = Callable[[Any, Listed], "int | None"]
"""Finds the option that an answer names; None if it names none in this form."""

_LETTER = re.compile(r"\(?([A-Za-z])[).:]?()")
_LETTER_AND_TEXT = re.compile(r"\(?([A-Za-z])[).:]\s*(.+)", re.DOTALL)
_BETWEEN = re.compile(r"\s*(?:[,;/&+|]|\band\b|\bor\b)\s*")
_SHOWN = 60


def _by_label(value: Any, listed: Listed) -> int | None:
    """Find the label: the name of the option's column, or the one that the cell gives it."""
    labels = [label.casefold() for label in listed.labels]
    text = text_of(value).strip().casefold()
    return labels.index(text) if labels.count(text) == 1 else None


def _by_letter(value: Any, listed: Listed) -> int | None:
    """Find the letter; the text of the same option may follow it."""
    text = text_of(value).strip()
    found = _LETTER.fullmatch(text) or _LETTER_AND_TEXT.fullmatch(text)
    index = letter_index(found[1].upper()) if found else -1
    if found is None or not 0 <= index < len(listed.texts):
        return None
    return index if found[2] in {"", listed.texts[index].strip()} else None


def _by_text(value: Any, listed: Listed) -> int | None:
    """Find the one option with this text; case counts only where it tells two options apart."""
    text = text_of(value).strip()
    texts = [each.strip() for each in listed.texts]
    if text in texts:
        return texts.index(text) if texts.count(text) == 1 else None
    folded = [each.casefold() for each in texts]
    return folded.index(text.casefold()) if folded.count(text.casefold()) == 1 else None


def _from(first: int) -> Find:
    def find(value: Any, listed: Listed) -> int | None:
        index = _whole(value)
        return index - first if index is not None and 0 <= index - first < len(listed.texts) else None

    return find


def _whole(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() else None


FORMS: Mapping[str, Find] = {
    "label": _by_label,
    "letter": _by_letter,
    "text": _by_text,
    "index": _from(0),
    "number": _from(1),
}
"""The forms of answers, the surest first."""

_TEXTS = {
    "label": "the names of options",
    "letter": "letters of options",
    "text": "texts of options",
    "index": "indices of options, which count from 0",
    "number": "numbers of options, which count from 1",
}


@dataclass(frozen=True, slots=True)
class ChosenForm:
    """The form of a column of answers, and what the user should know about it."""

    name: str
    notes: tuple[str, ...] = ()

    def find(self, value: Any, listed: Listed) -> int | list[int]:
        """Return the index of the right option, or those of several; an answer that names none is an error."""
        if isinstance(value, (list, tuple)):
            found = [self._find(each, listed) for each in value]
            if not found:
                raise DataError("the answer is an empty list")
            return found[0] if len(found) == 1 else found
        return self._find(value, listed)

    def _find(self, value: Any, listed: Listed) -> int:
        if not text_of(value).strip():
            raise DataError("the answer is empty", hint="Fill in the cell, or take the row out.")
        found = FORMS[self.name](value, listed)
        if found is None:
            raise self._names_none(value, listed)
        return found

    def _names_none(self, value: Any, listed: Listed) -> DataError:
        shown, count = repr(value)[:_SHOWN], len(listed.texts)
        parts = [part for part in _BETWEEN.split(text_of(value).strip()) if part]
        if len(parts) > 1 and all(FORMS[self.name](part, listed) is not None for part in parts):
            what = f"the answer is {shown}, which names {len(parts)} options"
            return DataError(what, hint="Name one; in JSON, a list of answers means that each of them is right.")
        if self.name == "text" and _has_text(value, listed):
            return DataError(f"the answer is {shown}, and several options have this text")
        among = {
            "label": f"the options are called {', '.join(listed.labels)}",
            "letter": f"there are {count} options: A to {letter(count - 1)}",
            "text": f"the options are: {'; '.join(listed.texts)}",
            "index": f"there are {count} options: 0 to {count - 1}",
            "number": f"there are {count} options: 1 to {count}",
        }[self.name]
        return DataError(f"the answer is {shown}, but {among[:200]}")


def _has_text(value: Any, listed: Listed) -> bool:
    return text_of(value).strip().casefold() in {text.strip().casefold() for text in listed.texts}


def chosen_form(values: Sequence[Any], options: Sequence[Listed], wanted: str | None, column: str) -> ChosenForm:
    """Return the form of the answers in a column: the one that fits all rows, else the one that fits most."""
    if wanted is not None:
        return ChosenForm(wanted)
    pairs = [
        (each, listed)
        for value, listed in zip(values, options, strict=True)
        for each in (value if isinstance(value, (list, tuple)) else (value,))
        if text_of(each).strip()
    ]
    named = any(listed.labels for _, listed in pairs)
    forms = {name: find for name, find in FORMS.items() if named or name != "label"}
    found = {name: [find(value, listed) for value, listed in pairs] for name, find in forms.items()}
    missing = {name: indices.count(None) for name, indices in found.items()}
    best = min(forms, key=missing.__getitem__)  # the first of those that fit equally
    if missing[best]:
        same = any(_has_text(value, listed) for value, listed in pairs)  # as several options have
        return ChosenForm("text" if missing[best] == len(pairs) and same else best)
    others = [name for name in forms if name != best and not missing[name] and found[name] != found[best]]
    return ChosenForm(best, tuple(_notes(best, others, column)))


def _notes(best: str, others: Sequence[str], column: str) -> list[str]:
    """Say so where the answers could mean other options; refuse to guess between a letter and a text."""
    if best == "letter" and "text" in others:
        what = "the answers may be letters of options or texts of options, which are not the same here"
        raise DataError(what, where=f"column {column!r}", hint="Add --answer-as letter or --answer-as text.")
    doubtful = [name for name in others if best in {"text", "index"}]
    if not doubtful:
        return []
    also = " or ".join(f"{_TEXTS[name]} (--answer-as {name})" for name in doubtful)
    return [f"the answers in column {column!r} are read as {_TEXTS[best]}; they could also be {also}"]
