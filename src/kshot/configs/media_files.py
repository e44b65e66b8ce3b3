"""The files that rows of a config name as images, sounds and videos: where they may lie, and how they are read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.loaders.places import candidates, data_folders
from kshot.configs.project import NotAllowed
from kshot.core.errors import DataError
from kshot.core.text_files import is_still_at, regular_file

MAX_MEDIA_BYTES = 64 << 20
"""The largest image, sound or video."""
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def given_places(text: str | None) -> list[Path]:
    """Return where the rows that a user names lie: at a file or folder, or where a pattern with ``{split}`` begins."""
    if not text:
        return []
    fixed = text.partition("{")[0] if not _exists(Path(text)) else text
    place = Path(fixed).expanduser()
    return [place if fixed == text or fixed.endswith("/") else place.parent]


def read_media(entry: DatasetEntry, path: str, given: Sequence[Path]) -> tuple[bytes, str]:
    """Return the bytes of a file that a row names, and its name for people; ``given``: places that the user named."""
    if "\0" in path:
        raise DataError(f"{path!r:.80} is no path")
    roots = [place if place.is_dir() else place.parent for place in map(_real, given)]
    refused: DataError | None = None
    for place in _candidates(entry, path, roots):
        if not _exists(place):
            continue
        try:
            real = _allowed(entry, place, roots)
        except DataError as exc:
            refused = refused or exc
        else:
            return _bytes(real), real.name
    raise refused or DataError(
        f"there is no file {path!r:.200}, which the prompt names",
        hint="Paths are seen from the current folder, the config's project, and the folder of --data.",
    )


def _real(place: Path) -> Path:
    return Path(os.path.realpath(place))


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _candidates(entry: DatasetEntry, path: str, roots: Sequence[Path]) -> Iterator[Path]:
    yield from candidates(entry, path)
    yield from (root / path for root in roots)


def _allowed(entry: DatasetEntry, place: Path, roots: Sequence[Path]) -> Path:
    """Return the real path of a file that may be read; an entry of the user's own may name any."""
    if entry.project is None:
        return _real(place)
    try:
        return entry.project.check(place, also=[*data_folders(entry), *roots])
    except NotAllowed as exc:
        raise DataError(
            f"a row names the file {exc}",
            hint="It is not sent to a model. Rows may name files in the config's project, in ./data, in "
            f"./ais_bench/datasets, and below the folder of --data {entry.abbr}=PLACE.",
        ) from exc


def _bytes(real: Path) -> bytes:
    try:
        descriptor = regular_file(real, _OPEN_FLAGS)
    except OSError as exc:
        raise DataError(f"the file cannot be read: {exc.strerror or exc}", where=str(real)) from exc
    with os.fdopen(descriptor, "rb") as file:
        if not is_still_at(descriptor, real):
            raise DataError("the file was replaced by a link while it was read", where=str(real))
        data = file.read(MAX_MEDIA_BYTES + 1)
    if len(data) > MAX_MEDIA_BYTES:
        raise DataError(f"the file has more than {MAX_MEDIA_BYTES >> 20} MB", where=str(real))
    return data
