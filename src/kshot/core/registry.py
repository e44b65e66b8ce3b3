"""Plug-ins: one registry for each kind (datasets, retrievers, models, metrics …), and files of the user.

A spec (``core/specs.py``) names a plug-in by its name (``bm25``) or by a file (``mine.py:Class``). Installed packages
add names by entry points (``kshot.retrievers`` and so on).
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeAlias

from kshot.core.errors import DataError, KshotError, MissingExtra, UsageError
from kshot.core.extras import require
from kshot.core.specs import (
    Spec,
    bind_options,
    chosen_options,
    construct,
    parse_spec,
    positional_parameter,
    read_option,
)

# ---- plug-ins in files of the user: path/to/file.py:Name ----

_LOCK = threading.RLock()
_LOADED: dict[str, str] = {}
"""The digest of each file that was imported, by module name."""
_LOADING: set[str] = set()
"""The modules whose files are being imported at the moment."""
ImportHook: TypeAlias = Callable[[Path, str, str], None]
_HOOKS: list[ImportHook] = []


@contextmanager
def before_import(hook: ImportHook) -> Iterator[None]:
    """Call ``hook(path, digest, name)`` before each use of a file of code; an error of the hook refuses it.

    ``name`` is what is taken from the file; "" is the only plug-in in it, or a config file. The hook holds for all
    threads: what one of them must not import, no other may import for it.
    """
    _HOOKS.append(hook)
    try:
        yield
    finally:
        _HOOKS.remove(hook)


def module_name(path: Path) -> str:
    """Return the name under which a file is imported: the same in every process, so that its classes can be pickled."""
    place = str(path.resolve()).encode("utf-8", "surrogateescape")
    stem = re.sub(r"\W", "_", path.resolve().stem)
    return f"kshot_plugin_{stem}_{hashlib.blake2b(place, digest_size=6).hexdigest()}"


def load_plugin_file(path: Path, name: str = "", prepare: Callable[[ModuleType], object] | None = None) -> ModuleType:
    """Import a file as a module of its own, once in a process; a file that was edited since is imported again.

    ``name`` is what the caller takes from it. ``prepare`` is called with the empty module before its code runs.
    The folder of the file goes to the end of ``sys.path``: the file can import its neighbours, and they never hide
    other modules.
    """
    with _LOCK:
        content, digest = _checked_content(path, name)
        return _loaded(path, content, digest, prepare)


def check_config_file(path: Path) -> None:
    """Do before a config file is read what is done before an import: it decides what is read and asked."""
    if os.path.isfile(path):  # noqa: PTH113 - pathlib raises for names that are too long
        _checked_content(path, "")


def check_code(folder: Path, digest: str, name: str) -> None:
    """Do before code of a folder runs, in a confined process or not, what is done before an import."""
    for hook in tuple(_HOOKS):
        hook(folder, digest, name)


def _checked_content(path: Path, name: str) -> tuple[bytes, str]:
    """Return the bytes of a file and their digest; a hook may refuse them."""
    if not os.path.isfile(path):  # noqa: PTH113 - as above
        hint = "Name the file where it is now; a run that is scored again needs its files where they were."
        raise DataError("there is no such file", where=str(path), hint=hint)
    try:
        content = path.read_bytes()
    except OSError as exc:
        raise DataError(f"the file cannot be read: {exc.strerror or exc}", where=str(path)) from exc
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    for hook in tuple(_HOOKS):
        hook(path, digest, name)
    return content, digest


def forget_plugin_file(path: Path) -> None:
    """Have a file imported anew at its next use: something that it imports has changed."""
    with _LOCK:
        _LOADED.pop(module_name(path), None)


def _loaded(
    path: Path, content: bytes, digest: str, prepare: Callable[[ModuleType], object] | None = None
) -> ModuleType:
    name = module_name(path)
    if name in sys.modules and _LOADED.get(name) == digest:
        return sys.modules[name]
    if name in _LOADING:
        hint = "Take the import out, or move what both files need to a third one."
        raise DataError("the file imports itself, directly or through another file", where=str(path), hint=hint)
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise DataError("this file cannot be imported", where=str(path))
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    sys.modules[name] = module
    if prepare is not None:
        prepare(module)
    _LOADING.add(name)
    try:
        # The bytes that have this digest, and neither the file once more nor a compiled copy that lies beside it.
        exec(compile(content, str(path.resolve()), "exec", dont_inherit=True), vars(module))  # noqa: S102 - a plug-in
    except KeyboardInterrupt:
        del sys.modules[name]
        raise
    except BaseException as exc:
        del sys.modules[name]
        if isinstance(exc, KshotError) and exc.where:  # it says already which file is at fault
            raise
        raise _fault(path, exc) from exc
    finally:
        _LOADING.discard(name)
    _LOADED[name] = digest
    return module


def _fault(path: Path, exc: BaseException) -> DataError:
    """Return the error that names the file and the line."""
    if isinstance(exc, SyntaxError):
        return DataError(f"this is not Python: {exc.msg}", where=f"{path}:{exc.lineno}" if exc.lineno else str(path))
    frames = [f for f in traceback.extract_tb(exc.__traceback__) if Path(f.filename).resolve() == path.resolve()]
    line = f":{frames[-1].lineno}" if frames else ""
    return DataError(f"the file cannot be imported: {type(exc).__name__}: {exc}", where=f"{path}{line}")


def objects_of(module: ModuleType) -> dict[str, Any]:
    """Return the classes and functions that a module itself defines, by name."""
    return {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, (type, FunctionType)) and value.__module__ == module.__name__
    }


# ---- plug-ins with a name ----


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
        found, spec, given, _ = self._resolved(text, args)
        return found if given is None else construct(found, spec, *given, **defaults)

    def check(self, text: str, *args: Any, **defaults: Any) -> None:
        """Refuse what ``make`` would refuse, as far as that shows without making it; nothing is opened."""
        found, spec, given, entry = self._resolved(text, args)
        if given is not None:
            options = chosen_options(found, spec, len(given), defaults)
            if entry is not None and entry.check:
                entry.load(entry.check)(*given, **options)

    def _resolved(self, text: str, args: tuple[Any, ...]) -> tuple[Any, Spec, tuple[Any, ...] | None, Entry | None]:
        """Return what a spec names, its parts, the arguments to make it with, and its entry.

        The arguments are None for what need not be made: it comes with its options filled in.
        """
        spec = parse_spec(text)
        found, rest = self.load(spec)
        entry = None if spec.file is not None else self.get(spec.name)
        if entry is not None and entry.needs_argument and not rest:
            raise UsageError(f"there is no {self.noun} {text!r}", hint=f"Write {entry.written}.")
        if isinstance(found, type) or (entry is not None and entry.is_factory):
            return found, spec, (*args, *self._argument(found, rest, len(args), text)), entry
        if rest:
            raise UsageError(f"nothing can follow its name: {rest!r}", where=text)
        if isinstance(found, (FunctionType, BuiltinFunctionType)):
            return bind_options(found, spec, self._arguments) if spec.options else found, spec, None, entry
        if spec.options:
            raise UsageError("it takes no options: it is an object, not a class", where=text)
        return found, spec, None, entry

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
