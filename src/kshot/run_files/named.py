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
_WORDS = {True: "yes", False: "no"}


def spec_text(name: str, options: Mapping[str, Any], declared: Mapping[str, OptionField]) -> str:
    """Return the text of a name and its options; a value that such a text cannot hold is an error.

    ``declared``: what is known of the options.
    """
    given = {key: _option_text(value, declared.get(key)) for key, value in options.items()}
    text = name + option_text(given)
    try:
        kept = split_options(text)
    except KshotError:  # the name has one of the options itself
        kept = ("", {})
    before = split_options(name)
    if kept != (before[0], {**before[1], **given}):
        twice = next((key for key in given if key in before[1]), None)
        what = f"the option {twice!r} is given in the name and beside it" if twice else "a value ends in a backslash"
        raise UsageError(what, hint="Write it once." if twice else "Such a value cannot follow a name.")
    return text


def _option_text(value: Any, declared: OptionField | None) -> str:
    """Return a value as it is written after a name; ``TypeError`` if it is no text, number, flag or list of them."""
    if isinstance(value, list):
        if not value:
            raise TypeError
        return join_values(_plain_text(each) for each in value)
    text = _plain_text(value)
    return join_values([text]) if declared is not None and _takes_several(declared) else text


def _plain_text(value: Any) -> str:
    if isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return value
    raise TypeError


def _takes_several(declared: OptionField) -> bool:
    return declared.several or declared.sweeps


# ---- from a text to a table ----


def entry_of(text: str, declared: Mapping[str, OptionField] | None = None) -> dict[str, Any]:
    """Return the table that stands for a text; options that no value gives back exactly stay in the name.

    ``declared``: the options that may follow the name, if they are known.
    """
    name, given = split_options(text)
    try:
        options = {key: _value(value, None if declared is None else declared[key]) for key, value in given.items()}
        same = NAME not in options and spec_text(name, options, declared or {}) == text
    except (KshotError, KeyError, ValueError, TypeError):
        same = False
    return {NAME: name, **options} if same else {NAME: text}


def _value(text: str, declared: OptionField | None) -> Any:
    """Return the value that an option of a name has; ``ValueError`` or ``KeyError`` if it cannot be read."""
    if declared is None:
        return int(text) if text.isascii() and text.isdigit() and str(int(text)) == text else text
    if not _takes_several(declared):
        return _READERS[declared.kind](text)
    values: Sequence[Any] = [_READERS[declared.kind](part) for part in split_values(text)]
    return values[0] if len(values) == 1 else list(values)


_READERS: Mapping[type, Any] = {
    str: str,
    int: int,
    float: lambda text: int(text) if text.isdigit() else finite_number(text),
    bool: {word: truth for truth, word in _WORDS.items()}.__getitem__,
}
