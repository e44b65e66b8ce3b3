"""Questions with evidence, in the format of fastbook-benchmark: read, checked, and cleaned of the file's oddities."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kshot.core.errors import DataError
from kshot.core.records import Evidence, Row, Sample
from kshot.core.text_files import parse_json, read_whole

T = TypeVar("T")

FILTERS = ("all", "nonempty", "explicit", "essential")
"""Which components count: all; those with a context; the explicit ones; all but the extraneous."""

WITHIN = ("chapter", "none")
"""Where a question file may let its questions search: within the question's own document, or everywhere."""

SHORT_CHARACTERS = 20
"""A shorter context may occur in passages that do not show the component."""


@dataclass(frozen=True, slots=True)
class Component:
    """One part of an answer, and its quotes; any one of them shows it."""

    text: str
    quotes: tuple[str, ...]
    explicit: bool = True
    extraneous: bool = False

    def passes(self, filters: Iterable[str]) -> bool:
        """Whether it counts under all these filters."""
        passed = {
            "all": True,
            "nonempty": bool(self.quotes),
            "explicit": self.explicit,
            "essential": not self.extraneous,
        }
        return all(passed[name] for name in filters)


@dataclass(frozen=True, slots=True)
class EvidenceQuestion:
    """A question about one chapter, its gold answer, and the components of the answer."""

    chapter: str
    number: str
    text: str
    answer: str
    components: tuple[Component, ...]
    context: tuple[Mapping[str, Any], ...] = ()

    @property
    def id(self) -> str:
        """The chapter and the number."""
        return f"{self.chapter}.{self.number}"

    def sample(self, filters: Sequence[str] = ("all",)) -> Sample | None:
        """Return the question as a sample; None when no component passes the filters."""
        components = tuple(component for component in self.components if component.passes(filters))
        if not components:
            return None
        fields: dict[str, Any] = {
            "question": self.text,
            "chapter": self.chapter,
            "number": self.number,
            "answer": self.answer,
            "components": [component.text for component in components],
        }
        if self.context:
            fields["question_context"] = [dict(item) for item in self.context]
        evidence = Evidence(tuple(component.quotes for component in components))
        return Sample(self.id, fields, evidence, category=self.chapter)


@dataclass(slots=True)
class QuestionSet:
    """The questions of a file, and how often each oddity occurs in it."""

    questions: list[EvidenceQuestion]
    oddities: Counter[str] = field(default_factory=Counter)
    within: str | None = None
    """Where the file says that each question searches: ``chapter`` (its own document), or ``none`` (everywhere)."""

    def samples(self, filters: Sequence[str] = ("all",)) -> list[Sample]:
        """Return the questions of which a component passes the filters."""
        return [sample for question in self.questions if (sample := question.sample(filters)) is not None]

    def chapters(self) -> list[str]:
        """Return the chapters, in the order of their first questions."""
        return list(dict.fromkeys(question.chapter for question in self.questions))


def read_questions(path: str | Path) -> QuestionSet:
    """Read a question file."""
    file = Path(path)
    try:
        text = read_whole(file).decode("utf-8-sig")
    except OSError as exc:
        raise DataError(f"the questions cannot be read: {exc.strerror or exc}", where=str(path)) from exc
    except UnicodeDecodeError as exc:
        raise DataError(f"the file is not UTF-8 text (byte {exc.start})", where=str(path)) from exc
    return parse_questions(text, str(path))


def parse_questions(text: str, where: str) -> QuestionSet:
    """Parse the text of a question file; ``where`` names it in errors."""
    try:
        found = parse_json(text)
    except ValueError as exc:
        line = f":{exc.lineno}" if isinstance(exc, json.JSONDecodeError) else ""
        raise DataError(f"this is not JSON: {exc}", where=f"{where}{line}") from exc
    rows = found.get("questions") if isinstance(found, dict) else found
    if not isinstance(rows, list) or not rows:
        raise DataError("it holds no list of questions", where=where, hint='It must be {"questions": [...]}.')
    oddities: Counter[str] = Counter()
    questions = [_question(row, _RowPlace(where, index, row), oddities) for index, row in enumerate(rows)]
    counts = Counter(question.id for question in questions)
    if (twice := next((question for question in questions if counts[question.id] > 1), None)) is not None:
        raise DataError(f"question {twice.number} of chapter {twice.chapter} is there twice", where=where)
    within = found.get("within") if isinstance(found, dict) else None
    if within not in (None, *WITHIN):
        raise DataError(f"within is {within!r:.40}; it must be {' or '.join(WITHIN)}", where=where)
    return QuestionSet(questions, oddities, within)


class _RowPlace:
    """Where a row is in the file, for error messages."""

    def __init__(self, file: str, index: int, row: Any) -> None:
        self.file, self.index = file, index
        chapter, number = (
            (row.get(k) for k in ("chapter", "question_number")) if isinstance(row, dict) else (None, None)
        )
        self.name = f"question {index + 1} of the file"
        if chapter is not None and number is not None:
            self.name += f" (chapter {chapter}, number {number})"

    def error(self, what: str, hint: str = "") -> DataError:
        return DataError(what, where=f"{self.file}, {self.name}", hint=hint)


def _question(row: Any, place: _RowPlace, oddities: Counter[str]) -> EvidenceQuestion:
    if not isinstance(row, dict):
        raise place.error(f"a question must be an object, not {type(row).__name__}")
    chapter, number = (_name_or_number(row, key, place) for key in ("chapter", "question_number"))
    text = _typed(row, "question_text", str, "text", place)
    text = _without_quotes(text, "questions wrapped in quotes", oddities)
    if not text.strip():
        raise place.error("question_text is empty")
    answer = _typed(row, "gold_standard_answer", str, "text", place)
    answer = _without_quotes(answer, "gold answers wrapped in quotes", oddities)
    rows: list[Any] = _typed(row, "answer_context", list, "a list", place)
    if not rows:
        raise place.error("answer_context is empty: without components there is nothing to find")
    components = tuple(_component(each, index, place, oddities) for index, each in enumerate(rows, start=1))
    items = row.get("question_context") or []
    if not isinstance(items, list):
        raise place.error(f"question_context is {type(items).__name__}; it must be a list")
    context = tuple(_context(item, place) for item in items)
    if context:
        oddities["questions with a question_context"] += 1
    return EvidenceQuestion(chapter, number, text, answer, components, context)


def _component(row: Any, number: int, place: _RowPlace, oddities: Counter[str]) -> Component:
    name = f"component {number}"
    if not isinstance(row, dict):
        raise place.error(f"{name} must be an object, not {type(row).__name__}")
    kind = row.get("scoring_type", "simple")
    if kind != "simple":
        raise place.error(f"{name} has scoring_type {kind!r}", hint="Only 'simple' is defined.")
    text = row.get("answer_component", "")
    if isinstance(text, list) and all(isinstance(each, str) for each in text):
        oddities["components given as a list"] += 1
        if any(_wrapped(each) for each in text):
            oddities["components wrapped in quotes"] += 1
        text = "\n".join(_unwrapped(each) for each in text)
    elif isinstance(text, str):
        text = _without_quotes(text, "components wrapped in quotes", oddities)
    else:
        raise place.error(f"{name}: answer_component is {type(text).__name__}; it must be text, or a list of texts")
    quotes = row.get("context")
    if not isinstance(quotes, list) or not all(isinstance(quote, str) for quote in quotes):
        raise place.error(f"{name}: context must be a list of texts")
    if any(not quote.strip() for quote in quotes):
        raise place.error(f"{name}: a context is blank, and a blank is in every passage", hint="Remove it.")
    short = sum(len(quote) < SHORT_CHARACTERS for quote in quotes)
    oddities[f"contexts of fewer than {SHORT_CHARACTERS} characters"] += short
    explicit, extraneous = (
        _flag(row.get(key, default), f"{name}: {key}", place, oddities)
        for key, default in (("explicit_context", True), ("extraneous_answer", False))
    )
    return Component(text, tuple(quotes), explicit=explicit, extraneous=extraneous)


def _flag(value: Any, name: str, place: _RowPlace, oddities: Counter[str]) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        oddities["flags given as text"] += 1
        return value.strip().lower() == "true"
    raise place.error(f"{name} is {value!r}; it must be true or false")


def _name_or_number(row: Row, key: str, place: _RowPlace) -> str:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not str(value).strip():
        raise place.error(f"{key} is {'missing' if key not in row else repr(value)}; it must be a number or a name")
    return str(value).strip()


def _typed(row: Row, key: str, kind: type[T], named: str, place: _RowPlace) -> T:
    value = row.get(key)
    if not isinstance(value, kind):
        raise place.error(f"{key} is {'missing' if key not in row else type(value).__name__}; it must be {named}")
    return value


def _context(item: Any, place: _RowPlace) -> Mapping[str, Any]:
    if isinstance(item, str):
        return {"context": [item]}
    if not isinstance(item, dict):
        raise place.error(f"question_context holds {type(item).__name__}; it must hold objects")
    return item


def _wrapped(text: str) -> bool:
    return len(text) > 1 and text[0] in '"“' and text[-1] in '"”' and '"' in {text[0], text[-1]}


def _unwrapped(text: str) -> str:
    """Remove the literal quotation marks around a whole text: a search that includes them scores lower."""
    if not _wrapped(text):
        return text
    return text[text[0] == '"' : len(text) - (text[-1] == '"')]


def _without_quotes(text: str, oddity: str, oddities: Counter[str]) -> str:
    oddities[oddity] += _wrapped(text)
    return _unwrapped(text)
