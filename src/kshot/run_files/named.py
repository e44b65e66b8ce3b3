"""Models, datasets and loggers of a run file: a name with its options as a table, and as the text of a command.

``{name = "hf:model", dtype = "float16"}`` is ``hf:model,dtype=float16``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kshot.core.errors import KshotError, UsageError
from kshot.core.options import OptionField
from kshot.core.specs import finite_number, join_values, option_text, split_options, split_values

NAME = "name"
_WHOLE_TEXTS = ("instruction",)
"""Options that may have several values, but not after the name of a dataset: a template may contain a plus."""
_WORDS = {True: "yes", False: "no"}


def spec_text(name: str, options: Mapping[str, str]) -> str:
    """Return the text of a name and its options, whose values are texts already."""
    return name + option_text(options)


def value_text(name: str, value: Any, declared: OptionField | None = None) -> str:
    """Return the value of an option as it is written after a name; ``declared``: what is known of the option."""
    values = value if isinstance(value, list) else [value]
    texts = [_plain_text(each) for each in values]
    if not values or None in texts:
        shown = "an empty list" if value == [] else f"{value!r:.60}"
        raise UsageError(f"{name} is {shown}; it must be a text, a number, true, false or a list of them")
    found = [text for text in texts if text is not None]
    if any(text.endswith("\\") for text in found):
        raise UsageError(f"{name} ends in a backslash, and such a value cannot follow a name")
    if name in _WHOLE_TEXTS and isinstance(value, list) and declared is not None:
        raise UsageError(f"{name} has one value for one dataset", hint="Several are for all: below [settings].")
    if declared is not None and declared.several:
        return join_values(found)
    if _sweeps(name, declared) and any("+" in text for text in found):
        raise UsageError(f"{name} has a plus, which separates values there", hint="Set it for all: below [settings].")
    return join_values(found) if isinstance(value, list) else found[0]


def _sweeps(name: str, declared: OptionField | None) -> bool:
    """Whether several values of an option after the name of a dataset are a sweep."""
    return declared is not None and declared.sweeps and name not in _WHOLE_TEXTS


def _plain_text(value: Any) -> str | None:
    """Return one value as a text; None if it cannot be one."""
    if isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, (int, float)):
        return repr(value)
    return value if isinstance(value, str) else None


# ---- from a text to a table ----


def entry_of(text: str, declared: Mapping[str, OptionField] | None = None) -> dict[str, Any]:
    """Return the table that stands for a text; options that no value gives back exactly stay in the name.

    ``declared``: the options that may follow the name, if they are known.
    """
    name, given = split_options(text)
    try:
        known = {key: None if declared is None else declared[key] for key in given}
        options = {key: _value(key, value, known[key]) for key, value in given.items()}
        texts = {key: value_text(key, value, known[key]) for key, value in options.items()}
    except (KshotError, KeyError, ValueError):
        return {NAME: text}
    same = NAME not in options and spec_text(name, texts) == text
    return {NAME: name, **options} if same else {NAME: text}


def _value(name: str, text: str, declared: OptionField | None) -> Any:
    """Return the value that an option of a name has; ``ValueError`` or ``KeyError`` if it cannot be read."""
    if declared is None:
        return int(text) if text.isascii() and text.isdigit() and str(int(text)) == text else text
    if not declared.several and not _sweeps(name, declared):
        return _READERS[declared.kind](text)
    values: Sequence[Any] = [_READERS[declared.kind](part) for part in split_values(text)]
    return values[0] if len(values) == 1 else list(values)


_READERS: Mapping[type, Any] = {
    str: str,
    int: int,
    float: lambda text: int(text) if text.isdigit() else finite_number(text),
    bool: {word: truth for truth, word in _WORDS.items()}.__getitem__,
}
