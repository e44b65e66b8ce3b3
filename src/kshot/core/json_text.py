"""JSON that strangers wrote: whatever is wrong with it is a ``ValueError``, and no value is nested without end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MAX_DEPTH = 100
"""Deeper lists and objects are refused: what walks through them later would reach Python's limit of calls."""


_TOO_DEEP = f"it is nested too deeply, more than {MAX_DEPTH} lists and objects within each other"


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; a text that is not JSON is a ``JSONDecodeError``, any other fault its base."""
    with _named_faults():
        value = json.loads(text)
    opened = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    return _checked_depth(value, opened)


def parse_first_json(text: str, start: int = 0) -> tuple[Any, int]:
    """Return the first JSON value from this place on, and where it ends; faults are those of ``parse_json``."""
    with _named_faults():
        value, end = json.JSONDecoder().raw_decode(text, start)
    return _checked_depth(value, text.count("[", start, end) + text.count("{", start, end)), end


@contextmanager
def _named_faults() -> Iterator[None]:
    try:
        yield
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError:  # Python reads no whole number of more than some thousand digits
        raise ValueError("it holds a number of too many digits") from None


def _checked_depth(value: Any, opened: int) -> Any:
    """Return the value, whose text opens so many lists and objects; one that is nested too deeply is an error."""
    if opened <= MAX_DEPTH:
        return value
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
