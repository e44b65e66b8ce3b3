"""Where each key and each value of a TOML text stands, so that an error can name its line.

``tomllib`` reads the values and says nothing of their places. This module reads the places, and nothing else: the text
is right, because ``tomllib`` has read it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys that lead to a value, from the outermost; a number is the position in an array."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"(?:[^"\\]|\\.)*"')
_LITERAL = re.compile(r"'[^']*'")
_LONG_BASIC = re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''(?:[^']|'{1,2}(?!'))*'{3,5}", re.DOTALL)
_PLAIN = re.compile(r"[^,\]}#\n]*")
_MAX_PARTS = 100
"""The parts of a dotted key whose places are kept: no run file needs as many."""
_STRINGS = (_LONG_BASIC, _LONG_LITERAL, _BASIC, _LITERAL)


class Position(NamedTuple):
    """A place in a text; both numbers count from 1."""

    line: int
    column: int


def positions(text: str) -> dict[KeyPath, Position]:
    """Return where each key stands, and each item of an array; of a table that is opened twice, the first place."""
    return _PositionReader(text.replace("\r\n", "\n")).found


class _PositionReader:
    """Walks over a text once."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._line, self._line_start = 1, 0
        self._counted = 0
        self.found: dict[KeyPath, Position] = {}
        self._sizes: dict[KeyPath, int] = {}
        """The number of tables so far in each array that ``[[…]]`` lines make."""
        table: KeyPath = ()
        while self._skip(_BLANK) < len(text):
            if text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return self._at

    def _here(self) -> Position:
        """Return the place; lines are counted from the last place on."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._line_start = max(self._line_start, self._text.rfind("\n", self._counted, self._at) + 1)
        self._counted = self._at
        return Position(self._line, self._at - self._line_start + 1)

    def _header(self) -> KeyPath:
        """Read ``[table]`` or ``[[array]]``; return the path of the table that follows."""
        double = self._text.startswith("[[", self._at)
        place = self._here()
        self._at += 2 if double else 1
        path: KeyPath = ()
        keys = self._keys()
        for number, key in enumerate(keys, start=1):
            path = (*path, key)
            self.found.setdefault(path, place)
            if path in self._sizes and (number < len(keys) or not double):
                path = (*path, self._sizes[path] - 1)  # the table that was opened last
        if double:
            self._sizes[path] = self._sizes.get(path, 0) + 1
            path = (*path, self._sizes[path] - 1)
            self.found[path] = place
        self._skip(_SPACE)
        self._at += 2 if double else 1
        return path

    def _pair(self, table: KeyPath) -> None:
        """Read ``key = value``."""
        place = self._here()
        path = table
        for key in self._keys():
            path = (*path, key)
            self.found.setdefault(path, place)
        self._skip(_SPACE)
        self._at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)

    def _keys(self) -> list[str]:
        """Read a key, which may have several parts with dots between them."""
        keys: list[str] = []
        while True:
            self._skip(_SPACE)
            start = self._at
            for pattern in (_BASIC, _LITERAL, _BARE):
                if self._skip(pattern) > start:
                    break
            else:
                raise AssertionError(f"no key at character {start}")
            if len(keys) < _MAX_PARTS:
                keys.append(_read_key(self._text[start : self._at]))
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1

    def _value(self, path: KeyPath) -> None:
        start = self._at
        if self._text.startswith("[", start):
            self._array(path)
        elif self._text.startswith("{", start):
            self._inline_table(path)
        elif not any(self._skip(pattern) > start for pattern in _STRINGS):
            self._skip(_PLAIN)

    def _array(self, path: KeyPath) -> None:
        self._at += 1
        number = 0
        while self._text[self._skip(_BLANK)] != "]":
            if self._text[self._at] == ",":
                self._at += 1
                continue
            item = (*path, number)
            self.found[item] = self._here()
            self._value(item)
            number += 1
        self._at += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._at += 1
        while self._text[self._skip(_BLANK)] != "}":
            if self._text[self._at] == ",":
                self._at += 1
                continue
            self._pair(path)
        self._at += 1


def _read_key(text: str) -> str:
    """Return the key that a part of a dotted key stands for."""
    if text[0] not in "\"'":
        return text
    (key,) = loads(f"{text} = 0")
    return key


def loads(text: str) -> dict[str, Any]:
    """Read a TOML text; ``ValueError`` says what is wrong with it, and where."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    body: dict[str, Any] = tomllib.loads(text)
    return body


def nearest(places: Mapping[KeyPath, Position], path: KeyPath) -> Position:
    """Return the place of a value, or of the innermost thing around it that has one."""
    while path not in places and path:
        path = path[:-1]
    return places.get(path, Position(1, 1))
