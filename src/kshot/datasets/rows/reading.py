"""How the rows of one table are read: decided by looking at all of them, with every fault by its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from kshot.core.errors import DataError, KshotError
from kshot.datasets.rows.answers import ChosenForm, chosen_form
from kshot.datasets.rows.cells import (
    MIN_OPTIONS,
    Listed,
    cuts_that_fit,
    from_columns,
    listed_value,
    options_in,
    text_of,
)
from kshot.datasets.rows.columns import RowColumns
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
        with _naming_table(table):
            reading = _with_form(reading, rows, answer_as)
    faults = tuple(_faults(reading, rows, table))
    notes = [*reading.notes, *(_about_options(reading, rows) if not faults else ())]
    lines = columns.target is not None and any("\n" in text for row in rows for text in _targets(reading, row))
    return replace(reading, lines=lines, notes=tuple(notes), faults=faults)


def _faults(reading: RowReading, rows: Sequence[Mapping[str, Any]], table: str) -> Iterator[DataError]:
    for number, row in enumerate(rows):
        fault = _fault(reading, row)
        if fault is not None:
            place = place_of(row, number, table)
            fault.where = f"{place}, {fault.where}" if fault.where else place
            yield fault


def _fault(reading: RowReading, row: Mapping[str, Any]) -> DataError | None:
    try:
        reading.fields(row)
    except DataError as exc:
        return exc
    return None


def _with_cut(reading: RowReading, rows: Sequence[Mapping[str, Any]]) -> RowReading:
    """Choose how texts of one column are cut into options: the first way that fits all, else the one that fits most."""
    if len(reading.columns.options) > 1:
        return reading
    values = [row.get(reading.columns.options[0]) for row in rows]
    texts = [text_of(value) for value in values if listed_value(value) is None and text_of(value).strip()]
    if not texts:
        return reading
    name, count = max(cuts_that_fit(texts), key=lambda found: found[1])
    if not count:
        return reading
    note = f"the options in column {reading.columns.options[0]!r} are separated by {name}"
    return replace(reading, cut=name, notes=(note,))


def _with_form(reading: RowReading, rows: Sequence[Mapping[str, Any]], wanted: str | None) -> RowReading:
    """Choose the form of the answers, by the rows whose options can be read."""
    values, options = [], []
    for row in rows:
        listed = _readable(reading, row)
        if listed is not None:
            values.append(row.get(reading.columns.answer or ""))
            options.append(listed)
    form = chosen_form(values, options, wanted, reading.columns.answer or "")
    return replace(reading, form=form, notes=(*reading.notes, *form.notes))


def _readable(reading: RowReading, row: Mapping[str, Any]) -> Listed | None:
    try:
        return reading.options(row)
    except DataError:
        return None


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
def _naming_table(table: str) -> Iterator[None]:
    """Put the table before the place of an error that is raised in the block."""
    try:
        yield
    except DataError as exc:
        exc.where = f"{table}, {exc.where}"
        raise


@contextmanager
def _naming(column: str | None) -> Iterator[None]:
    """Name the column in an error that is raised in the block."""
    try:
        yield
    except KshotError as exc:
        exc.where = exc.where or f"column {column!r}"
        raise
