"""How the rows of one table are read: decided by looking at all of them, with every fault by its place."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

from kshot.cleanups.letters import letter, letter_index
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.options import flag
from kshot.core.visible import listed as listed_names
from kshot.datasets.rows.cells import (
    CUTS,
    MIN_OPTIONS,
    Listed,
    from_columns,
    listed_value,
    options_in,
    text_of,
)
from kshot.datasets.rows.settings import RowSettings
from kshot.tables.files import LocatedRow

_FILL = "Fill in the cell, or take the row out."


@dataclass(frozen=True, slots=True)
class RowReading:
    """The rules by which rows become questions: columns, how a cell is cut into options, the form of answers."""

    columns: RowColumns
    cut: str | None = None
    form: ChosenForm | None = None
    lines: bool = False
    """Whether a target has several lines."""
    notes: tuple[str, ...] = ()
    faults: tuple[DataError, ...] = field(default=(), compare=False)
    """What is wrong with rows, in their order."""

    def fields(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a question; a fault is an error that names the column."""
        fields = {str(name): value for name, value in row.items()}
        fields["row"] = dict(fields)
        if self.columns.question is not None:
            fields["question"] = self._question(row)
        if self.columns.has_options:
            listed = self.options(row)
            return fields | {"options": list(listed.texts), "target_idx": self._right(row, listed)}
        return fields | {"target": self._target(row)}

    def options(self, row: Mapping[str, Any]) -> Listed:
        """Return the options of a row."""
        names = self.columns.options
        if len(names) > 1:
            listed = from_columns(row, names)
            _refuse_nested(listed, f"column {names[listed.nested or 0]!r}")
            return listed
        with _naming(names[0]):
            return self._cut_options(row.get(names[0]))

    def _cut_options(self, value: Any) -> Listed:
        if not isinstance(value, (list, tuple, Mapping)) and not text_of(value).strip():
            raise DataError("there are no options", hint=_FILL)
        listed = options_in(value, self.cut)
        if listed is None:
            others = f"in other rows, options are separated by {self.cut}" if self.cut else "options are not found"
            hint = "Write a JSON list, or separate the options by |."
            raise DataError(f"the options are one text ({text_of(value)!r:.60}): {others}", hint=hint)
        if len(listed.texts) < MIN_OPTIONS:
            raise DataError(f"there is {len(listed.texts)} option; a question needs two or more")
        empty = next((number for number, text in enumerate(listed.texts, 1) if not text.strip()), None)
        if empty is not None:
            raise DataError(f"option {empty} is empty", hint=_FILL)
        _refuse_nested(listed, "")
        if listed.labels and len(listed.labels) != len(listed.texts):
            raise DataError(f"there are {len(listed.texts)} options and {len(listed.labels)} labels")
        return listed

    def _question(self, row: Mapping[str, Any]) -> str:
        with _naming(self.columns.question):
            value = row.get(self.columns.question or "")
            text = text_of(value)
            if not text.strip():
                what = "the question is empty" if self.columns.question in row else "this row has no question"
                raise DataError(what, hint=_FILL)
            if isinstance(value, (list, tuple, Mapping)):
                kind = "an object" if isinstance(value, Mapping) else "a list"
                raise DataError(
                    f"the question is {kind}, not a text", hint="Write what is shown: --instruction '{{ row }}'."
                )
            return text

    def _right(self, row: Mapping[str, Any], listed: Listed) -> int | list[int]:
        with _naming(self.columns.answer):
            return (self.form or ChosenForm("letter")).find(row.get(self.columns.answer or ""), listed)

    def _target(self, row: Mapping[str, Any]) -> str | list[str]:
        with _naming(self.columns.target):
            value = row.get(self.columns.target or "")
            if isinstance(value, Mapping) and isinstance(value.get("text"), (list, tuple)):
                value = value["text"]  # as the answers of SQuAD are stored
            texts = [text_of(each) for each in (value if isinstance(value, (list, tuple)) else (value,))]
            kept = [text for text in texts if text.strip()]
            if not kept or isinstance(value, Mapping):
                what = "the target is empty" if not kept else "the target is an object, not a text"
                raise DataError(what, hint="" if kept else _FILL)
            return kept if isinstance(value, (list, tuple)) else kept[0]


def _refuse_nested(listed: Listed, where: str) -> None:
    if listed.nested is not None:
        what = f"option {listed.nested + 1} is a list or an object, not a text: {listed.texts[listed.nested]:.60}"
        raise DataError(what, where=where, hint="An option is a text or a number.")


def place_of(row: Mapping[str, Any], number: int, table: str) -> str:
    """Return where a row stands: the line of its file, else its number."""
    return row.place if isinstance(row, LocatedRow) else f"{table}, row {number}"


def reading_of(rows: Sequence[Mapping[str, Any]], columns: RowColumns, table: str, answer_as: str | None) -> RowReading:
    """Look at all rows, and decide how they are read."""
    reading = RowReading(columns)
    if columns.has_options:
        reading = _with_cut(reading, rows)
        try:
            reading = _with_form(reading, rows, answer_as)
        except DataError as exc:
            exc.where = f"{table}, {exc.where}"
            raise
    faults = tuple(_faults(reading, rows, table))
    notes = [*reading.notes, *(_about_options(reading, rows) if not faults else ())]
    lines = columns.target is not None and any("\n" in text for row in rows for text in _targets(reading, row))
    return replace(reading, lines=lines, notes=tuple(notes), faults=faults)


def _faults(reading: RowReading, rows: Sequence[Mapping[str, Any]], table: str) -> Iterator[DataError]:
    """Yield what is wrong with rows, with their places."""
    for number, row in enumerate(rows):
        try:
            reading.fields(row)
        except DataError as exc:  # noqa: PERF203 - any row may have one
            place = place_of(row, number, table)
            exc.where = f"{place}, {exc.where}" if exc.where else place
            yield exc


def _with_cut(reading: RowReading, rows: Sequence[Mapping[str, Any]]) -> RowReading:
    """Choose how texts of one column are cut into options: the first way that fits all, else the one that fits most."""
    if len(reading.columns.options) > 1:
        return reading
    values = [row.get(reading.columns.options[0]) for row in rows]
    texts = [text_of(value) for value in values if listed_value(value) is None and text_of(value).strip()]
    counts = {name: sum(cut(text) is not None for text in texts) for name, cut in CUTS.items()}
    name = max(counts, key=counts.__getitem__)
    if not counts[name]:
        return reading
    note = f"the options in column {reading.columns.options[0]!r} are separated by {name}"
    return replace(reading, cut=name, notes=(note,))


def _with_form(reading: RowReading, rows: Sequence[Mapping[str, Any]], wanted: str | None) -> RowReading:
    """Choose the form of the answers, by the rows whose options can be read."""
    values, options = [], []
    for row in rows:
        with suppress(DataError):
            options.append(reading.options(row))
            values.append(row.get(reading.columns.answer or ""))
    form = chosen_form(values, options, wanted, reading.columns.answer or "")
    return replace(reading, form=form, notes=(*reading.notes, *form.notes))


def _about_options(reading: RowReading, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = reading.columns.options
    fewer = sum(len(reading.options(row).texts) < len(names) for row in rows) if len(names) > 1 else 0
    if fewer:
        yield f"{fewer} of {len(rows)} rows have fewer than {len(names)} options: cells at the end are empty"


def _targets(reading: RowReading, row: Mapping[str, Any]) -> list[str]:
    try:
        target = reading.fields(row)["target"]
    except DataError:
        return []
    return target if isinstance(target, list) else [target]


@contextmanager
def _naming(column: str | None) -> Iterator[None]:
    """Name the column in an error that is raised in the block."""
    try:
        yield
    except KshotError as exc:
        exc.where = exc.where or f"column {column!r}"
        raise


_COLUMNS_LISTED = 20


@dataclass(frozen=True, slots=True)
class RowColumns:
    """The columns of a table, by what they hold; one column of options holds them all."""

    question: str | None
    options: tuple[str, ...] = ()
    answer: str | None = None
    target: str | None = None

    @property
    def has_options(self) -> bool:
        """Whether the questions have options."""
        return bool(self.options)


def check_named(settings: RowSettings, where: str) -> None:
    """Refuse flags that do not belong together; whether anything is missing shows when the table is read."""
    given = settings.changed(RowSettings)
    both = [name for name in ("options", "answer", "answer_as") if name in given and "target" in given]
    if both:
        raise UsageError(
            f"--target and {flag(both[0])} cannot be used together",
            where=where,
            hint="--target is for questions without options; --answer names the right one of --options.",
        )
    if "answer_as" in given and "answer" not in given:
        raise UsageError("--answer-as needs --answer", where=where)
    if "options" in given and not any(name.strip() for name in settings.options or ()):
        raise UsageError("--options names no column", where=where)


def columns_named(settings: RowSettings, names: Sequence[str], where: str, *, templated: bool) -> RowColumns:
    """Return the columns that the flags name; ``templated``: an instruction says what a question looks like."""
    missing = _missing(settings, templated=templated)
    if missing:
        listed = f"the columns are {_listed(names)}"
        raise UsageError(f"{missing}; {listed}", where=where, hint=_suggestion(names))
    found = RowColumns(
        question=_column("question", settings.question, names, where),
        options=_option_columns(settings.options, names, where),
        answer=_column("answer", settings.answer, names, where),
        target=_column("target", settings.target, names, where),
    )
    right = found.target or found.answer
    if not templated and right is not None and right == found.question:
        role = "answer" if found.target is None else "target"
        raise UsageError(f"the column {right!r} cannot be both the question and the {role}", where=where)
    twice = {found.answer, *((found.question,) if not templated else ())} & set(found.options)
    if twice - {None}:
        raise UsageError(f"the column {next(iter(twice))!r} cannot be an option, too", where=where)
    return found


def _missing(settings: RowSettings, *, templated: bool) -> str:
    if settings.options is None and settings.answer is None and settings.target is None:
        return "no flag says which columns hold the options and the answer"
    if settings.target is None and settings.answer is None:
        return "no flag says which column names the right option (--answer)"
    if settings.target is None and settings.options is None:
        return "no flag says which columns hold the options (--options); an answer in free text is a --target"
    if settings.question is None and not templated:
        return "no flag says which column holds the question (--question)"
    return ""


def _column(role: str, name: str | None, names: Sequence[str], where: str) -> str | None:
    if name is None:
        return None
    if name in names:
        return name
    spaced = [each for each in names if each.strip() == name.strip()]
    if len(spaced) == 1:
        return spaced[0]
    folded = {each.strip().casefold(): each for each in names}
    close = difflib.get_close_matches(name.strip().casefold(), list(folded), 1)
    meant = f"Did you mean {folded[close[0]]!r}? " if close else ""
    what = f"there is no column {name!r} ({flag(role)})"
    raise DataError(what, where=where, hint=f"{meant}The columns are {_listed(names)}.")


def _option_columns(given: Sequence[str] | None, names: Sequence[str], where: str) -> tuple[str, ...]:
    if given is None:
        return ()
    whole = ",".join(given)
    if len(given) > 1 and whole in names:
        return (whole,)  # a column whose name has a comma
    found = [_column("options", name, names, where) or "" for name in given]
    twice = next((name for name in found if found.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"--options names the column {twice!r} twice", where=where)
    return tuple(found)


def _listed(names: Sequence[str]) -> str:
    return listed_names(list(map(repr, names)), _COLUMNS_LISTED, counted=True)


def column_names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names that any row has, in order."""
    return list(dict.fromkeys(str(name) for row in rows for name in row))


# ---- a suggestion ----

_USUAL = {
    "question": ("question", "q", "prompt", "query", "problem", "stem", "input", "text", "sentence"),
    "answer": ("answer", "answerkey", "key", "label", "correct", "correctanswer", "gold", "solution", "rightanswer"),
    "options": ("options", "choices", "answers", "alternatives"),
    "target": ("target", "answer", "output", "response", "reference", "answers", "label", "solution"),
}
_NUMBERED = re.compile(r"(?:option|choice|opt|answer|ans|op)?[\s_-]*([a-z]|\d{1,2})", re.IGNORECASE)


def guessed(names: Sequence[str]) -> RowColumns | None:
    """Guess the columns by the names that they usually have; None if nothing looks like a question."""
    question = _usual("question", names)
    if question is None:
        return None
    lettered = tuple(name for name in names if name != question and _NUMBERED.fullmatch(name.strip()))
    options = lettered if len(lettered) > 1 else tuple(filter(None, [_usual("options", names)]))
    answer = _usual("answer", [name for name in names if name not in options and name != question])
    if options and answer:
        return RowColumns(question, options, answer)
    target = _usual("target", [name for name in names if name != question])
    return RowColumns(question, target=target) if target else None


def _usual(role: str, names: Sequence[str]) -> str | None:
    plain = {re.sub(r"[\s_-]", "", name).casefold(): name for name in reversed(names)}
    return next((plain[each] for each in _USUAL[role] if each in plain), None)


def _suggestion(names: Sequence[str]) -> str:
    """Return the flags that may be meant."""
    columns = guessed(names)
    if columns is not None:
        given = asdict(columns) | {"options": ",".join(columns.options)}
        flags = (f"{flag(name)} {shlex.quote(value)}" for name, value in given.items() if value)
        return f"Perhaps: {' '.join(flags)}."
    return "Name them: --question Q --options A,B,C,D --answer KEY, or --question Q --target TEXT."


Find: TypeAlias = Callable[[Any, Listed], "int | None"]
"""Finds the option that an answer names; None if it names none in this form."""

_LETTER = re.compile(r"\(?([A-Za-z])[).:]?()")
_LETTER_AND_TEXT = re.compile(r"\(?([A-Za-z])[).:]\s*(.+)", re.DOTALL)
_BETWEEN = re.compile(r"\s*(?:[,;/&+|]|\band\b|\bor\b)\s*")
_SHOWN = 60


def _by_label(value: Any, listed: Listed) -> int | None:
    """Find the label: the name of the option's column, or the one that the cell gives it."""
    labels = [label.casefold() for label in listed.labels]
    text = text_of(value).strip().casefold()
    return labels.index(text) if labels.count(text) == 1 else None


def _by_letter(value: Any, listed: Listed) -> int | None:
    """Find the letter; the text of the same option may follow it."""
    text = text_of(value).strip()
    found = _LETTER.fullmatch(text) or _LETTER_AND_TEXT.fullmatch(text)
    index = letter_index(found[1].upper()) if found else -1
    if found is None or not 0 <= index < len(listed.texts):
        return None
    return index if found[2] in {"", listed.texts[index].strip()} else None


def _by_text(value: Any, listed: Listed) -> int | None:
    """Find the one option with this text; case counts only where it tells two options apart."""
    text = text_of(value).strip()
    texts = [each.strip() for each in listed.texts]
    if text in texts:
        return texts.index(text) if texts.count(text) == 1 else None
    folded = [each.casefold() for each in texts]
    return folded.index(text.casefold()) if folded.count(text.casefold()) == 1 else None


def _from(first: int) -> Find:
    def find(value: Any, listed: Listed) -> int | None:
        index = _whole(value)
        return index - first if index is not None and 0 <= index - first < len(listed.texts) else None

    return find


def _whole(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() else None


FORMS: Mapping[str, Find] = {
    "label": _by_label,
    "letter": _by_letter,
    "text": _by_text,
    "index": _from(0),
    "number": _from(1),
}
"""The forms of answers, the surest first."""

_TEXTS = {
    "label": "the names of options",
    "letter": "letters of options",
    "text": "texts of options",
    "index": "indices of options, which count from 0",
    "number": "numbers of options, which count from 1",
}


@dataclass(frozen=True, slots=True)
class ChosenForm:
    """The form of a column of answers, and what the user should know about it."""

    name: str
    notes: tuple[str, ...] = ()

    def find(self, value: Any, listed: Listed) -> int | list[int]:
        """Return the index of the right option, or those of several; an answer that names none is an error."""
        if isinstance(value, (list, tuple)):
            found = [self._find(each, listed) for each in value]
            if not found:
                raise DataError("the answer is an empty list")
            return found[0] if len(found) == 1 else found
        return self._find(value, listed)

    def _find(self, value: Any, listed: Listed) -> int:
        if not text_of(value).strip():
            raise DataError("the answer is empty", hint=_FILL)
        found = FORMS[self.name](value, listed)
        if found is None:
            raise self._names_none(value, listed)
        return found

    def _names_none(self, value: Any, listed: Listed) -> DataError:
        shown, count = repr(value)[:_SHOWN], len(listed.texts)
        parts = [part for part in _BETWEEN.split(text_of(value).strip()) if part]
        if len(parts) > 1 and all(FORMS[self.name](part, listed) is not None for part in parts):
            what = f"the answer is {shown}, which names {len(parts)} options"
            return DataError(what, hint="Name one; in JSON, a list of answers means that each of them is right.")
        if self.name == "text" and _has_text(value, listed):
            return DataError(f"the answer is {shown}, and several options have this text")
        among = {
            "label": f"the options are called {', '.join(listed.labels)}",
            "letter": f"there are {count} options: A to {letter(count - 1)}",
            "text": f"the options are: {'; '.join(listed.texts)}",
            "index": f"there are {count} options: 0 to {count - 1}",
            "number": f"there are {count} options: 1 to {count}",
        }[self.name]
        return DataError(f"the answer is {shown}, but {among[:200]}")


def _has_text(value: Any, listed: Listed) -> bool:
    return text_of(value).strip().casefold() in {text.strip().casefold() for text in listed.texts}


def chosen_form(values: Sequence[Any], options: Sequence[Listed], wanted: str | None, column: str) -> ChosenForm:
    """Return the form of the answers in a column: the one that fits all rows, else the one that fits most."""
    if wanted is not None:
        return ChosenForm(wanted)
    pairs = [
        (each, listed)
        for value, listed in zip(values, options, strict=True)
        for each in (value if isinstance(value, (list, tuple)) else (value,))
        if text_of(each).strip()
    ]
    named = any(listed.labels for _, listed in pairs)
    forms = {name: find for name, find in FORMS.items() if named or name != "label"}
    found = {name: [find(value, listed) for value, listed in pairs] for name, find in forms.items()}
    missing = {name: indices.count(None) for name, indices in found.items()}
    best = min(forms, key=missing.__getitem__)  # the first of those that fit equally
    if missing[best]:
        same = any(_has_text(value, listed) for value, listed in pairs)  # as several options have
        return ChosenForm("text" if missing[best] == len(pairs) and same else best)
    others = [name for name in forms if name != best and not missing[name] and found[name] != found[best]]
    return ChosenForm(best, tuple(_notes(best, others, column)))


def _notes(best: str, others: Sequence[str], column: str) -> list[str]:
    """Say so where the answers could mean other options; refuse to guess between a letter and a text."""
    if best == "letter" and "text" in others:
        what = "the answers may be letters of options or texts of options, which are not the same here"
        raise DataError(what, where=f"column {column!r}", hint="Add --answer-as letter or --answer-as text.")
    doubtful = [name for name in others if best in {"text", "index"}]
    if not doubtful:
        return []
    also = " or ".join(f"{_TEXTS[name]} (--answer-as {name})" for name in doubtful)
    return [f"the answers in column {column!r} are read as {_TEXTS[best]}; they could also be {also}"]
