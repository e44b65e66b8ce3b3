"""Samples that are too long for a report: their texts lose the middle, and say so."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from kshot.report.page.passage_marks import script_length

_LIMITS = (20_000, 4_000, 1_000, 200)
"""Characters of a text, tried in turn until the sample is small enough."""
_MAX_ITEMS = 200
"""Tokens, passages or options that the smallest form keeps."""


def cut_card(card: Mapping[str, Any], most: int) -> tuple[str, bool]:
    """Return the JSON of a sample in at most about so many characters, and whether it lost something."""
    written = _json(card)
    if len(written) <= most:
        return written, False
    for limit in _LIMITS:
        written = _json(_cut(card, limit, None))
        if len(written) <= most:
            return written, True
    return _json(_cut(card, _LIMITS[-1], _MAX_ITEMS)), True


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _cut(value: Any, limit: int, items: int | None) -> Any:
    """Return a value without the middle of its texts, the places within texts moved, and only some items of lists."""
    if isinstance(value, str):
        return _Shortened(value, limit).text
    if isinstance(value, list):
        return [_cut(each, limit, items) for each in value[:items]]
    if not isinstance(value, dict):
        return value
    made = {name: _cut(each, limit, items) for name, each in value.items()}
    if isinstance(value.get("messages"), list) and isinstance(value.get("asks_at"), int):
        made |= {"asks_at": _asks_at(value, limit)}
    if isinstance(value.get("tokens"), list) and isinstance(value.get("text"), str):
        made |= {"tokens": made["tokens"] if len(value["text"]) <= limit and items is None else None}
    if isinstance(value.get("marks"), list) and isinstance(value.get("text"), str):
        text = _Shortened(value["text"], limit)
        moved = [(text.moved(start), text.moved(end), *rest) for start, end, *rest in value["marks"]]
        made |= {"marks": [list(mark) for mark in moved if mark[0] < mark[1]]}
    return made


def _asks_at(prompt: Mapping[str, Any], limit: int) -> int:
    """Return where the question begins in a message that may have lost its middle."""
    at, messages = prompt.get("asks"), prompt["messages"]
    if type(at) is not int or not 0 <= at < len(messages):
        return 0
    return _Shortened(str(messages[at].get("content", "")), limit).moved(prompt["asks_at"])


class _Shortened:
    """A text without its middle: a third of what is left is its beginning, the rest its end, where answers stand.

    Places within it are counted as scripts count them.
    """

    def __init__(self, text: str, limit: int) -> None:
        self.text, self._note = text, ""
        self._head = self._tail = sys.maxsize
        if len(text) > limit:
            head, tail = limit // 3, len(text) - (limit - limit // 3)
            self._note = f"\n… {tail - head:,} characters are not in this report …\n"
            self.text = text[:head] + self._note + text[tail:]
            self._head, self._tail = script_length(text[:head]), script_length(text[:tail])

    def moved(self, place: int) -> int:
        """Return where a character of the whole text stands now; one of the middle, where its beginning ends."""
        if place <= self._head:
            return place
        if place < self._tail:
            return self._head
        return place - self._tail + self._head + len(self._note)
