"""Documents: named texts, read from files and folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.errors import DataError
from kshot.passages.readers import FORMAT_PACKAGES, FORMATS, NoteCallback, read_text

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
        document if len(groups[document.name]) == 1 else replace(document, name=_path_name(document, shared))
        for document in documents
        if id(document) in kept
    ]


def _path_name(document: Document, shared: Path) -> str:
    return Path(document.path).absolute().relative_to(shared).as_posix()
