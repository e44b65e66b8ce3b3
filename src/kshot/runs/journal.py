"""The journal: every response of a run as one JSON line, written before it is used. A resumed run reads it again."""

from __future__ import annotations

import json
import os
import re
from itertools import count
from typing import TYPE_CHECKING, Any

from kshot.core.errors import RunError
from kshot.core.kill_points import reach
from kshot.core.offsets import Offsets, address
from kshot.core.records import Failed, Response
from kshot.core.serialization import response_from_json, response_to_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_KEY = re.compile(r"[0-9a-f]{32}")
_encoded = json.JSONEncoder(separators=(",", ":")).encode


class Journal:
    """Responses by key, in a file that is only appended to.

    Memory holds only an offset for each response. The responses stay on disk, and the full key is checked there. A
    crash can leave a partial last line. It is cut off when the file is opened, so that the next record starts on a new
    line.
    """

    def __init__(self, path: Path, *, read_only: bool = False, use_failures: bool = False) -> None:
        """Open or create the file. With ``use_failures``, ``get`` returns failures too (to score without a model)."""
        self._path = path
        self._use_failures = use_failures
        self._offsets = Offsets()
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT | os.O_APPEND
        try:
            self._fd = os.open(path, flags, 0o644)
        except OSError as exc:
            raise _unusable(path, exc) from exc
        try:
            if not read_only:
                self._lock()
            self._end = self._whole(repair=not read_only)
            for offset, row in _rows(path, self._end):
                if use_failures or "failed" not in row["response"]:
                    self._offsets[address(row["key"])] = offset
        except BaseException:
            self.close()  # an error that is kept must not keep the lock
            raise

    def __len__(self) -> int:
        """Count the responses that ``get`` can return."""
        return len(self._offsets)

    def get(self, key: str) -> Response | None:
        """Return the stored response, or None if the request has to be asked."""
        row = self.row(key)
        if row is None:
            return None
        try:
            return response_from_json(row["response"])
        except (KeyError, TypeError, ValueError) as exc:
            raise RunError(
                f"the record {key} is damaged",
                where=str(self._path),
                hint="Delete its line: its request is asked again.",
            ) from exc

    def row(self, key: str) -> dict[str, Any] | None:
        """Return the stored record itself."""
        offset = self._offsets.get(address(key))
        if offset is None:
            return None
        row: dict[str, Any] = json.loads(self._line_at(offset))
        return row if row["key"] == key else None

    def put(self, key: str, asked: str, response: Response) -> None:
        """Append a response in one write, so that a killed process leaves it complete or absent."""
        row = {"key": key, "asked": asked, "response": response_to_json(response)}
        line = _encoded(row).encode() + b"\n"
        reach("journal.before_write")
        reach("journal.torn_line", lambda: os.write(self._fd, line[: len(line) // 2]))
        try:
            written = os.write(self._fd, line)
        except OSError as exc:
            raise _unusable(self._path, exc) from exc
        if written != len(line):
            raise RunError("only part of a record could be written: is the disk full?", where=str(self._path))
        if self._use_failures or not isinstance(response, Failed):
            self._offsets[address(key)] = self._end
        self._end += len(line)
        reach("journal.written")

    def close(self) -> None:
        """Close the file and release its lock."""
        os.close(self._fd)

    def _line_at(self, offset: int) -> bytes:
        chunk = os.pread(self._fd, 4096, offset)
        while (end := chunk.find(b"\n")) < 0:
            more = os.pread(self._fd, 1 << 16, offset + len(chunk))
            if not more:
                raise RunError("the file changed while it was in use", where=str(self._path))
            chunk += more
        return chunk[:end]

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # pragma: no cover - no advisory locks on this platform
            return
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise RunError(
                "another process is working in this run folder",
                where=str(self._path.parent),
                hint="Wait for it, or choose another folder with --out.",
            ) from exc

    def _whole(self, *, repair: bool) -> int:
        """Return the length of the complete lines; ``repair`` cuts off a partial last line."""
        size = os.fstat(self._fd).st_size
        whole = size
        while whole > 0:
            start = max(0, whole - (1 << 16))
            newline = os.pread(self._fd, whole - start, start).rfind(b"\n")
            if newline >= 0:
                whole = start + newline + 1
                break
            whole = start
        if repair and whole != size:
            os.ftruncate(self._fd, whole)
            reach("journal.cut")
        return whole


def _rows(path: Path, end: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every record with its offset."""
    offset = 0
    with path.open("rb") as file:
        for number in count(1):
            if offset >= end:
                return
            line = file.readline()
            try:
                row = json.loads(line)
                whole = _KEY.fullmatch(row["key"]) and isinstance(row["response"], dict)
            except (ValueError, KeyError, TypeError, RecursionError):
                whole = None
            if not whole:
                raise RunError(
                    "this line is not a journal record",
                    where=f"{path}:{number}",
                    hint="Delete the line: its request is asked again.",
                )
            yield offset, row
            offset += len(line)


def _unusable(path: Path, exc: OSError) -> RunError:
    return RunError(
        f"the journal cannot be read or written: {exc.strerror or exc}",
        where=str(path),
        hint="Free some space, or choose another folder with --out. The same command continues from what is there.",
    )
