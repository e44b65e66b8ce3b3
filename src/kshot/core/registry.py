"""One registry for each kind of plug-in: datasets, retrievers, models, metrics and so on.

A spec (``core/specs.py``) names a plug-in by its name (``bm25``) or by a file (``mine.py:Class``). Installed packages
add names by entry points (``kshot.retrievers`` and so on).
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from kshot.core.errors import DataError, MissingExtra, UsageError
from kshot.core.extras import require
from kshot.core.plugin_files import load_plugin_file, objects_of
from kshot.core.specs import (
    Spec,
    bind_options,
    chosen_options,
    construct,
    parse_spec,
    positional_parameter,
    read_option,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One plug-in that has a name; ``target`` is ``module:attribute`` and is imported when it is used."""

    name: str
    target: str
    text: str = ""
    usage: str = ""
    origin: str = "kshot"
    needs_argument: bool = False
    """Whether ``:ARGUMENT`` must follow its name."""
    is_factory: bool = False
    """Whether the target is a function that makes the plug-in, rather than the plug-in itself."""
    packages: tuple[str, ...] = ()
    """The packages of kshot's extras that it needs, whatever its options."""
    same_as: str = ""
    """The name of the entry that this is another name of; ``kshot list`` shows both in one line."""
    check: str = ""
    """``module:function`` that is called in its place to check a spec: it opens, loads and sends nothing."""

    @property
    def written(self) -> str:
        """How a user writes a spec of it."""
        return self.usage or self.name

    def load(self, target: str | None = None) -> Any:
        """Import the target, or another object of the same package."""
        module, _, attribute = (target or self.target).partition(":")
        try:
            found = importlib.import_module(module)
            for part in attribute.split(".") if attribute else ():
                found = getattr(found, part)
        except MissingExtra:
            raise
        except (Exception, SystemExit) as exc:  # a package may raise anything when it is imported
            if self.origin == "kshot":
                raise
            reason = f"{type(exc).__name__}: {exc}"
            raise UsageError(
                f"{self.origin} says that {self.name!r} is {self.target}, which cannot be imported ({reason})",
                hint="Update or remove the package.",
            ) from exc
        return found


class Registry:
    """The plug-ins of one kind: those that are built in, and those of installed packages.

    ``kind`` is the word of ``kshot list`` (``search-engines``), ``noun`` names one of them (``search engine``).
    ``accepts`` says whether an object of a plug-in file is of this kind. ``any_case``: ``em`` finds ``Em``. ``files``
    imports a plug-in file for the sake of one name in it. ``arguments``: how many its functions get.
    """

    def __init__(
        self,
        kind: str,
        noun: str,
        built_in: Iterable[Entry],
        *,
        accepts: Callable[[Any], bool] = lambda _: True,
        any_case: bool = False,
        arguments: int = 1,
        files: Callable[[Path, str], ModuleType] = load_plugin_file,
    ) -> None:
        """Register the built-in entries; a name that is registered twice is an error."""
        self.kind, self.noun, self._accepts, self._any_case = kind, noun, accepts, any_case
        self._load_file, self._arguments = files, arguments
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
        found = []
        for point in _entry_points().select(group=self.group):
            origin = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "a package without a name"
            try:
                target = f"{point.module}:{point.attr}"
            except AttributeError:  # its value is not MODULE:ATTRIBUTE
                target = point.value
            found.append(Entry(point.name, target, origin=origin))
        return sorted(found, key=lambda entry: (entry.name, entry.origin))

    def entries(self) -> list[Entry]:
        """Return all entries of this kind, those that are built in first."""
        return [*self._entries.values(), *self._installed]

    def find(self, name: str) -> Entry | None:
        """Return the entry of a name, if there is one; two packages that both claim the name are an error."""
        everything = [*self._entries.values(), *self._installed]
        fold = str.lower if self._any_case else str
        held = [entry for entry in everything if fold(entry.name) == fold(name)]
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

    def packages(self, spec: Spec) -> tuple[str, ...]:
        """Return the packages of kshot's extras that what a spec names needs, as far as its name tells."""
        entry = self.find(spec.name) if spec.file is None else None
        return entry.packages if entry is not None else ()

    def load(self, spec: Spec) -> tuple[Any, str]:
        """Return the object that a spec names, and the rest of its argument.

        The rest of ``file.py:Class:rest`` is ``rest``, and so is that of ``name:rest``.
        """
        if spec.file is None:
            require(spec.name, *self.packages(spec))
            return self.get(spec.name).load(), spec.argument
        name, _, rest = spec.argument.partition(":")
        everything = objects_of(self._load_file(spec.file, name))
        own = {key: value for key, value in everything.items() if self._accepts(value)}
        if name and name not in everything:
            everything = vars(self._load_file(spec.file, name))  # an instance, or what a decorator made of a function
        if name and name not in everything:
            hint = f"It has: {', '.join(own) or 'none'}."
            raise DataError(f"there is no {self.noun} {name!r} in this file", where=str(spec.file), hint=hint)
        if name:
            return everything[name], rest
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
        """Make what a spec names, or return it with its options filled in.

        A class is called with ``args``, the argument of the spec and its options; ``defaults`` are passed on if it
        takes them. A function is the plug-in itself. Whatever part of the spec is not used is an error.
        """
        return self._applied(lambda _: construct, text, args, defaults)

    def check(self, text: str, *args: Any, **defaults: Any) -> None:
        """Refuse what ``make`` would refuse, as far as that shows without making it; nothing is opened."""

        def checking(entry: Entry | None) -> Callable[..., Any]:
            def check(factory: Callable[..., Any], spec: Spec, *given: Any, **usual: Any) -> None:
                options = chosen_options(factory, spec, len(given), usual)
                if entry is not None and entry.check:
                    entry.load(entry.check)(*given, **options)

            return check

        self._applied(checking, text, args, defaults)

    def _applied(
        self,
        calling: Callable[[Entry | None], Callable[..., Any]],
        text: str,
        args: tuple[Any, ...],
        defaults: Mapping[str, Any],
    ) -> Any:
        """Call a class with the parts of a spec, as ``make`` or ``check`` does; return what is no class as it is."""
        spec = parse_spec(text)
        found, rest = self.load(spec)
        entry = None if spec.file is not None else self.get(spec.name)
        if entry is not None and entry.needs_argument and not rest:
            raise UsageError(f"there is no {self.noun} {text!r}", hint=f"Write {entry.written}.")
        if isinstance(found, type) or (entry is not None and entry.is_factory):
            given = (*args, *self._argument(found, rest, len(args), text))
            return calling(entry)(found, spec, *given, **defaults)
        if rest:
            raise UsageError(f"nothing can follow its name: {rest!r}", where=text)
        if isinstance(found, (FunctionType, BuiltinFunctionType)):
            return bind_options(found, spec, self._arguments) if spec.options else found
        if spec.options:
            raise UsageError("it takes no options: it is an object, not a class", where=text)
        return found

    @staticmethod
    def _argument(factory: Any, rest: str, position: int, text: str) -> tuple[Any, ...]:
        """Return the argument of a spec, read as the annotation of its parameter says."""
        if not rest:
            return ()
        parameter = positional_parameter(factory, position)
        if parameter is None:
            raise UsageError(f"nothing can follow its name: {rest!r}", where=text)
        return (read_option(parameter, rest, text),)

    def _twice(self, one: Entry, other: Entry) -> UsageError:
        return UsageError(
            f"two {self.kind} are called {one.name!r}: {one.target} ({one.origin}) and {other.target} ({other.origin})",
            hint="Rename one of them, or remove its package.",
        )


@cache
def _entry_points() -> Any:  # SelectableGroups before Python 3.12, EntryPoints since; both can select
    """Read the entry points of all installed packages, once for all kinds."""
    from importlib.metadata import EntryPoints, entry_points

    try:
        return entry_points()
    except (TypeError, ValueError):  # an installed package has an entry_points.txt that cannot be read
        return EntryPoints()


def first_line(found: Any) -> str:
    """Return the first line of a docstring."""
    return (inspect.getdoc(found) or "").split("\n", 1)[0]


def described(entry: Entry) -> Entry:
    """Return the entry with a text: its own, else the first line of its docstring, else why it cannot be imported."""
    if entry.text:
        return entry
    try:
        return replace(entry, text=first_line(entry.load()))
    except UsageError as exc:
        return replace(entry, text=f"cannot be used: {exc}")
