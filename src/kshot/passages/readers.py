"""Reads the text of a file: notebook, markdown, plain text, HTML or PDF."""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.errors import DataError
from kshot.core.extras import import_package
from kshot.core.text_files import parse_json, read_whole
from kshot.passages.webpages import HTML_PACKAGES, visible_text

FORMATS = {
    ".ipynb": "notebook",
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".rst": "text",
    ".html": "html",
    ".htm": "html",
    ".pdf": "pdf",
}
"""The formats that can be read, by suffix."""

FORMAT_PACKAGES = {"html": HTML_PACKAGES, "pdf": ("pypdf",)}
"""The packages of kshot's extras that formats need."""

NoteCallback: TypeAlias = Callable[[str], None]
"""Is called with what is left out or odd: one sentence."""

# The first one that fits counts: the byte order mark of UTF-32 begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONVERT_HINT = "Convert it to UTF-8: iconv -f ITS_ENCODING -t UTF-8 FILE."


def read_text(file: Path, kind: str, until: str | None, note: NoteCallback) -> str:
    """Read a file of this format as text; ``note`` is called with what is odd about it."""
    try:
        raw = read_whole(file)
    except OSError as exc:
        raise DataError(f"the file cannot be read: {exc.strerror or exc}", where=str(file)) from exc
    if kind == "pdf":
        text = _pdf_text(raw, file, note)
    else:
        text = _decoded(raw, file)
        if kind == "notebook":
            text = _notebook_text(text, file, until, note)
        elif kind == "html":
            text = visible_text(text)
    if "\0" in text:  # a cell of a notebook may spell it, and a PDF may have it: search indexes end a text there
        note("its characters NUL are replaced by U+FFFD")
        text = text.replace("\0", "\ufffd")
    if not text.strip():
        note("it has no text")
    return text


def _decoded(raw: bytes, file: Path) -> str:
    """Return the characters as they are, line ends too."""
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if raw.startswith(mark)), "utf-8")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as exc:
        what = f"it is not {encoding.upper()} text: byte {exc.start} (0x{raw[exc.start]:02x}) does not belong there"
        raise DataError(what, where=str(file), hint=_CONVERT_HINT) from exc
    if "\0" in text:
        at = len(text[: text.index("\0")].encode(encoding, "surrogatepass"))
        raise DataError(f"it is not text: byte {at} is NUL", where=str(file), hint=f"If it is text: {_CONVERT_HINT}")
    return text.removeprefix("\ufeff")  # the mark of UTF-8; the other codecs remove theirs


def _notebook_text(text: str, file: Path, until: str | None, note: NoteCallback) -> str:
    """Return every cell that is not raw, each followed by a newline, up to the cell with the line ``until``."""
    try:
        book = parse_json(text)
    except json.JSONDecodeError as exc:
        raise DataError(f"this is not JSON: {exc.msg}", where=f"{file}:{exc.lineno}") from exc
    except ValueError as exc:
        raise DataError(f"its JSON cannot be read: {exc}", where=str(file)) from exc
    cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list):
        hint = "Convert it to the present format: jupyter nbconvert --to notebook --inplace FILE."
        raise DataError("this notebook has no cells", where=str(file), hint=hint)
    sources = []
    for number, cell in enumerate(cells):
        source = _cell_source(cell, f"{file}, cell {number}")
        if cell.get("cell_type") == "raw":
            continue
        if until is not None and any(line.strip() == until for line in source.splitlines()):
            break
        sources.append(source + "\n")
    else:
        if until is not None:
            note(f"no cell has {until!r}, so it is read to its end")
    return "".join(sources)


def _cell_source(cell: Any, where: str) -> str:
    source = cell.get("source", "") if isinstance(cell, dict) else None
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        return "".join(source)
    if not isinstance(source, str):
        raise DataError("a cell must be an object whose source is text", where=where)
    return source


def _pdf_text(raw: bytes, file: Path, note: NoteCallback) -> str:
    """Return the text of the pages, with a form feed between them.

    Lines are joined: the breaks belong to the page, not to the text. A quote that is copied has a space where the page
    breaks a line, and no hyphen where it breaks a word.
    """
    pypdf = import_package("reading PDF files", "pypdf")
    try:
        reader = pypdf.PdfReader(io.BytesIO(raw))
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = [] if locked else [_joined_lines(page.extract_text().replace("\0", "")) for page in reader.pages]
    except Exception as exc:  # a broken file can raise anything in the library
        raise DataError(f"this PDF cannot be read: {type(exc).__name__}: {exc}", where=str(file)) from exc
    if locked:
        raise DataError("it is encrypted", where=str(file), hint="Save it without a password.")
    blank = sum(not page.strip() for page in pages)
    if blank:
        note(f"{blank} of its {len(pages)} pages have no text (scanned pages need OCR first)")
    return "\f".join(pages)


def _joined_lines(page: str) -> str:
    """Join the lines of a page; blank lines stay."""
    whole = re.sub(r"(?<=[^\W\d_])-\n(?=[a-z])", "", page)
    # It looks at each run of blanks once, so that a page of blanks takes no quadratic time.
    return re.sub(r"(?<![ \t])[ \t]*(?<!\n)\n(?![^\S\n]*\n)[ \t]*", " ", whole)
