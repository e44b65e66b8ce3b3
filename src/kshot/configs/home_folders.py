"""Where the source and the data of homes lie, and what their code is."""

from __future__ import annotations

import importlib.util
import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from kshot.core.errors import DataError

DATA_FOLDERS = ("data", "ais_bench/datasets")
"""Where the homes keep data, below the working directory and below themselves."""
_DATA_VARIABLES = (
    *("COMPASS_DATA_CACHE", "AIS_BENCH_DATASETS_CACHE", "NLTK_DATA", "TIKTOKEN_CACHE_DIR", "HF_HUB_CACHE"),
)
"""The user's environment variables that name folders of data; the worker sees them, and may read there."""
_MAX_CODE_BYTES = 16 << 20
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_WRITABLE_BY_ALL = 0o002


def places(framework: str, config: Path, given: Path | None) -> Iterator[tuple[Path, str]]:
    """Yield the folders that may hold a project, and how each was found: the user's first, then others."""
    if given is not None:
        for folder in (given / framework, given, *given.parents):
            if folder.name == framework:
                yield folder, "--home"
    for folder in config.parents:
        if folder.name == framework and _is_trusted(folder):
            yield folder, "the config lies in it"
        if _is_trusted(folder / framework):
            yield folder / framework, "the config lies beside it"
    try:
        spec = importlib.util.find_spec(framework)
    except (ImportError, ValueError):
        spec = None
    for place in spec.submodule_search_locations or () if spec is not None else ():
        if not Path(place).resolve().is_relative_to(Path.cwd().resolve()) or "site-packages" in Path(place).parts:
            yield Path(place), "it is installed"


def _is_trusted(folder: Path) -> bool:
    """Whether a folder that nobody has named may be used: it is the user's or root's, and others cannot change it."""
    if not hasattr(os, "getuid"):  # Windows
        return folder.is_dir()
    try:
        status, above = folder.lstat(), folder.parent.stat()
    except OSError:
        return False
    owned = status.st_uid in {os.getuid(), 0} and stat.S_ISDIR(status.st_mode)
    sticky = bool(above.st_mode & stat.S_ISVTX)
    return owned and not status.st_mode & _WRITABLE_BY_ALL and (sticky or not above.st_mode & _WRITABLE_BY_ALL)


def has_code(folder: Path) -> bool:
    """Whether it holds the project's code, and not configs alone."""
    return any((folder / part).is_dir() for part in ("datasets", "openicl", "benchmark/openicl", "benchmark/datasets"))


def data_folders(home: Path | None = None) -> Iterator[Path]:
    """Return the folders in which the homes' data lies on this machine, whether or not they are there.

    A link that leads out of the current folder, or out of the home's, is left out: it could lead anywhere.
    """
    for below in (Path.cwd(), *((home.parent,) if home is not None else ())):
        top = below.resolve()
        yield from (place for folder in DATA_FOLDERS if (place := (top / folder).resolve()).is_relative_to(top))
    for variable in _DATA_VARIABLES:
        if place := os.environ.get(variable):
            yield Path(place)


def code_digest(folder: Path) -> str:
    """Return a digest of a project's code: of every Python file."""
    total = sha256()
    for path in _code_files(folder):
        total.update(os.fsencode(path.relative_to(folder).as_posix()) + b"\0")
        total.update(_file_digest(path))
    return total.hexdigest()[:32]


def _code_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files that are files: neither links nor anything else."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__" and name[0] != ".")
        for name in sorted(files):
            path = Path(place, name)
            if name.endswith(".py") and stat.S_ISREG(path.lstat().st_mode):
                yield path


def _file_digest(path: Path) -> bytes:
    try:
        with os.fdopen(os.open(path, _OPEN_FLAGS), "rb") as file:
            data = file.read(_MAX_CODE_BYTES + 1)
    except OSError as exc:
        raise DataError(f"a file of the home cannot be read: {exc.strerror or exc}", where=str(path)) from exc
    if len(data) > _MAX_CODE_BYTES:
        raise DataError(f"a file of the home has more than {_MAX_CODE_BYTES >> 20} MB", where=str(path))
    return sha256(data).digest()
