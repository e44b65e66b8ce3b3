"""Documents: named texts, read from files and folders: notebooks, markdown, plain text, HTML and PDF."""

from __future__ import annotations

import codecs
import importlib
import io
import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.errors import DataError
from kshot.core.extras import import_package, importing
from kshot.core.text_files import parse_json, read_whole

HTML_PACKAGES = ("beautifulsoup4", "lxml")

_INVISIBLE_TAGS = {"head", "iframe", "noscript", "object", "script", "select", "style", "svg", "template", "textarea"}
_HEADING_MARKS = {f"h{depth}": "#" * depth + " " for depth in range(1, 7)}
_PARAGRAPH_TAGS = {
    "address", "article", "aside", "blockquote", "body", "details", "dl", "fieldset", "figure", "footer", "form",
    "header", "hr", "main", "nav", "ol", "p", "pre", "section", "table", "ul",
    *_HEADING_MARKS,
}  # fmt: skip
_LINE_TAGS = {"br", "caption", "dd", "div", "dt", "figcaption", "legend", "li", "summary", "tr"}
_CELL_TAGS = {"td", "th"}
_HIDDEN_STYLE = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)


def visible_text(html: str) -> str:
    """Return blocks on lines of their own, headings as markdown's ``#`` lines, and preformatted text as it is."""
    page = _Page()
    stack = [(_parsed(html), False)]
    while stack:  # no recursion: pages nest deeper than Python allows
        node, leaving = stack.pop()
        if getattr(node, "name", None) is None:  # only tags of bs4 have a name
            if type(node).__name__ == "NavigableString":  # comments and the like are subclasses
                page.add_text(str(node))
        elif leaving:
            page.leave(node.name)
        elif node.name not in _INVISIBLE_TAGS and not _hidden(node):
            page.enter(node.name)
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.contents))
    return page.text()


def _parsed(html: str) -> Any:
    with importing("reading HTML", *HTML_PACKAGES):
        bs4: Any = importlib.import_module("bs4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bs4 warns of text that looks like a file name or XML; it is read nevertheless
        return bs4.BeautifulSoup(html, "lxml")


def _hidden(node: Any) -> bool:
    if not node.attrs:
        return False
    return "hidden" in node.attrs or bool(_HIDDEN_STYLE.search(str(node.attrs.get("style", ""))))


class _Page:
    """Text as it is laid out: between two pieces stands the strongest break that was wanted there."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._break = self._mark = ""
        self._preformatted = 0

    def add_text(self, text: str) -> None:
        if self._preformatted:
            self._append(text.removeprefix("\n") if self._break else text)
            return
        words = text.split()
        if text[:1].isspace():
            self._want_break(" ")
        if words:
            self._append(" ".join(words))
            if text[-1].isspace():
                self._want_break(" ")

    def enter(self, tag: str) -> None:
        self._separate(tag)
        self._mark = _HEADING_MARKS.get(tag, self._mark)
        self._preformatted += tag == "pre"

    def leave(self, tag: str) -> None:
        self._preformatted -= tag == "pre"
        if tag in _HEADING_MARKS:
            self._mark = ""  # an empty heading leaves no trace
        self._separate(tag)

    def text(self) -> str:
        body = "".join(self._pieces)
        return body + "\n" if body else ""

    def _separate(self, tag: str) -> None:
        if tag in _PARAGRAPH_TAGS:
            self._want_break("\n\n")
        elif tag in _LINE_TAGS:
            self._want_break("\n")
        elif tag in _CELL_TAGS:
            self._want_break(" ")

    def _want_break(self, wanted: str) -> None:
        if len(wanted) > len(self._break) or (wanted == "\n" and self._break == " "):
            self._break = wanted

    def _append(self, text: str) -> None:
        if not text:
            return
        if self._pieces:
            self._pieces.append(self._break)
        self._pieces += [self._mark, text]
        self._break = self._mark = ""


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


DocumentPaths: TypeAlias = "str | Path | Sequence[str | Path]"


@dataclass(frozen=True, slots=True)
class Document:
    """A text that is cut into passages; ``path`` and ``format`` say what it was read from."""

    name: str
    text: str
    path: str = ""
    format: str = ""


def ignore_note(_: str) -> None:
    """Drop a note."""


def read_document(path: str | Path, *, until: str | None = None, note: NoteCallback = ignore_note) -> Document:
    """Read a notebook, markdown, text, HTML or PDF file; the document is named as the file, without suffix.

    ``until`` is a heading line, such as ``## Questionnaire``: a notebook is read up to the cell that has it. ``note``
    is called with one sentence, which names the file, for everything that is left out or odd.
    """
    file = Path(path).expanduser()
    kind = FORMATS.get(file.suffix.lower())
    if not file.exists():
        raise DataError("there is no such file", where=str(file))
    if not file.is_file():
        raise DataError("this is not a file", where=str(file), hint="Give a file, or a folder to read_documents.")
    if kind is None:
        hint = f"Known: {', '.join(FORMATS)}."
        raise DataError(f"files of type {file.suffix!r} cannot be read", where=str(file), hint=hint)
    text = read_text(file, kind, until, lambda what: note(f"{file}: {what}"))
    return Document(file.stem, text, str(file), kind)


def read_documents(
    paths: DocumentPaths, *, until: str | None = None, note: NoteCallback = ignore_note
) -> list[Document]:
    """Read a file, a folder with all below it (``chapter_2`` before ``chapter_10``), or a list of these in its order.

    In a folder, hidden files are skipped, and files of unknown types are skipped with a note. Of documents with the
    same name and text one is kept; documents with the same name and different texts are named by their paths.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not listed:
        raise DataError("no documents are given", hint="Give a file, a folder, or a list of them.")
    files = [file for path in listed for file in _files(Path(path).expanduser(), note)]
    return _with_distinct_names([read_document(file, until=until, note=note) for file in files], note)


def document_packages(path: Path) -> tuple[str, ...]:
    """Return the packages of kshot's extras that reading a file, or a folder with all below it, needs."""
    formats = {FORMATS.get(file.suffix.lower(), "") for file in _files(path, ignore_note)}
    return tuple(name for kind, names in FORMAT_PACKAGES.items() if kind in formats for name in names)


def _files(path: Path, note: NoteCallback) -> Iterator[Path]:
    if not path.is_dir():
        if not path.exists():
            raise DataError("there is no such file or folder", where=str(path))
        yield path
        return
    found = False
    for file in sorted(_files_below(path), key=lambda file: _natural_order(file.relative_to(path))):
        if file.suffix.lower() in FORMATS:
            found = True
            yield file
        else:
            note(f"{file}: left out, files of type {file.suffix!r} cannot be read")
    if not found:
        hint = f"Readable: {', '.join(FORMATS)}."
        raise DataError("no document is in this folder or below it", where=str(path), hint=hint)


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the files that are not hidden; links are followed, each folder is entered once."""

    def refuse(exc: OSError) -> None:
        raise DataError(f"the folder cannot be read: {exc.strerror or exc}", where=str(exc.filename)) from exc

    entered: set[str] = set()
    for parent, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        entered.add(os.path.realpath(parent))
        visible = (name for name in sorted(folders) if not name.startswith("."))
        folders[:] = [name for name in visible if os.path.realpath(Path(parent, name)) not in entered]
        yield from (Path(parent, name) for name in names if not name.startswith("."))


def _natural_order(path: Path) -> tuple[Any, ...]:
    """Return a sort key in which numbers in names count as numbers."""
    parts = tuple(
        tuple(int(bit) if bit.isdecimal() else bit for bit in re.split(r"(\d+)", part.casefold()))
        for part in path.parts
    )
    return parts, str(path)


def _with_distinct_names(documents: Sequence[Document], note: NoteCallback) -> list[Document]:
    groups: dict[str, list[Document]] = {}
    for document in documents:
        same = groups.setdefault(document.name, [])
        if twin := next((other for other in same if other.text == document.text), None):
            note(f"{document.path}: left out, it has the name and text of {twin.path}")
        else:
            same.append(document)
    kept = {id(document) for same in groups.values() for document in same}
    folders = [str(Path(document.path).absolute().parent) for document in documents]
    shared = Path(os.path.commonpath(folders)) if folders else Path()
    return [
        document
        if len(groups[document.name]) == 1
        else replace(document, name=Path(document.path).absolute().relative_to(shared).as_posix())
        for document in documents
        if id(document) in kept
    ]
