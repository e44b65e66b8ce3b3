"""The lines of a journal: one response each, with a checksum, so that a damaged line is found and never used.

A line is a JSON object that ends in ``"v":2,"sum":"…"``. The checksum covers every byte before ``,"sum"``. Journals of
earlier versions have neither field; their lines may only stand before the first line that has a checksum.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from kshot.core.errors import RunError
from kshot.core.records import Failed, Response
from kshot.core.serialization import response_from_json, response_to_json

FORMAT = 2
"""The newest form of journals and of ``spec.json`` that this version reads, and the one that it writes."""

_BOM = b"\xef\xbb\xbf"
_KEY = re.compile(r"[0-9a-f]{32}")
_ENDING = re.compile(rb',"v":(\d{1,9}),"sum":"([0-9a-f]{16})"\}')
_ENDING_BYTES = len(b',"v":000000000,"sum":"0123456789abcdef"}')
_EARLY_FIELDS = {"key", "asked", "response"}
_encoded = json.JSONEncoder(separators=(",", ":")).encode


class JournalRecord(NamedTuple):
    """One response, under the key of its request; ``asked`` is the digest of the request, without the model."""

    key: str
    asked: str
    response: Response
    has_checksum: bool

    @property
    def failed(self) -> bool:
        """Whether it holds no answer."""
        return isinstance(self.response, Failed)


class JournalLine(NamedTuple):
    """A line of a journal: where it stands, its bytes, and its record; None if the line is damaged."""

    number: int
    offset: int
    raw: bytes
    record: JournalRecord | None


def encoded_line(key: str, asked: str, response: Response) -> bytes:
    """Return the line of a response, with its checksum."""
    body = _encoded({"key": key, "asked": asked, "response": response_to_json(response), "v": FORMAT}).encode()[:-1]
    return b'%b,"sum":"%b"}\n' % (body, _checksum(body))


def decoded_line(line: bytes, *, early: bool) -> JournalRecord | None:
    """Return the record of a line, or None if the line is damaged; ``early``: a line without a checksum is a record.

    A byte order mark before a line and a carriage return after it, which editors and version control add, do no harm.
    """
    line = line.removeprefix(_BOM).rstrip(b"\r\n")
    ending = _ENDING.search(line, max(0, len(line) - _ENDING_BYTES))
    whole = ending is not None and ending.end() == len(line) and _checksum(line[: ending.end(1)]) == ending[2]
    if not whole and not early and b'"v":' not in line:
        return None
    try:
        row = json.loads(line)
        version = row.get("v", 1)
        if type(version) is int and version > FORMAT and not _is_ours(line, ending):
            raise NewerLine(version)
        # A line without a checksum, but with other fields, had one, which is damaged.
        if not (whole and version == FORMAT) and not (early and row.keys() <= _EARLY_FIELDS):
            return None
        asked = row.get("asked", "")
        if not isinstance(asked, str) or not _KEY.fullmatch(row["key"]):
            return None
        return JournalRecord(row["key"], asked, response_from_json(row["response"]), whole)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _is_ours(line: bytes, ending: re.Match[bytes] | None) -> bool:
    """Whether a line that seems to have a newer format is one of ours, in which this very number is damaged."""
    if ending is None:
        return False
    return _checksum(b"%b%d" % (line[: ending.start(1)], FORMAT)) == ending[2]


class NewerLine(Exception):  # noqa: N818 - it names what was found
    """A line that a newer version of kshot has written."""


def journal_lines(file: Iterable[bytes], where: str, *, end: int | None = None) -> Iterator[JournalLine]:
    """Yield the lines of a journal up to the offset ``end``; empty lines are left out."""
    offset, early = 0, True
    for number, line in enumerate(file, start=1):
        if end is not None and offset >= end:
            return
        if line.strip():
            try:
                record = decoded_line(line, early=early)
            except NewerLine as exc:
                raise newer_version(f"{where}:{number}", exc.args[0]) from None
            early = early and not (record is not None and record.has_checksum)
            yield JournalLine(number, offset, line, record)
        offset += len(line)


def newer_version(where: str, found: int) -> RunError:
    """Return the error for a file that a newer version of kshot has written."""
    return RunError(
        f"a newer version of kshot wrote this (format {found}; this version reads up to {FORMAT})",
        where=where,
        hint="Use that version, or choose another folder with --out.",
    )


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=8).hexdigest().encode()


_MAX_NAMED = 5
"""Damaged lines that a note names."""


def damage_note(where: str, damaged: list[tuple[int, int]], then: str) -> str:
    """Return the note on damaged lines, which are given by number and offset; ``then`` has {they} and {are}."""
    named = ", ".join(f"{number} at byte {offset:,}" for number, offset in damaged[:_MAX_NAMED])
    more = ", …" if len(damaged) > _MAX_NAMED else ""
    one = len(damaged) == 1
    words = {"they": "it", "are": "is"} if one else {"they": "they", "are": "are"}
    lines = "1 line is" if one else f"{len(damaged):,} lines are"
    return f"{where}: {lines} damaged ({named}{more}); {then.format(**words)}"
