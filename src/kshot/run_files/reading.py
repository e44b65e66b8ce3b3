"""Reading a run file: what it asks for by the names of the command line, and where each thing stands in it.

``tomllib`` reads the values and says nothing of their places, so the keys are looked for in the text once more.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from kshot.core.errors import DataError, KshotError, OriginKind, UsageError
from kshot.core.options import OptionField
from kshot.core.specs import finite_number, join_values, option_text, split_options, split_values
from kshot.core.text_files import read_at_most
from kshot.runs.gates import Gates
from kshot.settings import Settings, settings_from

NAME = "name"
_WORDS = {True: "yes", False: "no"}


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
    if declared is not None and declared.whole_text and isinstance(value, list):
        raise UsageError(f"{name} has one value for one dataset", hint="Several are for all: below [settings].")
    if declared is not None and declared.several:
        return join_values(found)
    if _sweeps(declared) and any("+" in text for text in found):
        raise UsageError(f"{name} has a plus, which separates values there", hint="Set it for all: below [settings].")
    return join_values(found) if isinstance(value, list) else found[0]


def _sweeps(declared: OptionField | None) -> bool:
    """Whether several values of an option after the name of a dataset are a sweep."""
    return declared is not None and declared.sweeps and not declared.whole_text


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
        options = {key: _value(value, known[key]) for key, value in given.items()}
        texts = {key: value_text(key, value, known[key]) for key, value in options.items()}
    except (KshotError, KeyError, ValueError):
        return {NAME: text}
    same = NAME not in options and name + option_text(texts) == text
    return {NAME: name, **options} if same else {NAME: text}


def _value(text: str, declared: OptionField | None) -> Any:
    """Return the value that an option of a name has; ``ValueError`` or ``KeyError`` if it cannot be read."""
    if declared is None:
        return int(text) if text.isascii() and text.isdigit() and str(int(text)) == text else text
    if not declared.several and not _sweeps(declared):
        return _READERS[declared.kind](text)
    values: Sequence[Any] = [_READERS[declared.kind](part) for part in split_values(text)]
    return values[0] if len(values) == 1 else list(values)


_READERS: Mapping[type, Any] = {
    str: str,
    int: int,
    float: lambda text: int(text) if text.isdigit() else finite_number(text),
    bool: {word: truth for truth, word in _WORDS.items()}.__getitem__,
}


KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys that lead to a value, from the outermost; a number is the position in an array."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BETWEEN = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
"""What stands between the items of an array or an inline table."""
_BASIC, _LITERAL = r'"(?:[^"\\]|\\.)*"', r"'[^']*'"
_LONG_BASIC, _LONG_LITERAL = r'"""(?s:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', r"'''(?:[^']|'{1,2}(?!'))*'{3,5}"
_KEY = re.compile(rf"{_BASIC}|{_LITERAL}|[A-Za-z0-9_-]+")
_PLAIN_VALUE = re.compile(rf"{_LONG_BASIC}|{_LONG_LITERAL}|{_BASIC}|{_LITERAL}|[^,\]}}#\n]*")
_MAX_PARTS = 100
"""The parts of a dotted key whose places are kept: no run file needs as many."""


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
            start = self._skip(_SPACE)
            key = self._text[start : self._skip(_KEY)]
            if len(keys) < _MAX_PARTS:
                keys.append(_read_key(key))
            if not self._text.startswith(".", self._skip(_SPACE)):
                return keys
            self._at += 1

    def _value(self, path: KeyPath) -> None:
        if self._text.startswith("[", self._at):
            for number in self._items("]"):
                item = (*path, number)
                self.found[item] = self._here()
                self._value(item)
        elif self._text.startswith("{", self._at):
            for _ in self._items("}"):
                self._pair(path)
        else:
            self._skip(_PLAIN_VALUE)

    def _items(self, end: str) -> Iterator[int]:
        """Yield the number of each item of an array or a table, where it begins; it is read meanwhile."""
        self._at += 1
        number = 0
        while self._text[self._skip(_BETWEEN)] != end:
            yield number
            number += 1
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


SUFFIX = ".toml"
MAX_BYTES = 4 << 20
LISTS = {"models": "model", "datasets": "dataset", "log": "log"}
"""Keys whose items are names, or tables of a name and its options; and what the command line calls them."""
TEXTS = {"configs": "config", "reuse": "reuse"}
FLAGS = ("json",)
FOLDER = "folder"
GATES = ("fail_under", "fail_if_worse", "fail_on_failed", "junit", "step_summary")
_KEYS = (FOLDER, "out", *LISTS, *TEXTS, *FLAGS, "settings", "gates")
_KINDS: Mapping[str, OriginKind] = {"models": "model", "datasets": "dataset", "log": "log"}
_FREE_OPTIONS = "lmeval:"
"""Datasets whose options are not settings alone: the front end reads them."""
_OPTION_NAME = re.compile(r"[A-Za-z_]\w*")
_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")


@dataclass(frozen=True, slots=True)
class RunFile:
    """What a run file asks for.

    ``values`` are by the names that the command line's parser uses. ``folder``: where relative paths start.
    """

    path: Path
    folder: Path
    values: Mapping[str, Any]
    origins: Mapping[tuple[OriginKind, str], str]


def read_run_file(path: Path) -> RunFile:
    """Read a run file; whatever is wrong in it is an error that names the line."""
    try:
        text = read_at_most(path, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = exc.object.count(b"\n", 0, exc.start) + 1
        raise DataError("this is not UTF-8", where=f"{path}:{line}", hint="Save the file as UTF-8.") from exc
    except OSError as exc:
        raise UsageError(f"it cannot be read: {exc.strerror or exc}", where=str(path)) from exc
    try:
        body = loads(text)
    except ValueError as exc:
        found = _PLACE.search(str(exc))
        line = int(found[1]) if found else text.count("\n") + 1
        what = f"this is not TOML: {_PLACE.sub('', str(exc))}" + (f" (column {found[2]})" if found else "")
        raise DataError(what, where=f"{path}:{line}") from exc
    except RecursionError as exc:
        raise DataError("its values are nested too deeply", where=str(path)) from exc
    return _Reader(path, body, positions(text)).read()


class _Reader:
    """Reads the values of one file."""

    def __init__(self, path: Path, body: Mapping[str, Any], places: Mapping[KeyPath, Position]) -> None:
        self._path, self._body, self._places = path, body, places
        self._values: dict[str, Any] = {}
        self._origins: dict[tuple[OriginKind, str], str] = {("file", ""): str(path)}

    def read(self) -> RunFile:
        self._check_keys(self._body, (), _KEYS, "a run file")
        folder = self._path.parent / (self._text((FOLDER,)) if FOLDER in self._body else "")
        if not folder.is_dir():
            raise self._error((FOLDER,), f"there is no folder {folder}")
        if "out" in self._body:
            self._values["out"] = self._text(("out",))
        for key in FLAGS:
            if key in self._body:
                self._values[key] = self._flag((key,))
        for key, name in TEXTS.items():
            if key in self._body:
                self._values[name] = self._texts((key,))
        for key, name in LISTS.items():
            if key in self._body:
                self._values[name] = [*self._named(key)]
        self._read_settings()
        self._read_gates()
        return RunFile(self._path, folder, self._values, self._origins)

    # ---- parts ----

    def _named(self, key: str) -> Iterator[str]:
        """Yield the names of a list, with their options."""
        items = self._body[key]
        if not isinstance(items, list):
            yield self._entry(key, items, (key,))
            return
        if not items:
            raise self._error((key,), f"{key} is empty", "Name at least one, or leave it out.")
        for number, item in enumerate(items):
            yield self._entry(key, item, (key, number))

    def _entry(self, key: str, item: Any, path: KeyPath) -> str:
        if isinstance(item, str):
            text = item
        elif isinstance(item, dict):
            text = self._with_options(key, item, path)
        else:
            raise self._error(path, f"{item!r:.60} is no name", 'Write "NAME", or { name = "NAME", … }.')
        if not text.strip():
            raise self._error(path, f"a name in {key} is empty")
        self._origins.setdefault((_KINDS[key], text), self._where(path))
        return text

    def _with_options(self, key: str, item: Mapping[str, Any], path: KeyPath) -> str:
        if NAME not in item:
            raise self._error(path, f"an entry of {key} has no name", 'Add name = "…".')
        name = self._text((*path, NAME))
        options = {option: value for option, value in item.items() if option != NAME}
        known = Settings.declared() if key == "datasets" and not name.startswith(_FREE_OPTIONS) else {}
        if known:
            self._check_keys(options, path, known, "a dataset")
        texts: dict[str, str] = {}
        for option, value in options.items():
            with self._locating((*path, option)):
                if not _OPTION_NAME.fullmatch(option):
                    raise UsageError(f"{option!r} is no name of an option")
                if option in split_options(name)[1]:
                    raise UsageError(f"the option {option!r} is given in the name and here", hint="Write it once.")
                if known:
                    settings_from({option: value})
                texts[option] = value_text(option, value, known.get(option))
        return name + option_text(texts)

    def _read_settings(self) -> None:
        declared = Settings.declared()
        given = self._table("settings")
        self._check_keys(given, ("settings",), declared, "[settings]")
        for name, value in given.items():
            with self._locating(("settings", name)):
                settings_from({name: value})
            self._values[name] = _as_given(value, declared[name])
            self._origins["setting", name] = self._where(("settings", name))

    def _read_gates(self) -> None:
        gates = self._table("gates")
        self._check_keys(gates, ("gates",), GATES, "[gates]")
        for name, value in gates.items():
            path = ("gates", name)
            self._origins["gate", name] = self._where(path)
            if name == "fail_on_failed":
                self._values[name] = self._flag(path)
            elif name == "fail_under":
                self._values[name] = self._thresholds(path, value)
            elif name == "fail_if_worse":
                self._values[name] = self._texts(path)
            elif name == "step_summary" and isinstance(value, bool):
                self._values[name] = "" if value else None
            else:
                self._values[name] = self._text(path)

    def _thresholds(self, path: KeyPath, value: Any) -> list[str]:
        """Return thresholds as the command line writes them; the file may have a table of metrics and numbers."""
        if not isinstance(value, (dict, list, str)):
            hint = 'Write fail_under = { Accuracy = 40 }, or ["Accuracy=40"].'
            raise self._error(path, f"fail_under is {value!r:.60}, which names no figure", hint)
        texts = self._texts(path) if not isinstance(value, dict) else []
        found = {(*path, number) if isinstance(value, list) else path: text for number, text in enumerate(texts)}
        for metric, least in value.items() if isinstance(value, dict) else ():
            if isinstance(least, bool) or not isinstance(least, (int, float)):
                raise self._error((*path, metric), f"{metric} is {least!r:.60}; it must be a number")
            found |= {(*path, metric): f"{metric}={least!r}"}
        for place, text in found.items():
            with self._locating(place):
                Gates.of([text])
        return [*found.values()]

    # ---- values ----

    def _at(self, path: KeyPath) -> Any:
        value: Any = self._body
        for key in path:
            value = value[key]
        return value

    def _table(self, key: str) -> Mapping[str, Any]:
        value = self._body.get(key, {})
        if not isinstance(value, dict):
            raise self._error((key,), f"{key} is no table", f"Write its keys below a line [{key}].")
        return value

    def _text(self, path: KeyPath) -> str:
        return str(self._checked(path, lambda value: isinstance(value, str), "a text in quotation marks"))

    def _flag(self, path: KeyPath) -> bool:
        return bool(self._checked(path, lambda value: isinstance(value, bool), "true or false"))

    def _texts(self, path: KeyPath) -> list[str]:
        value = self._at(path)
        if isinstance(value, list):
            return [self._text((*path, number)) for number in range(len(value))]
        return [self._text(path)]

    def _checked(self, path: KeyPath, right: Callable[[Any], bool], wanted: str) -> Any:
        value = self._at(path)
        if not right(value):
            name = next(key for key in reversed(path) if isinstance(key, str))
            raise self._error(path, f"{name} is {value!r:.60}; it must be {wanted}")
        return value

    # ---- errors ----

    def _check_keys(self, table: Mapping[str, Any], path: KeyPath, known: Collection[str], what: str) -> None:
        """Refuse a key that means nothing here, and say which one may be meant."""
        for key in table:
            if key not in known:
                raise self._error((*path, key), f"{what} has no key {key!r}", _advice(key, known, top=not path))

    def _where(self, path: KeyPath) -> str:
        return f"{self._path}:{nearest(self._places, path).line}"

    def _error(self, path: KeyPath, what: str, hint: str = "") -> UsageError:
        return UsageError(what, where=self._where(path), hint=hint)

    @contextmanager
    def _locating(self, path: KeyPath) -> Iterator[None]:
        try:
            yield
        except KshotError as exc:
            exc.where = f"{self._where(path)}: {exc.where}" if exc.where else self._where(path)
            raise


def _advice(key: str, known: Collection[str], *, top: bool) -> str:
    """Say which key may be meant, or where it belongs."""
    name = key.replace("-", "_")
    declared = Settings.declared()
    if top and (name in declared or name in GATES):
        return f"It belongs below a line [{'settings' if name in declared else 'gates'}]."
    short = {each.lstrip("-"): long for long, field in declared.items() for each in field.flags}
    close = [short[key]] if short.get(key) in known else difflib.get_close_matches(name, list(known), 1)
    if close:
        return f"Do you mean {close[0]}?"
    several = "It may be an option of kshot run: kshot run --help lists them." if len(known) > len(_KEYS) else ""
    return several or f"There are: {', '.join(known)}."


def _as_given(value: Any, declared: OptionField) -> Any:
    """Return a setting as the command line's parser would give it."""
    if isinstance(value, list):
        return tuple(value)
    return (value,) if declared.several else value
