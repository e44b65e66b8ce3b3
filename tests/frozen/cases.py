"""What a group of cases leaves: the text of each case in a file, and a record of their digests."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from tests.frozen.world import settled

DATA = Path(__file__).parent / "data"
_SKIPPED = "skipped "
_COMPUTED = ("docs", "docs_long")
"""The groups that run models and searches: the last digits of what they compute depend on the processor."""
_LONG_NUMBER = re.compile(r"-?\d+\.\d{13,}(?:e-?\d+)?")


class Cases:
    """Writes the cases of one group into a folder, settled."""

    def __init__(self, folder: Path, group: str) -> None:
        self._folder, self._group = folder, group
        self._values: dict[str, str] = {}

    def add(self, name: str, content: str | bytes) -> None:
        """Write a case, and record its digest."""
        text = settled(content if isinstance(content, str) else _as_text(content))
        if self._group in _COMPUTED:
            text = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.12g}", text)
        data = text.encode("utf-8", "surrogatepass")
        path = raw_file(self._folder, self._group, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.note(name, hashlib.sha256(data).hexdigest()[:16])

    def note(self, name: str, value: str) -> None:
        """Record a value itself, which has no spaces. A name is given once."""
        if name in self._values:
            raise ValueError(f"two cases of {self._group} are called {name}")
        self._values[name] = value

    def skip(self, beginning: str, reason: str) -> None:
        """Leave out the cases whose names begin so."""
        self._values[f"{_SKIPPED}{reason}"] = beginning or "*"

    def close(self) -> None:
        """Write the record."""
        write_record(self._folder, self._group, self._values)


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
    """Return the digest, or value, of each case of a group."""
    path = folder / f"{group}.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return dict(line.rsplit(" ", 1) for line in lines)


def write_record(folder: Path, group: str, values: dict[str, str]) -> None:
    """Write the digests of a group, sorted by the names of the cases."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = (f"{name} {value}\n" for name, value in sorted(values.items()))
    (folder / f"{group}.txt").write_text("".join(lines), encoding="utf-8")


def without_skipped(record: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the cases of a record, and why some were skipped, by how their names begin."""
    skipped = {value: name.removeprefix(_SKIPPED) for name, value in record.items() if name.startswith(_SKIPPED)}
    return {name: value for name, value in record.items() if not name.startswith(_SKIPPED)}, skipped


def is_skipped(name: str, skipped: dict[str, str]) -> bool:
    """Whether a case is among those that were left out."""
    return any(beginning == "*" or name.startswith(beginning) for beginning in skipped)


def differences(recorded: dict[str, str], found: dict[str, str], skipped: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what became of each case that is not as recorded, and its name."""
    for name in sorted(recorded.keys() | found.keys()):
        if name not in found and not is_skipped(name, skipped):
            yield "gone", name
        elif name in found and recorded.get(name) != found[name]:
            yield "changed" if name in recorded else "new", name


def diff(before: Path, after: Path, most: int) -> Iterator[str]:
    """Yield the first lines of the difference of two cases."""
    texts = [_short_lines(path) if path.exists() else [] for path in (before, after)]
    lines = [line for line in difflib.unified_diff(*texts, lineterm="", n=1) if not line.startswith(("---", "+++"))]
    yield from (f"    {line[:300]}" for line in lines[:most])
    if len(lines) > most:
        yield f"    … {len(lines) - most} more lines"


def _short_lines(path: Path) -> list[str]:
    """Return the lines of a text; long ones of JSON have a line for each key."""
    lines = path.read_text("utf-8", "surrogatepass").splitlines()
    return [part for line in lines for part in (re.split(r'(?<=,) ?(?=")', line) if len(line) > 200 else [line])]
