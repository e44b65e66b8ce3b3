"""Benchmarks in the format of fastbook-benchmark: questions with evidence, and the chapters that they are about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kshot.core.errors import DataError, UsageError
from kshot.core.text_files import parse_json, read_whole
from kshot.passages.benchmark import Benchmark
from kshot.passages.documents import Document, document_packages, read_documents
from kshot.passages.fetching import fetch_notes, is_url, local_path
from kshot.passages.questions import read_questions

FASTBOOK_CHUNKER = "sentence:500/64,parts=2"
"""How the published results cut the chapters."""

OWN_CHUNKER = "recursive:500/64"

HANDBOOK = Path(__file__).parent / "handbook"
HANDBOOK_CHUNKER = "headings:200,tokenizer=words"

_LAST_HEADING = "## Questionnaire"
"""A notebook is read up to this heading: the questions themselves follow it."""

_DOCUMENT_FOLDERS = ("chapters", "documents", "docs")
_DOCUMENT_SUFFIXES = {".ipynb", ".md", ".txt", ".html", ".pdf", ".rst"}
"""A folder with such a file holds documents beside its questions."""
_KEYED = re.compile(r"(questions|documents)=(.*)", re.DOTALL)
_NUMBER = re.compile(r"\d+")


def fastbook(
    data: Sequence[str] | None,
    *,
    filters: Sequence[str] = ("all",),
    only: Sequence[str] = (),
    name: str = "fastbook",
    chunker: str = FASTBOOK_CHUNKER,
    within: str = "chapter",
) -> Benchmark:
    """Read a benchmark of this format from ``data``: a folder, file or URL, or ``questions=…`` and ``documents=…``.

    ``within`` says where a question searches, unless the file of questions does. fastbook's published results search
    the question's chapter.
    """
    question_file, document_folder = _paths(data, name)
    notes = fetch_notes(data)
    if document_folder is None:
        raise UsageError(
            f"{question_file} comes without its documents", hint="Add --data documents=FOLDER (or URL of an archive)."
        )
    documents = read_documents(document_folder, until=_LAST_HEADING, note=notes.append)
    found = read_questions(question_file)
    chapters = found.chapters()
    if unknown := next((chapter for chapter in only if chapter not in chapters), None):
        raise UsageError(f"{name} has no chapter {unknown!r}", hint=f"It has: {', '.join(chapters)}.")
    samples = [s for s in found.samples(filters) if not only or s.category in only]
    if (left_out := sum(not only or q.chapter in only for q in found.questions) - len(samples)) > 0:
        notes.append(f"{left_out} questions have no component left under --components {','.join(filters)}: left out")
    searched = found.within or within
    return Benchmark(
        name,
        samples,
        documents=_by_chapter(documents, chapters),
        within=None if searched == "none" else searched,
        chunker=chunker,
        notes=tuple(notes),
        facts={"questions": len(samples), "components": sum(len(s.fields["components"]) for s in samples)},
        topics=tuple(question.id for question in found.questions),
    )


def own_benchmark(
    data: Sequence[str] | None, *, filters: Sequence[str] = ("all",), only: Sequence[str] = ()
) -> Benchmark:
    """Read a user's own benchmark of this format; it is named after its folder, and searches all documents."""
    first = (data or ["passages"])[0]
    path = Path(first.partition("=")[2] or first)
    name = path.parent.name if path.suffix else path.name
    return fastbook(data, filters=filters, only=only, name=name or "passages", chunker=OWN_CHUNKER, within="none")


def handbook(*, filters: Sequence[str] = ("all",), only: Sequence[str] = ()) -> Benchmark:
    """Read the built-in benchmark: questions about kshot's own documentation."""
    return fastbook(
        [str(HANDBOOK)], filters=filters, only=only, name="handbook", chunker=HANDBOOK_CHUNKER, within="none"
    )


def own_document_packages(data: Sequence[str] | None, name: str) -> tuple[str, ...]:
    """Return the packages of kshot's extras that reading the documents needs; those of a URL are not known yet."""
    if any(is_url(entry.partition("=")[2] or entry) for entry in data or ()):
        return ()
    _, folder = _paths(data, name)
    return document_packages(folder) if folder is not None else ()


def find_questions(location: str) -> Path:
    """Return the question file that a path, folder or URL names."""
    path = local_path(location)
    if not path.is_dir():
        if not path.exists():
            raise DataError("there is no such file", where=str(path))
        return path
    named = [path / name for name in ("fastbook-benchmark.json", "questions.json") if (path / name).is_file()]
    found = named[:1] or [file for file in sorted(path.glob("*.json")) if _holds_questions(file)]
    if len(found) != 1:
        what = "several files hold questions" if found else "no JSON file here holds questions"
        raise DataError(what, where=str(path), hint="Name it: --data questions=FILE --data documents=FOLDER.")
    return found[0]


def _paths(data: Sequence[str] | None, name: str) -> tuple[Path, Path | None]:
    """Return the question file and the folder of documents, if there is one."""
    named = [(found[1], found[2]) for entry in data or () if (found := _KEYED.fullmatch(entry))]
    keyed = dict(named)
    if len(keyed) < len(set(named)):
        raise UsageError(f"{name} takes one --data {named[-1][0]}=…", hint="Put everything into one folder or file.")
    plain = [entry for entry in data or () if not _KEYED.fullmatch(entry)]
    if len(plain) > 1 or (plain and len(keyed) == 2) or not (plain or "questions" in keyed):  # noqa: PLR2004 - both keys
        raise UsageError(
            f"{name} needs its questions and documents",
            hint="Give --data FOLDER_OR_URL with both, or --data questions=FILE --data documents=FOLDER.",
        )
    questions = find_questions(keyed.get("questions") or plain[0])
    if "documents" in keyed:
        return questions, local_path(keyed["documents"])
    folder = local_path(plain[0]) if plain else questions.parent
    folder = folder if folder.is_dir() else folder.parent
    below = next((folder / sub for sub in _DOCUMENT_FOLDERS if (folder / sub).is_dir()), None)
    if below is None and any(file.suffix.lower() in _DOCUMENT_SUFFIXES for file in folder.iterdir()):
        return questions, folder
    return questions, below


def _holds_questions(file: Path) -> bool:
    try:
        found = parse_json(read_whole(file).decode("utf-8-sig"))
    except (OSError, ValueError, DataError):
        return False
    return isinstance(found, dict) and isinstance(found.get("questions"), list)


def _by_chapter(documents: Sequence[Document], chapters: Sequence[str]) -> list[Document]:
    """Name each document by its chapter: its own name, or the first number in it. Of equal texts one is kept."""
    kept: dict[str, Document] = {}
    for document in documents:
        chapter = _chapter(document.name, chapters)
        other = kept.get(chapter)
        if other is not None and other.text != document.text:
            raise DataError(
                f"{other.name} and {document.name} are both chapter {chapter}, and differ",
                where=document.path,
                hint="Leave one document for each chapter.",
            )
        kept.setdefault(chapter, document)
    if (missing := next((chapter for chapter in chapters if chapter not in kept), None)) is not None:
        some = ", ".join(document.name for document in documents[:8])
        raise DataError(
            f"there are questions about chapter {missing}, and it has no document",
            where=documents[0].path if documents else "",
            hint=f"The name of a document, or the first number in it, is its chapter. The documents are: {some}.",
        )
    return [replace(document, name=chapter) for chapter, document in kept.items()]


def _chapter(name: str, chapters: Sequence[str]) -> str:
    if name in chapters:
        return name
    number = _NUMBER.search(name)
    return str(int(number.group())) if number and str(int(number.group())) in chapters else name
