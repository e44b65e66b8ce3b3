"""Settings as options of a command, and the settings that a command line gives."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import Any

from kshot.core.options import flag
from kshot.core.specs import split_names
from kshot.settings import Settings, settings_from

_METAVARS = {int: "N", float: "X", str: "TEXT"}
_WHOLE_TEXTS = ("instruction",)
"""Options that sweep and whose values may have commas: each is given by a flag of its own."""

_PATH = "dataset_path"
"""It may be given once for each dataset of a run."""


class Once(argparse.Action):
    """Takes the value of an option. Two values are an error: the last one would win, and nobody would know."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Keep the value."""
        del parser  # it turns the error into a message
        _refuse_another(self, namespace, values, option_string)
        setattr(namespace, self.dest, values)


class _OnceOrNot(argparse.BooleanOptionalAction):
    """Takes ``--option`` or ``--no-option``, but not both."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Keep which one it is."""
        _refuse_another(self, namespace, not (option_string or "").startswith("--no-"), option_string)
        super().__call__(parser, namespace, values, option_string)


def _refuse_another(action: argparse.Action, namespace: Any, value: Any, written: str | None) -> None:
    """Refuse a second value of an option that differs from the first; arguments without a name have one place each."""
    if written is None:
        return
    given: dict[str, Any] = vars(namespace).setdefault("given_once", {})
    if repr(given.setdefault(action.dest, value)) != repr(value):  # nan is not equal to itself
        several = " Write all values in one, with commas between them." if isinstance(value, tuple) else ""
        raise argparse.ArgumentError(action, f"it is given twice, with different values.{several}")


def add_settings(command: argparse.ArgumentParser, only: Collection[str] | None = None) -> None:
    """Declare the settings of a run, or some of them, as options of a command."""
    groups: dict[str, Any] = {"": command}
    for name, declared in Settings.declared().items():
        if only is not None and name not in only:
            continue
        title = declared.group if only is None else ""
        if title not in groups:
            groups[title] = command.add_argument_group(title)
        default = "" if declared.default is None else f" (default: {declared.default})"
        text = argparse.SUPPRESS if declared.hidden else declared.help + default
        options: dict[str, Any] = {"help": text, "dest": name, "default": None}
        options |= {"nargs": "?", "const": declared.bare} if declared.bare else {}
        if declared.choices and declared.sweeps:
            options["metavar"] = f"{{{','.join(declared.choices)}}}"  # each of several is checked with the others
        elif declared.choices:
            options["choices"] = declared.choices
        elif declared.kind is not bool:
            options["metavar"] = declared.metavar or _METAVARS[declared.kind]
        if declared.repeat or name in _WHOLE_TEXTS or (name == _PATH and only is None):
            options["action"] = "append"
        if declared.kind is bool:
            options["action"] = _OnceOrNot
        elif declared.sweeps and name not in _WHOLE_TEXTS:
            options["type"] = one_or_several(declared.kind)
        else:
            options["type"] = list_of(declared.kind) if declared.listed else declared.kind
        groups[title].add_argument(*declared.flags, flag(name), **options)


def list_of(kind: Any) -> Any:
    """Return the function that reads values with commas between them."""

    def read(text: str) -> tuple[Any, ...]:
        return tuple(kind(part) for part in text.split(","))

    read.__name__ = f"list of {kind.__name__}"
    return read


def one_or_several(kind: Any) -> Any:
    """Return the function that reads one value, or several with commas between them; a name may have options."""

    def read(text: str) -> Any:
        parts = split_names(text) if kind is str else text.split(",")
        values = tuple(kind(part) for part in parts)
        return values if len(values) > 1 else kind(text)

    read.__name__ = kind.__name__
    return read


def settings_of(parsed: argparse.Namespace) -> Settings:
    """Return the settings that the command line gives."""
    return settings_from(options_of(parsed), getattr(parsed, "dataset", None))


def options_of(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return the given options by name. A stop text may contain escapes, such as a backslash and an n."""
    from kshot.prompts.strings import decode_escapes

    given = {name: getattr(parsed, name, None) for name in Settings.declared()}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if "stop" in chosen:
        chosen["stop"] = tuple(decode_escapes(text) for text in chosen["stop"])
    return chosen
