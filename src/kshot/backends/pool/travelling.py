"""What goes to the workers with a model: the files of plug-ins, and objects that were made in Python."""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError, UsageError
from kshot.core.protocols import Model
from kshot.core.registry import load_plugin_file, module_name
from kshot.core.specs import option_text, parse_spec, split_options
from kshot.core.work_folders import cache_folder

_MAX_BYTES = 16 << 20
"""Plug-ins are text: more than this beside one is not sent."""
_FILE_OPTIONS = {"chat_template": "", "device_map": ".json"}
"""The options of language models that may name a file, and how its name ends; a device map may be a word, too."""


@dataclass(frozen=True, slots=True)
class TravellingFiles:
    """Files by their names: a worker on another machine gets copies, one on this machine uses the same files.

    A plug-in comes with the Python files beside it, which it may import.
    """

    contents: Mapping[str, bytes] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    """The path of each file that a spec or an option names → its name among the contents."""

    @classmethod
    def of(cls, spec: str, options: Mapping[str, Any]) -> TravellingFiles:
        """Read the files that a spec and its options name."""
        found = parse_spec(spec)
        chosen = (_file(name, found.options.get(name) or options.get(name)) for name in _FILE_OPTIONS)
        given = [file for file in (found.file, *chosen) if file is not None]
        named = {str(file): file.name for file in given if file.is_file()}
        beside = [] if found.file is None else sorted(found.file.resolve().parent.glob("*.py"))
        contents = {file.name: file.read_bytes() for file in (*beside, *given) if file.is_file()}
        if sum(map(len, contents.values())) > _MAX_BYTES:
            what = f"the Python files beside it have more than {_MAX_BYTES >> 20} MB"
            raise DataError(what, where=str(found.file), hint="Put it into a folder of its own.")
        return cls(contents, named)

    def placed(self, spec: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the spec and the options with paths that exist on this machine; the files are written if need be."""
        head, given = split_options(spec)
        found, changed = parse_spec(head), dict(options)
        if found.file is not None:
            argument = f":{found.argument}" if found.argument else ""
            head = f"{self._place(found.file)}{argument}"
        for chosen in (given, changed):
            for name in _FILE_OPTIONS:
                if (file := _file(name, chosen.get(name))) is not None:
                    chosen[name] = str(self._place(file))
        return head + option_text(given), changed

    def _place(self, path: Path) -> Path:
        """Return a path with the content that the file had where it came from."""
        own = self.named.get(str(path))
        content = None if own is None else self.contents[own]
        if content is None or (path.is_file() and path.read_bytes() == content):
            return path
        digest = hashlib.blake2b(repr(sorted(self.contents.items())).encode(), digest_size=12).hexdigest()
        folder = cache_folder() / "plugins" / digest  # not a temporary folder, in which others could put code
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, body in self.contents.items():
                _write_whole(folder / name, body)
        except OSError as exc:
            raise DataError(f"the cache cannot be written: {exc}", where=str(folder), hint="Set KSHOT_CACHE.") from exc
        return folder / path.name


def _file(option: str, value: Any) -> Path | None:
    """Return the file that the value of an option names, if it is one."""
    named = isinstance(value, (str, Path)) and str(value) and str(value).endswith(_FILE_OPTIONS[option])
    return Path(value) if named else None


def _write_whole(file: Path, body: bytes) -> None:
    """Write a file so that other workers of the machine, which write the same, never see a part of it."""
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as draft:
        draft.write(body)
    Path(draft.name).replace(file)


@dataclass(frozen=True, slots=True)
class PackedObject:
    """A pickled object, and the plug-in files whose classes and functions it refers to."""

    body: bytes
    plugins: Mapping[str, str]
    """Module name → file."""

    @classmethod
    def of(cls, model: Model) -> PackedObject:
        """Pickle a model; one that cannot be found again in another process is refused."""
        buffer = io.BytesIO()
        pickler = _NotingPickler(buffer)
        try:
            pickler.dump(model)
        except Exception as exc:
            if isinstance(exc, UsageError):
                raise
            what = f"it cannot be sent to worker processes ({type(exc).__name__}: {exc})"
            raise UsageError(what, where=model.name, hint=_HINT) from exc
        return cls(buffer.getvalue(), pickler.plugins)

    def unpacked(self) -> Any:
        """Make the object again."""
        for name, file in self.plugins.items():
            if module_name(Path(file)) == name:
                load_plugin_file(Path(file))
        return pickle.loads(self.body)  # noqa: S301 - from the process that started this one


_HINT = "Put it into a file, and name it by its place: file.py:NAME."


class _NotingPickler(pickle.Pickler):
    """Notes the plug-in files that an object refers to, and refuses what only the main script has."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.plugins: dict[str, str] = {}

    def reducer_override(self, value: Any) -> Any:
        module = getattr(value, "__module__", None) if callable(value) else None
        if module == "__main__":
            what = f"{getattr(value, '__qualname__', value)!r} is part of the main script, which workers do not run"
            raise UsageError(what, hint=_HINT)
        file = getattr(sys.modules.get(module or ""), "__file__", None)
        if module and file and module_name(Path(file)) == module:
            self.plugins[module] = str(file)
        return NotImplemented
