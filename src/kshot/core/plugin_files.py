"""Plug-ins in files of the user: ``path/to/file.py:Name``."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

from kshot.core.errors import DataError, KshotError

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
