"""JSON that strangers wrote: whatever is wrong with it is a ``ValueError``, and no value is nested without end."""

from __future__ import annotations

import json
from typing import Any

MAX_DEPTH = 100
"""Deeper lists and objects are refused: what walks through them later would reach Python's limit of calls."""


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; a text that is not JSON is a ``JSONDecodeError``, any other fault its base."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return checked_depth(value)


def parse_first_json(text: str, start: int = 0) -> tuple[Any, int]:
    """Return the first JSON value from this place on, and where it ends; faults are those of ``parse_json``."""
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    return checked_depth(value), end


def checked_depth(value: Any) -> Any:
    """Return the value; one that is nested too deeply is a ``ValueError``."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return value
    raise ValueError(_TOO_DEEP)


_TOO_DEEP = f"it is nested too deeply, more than {MAX_DEPTH} lists and objects within each other"
