"""Config files: ``load`` runs one under confinement and gives its datasets and models; ``entry`` takes a dict."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kshot.configs._codec import Codec
from kshot.configs.confine import CALL_SECONDS, LAYERS, LOAD_SECONDS, MEMORY_MB, Confined
from kshot.configs.entry import Entry
from kshot.configs.names import Name, Opaque, Own, from_home
from kshot.core.errors import DataError

_TREES = ("configs", "ais_bench", "opencompass")
_PARTS = ("reader_cfg", "infer_cfg", "eval_cfg")
_MOST_FILES = 2000
_MOST_BYTES = 4 << 20


class Config:
    """A config file that was run: ``datasets`` by variable, ``models``, and all its other ``variables``."""

    def __init__(self, path: Path, found: Mapping[str, Any], confined: Confined) -> None:
        """Sort what the file defined."""
        self.path, self._confined = path, confined
        self.variables: dict[str, Any] = dict(found["variables"])
        self.files = [Path(file) for file in found["files"]]
        self.homes: list[str] = list(found["homes"])
        self.strict = not self.homes
        self.registered: dict[str, Any] = dict(found["registered"])
        self.datasets: dict[str, list[Entry]] = {
            name: [self._entry(each) for each in value]
            for name, value in self.variables.items()
            if name.endswith("datasets") and _holds_dicts(value)
        }
        self.models: list[dict[str, Any]] = self._dicts("models")
        self.judge_models: list[dict[str, Any]] = self._dicts("judge_models")

    @property
    def chosen(self) -> list[Entry]:
        """The entries to run: those of ``datasets``, or of all ``…_datasets``, each once.

        A file that only has a ``reader_cfg`` and an ``infer_cfg`` is one entry, called as the file is.
        """
        if "datasets" in self.datasets:
            return self.datasets["datasets"]
        if not self.datasets and {"reader_cfg", "infer_cfg"} <= set(self.variables):
            parts = {name: self.variables[name] for name in _PARTS if name in self.variables}
            return [self._entry({"abbr": self.path.stem, **parts})]
        seen: dict[str, Entry] = {}
        for entries in self.datasets.values():
            for each in entries:
                seen.setdefault(repr(each.body), each)
        return list(seen.values())

    def close(self) -> None:
        """End the config's process."""
        self._confined.close()

    @property
    def _home(self) -> str:
        return "ais_bench" if "ais_bench" in self.homes else "".join(self.homes)

    def _dicts(self, name: str) -> list[dict[str, Any]]:
        value = self.variables.get(name, [])
        return [each for each in value if isinstance(each, dict)] if isinstance(value, (list, tuple)) else []

    def _entry(self, body: dict[str, Any]) -> Entry:
        return Entry(body, strict=self.strict, where=str(self.path), registered=self.registered, home=self._home)


def _holds_dicts(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, dict) for each in value)


def load(
    path: str | Path,
    config_root: str | Path | None = None,
    *,
    load_seconds: float = LOAD_SECONDS,
    call_seconds: float = CALL_SECONDS,
    memory_mb: int = MEMORY_MB,
    layers: tuple[str, ...] = LAYERS,
) -> Config:
    """Run a config file without giving it the run of the machine.

    ``config_root``: the folder that holds the packages of absolute ``read_base`` imports, where none above does.
    """
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise DataError("there is no such file", where=str(path))
    root = None if config_root is None else Path(config_root).expanduser().resolve()
    if root is not None and not root.is_dir():
        raise DataError("there is no such folder", where=str(config_root))
    above = [*file.parents, *([root] if root else [])]
    codec = Codec(name=Name, opaque=Opaque)
    confined = Confined(
        file,
        above=above,
        roots=list(_readable(file, above, root)),
        codec=codec,
        load_seconds=load_seconds,
        call_seconds=call_seconds,
        memory_mb=memory_mb,
        layers=layers,
    )
    codec.make_own = partial(Own, confined)
    try:
        config = Config(file, confined.load(), confined)
    except (KeyError, TypeError, ValueError) as exc:
        confined.close()
        raise DataError("the config's process gave an answer that cannot be read", where=str(file)) from exc
    except BaseException:
        confined.close()
        raise
    if not codec.saw_own:
        confined.close()
    return config


def entry(body: Mapping[str, Any], *, strict: bool | None = None) -> Entry:
    """Make an entry from a dict. ``strict`` unless it names something of AISBench or OpenCompass."""
    plain = dict(body)
    return Entry(plain, strict=not from_home(plain) if strict is None else strict, where="entry")


# ---- what a config may read ----


def _readable(file: Path, above: list[Path], root: Path | None) -> Iterator[Path]:
    """The config's tree: a folder named as one above it, or the folders of all files it imports. Nothing hidden."""
    trees = [folder for folder in file.parents if folder.name in _TREES]
    folders = {trees[-1]} if trees else _reached(file, above)
    folders |= {folder / home for folder in above for home in _TREES[1:] if (folder / home).is_dir()}
    folders |= {file.parent, *([root] if root else [])}
    for folder in folders:
        inside = list(folder.iterdir())
        if any(each.name.startswith(".") for each in inside) and folder.parent != folder:
            yield from (each for each in inside if not each.name.startswith("."))
        else:
            yield folder


def _reached(file: Path, above: list[Path]) -> set[Path]:
    waiting, seen = [file], {file}
    while waiting and len(seen) < _MOST_FILES:
        here = waiting.pop()
        for target in _imports(here, above):
            if target.is_file() and target not in seen:
                seen.add(target)
                waiting.append(target)
    return {each.parent for each in seen}


def _imports(file: Path, above: list[Path]) -> Iterator[Path]:
    """The files that a config may import, read off its text without running it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd backslashes, which are the file's own matter
            tree = ast.parse(file.read_text(encoding="utf-8-sig") if file.stat().st_size < _MOST_BYTES else "")
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):
        return  # the confined process will say what is wrong
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        parts = (node.module or "").split(".") if node.module else []
        bases = (
            [file.parents[node.level - 1]] if 0 < node.level <= len(file.parents) else above if not node.level else []
        )
        for base in bases:
            yield base.joinpath(*parts[:-1], f"{parts[-1]}.py") if parts else base / "__init__.py"
            yield base.joinpath(*parts, "__init__.py")
            yield from (base.joinpath(*parts, f"{alias.name}.py") for alias in node.names if node.level)
