"""What is no UTF-8 text: files of other kinds, and the place of the first byte that cannot be read."""

from __future__ import annotations

from pathlib import Path

from kshot.core.errors import DataError

_KINDS = {
    b"PK\x03\x04": ("a zip archive or an Excel workbook", "Save the sheet as CSV UTF-8."),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "Save the sheet as CSV UTF-8."),
    b"PAR1": ("a parquet file", "Name it .parquet."),
    b"\x1f\x8b": ("compressed by gzip", "Unpack it first."),
    b"%PDF": ("a PDF document", ""),
    b"SQLite format 3": ("a database of SQLite", "Export the table as CSV."),
    b"\xff\xfe\0\0": ("text in UTF-32", "Save it as UTF-8."),
    b"\0\0\xfe\xff": ("text in UTF-32", "Save it as UTF-8."),
    b"\xff\xfe": ("text in UTF-16", "Save it as UTF-8."),
    b"\xfe\xff": ("text in UTF-16", "Save it as UTF-8."),
}
_HEAD_BYTES = 4096


def check_text(file: Path) -> None:
    """Refuse a file that its first bytes show to be no text; raise ``OSError`` if it cannot be read."""
    with file.open("rb") as opened:
        head = opened.read(_HEAD_BYTES)
    for mark, (kind, hint) in _KINDS.items():
        if head.startswith(mark):
            raise DataError(f"it is {kind}, not text in UTF-8", where=str(file), hint=hint)
    if b"\0" in head:
        line, column = _place(head, head.index(b"\0"))
        what = f"it is a binary file, not text: byte {column} of this line is 0"
        raise DataError(what, where=f"{file}:{line}", hint="Save the rows as CSV, JSON lines or parquet.")


def not_utf8(file: Path) -> DataError:
    """Return the error for a file that is not UTF-8: it names the line and the column of the first wrong byte."""
    what, where = "the file is not UTF-8 text", str(file)
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            wrong = _first_wrong(line)
            if wrong is not None:
                character = len(line[:wrong].decode()) + 1
                what += f" (byte 0x{line[wrong]:02x} at character {character})"
                where = f"{file}:{number}"
                break
    return DataError(what, where=where, hint="Save it as UTF-8 (in Excel: CSV UTF-8).")


def _first_wrong(line: bytes) -> int | None:
    """Return the place of the first byte that is no part of UTF-8 text."""
    try:
        line.decode()
    except UnicodeDecodeError as exc:
        return exc.start
    return None


def _place(content: bytes, index: int) -> tuple[int, int]:
    """Return the line and the byte within it, both from 1."""
    before = content[:index]
    return before.count(b"\n") + 1, index - (before.rfind(b"\n") + 1) + 1
