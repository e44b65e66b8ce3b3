"""Writing a run file from what a command line gives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.options import flag
from kshot.core.shareable import HIDDEN, without_secrets
from kshot.run_files.reading import FLAGS, FOLDER, GATES, LISTS, NAME, TEXTS, entry_of
from kshot.settings import Settings, settings_from

_VARIABLE = re.compile(r"[^=]*=env:\w+")
"""A header whose value is in the environment."""
_MOST_COLUMNS = 100
"""An array that is wider has a line for each item."""


def run_file_text(values: Mapping[str, Any], folder: str = "") -> str:
    """Return the run file that asks for the same as a command line, whose values come by the names of its parser.

    ``folder``: where the relative paths of the command start, as seen from the file.
    """
    given = {name: value for name, value in values.items() if is_given(name, value)}
    for name, value in given.items():
        _check_secrets(name, value)
    lines = ["# kshot run reads this file: kshot run FILE.toml"]
    lines += [f"{FOLDER} = {_toml(folder)}  # relative paths start here"] if folder else []
    lines += [f"{name} = {_toml(given[name])}" for name in ("out", *FLAGS) if name in given]
    lines += [f"{key} = {_toml(given[name])}" for key, name in TEXTS.items() if name in given]
    tables: list[str] = []
    for key, name in LISTS.items():
        entries = [_entry(key, text) for text in given.get(name, ())]
        if any(len(entry) > 1 for entry in entries):
            for entry in entries:
                tables += ["", f"[[{key}]]", *_pairs(entry)]
        elif entries:
            lines.append(f"{key} = {_toml([entry[NAME] for entry in entries])}")
    settings = {name: given[name] for name in Settings.declared() if name in given}
    gates = {name: given[name] for name in GATES if name in given}
    if gates.get("step_summary") == "":
        gates["step_summary"] = True
    for key, table in (("settings", settings), ("gates", gates)):
        if table:
            tables += ["", f"[{key}]", *_pairs(table)]
    return "\n".join([*lines, *tables]) + "\n"


def is_given(name: str, value: Any) -> bool:
    """Whether the command line gave a value; a flag without a ``--no-`` form is False if it is not given."""
    return not (value is None or value == [] or (value is False and name in {*FLAGS, "fail_on_failed"}))


def _entry(key: str, text: str) -> dict[str, Any]:
    """Return a name and its options; those of a dataset are settings, which the file must be able to read."""
    if key != "datasets":
        return entry_of(text)
    entry = entry_of(text, Settings.declared())
    try:
        settings_from({name: value for name, value in entry.items() if name != NAME})
    except UsageError:
        return {NAME: text}
    return entry


def _pairs(table: Mapping[str, Any]) -> Iterator[str]:
    return (f"{name} = {_toml(value)}" for name, value in table.items())


def _toml(value: Any) -> str:
    """Write a value as TOML does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    items = [_toml(each) for each in value]
    line = f"[{', '.join(items)}]"
    return line if len(line) <= _MOST_COLUMNS else "[\n" + "".join(f"  {item},\n" for item in items) + "]"


def _quoted(text: str) -> str:
    """Write a text in quotation marks; TOML has the escapes of JSON, and wants one more."""
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        what = f"{text!r:.60} is no text in UTF-8, and a run file holds nothing else"
        raise UsageError(what, hint="Rename the file, or leave --save-run-file out.") from exc
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _check_secrets(name: str, value: Any) -> None:
    """Refuse to write what may be a key: a file is shared, and a command is not."""
    texts: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value]
    for text in texts:
        if not isinstance(text, str) or HIDDEN in text or (name.endswith("header") and _VARIABLE.fullmatch(text)):
            continue
        if any(HIDDEN in part for part in without_secrets([flag(name), text])):
            raise UsageError(
                f"{flag(name)} holds what may be a key or a password, and a run file is no place for it",
                hint="Keep it in an environment variable: --api-key-env VARIABLE, or --header NAME=env:VARIABLE.",
            )
