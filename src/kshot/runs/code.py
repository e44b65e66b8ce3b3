"""The code of the user that a run imports: recorded by digest, and checked when the run is read again.

A run folder is data, and it may come from anybody. So nothing in a run folder is imported, and ``spec.json`` cannot
choose what is. A file that it names is used only if its content is what the run recorded and the user has used it on
this machine, under this name; or if the user names it now. Without the second condition a folder could record the
digest of any file that everybody has, such as one of Python's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from kshot.core.errors import RunError
from kshot.core.registry import before_import
from kshot.core.work_folders import cache_folder
from kshot.runs.folder import JOURNAL
from kshot.runs.spec_file import SPEC

KEY = "code"
"""Where ``spec.json`` has the digests, by the path of each file."""


class UsedCode:
    """What the user has taken from files of code on this machine: digests and names, in the user's cache folder."""

    def __init__(self) -> None:
        """Find the file; it is read when it is needed."""
        self._path = cache_folder() / "used-code.txt"

    def __contains__(self, use: tuple[str, str]) -> bool:
        """Whether a digest was used under a name."""
        return _line(*use) in self._lines

    def add(self, digest: str, name: str) -> None:
        """Remember a use. Where the folder cannot be written, the user has to name the file again later."""
        line = _line(digest, name)
        if line in self._lines:
            return
        self._lines.add(line)
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))
            finally:
                os.close(descriptor)

    @cached_property
    def _lines(self) -> set[str]:
        with suppress(OSError, ValueError):
            return set(self._path.read_text(encoding="utf-8").splitlines())
        return set()


def _line(digest: str, name: str) -> str:
    return f"{digest} {name!r}"


class ImportedCode:
    """The digest of each file of the user that is used while the block runs."""

    def __init__(self) -> None:
        """Begin with no file."""
        self.digests: dict[str, str] = {}
        self._uses: list[tuple[str, str]] = []
        self._used: UsedCode | None = None

    def watching(self) -> AbstractContextManager[None]:
        """Record the files that the block uses."""
        return before_import(self._note)

    def _note(self, path: Path, digest: str, name: str) -> None:
        self.digests[str(path)] = digest
        self._uses.append((digest, name))
        if self._used is not None:
            self._used.add(digest, name)

    def record_in(self, spec: dict[str, Any]) -> None:
        """Make the digests a part of a ``spec.json``; files that are imported later join it.

        What was used is remembered from here on: a run that has no folder, or does not begin, leaves nothing behind.
        """
        self._used = UsedCode()
        for use in self._uses:
            self._used.add(*use)
        earlier = spec.get(KEY)
        self.digests = spec[KEY] = {**(earlier if isinstance(earlier, dict) else {}), **self.digests}


class RecordedCode:
    """What a run that is read again may import."""

    def __init__(self, spec: Mapping[str, Any], named: Iterable[Path] = ()) -> None:
        """Take the ``spec.json`` of the run, and the files that the user has named."""
        recorded = spec.get(KEY)
        self._recorded: Mapping[str, Any] = recorded if isinstance(recorded, dict) else {}
        self._named = {path.expanduser().resolve() for path in named}
        self._named_digests: dict[str, str] = {}
        self._used = UsedCode()

    def guarding(self) -> AbstractContextManager[None]:
        """Refuse every other file while the block runs."""
        return before_import(self._check)

    def _check(self, path: Path, digest: str, name: str) -> None:
        _check_place(path)
        if path.resolve() in self._named:
            self._named_digests[str(path)] = digest
            self._used.add(digest, name)
            return
        recorded = self._recorded.get(str(path))
        if recorded is None:
            why = "the run recorded no digest of it"
        elif recorded != digest:
            why = "it has changed since the run"
        elif (digest, name) not in self._used:
            why = f"you have not used {name or 'it'} on this machine before" + (" in this file" if name else "")
        else:
            return
        raise RunError(
            f"kshot does not run this file: {why}",
            where=str(path),
            hint=f"If you trust it: --trust {path}."
            if path.is_dir()
            else f"If you trust it, name it: -d {path}:CLASS if it has the dataset, else --trust {path}.",
        )

    def record_named_in(self, spec: dict[str, Any]) -> None:
        """Record the files that the user named, as they are now, so that they need not be named once more."""
        if self._named_digests:
            spec[KEY] = {**self._recorded, **self._named_digests}


def _check_place(path: Path) -> None:
    """Refuse a file in a run folder, be it this one or another: it is data."""
    if any((folder / SPEC).exists() and (folder / JOURNAL).exists() for folder in path.resolve().parents):
        raise RunError(
            "this file lies in a run folder, and kshot runs no code from there",
            where=str(path),
            hint="Look at the file; if you trust it, copy it to another folder and name it there.",
        )
