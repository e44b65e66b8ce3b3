"""Questions with evidence, in the format of fastbook-benchmark: read, checked, and freed of the file's oddities."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Evidence, Sample

FILTERS = ("all", "nonempty", "explicit", "essential")
"""Which components count: all; those with a context; the explicit ones; all but the extraneous."""

SHORT = 20
"""A context of fewer characters may be found where it says nothing."""


@dataclass(frozen=True, slots=True)
class Component:
    """One part of an answer, and the quotes any of which shows it."""

    text: str
    quotes: tuple[str, ...]
    explicit: bool = True
    extraneous: bool = False

    def passes(self, kinds: Iterable[str]) -> bool:
        """Whether it counts under these filters."""
        return all(
            {"all": True, "nonempty": bool(self.quotes), "explicit": self.explicit, "essential": not self.extraneous}[
                kind
            ]
            for kind in kinds
        )


@dataclass(frozen=True, slots=True)
class Question:
    """A question about one chapter, its gold answer and the components of it."""

    chapter: str
    number: str
    text: str
    answer: str
    components: tuple[Component, ...]
    context: tuple[Mapping[str, Any], ...] = ()

    @property
    def id(self) -> str:
        """Chapter and number."""
        return f"{self.chapter}.{self.number}"

    def sample(self, kinds: Sequence[str] = ("all",)) -> Sample | None:
        """Make it a sample; None when no component passes the filters."""
        parts = tuple(component for component in self.components if component.passes(kinds))
        if not parts:
            return None
        fields: dict[str, Any] = {
            "question": self.text,
            "chapter": self.chapter,
            "number": self.number,
            "answer": self.answer,
            "components": [part.text for part in parts],
        }
        if self.context:
            fields["question_context"] = [dict(item) for item in self.context]
        return Sample(self.id, fields, Evidence(tuple(part.quotes for part in parts)), category=self.chapter)


@dataclass(slots=True)
class QuestionSet:
    """The questions of a file, and how often each oddity was met in it."""

    questions: list[Question]
    oddities: Counter[str] = field(default_factory=Counter)

    def samples(self, kinds: Sequence[str] = ("all",)) -> list[Sample]:
        """Give the questions that have a component left."""
        return [sample for question in self.questions if (sample := question.sample(kinds)) is not None]


def read_questions(path: str | Path) -> QuestionSet:
    """Read a question file."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as exc:
        raise DataError(f"the questions cannot be read: {exc.strerror or exc}", where=str(path)) from exc
    except UnicodeDecodeError as exc:
        raise DataError(f"the file is not UTF-8 text (byte {exc.start})", where=str(path)) from exc
    return parse_questions(text, str(path))


def parse_questions(text: str, where: str) -> QuestionSet:
    """Read the text of a question file; ``where`` names it in errors."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as exc:
        line = f":{exc.lineno}" if isinstance(exc, json.JSONDecodeError) else ""
        raise DataError(f"this is not JSON: {exc}", where=f"{where}{line}") from exc
    rows = found.get("questions") if isinstance(found, dict) else found
    if not isinstance(rows, list) or not rows:
        raise DataError("it holds no list of questions", where=where, hint='It must be {"questions": [...]}.')
    oddities: Counter[str] = Counter()
    questions = [_question(row, _Place(where, index, row), oddities) for index, row in enumerate(rows)]
    counted = Counter(question.id for question in questions)
    if (twice := next((mark for mark, n in counted.items() if n > 1), None)) is not None:
        chapter, _, number = twice.rpartition(".")
        raise DataError(f"question {number} of chapter {chapter} is there twice", where=where)
    return QuestionSet(questions, oddities)


class _Place:
    """Where in the file we are, as a reader would look for it."""

    def __init__(self, file: str, index: int, row: Any) -> None:
        self.file, self.index = file, index
        chapter, number = (
            (row.get(k) for k in ("chapter", "question_number")) if isinstance(row, dict) else (None, None)
        )
        self.name = f"question {index + 1} of the file"
        if chapter is not None and number is not None:
            self.name += f" (chapter {chapter}, number {number})"

    def wrong(self, what: str, hint: str = "") -> DataError:
        return DataError(what, where=f"{self.file}, {self.name}", hint=hint)


def _question(row: Any, place: _Place, oddities: Counter[str]) -> Question:
    if not isinstance(row, dict):
        raise place.wrong(f"a question must be an object, not {type(row).__name__}")
    chapter, number = (_mark(row, key, place) for key in ("chapter", "question_number"))
    text = _bare(_text(row, "question_text", place), "questions wrapped in quotes", oddities)
    if not text.strip():
        raise place.wrong("question_text is empty")
    answer = _bare(_text(row, "gold_standard_answer", place), "gold answers wrapped in quotes", oddities)
    parts = _list(row, "answer_context", place)
    if not parts:
        raise place.wrong("answer_context is empty: without components there is nothing to find")
    components = tuple(_component(part, number, place, oddities) for number, part in enumerate(parts, start=1))
    about = row.get("question_context") or []
    if not isinstance(about, list):
        raise place.wrong(f"question_context is {type(about).__name__}; it must be a list")
    context = tuple(_context(item, place) for item in about)
    if context:
        oddities["questions with a question_context"] += 1
    return Question(chapter, number, text, answer, components, context)


def _component(part: Any, number: int, place: _Place, oddities: Counter[str]) -> Component:
    name = f"component {number}"
    if not isinstance(part, dict):
        raise place.wrong(f"{name} must be an object, not {type(part).__name__}")
    kind = part.get("scoring_type", "simple")
    if kind != "simple":
        raise place.wrong(f"{name} has scoring_type {kind!r}", hint="Only 'simple' is defined.")
    text = part.get("answer_component", "")
    if isinstance(text, list) and all(isinstance(each, str) for each in text):
        oddities["components given as a list"] += 1
        if any(_wrapped(each) for each in text):
            oddities["components wrapped in quotes"] += 1
        text = "\n".join(_unwrapped(each) for each in text)
    elif isinstance(text, str):
        text = _bare(text, "components wrapped in quotes", oddities)
    else:
        raise place.wrong(f"{name}: answer_component is {type(text).__name__}; it must be text, or a list of texts")
    quotes = part.get("context")
    if not isinstance(quotes, list) or not all(isinstance(quote, str) for quote in quotes):
        raise place.wrong(f"{name}: context must be a list of texts")
    if any(not quote.strip() for quote in quotes):
        raise place.wrong(f"{name}: a context is blank, and a blank is in every passage", hint="Remove it.")
    oddities[f"contexts of fewer than {SHORT} characters"] += sum(len(quote) < SHORT for quote in quotes)
    explicit, extraneous = (
        _flag(part.get(key, default), f"{name}: {key}", place, oddities)
        for key, default in (("explicit_context", True), ("extraneous_answer", False))
    )
    return Component(text, tuple(quotes), explicit=explicit, extraneous=extraneous)


def _flag(value: Any, name: str, place: _Place, oddities: Counter[str]) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        oddities["flags given as text"] += 1
        return value.strip().lower() == "true"
    raise place.wrong(f"{name} is {value!r}; it must be true or false")


def _mark(row: Mapping[str, Any], key: str, place: _Place) -> str:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not str(value).strip():
        raise place.wrong(f"{key} is {'missing' if key not in row else repr(value)}; it must be a number or a name")
    return str(value).strip()


def _text(row: Mapping[str, Any], key: str, place: _Place) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise place.wrong(f"{key} is {'missing' if key not in row else type(value).__name__}; it must be text")
    return value


def _list(row: Mapping[str, Any], key: str, place: _Place) -> list[Any]:
    value = row.get(key)
    if not isinstance(value, list):
        raise place.wrong(f"{key} is {'missing' if key not in row else type(value).__name__}; it must be a list")
    return value


def _context(item: Any, place: _Place) -> Mapping[str, Any]:
    if isinstance(item, str):
        return {"context": [item]}
    if not isinstance(item, dict):
        raise place.wrong(f"question_context holds {type(item).__name__}; it must hold objects")
    return item


def _wrapped(text: str) -> bool:
    return len(text) > 1 and text[0] in '"“' and text[-1] in '"”' and '"' in {text[0], text[-1]}


def _unwrapped(text: str) -> str:
    """Take off the literal quotes around a whole text: they are no part of it, and searching with them costs score."""
    if not _wrapped(text):
        return text
    return text[text[0] == '"' : len(text) - (text[-1] == '"')]


def _bare(text: str, oddity: str, oddities: Counter[str]) -> str:
    oddities[oddity] += _wrapped(text)
    return _unwrapped(text)


def chapters(questions: Iterable[Question]) -> Iterator[str]:
    """Give the chapters in the order in which they are first asked about."""
    yield from dict.fromkeys(question.chapter for question in questions)
