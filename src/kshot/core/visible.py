"""Foreign text for people to read: what would steer a terminal, or hide, is shown as an escape.

Models, datasets, configs, servers and file names are written by strangers. A terminal obeys escape sequences in their
text, and bidirectional marks make a line read as another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f"  # C0 without tab and newline
    "\x7f-\x9f"  # DEL and C1: one character of C1 can begin a sequence as ESC does
    "\xad\u061c\u180e\u200e\u200f"  # soft hyphen; marks of direction
    "\u2028-\u202e\u2060-\u206f"  # separators; embeddings, overrides and isolates; invisible operators
    "\ufeff\ufff9-\ufffb\ufffe\uffff"  # byte order mark, annotations, and what is no character
    "\ud800-\udfff"  # halves of characters
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # musical formats, tags and the like: text that nobody sees
    "]"
    # What joins letters of many scripts, and emoji, has nothing to join beside ASCII.
    "|(?<![^\x00-\x7f])[\u200b-\u200d]"
)
_LINE_BREAKS = re.compile("[\n\t]")


def visible(text: str) -> str:
    r"""Return the text with every unsafe character as its escape, such as ``\x1b``; lines and tabs stay."""
    return text if _is_plain(text) or not _UNSAFE.search(text) else _UNSAFE.sub(_escape, text)


def _is_plain(text: str) -> bool:
    """Whether a text has but letters, signs, lines and tabs of ASCII; this is found much sooner than by the pattern."""
    return text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()


def one_line(text: object) -> str:
    r"""Return a name, a message or the like on one line: its line breaks are shown as ``\n``."""
    return _LINE_BREAKS.sub(_escape, visible(str(text)))


def visible_json(value: Any, indent: int | None = None) -> str:
    """Return JSON in which unsafe characters are JSON's own escapes: a reader gets the exact text."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if _is_plain(text) or not _UNSAFE.search(text):
        return text
    return _UNSAFE.sub(lambda found: json.dumps(found.group())[1:-1], text)


OBJECT = "<an object without a text of its own>"
"""Shown in place of an object whose text is its address in memory."""
ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
"""What Python shows of an object without a ``repr`` of its own: its address, which differs in every process."""


def listed(names: Sequence[str], most: int = 8, *, counted: bool = False) -> str:
    """Return names for a message; of many the first ones, and, if ``counted``, how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + ("" if more <= 0 else f" and {more} more" if counted else ", …")


def without_text(value: Any, *kinds: type, known: str = "") -> str:
    """Name what a value is or contains that Python shows by its address, such as a function; "" if there is none.

    ``kinds`` are further classes to find. An address that is part of the text ``known`` is not one.
    """
    if isinstance(value, str):
        return "an object" if OBJECT in value or any(at not in known for at in ADDRESS.findall(value)) else ""
    if isinstance(value, Mapping):
        if [*value] == ["$opaque"]:  # as confined processes write what is not plain data
            return _with_article(str(value["$opaque"]))
        value = [*value.keys(), *value.values()]
    if isinstance(value, kinds):
        return "an object"
    if is_dataclass(value) and not isinstance(value, type):  # rows show its fields
        value = [getattr(value, each.name) for each in fields(value)]
    if isinstance(value, (list, tuple, set, frozenset)):
        return next((lost for each in value if (lost := without_text(each, *kinds, known=known))), "")
    return _with_article(type(value).__name__) if _is_shown_by_address(value) else ""


def _with_article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _is_shown_by_address(value: Any) -> bool:
    if value is None or isinstance(value, (bool, float, type)):
        return False
    if callable(value):
        return True
    try:
        return ADDRESS.search(repr(value)) is not None
    except Exception:  # noqa: BLE001 - an int of too many digits, or code of the user
        return True


def _escape(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")


def metric_label(*rows: Mapping[str, Any]) -> str:
    """Return the metric of these figures as people see it, with its rule: ``Accuracy (acc_norm)``.

    If they have several rules, as those of two compared runs may (``run_rule``), it names all of them, and says if some
    have none.
    """
    rules = [row.get("rule") or "" for row in rows] + [row["run_rule"] or "" for row in rows if "run_rule" in row]
    label = rule_label(map(str, rules))
    return f"{rows[0]['metric']} ({label})" if label else str(rows[0]["metric"])


def rule_label(rules: Iterable[str]) -> str:
    """Return the rules of several figures in words; an empty text if none has one."""
    named = list(dict.fromkeys(rules))
    return " / ".join(rule or _NO_RULE for rule in named) if any(named) else ""


_NO_RULE = "no rule"
"""Shown beside the rule of another figure, where letters or replies decide."""
