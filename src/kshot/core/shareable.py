"""Values of a run for others to see: without what may be a key, and in texts that every file can hold."""

from __future__ import annotations

from typing import Any

from kshot.core.command_line import without_secrets
from kshot.core.options import flag


def shareable(value: Any, name: str = "") -> Any:
    """Return a value in plain types; what may be a key, by its form or by the name of its option, is replaced."""
    if isinstance(value, dict):
        return {shareable(key): shareable(each, key) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [shareable(each, name) for each in value]
    if isinstance(value, str):
        return well_formed(without_secrets([flag(name), value])[1])
    return value if value is None or isinstance(value, (bool, int, float)) else well_formed(str(value))


def well_formed(text: str) -> str:
    r"""Return a text that UTF-8 can write: half of a character (a lone surrogate) becomes its escape, ``\ud800``."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def well_formed_value(value: Any) -> Any:
    """Return a value of JSON in which every text is well-formed."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {well_formed(name): well_formed_value(inner) for name, inner in value.items()}
    return [well_formed_value(inner) for inner in value] if isinstance(value, (list, tuple)) else value
