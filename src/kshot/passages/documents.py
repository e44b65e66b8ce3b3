"""Documents: texts from files and folders, under names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from kshot.core.errors import DataError
from kshot.passages.readers import FORMATS, read_text

Note = Callable[[str], None]
"""Told of what was left out or is odd: one sentence that names the file."""

Given: TypeAlias = "str | Path | Sequence[str | Path]"


@dataclass(frozen=True, slots=True)
class Document:
    """A text that passages are cut from; ``path`` and ``format`` say where it was read."""

    name: str
    text: str
    path: str = ""
    format: str = ""


def nobody(_: str) -> None:
    """Hear no notes."""


def read_document(path: str | Path, *, until: str | None = None, note: Note = nobody) -> Document:
    """Read a notebook, markdown, text, HTML or PDF file; its name is the file's, without suffix.

    ``until`` is a heading line, such as ``## Questionnaire``: a notebook is read up to the cell that has it.
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


def read_documents(given: Given, *, until: str | None = None, note: Note = nobody) -> list[Document]:
    """Read a file, a folder with all below it (``chapter_2`` before ``chapter_10``), or a list of these in its order.

    Of a folder, hidden files are left out, and files of unknown types with a note. Documents of one name and one text
    are one; those of one name and different texts are named by their paths.
    """
    places = [given] if isinstance(given, str | os.PathLike) else list(given)
    if not places:
        raise DataError("no documents are given", hint="Give a file, a folder, or a list of them.")
    files = [file for place in places for file in _files(Path(place).expanduser(), note)]
    return _named([read_document(file, until=until, note=note) for file in files], note)


def _files(place: Path, note: Note) -> Iterator[Path]:
    if not place.is_dir():
        if not place.exists():
            raise DataError("there is no such file or folder", where=str(place))
        yield place
        return
    found = False
    for file in sorted(_below(place), key=lambda file: _natural(file.relative_to(place))):
        if file.suffix.lower() in FORMATS:
            found = True
            yield file
        else:
            note(f"{file}: left out, files of type {file.suffix!r} cannot be read")
    if not found:
        hint = f"Readable: {', '.join(FORMATS)}."
        raise DataError("no document is in this folder or below it", where=str(place), hint=hint)


def _below(folder: Path) -> Iterator[Path]:
    """Files that are not hidden; links are followed, each folder is entered once."""

    def refuse(exc: OSError) -> None:
        raise DataError(f"the folder cannot be read: {exc.strerror or exc}", where=str(exc.filename)) from exc

    entered: set[str] = set()
    for here, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        entered.add(os.path.realpath(here))
        fresh = (name for name in sorted(folders) if not name.startswith("."))
        folders[:] = [name for name in fresh if os.path.realpath(Path(here, name)) not in entered]
        yield from (Path(here, name) for name in names if not name.startswith("."))


def _natural(path: Path) -> tuple[Any, ...]:
    """Numbers in names count as numbers."""
    parts = tuple(
        tuple(int(bit) if bit.isdecimal() else bit for bit in re.split(r"(\d+)", part.casefold()))
        for part in path.parts
    )
    return parts, str(path)


def _named(documents: Sequence[Document], note: Note) -> list[Document]:
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
