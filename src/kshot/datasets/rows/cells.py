"""What the cells of a table hold: texts, and options that stand together in one cell."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from kshot.cleanups.letters import letter
from kshot.core.errors import DataError
from kshot.core.text_files import parse_json

MIN_OPTIONS = 2


@dataclass(frozen=True, slots=True)
class Listed:
    """The options of a row. ``labels`` are the names that the table gives them, such as those of their columns."""

    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    nested: int | None = None
    """The index of the first option that is itself a list or an object, which no text can stand for."""


Cut: TypeAlias = Callable[[str], "tuple[str, ...] | None"]
"""Cuts a cell into its options; None if it cannot."""


def text_of(value: Any) -> str:
    """Return a cell as text; an empty one, null or NaN is the empty text."""
    if value is None or value != value:  # noqa: PLR0124 - NaN, which tables have where nothing stands
        return ""
    return value if isinstance(value, str) else str(value)


# ---- several columns ----


def from_columns(row: Mapping[str, Any], names: Sequence[str]) -> Listed:
    """Return the options of several columns; those at the end may be empty, where a question has fewer."""
    texts = [text_of(row.get(name)) for name in names]
    while texts and not texts[-1].strip():
        texts.pop()
    empty = next((name for name, text in zip(names, texts, strict=False) if not text.strip()), None)
    if empty is not None:
        raise DataError("this option is empty, and another one follows it", where=f"column {empty!r}")
    if len(texts) < MIN_OPTIONS:
        what = f"there {'is one option' if texts else 'are no options'}; a question needs two or more"
        raise DataError(what, where=f"column {names[len(texts)]!r}" if len(texts) < len(names) else "")
    return _listed([row[name] for name in names[: len(texts)]], [name.strip() for name in names[: len(texts)]])


def _listed(values: Iterable[Any], labels: Iterable[str] = ()) -> Listed:
    found = list(values)
    nested = next((at for at, each in enumerate(found) if isinstance(each, (list, tuple, Mapping))), None)
    return Listed(tuple(map(text_of, found)), tuple(labels), nested)


# ---- one column ----


def listed_value(value: Any) -> Listed | None:
    """Return the options that a value lists: a list, or an object of texts and labels; None if it is no list.

    A text may be a JSON or Python list.
    """
    if isinstance(value, str):
        parsed, _ = from_literal(value)
        return None if parsed is None else listed_value(parsed)
    if isinstance(value, Mapping):
        texts, labels = value.get("text"), value.get("label")
        if isinstance(texts, (list, tuple)):
            named = labels if isinstance(labels, (list, tuple)) else ()
            return _listed(texts, map(text_of, named))
        return _listed(value.values(), map(str, value))
    if not isinstance(value, (list, tuple)):
        return None
    if value and all(isinstance(each, Mapping) and "text" in each for each in value):
        labels = [text_of(each.get("label")) for each in value]
        return _listed((each["text"] for each in value), labels if all(labels) else ())
    return _listed(value)


def options_in(value: Any, cut: str | None = None) -> Listed | None:
    """Return the options of a cell: those that it lists, or its text, cut in this way; None if neither is."""
    listed = listed_value(value)
    if listed is None and cut is not None:
        parts = CUTS[cut](text_of(value))
        return None if parts is None else Listed(parts)
    return listed


def from_literal(text: str) -> tuple[Any, str]:
    """Return the list or object that a text writes, and how: in ``json`` or ``ast``; None if it writes none."""
    if text.lstrip()[:1] in {"[", "{", "("}:
        for name, read in (("json", parse_json), ("ast", ast.literal_eval)):
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
                found = read(text.strip())
                if isinstance(found, (list, tuple, dict)):
                    return found, name
    return None, ""


def cut_by_letters(text: str) -> tuple[str, ...] | None:
    """Cut ``A. first B. second`` or ``(a) first (b) second`` at its letters, which must come in order."""
    starts: list[re.Match[str]] = []
    for found in re.finditer(r"(?:(?<=\s)|^)(?:\(([A-Za-z])\)|([A-Za-z])[.):])\s*", text.strip()):
        if (found[1] or found[2]).upper() == letter(len(starts)):
            starts.append(found)
    if len(starts) < MIN_OPTIONS or starts[0].start() > 0:
        return None
    ends = [*(found.start() for found in starts[1:]), len(text.strip())]
    parts = [text.strip()[found.end() : end].strip(" \t\r\n;|") for found, end in zip(starts, ends, strict=True)]
    return tuple(parts) if all(parts) else None


def _by(separator: str) -> Cut:
    def cut(text: str) -> tuple[str, ...] | None:
        parts = [part.strip() for part in text.strip().split(separator)]
        through = separator == "," and any(map(_unbalanced, parts))  # such as a JSON list with a fault
        return tuple(parts) if len(parts) >= MIN_OPTIONS and all(parts) and not through else None

    return cut


def _unbalanced(text: str) -> bool:
    """Whether a text closes other brackets than it opens."""
    return sum(map(text.count, "([{")) != sum(map(text.count, ")]}"))


SEPARATORS = {"\n": "lines", "||": "'||'", "|": "'|'", ";": "';'", "\t": "tabs", " / ": "' / '", ",": "commas"}
"""What may stand between options in one cell, and how a message names it."""

CUTS: Mapping[str, Cut] = {
    "letters such as A.": cut_by_letters,
    **{name: _by(each) for each, name in SEPARATORS.items()},
}
"""The ways to cut a text into options, the surest first, by name."""
