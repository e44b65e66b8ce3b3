"""The files of a config. The confined process opens none itself: it asks for each by its path."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kshot.configs._stand_ins import FRAMEWORKS
from kshot.core.errors import DataError, UsageError
from kshot.core.text_files import is_still_at

# ---- the paths that a user names for a config: whatever is wrong is one message ----


def config_file(given: str | Path) -> Path:
    """Return the real path of a config file."""
    file = _real(given)
    if file is None or not os.path.isfile(file):  # noqa: PTH113 - pathlib raises for names that are too long
        raise DataError("there is no such file", where=str(given))
    return file


def root_folder(given: str | Path, option: str = "--config-root") -> Path:
    """Return the real path of a folder that an option names."""
    if not str(given):
        raise UsageError(f"{option} is empty", hint="Name a folder, or leave it out.")
    where = f"{option} {given}"
    folder = _real(given)
    if folder is None:
        raise UsageError(
            "there is no such user" if str(given).startswith("~") else "there is no such folder", where=where
        )
    if os.path.isfile(folder):  # noqa: PTH113 - as above
        raise UsageError("it is a file, not a folder", where=where)
    if not os.path.isdir(folder):  # noqa: PTH112 - as above
        raise UsageError("there is no such folder", where=where)
    return folder


def home_folder(given: str | Path, file: Path) -> Path:
    """Return the real path of the folder that ``--home`` names: it has a home, or a config that lies in it."""
    folder = root_folder(given, "--home")
    lies_in = [each.name for each in (folder, *folder.parents)]
    if file.is_relative_to(folder) or any(name in lies_in or (folder / name).is_dir() for name in FRAMEWORKS):
        return folder
    named = " nor ".join(f"a folder {name}" for name in reversed(FRAMEWORKS))
    hint = "Name a clone of OpenCompass or AISBench, or the folder of its package."
    raise UsageError(f"there is neither {named} in it", where=f"--home {given}", hint=hint)


def _real(given: str | Path) -> Path | None:
    """Return a real path; None where it cannot be one: no such user, or letters that no path has."""
    try:
        return Path(os.path.realpath(Path(given).expanduser()))
    except (RuntimeError, ValueError, OSError):
        return None


# ---- what a config may read ----

_TREES = ("configs", *FRAMEWORKS)
MAX_FILE_BYTES = 16 << 20
MAX_TOTAL_BYTES = 128 << 20
_MAX_NAMES = 20_000
OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class NotAllowed(Exception):  # noqa: N818 - it names what a path is
    """A path that the config may not read; the message says why."""


class Project:
    """What a config may read: files below its root, by their real paths, nothing hidden.

    The root is ``config_root`` if the file lies in it, else the topmost folder above the file that is named as a tree
    of configs is, else the file's own folder. Further roots are ``config_root`` itself and packages of the frameworks
    in folders above the file; the packages count once something was imported from them.
    """

    def __init__(self, file: Path, config_root: Path | None = None) -> None:
        """``file`` and ``config_root`` are real paths."""
        self.file, self.given = file, config_root
        self.root = config_root if config_root is not None and file.is_relative_to(config_root) else _own_root(file)
        self.roots = list(dict.fromkeys([self.root, *([config_root] if config_root else [])]))
        """The folders that the config reads, its own first. It grows."""
        self._packages = [
            package
            for folder in file.parents
            for name in FRAMEWORKS
            if (package := folder / name).is_dir() and not package.is_symlink() and not self._within(package)
        ]
        above = (config_root, *config_root.parents) if config_root is not None else ()
        self._above = [each.parent for each in above if each.name in FRAMEWORKS]
        """The folders that hold the package in which the given root lies: imports by the package's name begin there."""
        self._served_bytes = 0

    @property
    def search_folders(self) -> list[Path]:
        """The folders in which absolute imports of config files are looked for, nearest first."""
        return list(dict.fromkeys([*self.file.parents, *self.roots, *self._above]))

    # ---- requests of the confined process ----

    def serve(self, request: Any) -> dict[str, Any]:
        """Answer a request of the confined process. Whatever it holds is not trusted."""
        try:
            return {"found": self._served(request)}
        except NotAllowed as exc:
            return {"refused": str(exc)}
        except (FileNotFoundError, NotADirectoryError):
            return {"found": None}
        except (OSError, ValueError) as exc:
            return {"refused": getattr(exc, "strerror", None) or str(exc)}

    def _served(self, request: Any) -> Any:
        match request:
            case ["find", [*paths]] if all(isinstance(path, str) for path in paths):
                return self.find(paths)
            case ["read", str(path)]:
                return self.read(path).decode("latin-1")
            case ["list", str(path)]:
                return self.listing(path)
            case ["stat", str(path)]:
                return self.status(path)
        raise NotAllowed("something that is not a path")

    def find(self, paths: Sequence[str]) -> tuple[str, str] | None:
        """Return the first of these files that there is, and its text; None if there is none.

        An empty package file is passed over. It is an error if none of the paths lies in the project, or if one that
        does may not be read.
        """
        refused: NotAllowed | None = None
        inside = [path for path in paths if self._within(Path(path), *self._packages)]
        for path in inside or paths:
            try:
                data = self.read(path, importing=True)
            except NotAllowed as exc:
                refused = refused or exc
                continue
            except (FileNotFoundError, NotADirectoryError):
                continue
            if data or Path(path).name != "__init__.py":
                return path, data.decode("latin-1")
        if refused is not None:
            raise refused
        return None

    def read(self, path: str, *, importing: bool = False) -> bytes:
        """Return the content of a file."""
        real = self._real(path, importing=importing)
        descriptor = os.open(real, OPEN_FLAGS)
        with os.fdopen(descriptor, "rb") as file:
            _check_opened(descriptor, real)
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise NotAllowed(f"{real}, which is not a file")
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise NotAllowed(f"{real}, which has more than {MAX_FILE_BYTES >> 20} MB")
        self._served_bytes += len(data)
        if self._served_bytes > MAX_TOTAL_BYTES:
            raise NotAllowed(f"{real}: that would be more than {MAX_TOTAL_BYTES >> 20} MB of files")
        return data

    def listing(self, path: str) -> list[tuple[str, bool]]:
        """Return the names in a folder that are not hidden, and whether each is a folder."""
        real = self._real(path)
        found: list[tuple[str, bool]] = []
        with self._folder(real) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if len(found) == _MAX_NAMES:
                    raise NotAllowed(f"{real}, which has more than {_MAX_NAMES:,} files")
                found.append((entry.name, entry.is_dir(follow_symlinks=False)))
        return sorted(found)

    def status(self, path: str) -> list[float]:
        """Return mode, size and time of change of a file or folder."""
        status = self._real(path).lstat()
        return [status.st_mode, status.st_size, status.st_mtime]

    # ---- the rule ----

    def check(self, path: Path, also: Sequence[Path] = ()) -> Path:
        """Return the real path of something that may be read, or raise ``NotAllowed``; ``also``: further roots."""
        real = Path(os.path.realpath(path))
        for root in (*self.roots, *also):
            if real.is_relative_to(root):
                hidden = next((part for part in real.relative_to(root).parts if part.startswith(".")), None)
                if hidden is not None and real != self.file:
                    raise NotAllowed(f"{path}, which is hidden ({hidden})")
                return real
        leads = "leads" if Path(os.path.abspath(path)).is_relative_to(self.root) else "lies"  # noqa: PTH100 - without links
        raise NotAllowed(f"{path}, which {leads} outside the project root {self.root}")

    def _real(self, path: str, *, importing: bool = False) -> Path:
        if not Path(path).is_absolute() or "\0" in path:
            raise NotAllowed(f"{path!r}, which is not an absolute path")
        if not importing:
            return self.check(Path(path))
        package = next((each for each in self._packages if Path(path).is_relative_to(each)), None)
        real = self.check(Path(path), also=[package] if package else ())
        if package is not None and package not in self.roots and real.is_file():
            self.roots.append(package)
        return real

    @contextmanager
    def _folder(self, real: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        if os.scandir not in os.supports_fd:  # Windows
            with os.scandir(real) as entries:
                yield entries
            return
        descriptor = os.open(real, OPEN_FLAGS | os.O_DIRECTORY)
        try:
            _check_opened(descriptor, real)
            with os.scandir(descriptor) as entries:
                yield entries
        finally:
            os.close(descriptor)

    def _within(self, path: Path, *also: Path) -> bool:
        return any(path.is_relative_to(root) for root in (*self.roots, *also))


def _check_opened(descriptor: int, real: Path) -> None:
    """Make sure that no folder of the path became a link after the path was resolved."""
    if not is_still_at(descriptor, real):
        raise NotAllowed(f"{real}, which was replaced by a link at the same time")


def _own_root(file: Path) -> Path:
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - pathlib raises where there is no home
    named = [folder for folder in file.parents if folder.name in _TREES and not home.is_relative_to(folder)]
    return named[-1] if named else file.parent
