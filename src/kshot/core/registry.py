"""One registry for each kind of plug-in: datasets, retrievers, models, metrics and so on.

A spec names a plug-in by its name (``bm25``) or by a file (``mine.py:Class``). Installed packages add names by entry
points (``kshot.retrievers`` and so on). Options follow the name: ``bm25,k1=1.2,b=0.5``. A piece that contains ``=``
belongs to the name before it; other commas separate names.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from kshot.core.errors import DataError, MissingExtra, UsageError
from kshot.core.plugin_files import load_plugin_file, objects_of

T = TypeVar("T")

_FILE = re.compile(r"(.*?\.py)(?::(.*))?$", re.DOTALL)
_OPTION = re.compile(r"(.*),\s*([A-Za-z_]\w*)\s*=([^,]*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """One plug-in that has a name; ``target`` is ``module:attribute`` and is imported when it is used."""

    name: str
    target: str
    text: str = ""
    usage: str = ""
    origin: str = "kshot"

    @property
    def written(self) -> str:
        """How a user writes a spec of it."""
        return self.usage or self.name

    def load(self) -> Any:
        """Import the target."""
        module, _, attribute = self.target.partition(":")
        try:
            found = importlib.import_module(module)
            for part in attribute.split(".") if attribute else ():
                found = getattr(found, part)
        except MissingExtra:
            raise
        except (ImportError, AttributeError) as exc:
            if self.origin == "kshot":
                raise
            raise UsageError(
                f"the package {self.origin} says that {self.name!r} is {self.target}, which cannot be imported: {exc}",
                hint="Update or remove the package.",
            ) from exc
        return found


@dataclass(frozen=True, slots=True)
class Spec:
    """The parts of a spec: ``NAME[:ARGUMENT][,option=value…]`` or ``file.py[:ARGUMENT][,option=value…]``."""

    text: str
    name: str
    argument: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    file: Path | None = None

    @property
    def option_text(self) -> str:
        """The options as they are written after a name."""
        return "".join(f",{name}={value}" for name, value in self.options.items())


def parse_spec(text: str) -> Spec:
    """Split a spec into its parts. Only ``,NAME=VALUE`` at its end is an option: a path may contain other commas."""
    head, options = split_options(text)
    if found := _FILE.match(head):
        return Spec(text, "", found[2] or "", options, Path(found[1]).expanduser())
    name, _, argument = head.partition(":")
    return Spec(text, name, argument, options)


def split_options(text: str) -> tuple[str, dict[str, str]]:
    """Split the trailing ``,NAME=VALUE`` options from a text; a name that is given twice is an error."""
    given: dict[str, str] = {}
    rest = text
    while found := _OPTION.fullmatch(rest):
        rest, name, value = found.groups()
        if name in given:
            raise UsageError(f"the option {name!r} is given twice", where=text)
        given[name] = value
    return rest, dict(reversed(given.items()))


def split_names(text: str) -> list[str]:
    """Split ``a,b,x=1,c`` into ``a``, ``b,x=1`` and ``c``."""
    names: list[str] = []
    for piece in text.split(","):
        if "=" in piece and names:
            names[-1] += f",{piece}"
        elif piece.strip():
            names.append(piece.strip())
    return names


class Registry:
    """The plug-ins of one kind: those that are built in, and those of installed packages.

    ``kind`` is the word of ``kshot list`` (``search-engines``), ``noun`` names one of them (``search engine``).
    ``accepts`` says whether an object of a plug-in file is of this kind. ``any_case``: ``em`` finds ``Em``.
    """

    def __init__(
        self,
        kind: str,
        noun: str,
        built_in: Iterable[Entry],
        *,
        accepts: Callable[[Any], bool] = lambda _: True,
        any_case: bool = False,
    ) -> None:
        """Register the built-in entries; a name that is registered twice is an error."""
        self.kind, self.noun, self._accepts, self._any_case = kind, noun, accepts, any_case
        self._entries: dict[str, Entry] = {}
        for entry in built_in:
            self.add(entry)

    @property
    def group(self) -> str:
        """The entry point group of packages that add to this kind."""
        return f"kshot.{self.kind.replace('-', '_')}"

    def add(self, entry: Entry) -> None:
        """Register an entry under its name; a name that is taken is an error that names both entries."""
        if (other := self._entries.get(entry.name)) is not None:
            raise self._twice(other, entry)
        self._entries[entry.name] = entry

    @cached_property
    def _installed(self) -> list[Entry]:
        from importlib.metadata import entry_points

        found = []
        for point in entry_points(group=self.group):
            origin = f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
            found.append(Entry(point.name, point.value, origin=origin))
        return sorted(found, key=lambda entry: (entry.name, entry.origin))

    def entries(self) -> list[Entry]:
        """Return all entries of this kind, those that are built in first."""
        return [*self._entries.values(), *(self.get(entry.name) for entry in self._installed)]

    def find(self, name: str) -> Entry | None:
        """Return the entry of a name, if there is one; two packages that both claim the name are an error."""
        everything = [*self._entries.values(), *self._installed]
        held = [entry for entry in everything if entry.name == name]
        if not held and self._any_case:
            held = [entry for entry in everything if entry.name.lower() == name.lower()]
        if len(held) > 1:
            raise self._twice(*held[:2])
        return held[0] if held else None

    def get(self, name: str) -> Entry:
        """Return the entry of a name; an unknown name is an error that suggests the closest one."""
        found = self.find(name)
        if found is None:
            known = [entry.name for entry in self.entries()]
            close = difflib.get_close_matches(name, known, 1)
            meant = f"Did you mean {close[0]!r}? " if close else ""
            raise UsageError(
                f"there is no {self.noun} {name!r}",
                hint=f"{meant}See kshot list {self.kind}, or write path/to/file.py:Class.",
            )
        return found

    def load(self, spec: Spec) -> tuple[Any, str]:
        """Return the object that a spec names, and the rest of its argument.

        The rest of ``file.py:Class:rest`` is ``rest``, and so is that of ``name:rest``.
        """
        if spec.file is None:
            return self.get(spec.name).load(), spec.argument
        name, _, rest = spec.argument.partition(":")
        own = {key: value for key, value in objects_of(load_plugin_file(spec.file)).items() if self._accepts(value)}
        if name and name not in own:
            hint = f"It has: {', '.join(own) or 'none'}."
            raise DataError(f"there is no {self.noun} {name!r} in this file", where=str(spec.file), hint=hint)
        if name:
            return own[name], rest
        classes = [value for value in own.values() if isinstance(value, type)]
        chosen = classes or list(own.values())
        if len(chosen) != 1:
            raise DataError(
                f"this file has {len(chosen)} things that could be a {self.noun}",
                where=str(spec.file),
                hint=f"Write {spec.file}:NAME.",
            )
        return chosen[0], rest

    def make(self, text: str, *args: Any, **defaults: Any) -> Any:
        """Make what a spec names from its options; ``defaults`` are passed on if the factory takes them."""
        spec = parse_spec(text)
        made, rest = self.load(spec)
        return construct(made, spec, *args, *([rest] if rest else []), **defaults)

    def _twice(self, one: Entry, other: Entry) -> UsageError:
        return UsageError(
            f"two {self.kind} are called {one.name!r}: {one.target} ({one.origin}) and {other.target} ({other.origin})",
            hint="Rename one of them, or remove its package.",
        )


# ---- making objects from options ----


def construct(factory: Callable[..., T], spec: Spec, *args: Any, **defaults: Any) -> T:
    """Call a class or function with the options of a spec; its annotations say how their texts are read.

    ``defaults`` (such as ``device``) are passed on if the factory takes them; the options of the spec override them.
    """
    return factory(*args, **_chosen_options(factory, spec, len(args), defaults))


def bind_options(function: Callable[..., T], spec: Spec) -> Callable[..., T]:
    """Return a function of one argument with the options of a spec filled in."""
    return partial(function, **_chosen_options(function, spec, 1, {}))


def _chosen_options(
    factory: Callable[..., Any], spec: Spec, positional: int, defaults: Mapping[str, Any]
) -> dict[str, Any]:
    known = options_of(factory, positional=positional)
    for name in spec.options:
        if name not in known:
            hint = f"It knows: {', '.join(known)}." if known else "It has none."
            raise UsageError(f"there is no option {name!r}", where=spec.text, hint=hint)
    chosen = {name: value for name, value in defaults.items() if name in known and value is not None}
    chosen |= {name: read_option(known[name], text, spec.text) for name, text in spec.options.items()}
    missing = [name for name, each in known.items() if each.default is each.empty and name not in chosen]
    if missing:
        raise UsageError(f"it needs the option {missing[0]!r}", where=spec.text, hint=f"Write …,{missing[0]}=VALUE.")
    return chosen


_REST = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def options_of(factory: Callable[..., Any], *, positional: int = 0) -> dict[str, inspect.Parameter]:
    """Return the options that a class or function takes besides its first positional arguments.

    A class that takes ``**options`` passes them on to its parents, so the options of the parents count too.
    """
    if not isinstance(factory, type):
        own = [each for each in inspect.signature(factory).parameters.values() if each.kind not in _REST]
        return {each.name: each for each in own[positional:]}
    found: dict[str, inspect.Parameter] = {}
    for cls in factory.__mro__:
        if "__init__" not in vars(cls) or cls is object:
            continue
        parameters = list(inspect.signature(vars(cls)["__init__"]).parameters.values())[1:]
        named = [each for each in parameters if each.kind not in _REST]
        placed = [each.name for each in named if each.kind is not each.KEYWORD_ONLY][:positional]
        for each in named:
            if each.name not in placed:
                found.setdefault(each.name, each)
        if not any(each.kind is each.VAR_KEYWORD for each in parameters):
            break
    return found


def read_option(parameter: inspect.Parameter, text: str, where: str) -> Any:
    """Read the text of an option as the annotation of its parameter says, or as the type of its default.

    Several values are written with ``+`` between them: ``k=1+10`` for ``Sequence[int]``.
    """
    hint = parameter.annotation
    if hint is parameter.empty and parameter.default not in (None, parameter.empty):
        hint = type(parameter.default)
    written = hint.__name__ if isinstance(hint, type) else str(hint)
    sequence = _SEQUENCE.search(written)
    single = _words(written.replace(sequence[0], "") if sequence else written)
    if "None" in single and text.strip().lower() == "none":
        return None
    if unreadable := single & _UNREADABLE:
        raise UsageError(
            f"the option {parameter.name!r} is a {min(unreadable)}, which cannot be written as text",
            where=where,
            hint="Write a class or function of your own that sets it, and name that: file.py:NAME.",
        )
    if sequence and "str" not in single and ("+" in text or not single - {"None", ""}):
        items = _words(sequence[1] or "str")
        return tuple(_read_value(parameter.name, items, item, where) for item in text.split("+"))
    return _read_value(parameter.name, single, text, where)


def _words(annotation: str) -> set[str]:
    return {word.rpartition(".")[2] for word in re.split(r"[^\w.]+", annotation)}


def _read_value(name: str, kinds: set[str], text: str, where: str) -> Any:
    for kind, read in _READERS.items():
        if kind in kinds:
            try:
                return read(text)
            except (ValueError, KeyError):
                what = _EXPECTED[kind]
                raise UsageError(f"the option {name!r} is {text!r}; it must be {what}", where=where) from None
    return text


def finite_number(text: str) -> float:
    """Read a finite number."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_TRUTH = {"true": True, "yes": True, "1": True, "on": True, "false": False, "no": False, "0": False, "off": False}
_READERS: dict[str, Callable[[str], Any]] = {
    "bool": lambda text: _TRUTH[text.strip().lower()],
    "int": int,
    "float": finite_number,
}
_SEQUENCE = re.compile(r"(?:\w+\.)*(?:Sequence|Iterable|Collection|list|tuple|set|frozenset)\b(?:\[([^\[\]]*)\])?")
_UNREADABLE = {"Callable", "Mapping", "dict"}
_EXPECTED = {"bool": "yes or no", "int": "a whole number", "float": "a number"}


def first_line(found: Any) -> str:
    """Return the first line of a docstring."""
    return (inspect.getdoc(found) or "").split("\n", 1)[0]


def described(entry: Entry) -> Entry:
    """Return the entry; without a text of its own, it gets the first line of its docstring."""
    return entry if entry.text else replace(entry, text=first_line(entry.load()))
