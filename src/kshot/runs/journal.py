"""The journal: every response of a run as one line, written before it is used. A resumed run reads it again.

One process at a time works in a run folder: it holds the lock of the journal. Where somebody replaces, removes or cuts
a journal while a run writes it, the run stops, and its answers are kept.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kshot.core.durable import GroupSync, disk_hint, sync, sync_folder
from kshot.core.errors import RunError
from kshot.core.kill_points import reach
from kshot.core.memo import Offsets, address
from kshot.core.records import Failed, Response
from kshot.core.serialization import (
    JournalLine,
    JournalRecord,
    NewerLine,
    damage_note,
    decoded_line,
    encoded_line,
    journal_lines,
)
from kshot.core.settings import FsyncMode
from kshot.core.text_files import MAX_LINE_CHARACTERS, lines_of, regular_file

try:
    import fcntl
except ImportError:  # pragma: no cover - no advisory locks on this platform
    fcntl = None  # type: ignore[assignment]  # a module's name cannot be declared optional

_LOCKED = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
_TRIES = 5
_RETRY_SECONDS = 0.02
"""``is_locked`` of another process has the lock for an instant."""


def lock(descriptor: int, path: Path) -> None:
    """Lock an open file until it is closed; refuse if another process has the lock."""
    for left in reversed(range(_TRIES)):
        if _took(descriptor, exclusive=True) is not False:
            return
        if left:
            time.sleep(_RETRY_SECONDS)
    raise RunError(
        "another process is working in this run folder",
        where=str(path.parent),
        hint="Wait for it, or choose another folder with --out.",
    )


def is_locked(path: Path) -> bool | None:
    """Whether a process has locked the file; None where that cannot be found out. Nothing in the file changes."""
    try:
        descriptor = regular_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        took = _took(descriptor, exclusive=False)
        return None if took is None else not took
    finally:
        os.close(descriptor)  # which releases the lock


def _took(descriptor: int, *, exclusive: bool) -> bool | None:
    """Lock a file, unless another process has done so; None where there are no locks."""
    if fcntl is None:  # pragma: no cover - no advisory locks on this platform
        return None  # type: ignore[unreachable]  # not for the platform that mypy runs on
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as exc:
        return False if exc.errno in _LOCKED else None
    return True


_BLOCK = 1 << 20
_MAX_NAMES = 1000


def lost(descriptor: int, path: Path, end: int) -> RunError | None:
    """Return the error if the open file no longer has this name, or is shorter than what was written to it.

    The descriptor of a file that lost its name still has every line: they are copied to the name if it is free, and
    otherwise to a file beside it.
    """
    size = os.fstat(descriptor).st_size
    try:
        is_ours = os.path.samestat(os.fstat(descriptor), path.stat())
    except (FileNotFoundError, NotADirectoryError):
        is_ours = False
    if is_ours and size >= end:
        return None
    cut = "" if size >= end else f" {end - size:,} of its {end:,} bytes are gone: what they answered is asked again."
    again = "Run the same command again"
    if not is_ours:
        try:
            kept = _copied(descriptor, path)
        except OSError as exc:
            cut, again = f" Its answers could not be saved ({exc.strerror or exc}).{cut}", disk_hint(exc)[:-1]
        else:
            if kept == path:
                cut = f" Its answers are in that place again.{cut}"
            else:
                cut, again = f" Its answers are in {kept}.{cut}", f"{again}, with --reuse {kept}"
    return RunError(
        f"the journal was replaced, removed or cut while the run used it.{cut}", where=str(path), hint=f"{again}."
    )


def _copied(descriptor: int, path: Path) -> Path:
    """Copy an open file to this path, or to the first free name beside it; return where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = (path.with_name(f"{path.stem}.rescued-{number}{path.suffix}") for number in range(1, _MAX_NAMES))
    for place in (path, *beside):
        try:
            copy = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            continue
        try:
            lock(copy, place)  # no other run begins in an unfinished copy
            _copy(descriptor, copy)
        except BaseException:
            place.unlink(missing_ok=True)
            raise
        finally:
            os.close(copy)
        return place
    raise FileExistsError(None, "too many files of this kind are there", str(path))


def _copy(descriptor: int, copy: int) -> None:
    offset = 0
    while block := os.pread(descriptor, _BLOCK, offset):
        offset += os.write(copy, block)
    sync(copy)


_NO_CHECKSUM = 1 << 62
"""Beyond every offset. Lines before the first one that has a checksum are those of earlier versions."""
_CHECK_SECONDS = 0.5
"""While answers come in, the name and size of the file are checked this often."""


class Journal:
    """Responses by key, in a file that is only appended to.

    Memory holds only an offset for each response. The responses stay on disk; their checksums and full keys are checked
    there. A crash can leave a partial last line. It is cut off when the file is opened, so that the next record starts
    on a new line. Damaged lines are never used: they are moved to a file ``journal.damaged``.
    """

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        repair: bool = True,
        use_failures: bool = False,
        fsync: FsyncMode = "group",
    ) -> None:
        """Open or create the file, and lock it unless ``read_only``; without ``repair`` nothing in it is changed.

        With ``use_failures``, ``get`` returns failures too (to score without a model).
        """
        self._path = path
        self._use_failures = use_failures
        self._fsync = fsync
        self._read_only = read_only
        self._lost: RunError | None = None
        self._checked = time.monotonic()
        self._group = GroupSync(self._sync_data)
        self._note = ""
        self._damaged: list[tuple[int, int]] = []
        self._failures: dict[int, int] = {}
        self._first_checksum = _NO_CHECKSUM
        try:
            self._fd = _opened(path, read_only=read_only)
        except OSError as exc:
            raise self._unusable(exc) from exc
        try:
            if not read_only and fsync != "never" and not os.fstat(self._fd).st_size:
                sync_folder(path.parent)  # the file may be new: its name must survive, too
            self._scan(repair=repair and not read_only)
            if self._damaged and repair and not read_only:
                self._note = damage_note(str(path), self._damaged, "what {they} answered is asked again")
                self._move_damage()
        except BaseException as exc:
            os.close(self._fd)  # an error that is kept must not keep the lock
            if isinstance(exc, OSError):
                raise self._unusable(exc) from exc
            raise

    @property
    def has_records(self) -> bool:
        """Whether any line of the file is a record."""
        return self._has_records

    def __len__(self) -> int:
        """Count the responses that ``get`` can return."""
        return len(self._offsets) + len(self._failures)

    @property
    def notes(self) -> list[str]:
        """What a user should know of damaged lines: how many there are, where they stand, and what becomes of them."""
        if self._note:
            return [self._note]
        return [damage_note(str(self._path), self._damaged, "{they} {are} not used")] if self._damaged else []

    def get(self, key: str) -> Response | None:
        """Return the stored response, or None if the request has to be asked."""
        record = self.record(key)
        return None if record is None else record.response

    def record(self, key: str) -> JournalRecord | None:
        """Return the stored record itself."""
        place = address(key)
        offset = self._offsets.get(place)
        if offset is None and (offset := self._failures.get(place)) is None:
            return None
        try:
            record = decoded_line(self._line_at(offset), early=offset < self._first_checksum)
        except NewerLine:
            record = None
        except OSError as exc:
            raise self._unusable(exc) from exc
        if record is None:
            raise RunError("the file changed while it was in use", where=str(self._path), hint="Run it again.")
        return record if record.key == key else None

    def records(self) -> Iterator[JournalRecord]:
        """Yield every record in the order of the file; several may have one key, and damaged lines have none."""
        try:
            yield from (line.record for line in self._lines() if line.record is not None)
        except OSError as exc:
            raise self._unusable(exc) from exc

    def put(self, key: str, asked: str, response: Response) -> None:
        """Append a response in one write, so that a killed process leaves it complete or absent.

        To a journal that is only read, nothing is added: nothing was asked.
        """
        if self._read_only:
            return
        if self._lost is not None:
            raise self._lost
        line = encoded_line(key, asked, response)
        reach("journal.before_write")
        reach("journal.torn_line", lambda: os.write(self._fd, line[: len(line) // 2]))
        try:
            self._append(line)
            if self._fsync == "always":
                self.sync()
            elif self._fsync == "group":
                self._group.written()
        except OSError as exc:
            raise self._unusable(exc) from exc
        self._index(key, self._end, failed=isinstance(response, Failed))
        self._first_checksum = min(self._first_checksum, self._end)
        self._end += len(line)
        reach("journal.written")
        if time.monotonic() - self._checked > _CHECK_SECONDS:
            self.check()  # after the write, so that this response is saved too

    def check(self) -> None:
        """Raise an error if the file was replaced, removed or cut while it is open; what can be saved is saved."""
        if self._read_only:
            return
        try:
            self._lost = self._lost or lost(self._fd, self._path, self._end)
        except OSError as exc:
            raise self._unusable(exc) from exc
        self._checked = time.monotonic()
        if self._lost is not None:
            raise self._lost

    def sync(self) -> None:
        """Have the disk store all that was written, whatever the group."""
        if self._fsync == "never":
            return
        reach("journal.before_fsync")
        try:
            self._sync_data()
        except OSError as exc:
            raise self._unusable(exc) from exc
        reach("journal.after_fsync")

    def close(self) -> None:
        """Have the disk store the rest, close the file, and release its lock."""
        self._group.close()
        try:
            if self._group.error is not None:
                raise self._unusable(self._group.error)
            if self._group.dirty:
                self.sync()
            if self._lost is None:  # or else the error is on its way
                self.check()
        finally:
            os.close(self._fd)

    # ---- writing ----

    def _append(self, line: bytes) -> None:
        """Write a line whole, or not at all."""
        written = 0
        try:
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError:
            if written:
                # Part of the line is there: without this, what is written next would be joined to it.
                with suppress(OSError):
                    os.ftruncate(self._fd, os.fstat(self._fd).st_size - written)
            raise

    def _sync_data(self) -> None:
        sync(self._fd)

    # ---- opening ----

    def _scan(self, *, repair: bool) -> None:
        """Index the records; ``repair`` cuts off a partial last line."""
        self._end = self._whole(repair=repair)
        self._offsets, self._failures = Offsets(), {}
        self._damaged, self._has_records = [], False
        self._first_checksum = _NO_CHECKSUM
        for line in self._lines() if self._end else ():
            record = line.record
            if record is None:
                self._damaged.append((line.number, line.offset))
                continue
            self._has_records = True
            if record.has_checksum:
                self._first_checksum = min(self._first_checksum, line.offset)
            self._index(record.key, line.offset, failed=record.failed)

    def _index(self, key: str, offset: int, *, failed: bool) -> None:
        """Keep the place of a record; a failure never takes the place of an answer, wherever a file has it."""
        place = address(key)
        if not failed:
            self._offsets[place] = offset
            self._failures.pop(place, None)
        elif self._use_failures and place not in self._offsets:
            self._failures[place] = offset

    def _lines(self) -> Iterator[JournalLine]:
        with os.fdopen(os.dup(self._fd), "rb") as file:
            file.seek(0)
            yield from journal_lines(lines_of(file, self._path), str(self._path), end=self._end)

    def _line_at(self, offset: int) -> bytes:
        chunk = os.pread(self._fd, 4096, offset)
        while (end := chunk.find(b"\n")) < 0:
            more = os.pread(self._fd, 1 << 16, offset + len(chunk))
            if not more:
                return chunk
            chunk += more
        return chunk[:end]

    def _whole(self, *, repair: bool) -> int:
        """Return the length of the complete lines; ``repair`` cuts off a partial last line.

        A last line that lacks nothing but its end is complete: ``repair`` adds the end.
        """
        size = os.fstat(self._fd).st_size
        whole = size
        while whole > 0:
            if size - whole > MAX_LINE_CHARACTERS:
                return size  # reading the lines refuses this one
            start = max(0, whole - (1 << 16))
            newline = os.pread(self._fd, whole - start, start).rfind(b"\n")
            if newline >= 0:
                whole = start + newline + 1
                break
            whole = start
        if whole != size and self._is_record(whole):
            return size + (os.write(self._fd, b"\n") if repair else 0)
        if repair and whole != size:
            os.ftruncate(self._fd, whole)
            reach("journal.cut")
        return whole

    def _is_record(self, offset: int) -> bool:
        """Whether the line at this offset has its checksum, or comes from a newer version, which scanning refuses."""
        try:
            return decoded_line(self._line_at(offset), early=False) is not None
        except NewerLine:
            return True

    def _move_damage(self) -> None:
        """Move the damaged lines to a file of their own; a new file with the others takes the place of the journal."""
        draft, aside = self._path.with_name(f".{self._path.name}.draft"), self._path.with_suffix(".damaged")
        try:
            draft.unlink(missing_ok=True)
            with open(aside, "ab", opener=_through_no_link) as bad, open(draft, "xb") as good:  # noqa: PTH123 - opener
                for line in self._lines():
                    (bad if line.record is None else good).write(line.raw)
                for file in (bad, good):
                    file.flush()
                    if self._fsync != "never":
                        sync(file.fileno())
            descriptor = _opened(draft, read_only=False)  # locked before it has the name of the journal
            try:
                reach("journal.repaired")
                draft.replace(self._path)
                reach("journal.replaced")
            except BaseException:
                os.close(descriptor)
                raise
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        os.close(self._fd)
        self._fd = descriptor
        if self._fsync != "never":
            sync_folder(self._path.parent)
        self._scan(repair=True)

    def _unusable(self, exc: OSError) -> RunError:
        return RunError(
            f"the journal cannot be read or written: {exc.strerror or exc}",
            where=str(self._path),
            hint=f"{disk_hint(exc)} The same command continues from what is there.",
        )


def _through_no_link(path: str, flags: int) -> int:
    """Open a file; a link in its place is an error: a run folder may come from anybody."""
    return regular_file(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _opened(path: Path, *, read_only: bool) -> int:
    """Open a journal; lock it, unless it is only read."""
    if read_only:
        return regular_file(path, os.O_RDONLY)
    while True:
        descriptor = regular_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            lock(descriptor, path)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # another process has repaired the file since it was opened: the name has a new one
