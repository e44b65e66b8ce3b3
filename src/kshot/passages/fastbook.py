"""Benchmarks in the format of fastbook-benchmark: questions with evidence, and the chapters they ask about."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kshot.core.errors import DataError, UsageError
from kshot.passages.benchmark import Benchmark
from kshot.passages.documents import Document, read_documents
from kshot.passages.fetching import local
from kshot.passages.questions import QuestionSet, chapters, read_questions

RECIPE = "sentence:500/64,parts=2"
"""How the published results cut the chapters."""

OWN_CHUNKS = "recursive:500/64"

HANDBOOK = Path(__file__).parent / "handbook"
HANDBOOK_CHUNKS = "headings:200,tokenizer=words"

_QUESTIONNAIRE = "## Questionnaire"
_FOLDERS = ("chapters", "documents", "docs")
_NUMBER = re.compile(r"\d+")


def fastbook(
    data: Sequence[str] | None,
    *,
    kinds: Sequence[str] = ("all",),
    only: Sequence[str] = (),
    name: str = "fastbook",
    chunker: str = RECIPE,
) -> Benchmark:
    """Read a benchmark of this format from ``data``: a folder, file or URL, or ``questions=…`` and ``documents=…``."""
    notes: list[str] = []
    questions_at, documents_at = _places(data, name)
    if documents_at is None:
        raise UsageError(
            f"{questions_at} comes without its documents", hint="Add --data documents=FOLDER (or URL of an archive)."
        )
    documents = read_documents(documents_at, until=_QUESTIONNAIRE, note=notes.append)
    found = _benchmark(name, read_questions(questions_at), documents, kinds=kinds, only=only)
    return replace(found, chunker=chunker, notes=(*notes, *found.notes))


def own(data: Sequence[str] | None, *, kinds: Sequence[str] = ("all",), only: Sequence[str] = ()) -> Benchmark:
    """Read anyone's benchmark of this format; it is called as its folder is."""
    given = Path((data or ["passages"])[0].partition("=")[2] or (data or ["passages"])[0])
    name = given.parent.name if given.suffix else given.name
    return fastbook(data, kinds=kinds, only=only, name=name or "passages", chunker=OWN_CHUNKS)


def handbook(*, kinds: Sequence[str] = ("all",), only: Sequence[str] = ()) -> Benchmark:
    """Read the benchmark in the box: questions about kshot's own documentation."""
    questions, documents = read_questions(HANDBOOK / "questions.json"), read_documents(HANDBOOK / "documents")
    found = _benchmark("handbook", questions, documents, kinds=kinds, only=only)
    return replace(found, within=None, chunker=HANDBOOK_CHUNKS)


def find_questions(given: str) -> Path:
    """Find the question file that a path, folder or URL names."""
    path = local(given)
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


def _places(data: Sequence[str] | None, name: str) -> tuple[Path, Path | None]:
    keyed = dict(entry.split("=", 1) for entry in data or () if re.match(r"(questions|documents)=", entry))
    plain = [entry for entry in data or () if not re.match(r"(questions|documents)=", entry)]
    if len(plain) > 1 or (plain and len(keyed) == 2) or not (plain or "questions" in keyed):  # noqa: PLR2004 - both keys
        raise UsageError(
            f"{name} needs its questions and documents",
            hint="Give --data FOLDER_OR_URL with both, or --data questions=FILE --data documents=FOLDER.",
        )
    questions = find_questions(keyed.get("questions") or plain[0])
    if "documents" in keyed:
        return questions, local(keyed["documents"])
    folder = local(plain[0]) if plain else questions.parent
    folder = folder if folder.is_dir() else folder.parent
    return questions, next((folder / sub for sub in _FOLDERS if (folder / sub).is_dir()), _with_documents(folder))


def _with_documents(folder: Path) -> Path | None:
    kinds = {".ipynb", ".md", ".txt", ".html", ".pdf", ".rst"}
    return folder if any(file.suffix.lower() in kinds for file in folder.iterdir()) else None


def _holds_questions(file: Path) -> bool:
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and isinstance(found.get("questions"), list)


def _benchmark(
    name: str,
    found: QuestionSet,
    documents: Sequence[Document],
    *,
    kinds: Sequence[str],
    only: Sequence[str],
) -> Benchmark:
    notes: list[str] = []
    asked = list(chapters(found.questions))
    if unknown := next((chapter for chapter in only if chapter not in asked), None):
        raise UsageError(f"{name} has no chapter {unknown!r}", hint=f"It has: {', '.join(asked)}.")
    samples = [s for s in found.samples(kinds) if not only or s.category in only]
    if (left_out := sum(not only or q.chapter in only for q in found.questions) - len(samples)) > 0:
        notes.append(f"{left_out} questions have no component left under --components {','.join(kinds)}: left out")
    return Benchmark(
        name,
        samples,
        documents=_by_chapter(documents, asked),
        within="chapter",
        notes=tuple(notes),
        facts={"questions": len(samples), "components": sum(len(s.fields["components"]) for s in samples)},
        topics=tuple(question.id for question in found.questions),
    )


def _by_chapter(documents: Sequence[Document], asked: Sequence[str]) -> list[Document]:
    """Tell which document is which chapter: by its name, or by the number in it. Equal texts are one document."""
    kept: dict[str, Document] = {}
    for document in documents:
        chapter = _chapter(document.name, asked)
        other = kept.get(chapter)
        if other is not None and other.text != document.text:
            raise DataError(
                f"{other.name} and {document.name} are both chapter {chapter}, and differ",
                where=document.path,
                hint="Leave one document for each chapter.",
            )
        kept.setdefault(chapter, document)
    if (missing := next((chapter for chapter in asked if chapter not in kept), None)) is not None:
        some = ", ".join(document.name for document in documents[:8])
        raise DataError(
            f"chapter {missing} is asked about, and no document is it",
            where=documents[0].path if documents else "",
            hint=f"A document's name, or the first number in it, says which chapter it is; there are: {some}.",
        )
    return [replace(document, name=chapter) for chapter, document in kept.items()]


def _chapter(name: str, asked: Sequence[str]) -> str:
    if name in asked:
        return name
    number = _NUMBER.search(name)
    return str(int(number.group())) if number and str(int(number.group())) in asked else name
