"""The code of the user that a run imports: recorded by digest, and checked when the run is read again.

A run folder is data, and it may come from anybody. So nothing in it is imported, and ``spec.json`` cannot choose what
is: a file that it names is imported only if its content is what the run recorded, or if the user names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from kshot.core.errors import RunError
from kshot.core.plugin_files import before_import

KEY = "code"
"""Where ``spec.json`` has the digests, by the path of each file."""


class ImportedCode:
    """The digest of each file of the user that is imported while the block runs."""

    def __init__(self) -> None:
        """Begin with no file."""
        self.digests: dict[str, str] = {}

    def watching(self) -> AbstractContextManager[None]:
        """Record the files that the block imports."""
        return before_import(self._note)

    def _note(self, path: Path, digest: str) -> None:
        self.digests[str(path)] = digest

    def record_in(self, spec: dict[str, Any]) -> None:
        """Make the digests a part of a ``spec.json``; files that are imported later join it."""
        earlier = spec.get(KEY)
        self.digests = spec[KEY] = {**(earlier if isinstance(earlier, dict) else {}), **self.digests}


class RecordedCode:
    """What a run that is read again may import."""

    def __init__(self, folder: Path, spec: Mapping[str, Any], named: Iterable[Path] = ()) -> None:
        """Take the run folder, its ``spec.json``, and the files that the user has named."""
        recorded = spec.get(KEY)
        self._folder = folder
        self._recorded: Mapping[str, Any] = recorded if isinstance(recorded, dict) else {}
        self._named = {path.expanduser().resolve() for path in named}
        self._named_digests: dict[str, str] = {}

    def guarding(self) -> AbstractContextManager[None]:
        """Refuse every other file while the block runs."""
        return before_import(self._check)

    def check_place(self, path: Path) -> None:
        """Refuse a file in the run folder: it is data."""
        place = path.resolve()
        if place.is_relative_to(self._folder.resolve()):
            raise RunError(
                "this file lies in the run folder, and kshot runs no code from there",
                where=str(path),
                hint="Look at the file; if you trust it, copy it to another folder and name it there with -d.",
            )

    def _check(self, path: Path, digest: str) -> None:
        self.check_place(path)
        recorded = self._recorded.get(str(path))
        if path.resolve() in self._named:
            self._named_digests[str(path)] = digest
        elif recorded != digest:
            why = "the run recorded no digest of it" if recorded is None else "it has changed since the run"
            raise RunError(
                f"kshot does not run this file: {why}",
                where=str(path),
                hint=f"If you trust it, name it: -d {path}:CLASS if it has the dataset, else --trust {path}.",
            )

    def record_named_in(self, spec: dict[str, Any]) -> None:
        """Record the files that the user named, as they are now, so that they need not be named once more."""
        if self._named_digests:
            spec[KEY] = {**self._recorded, **self._named_digests}
