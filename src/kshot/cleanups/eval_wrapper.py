"""Replies that are written as Python values, cleaned up by another clean-up. Standard library only."""

from __future__ import annotations

from kshot.cleanups.literals import NO_VALUE, computed, literal

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def cleaned_as_text(text: str, find: Callable[[str], Any], postprocess: Any, options: dict[str, Any]) -> str:
    """Read a reply as a Python literal, write it as text, and clean that up by another function."""
    try:
        plain = str(literal(text))  # str() refuses a number of more than 4,300 digits
    except NO_VALUE:
        plain = text
    return str(_cleaned(plain, find, postprocess, options))


def cleaned_value(
    framework: str, find: Callable[[str], Any], text: str, postprocess: Any = None, **options: Any
) -> Any:
    """Read a reply as a Python value, as a project does, and pass the value on: text, a list, a number."""
    try:
        value = _READERS[framework](text)
    except NO_VALUE:
        value = text
    return _cleaned(value, find, postprocess, options)


def _cleaned(value: Any, find: Callable[[str], Any], postprocess: Any, options: dict[str, Any]) -> Any:
    if not postprocess:
        return value
    return (find(postprocess) if isinstance(postprocess, str) else postprocess)(value, **options)


_READERS = {"opencompass": computed, "ais_bench": literal}
"""How each project reads a value."""
