"""Classes that users keep in files of their own: ``path/to/file.py:Name``."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from kshot.core.errors import DataError


def split_plugin(spec: str) -> tuple[Path, str] | None:
    """Take ``file.py:rest`` apart; None where the spec names no Python file."""
    found = re.match(r"(.*?\.py)(?::(.*))?$", spec, re.DOTALL)
    return (Path(found[1]).expanduser(), found[2] or "") if found else None


def load_module(path: Path) -> ModuleType:
    """Import a file as a module of its own; its folder can be imported from while it loads."""
    if not path.is_file():
        raise DataError("there is no such file", where=str(path))
    name = f"kshot_plugin_{abs(hash(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise DataError("this file cannot be imported", where=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except SyntaxError as exc:
        raise DataError(f"this is not Python: {exc.msg}", where=f"{path}:{exc.lineno}") from exc
    except (Exception, SystemExit) as exc:
        frames = [f for f in traceback.extract_tb(exc.__traceback__) if Path(f.filename).resolve() == path.resolve()]
        line = f":{frames[-1].lineno}" if frames else ""
        raise DataError(f"the file fails: {type(exc).__name__}: {exc}", where=f"{path}{line}") from exc
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def class_in(path: Path, name: str, kind: type | None) -> type:
    """Take a class from a file: the one named, or the only one of that kind."""
    module = load_module(path)
    own = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and (kind is None or issubclass(value, kind))
    }
    if name:
        if name not in own:
            raise DataError(
                f"there is no such class: {name}", where=str(path), hint=f"It has: {', '.join(own) or 'none'}."
            )
        return own[name]
    if len(own) != 1:
        raise DataError(f"it has {len(own)} classes to choose from", where=str(path), hint=f"Write {path}:NAME.")
    return next(iter(own.values()))
