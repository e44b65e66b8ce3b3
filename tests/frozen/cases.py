"""What a group of cases leaves: the text of each case in a file, and a record of their digests."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from tests.frozen.world import settled

DATA = Path(__file__).parent / "data"
_SKIPPED = "skipped:"


class Cases:
    """Writes the cases of one group into a folder, settled."""

    def __init__(self, folder: Path, group: str) -> None:
        self._folder, self._group = folder, group
        self._digests: dict[str, str] = {}

    def add(self, name: str, content: str | bytes) -> None:
        """Write a case. A name is given once."""
        if name in self._digests:
            raise ValueError(f"two cases of {self._group} are called {name}")
        text = content if isinstance(content, str) else _as_text(content)
        data = settled(text).encode("utf-8", "surrogatepass")
        path = raw_file(self._folder, self._group, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self._digests[name] = hashlib.sha256(data).hexdigest()[:16]

    def skip(self, beginning: str, reason: str) -> None:
        """Leave out the cases whose names begin so."""
        self._digests[f"{_SKIPPED}{beginning}"] = reason

    def close(self) -> None:
        """Write the record."""
        write_record(self._folder, self._group, self._digests)


def _as_text(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return f"{len(content)} bytes, {hashlib.sha256(content).hexdigest()}"


def raw_file(folder: Path, group: str, name: str) -> Path:
    """Return where the text of a case is."""
    plain = re.sub(r"[^\w.,=@/ -]+", "_", name).strip("/. ")
    if plain != name or len(plain) > 120:
        plain = f"{plain[:100]}~{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return folder / group / f"{plain}.txt"


def read_record(folder: Path, group: str) -> dict[str, str]:
    """Return the digest of each case of a group."""
    path = folder / f"{group}.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return dict(line.rsplit(" ", 1) if not line.startswith(_SKIPPED) else line.split("\t") for line in lines)


def write_record(folder: Path, group: str, digests: dict[str, str]) -> None:
    """Write the digests of a group, sorted by the names of the cases."""
    lines = (f"{name}\t{value}" if name.startswith(_SKIPPED) else f"{name} {value}" for name, value in digests.items())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{group}.txt").write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")


def skipped(found: dict[str, str]) -> dict[str, str]:
    """Return why cases were skipped, by how their names begin."""
    return {name.removeprefix(_SKIPPED): why for name, why in found.items() if name.startswith(_SKIPPED)}


def differences(recorded: dict[str, str], found: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what became of each case that is not as recorded, and its name."""
    left_out = tuple(skipped(found))
    for name in sorted(recorded.keys() | found.keys()):
        if name.startswith(_SKIPPED) or recorded.get(name) == found.get(name):
            continue
        if name not in recorded:
            yield "new", name
        elif name in found:
            yield "changed", name
        elif not name.startswith(left_out):
            yield "gone", name


def diff(before: Path, after: Path, most: int) -> Iterator[str]:
    """Yield the first lines of the difference of two cases."""
    texts = [path.read_text("utf-8", "surrogatepass").splitlines() if path.exists() else [] for path in (before, after)]
    lines = [line for line in difflib.unified_diff(*texts, lineterm="", n=1) if not line.startswith(("---", "+++"))]
    yield from (f"    {line[:300]}" for line in lines[:most])
    if len(lines) > most:
        yield f"    … {len(lines) - most} more lines"
