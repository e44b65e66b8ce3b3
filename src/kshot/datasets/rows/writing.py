"""The class that does what rows and flags do, with its test, as text: ``kshot new dataset rows.csv`` writes them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kshot.cleanups.letters import letter
from kshot.core.errors import UsageError
from kshot.core.extras import require
from kshot.core.specs import split_names
from kshot.datasets.rows.cells import SEPARATORS, from_literal, text_of
from kshot.datasets.rows.classes import (
    OPTIONS_INSTRUCTION,
    TARGET_INSTRUCTION,
    RowsWithOptions,
    RowsWithTargets,
    RowTables,
    is_local,
    raise_first,
    row_metrics,
    rows_class,
)
from kshot.datasets.rows.reading import RowReading, check_named, column_names, guessed
from kshot.datasets.rows.settings import RowSettings
from kshot.datasets.settings import DatasetSettings
from kshot.prompts import decode_escapes
from kshot.prompts.strings import field_names
from kshot.tables.loading import row_packages

_LETTERS_LINE = 'LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"\n'
_TESTED_ROWS = 5


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table whose class is written: ``place`` is its path from the folder of the class."""

    name: str
    file: str
    place: str
    rows: Sequence[Mapping[str, Any]]
    reading: RowReading
    instruction: str | None = None
    metrics: tuple[str, ...] = ()
    splits: tuple[str, str] = ("all", "all")
    trailing: bool = False
    """Whether empty rows at the end of the file are left out."""

    @property
    def has_options(self) -> bool:
        """Whether its questions have options."""
        return self.reading.columns.has_options

    # ---- the class ----

    def module(self) -> str:
        """Return the text of the module with the class."""
        base = "MultipleChoiceDataset" if self.has_options else "GenerationDataset"
        body = [line for part in (self._attributes(), self._loading(), self._formatting()) for line in part]
        code = "\n".join(f"    {line}" if line else "" for line in body)
        more = ("ast" in (used := self._imports())) * "import ast\n" + ("json" in used) * "import json\n"
        letters = f"\n{_LETTERS_LINE}" if "LETTERS" in code else ""
        helpers = ", ".join(name for name in ("cut_by_letters", "options_in") if f"{name}(" in code)
        helper = f"from kshot.datasets.rows.cells import {helpers}\n" if helpers else ""
        return (
            f'"""The rows of {self.place} as a dataset of kshot.\n\n'
            f"kshot preview -d {self.file}:{self.name} --limit 3\n"
            f"kshot run -m MODEL -d {self.file}:{self.name}\n"
            f'"""\n\n{more}from pathlib import Path\n\nfrom kshot import {base}\n{helper}{letters}\n\n'
            f"class {self.name}({base}):\n"
            f'    """Write here what the questions are about."""\n\n{code}\n'
        )

    def _imports(self) -> set[str]:
        if not self.has_options or len(self.reading.columns.options) > 1 or self._mixed():
            return set()
        texts = [value for value in self._cells(self.reading.columns.options[0]) if isinstance(value, str)]
        return {from_literal(text)[1] for text in texts if from_literal(text)[1]}

    def _attributes(self) -> Iterator[str]:
        usual = OPTIONS_INSTRUCTION if self.has_options else TARGET_INSTRUCTION
        yield f"instruction = {_quoted(self.instruction or usual)}"
        if self.has_options:
            yield f"accuracy = {_quoted(RowsWithOptions.accuracy or '')}"
        yield f"load_args = (str(Path(__file__).parent / {_quoted(self.place)}),)"
        evaluated, shown = self.splits
        yield f"evaluation_set = {_quoted(evaluated)}"
        drawn = "  # examples (-k) are other rows of the same file" if evaluated == shown else ""
        yield f"example_set = {_quoted(shown)}{drawn}"
        if self.metrics or not self.has_options:
            yield f"metrics = {_tuple(self.metrics or ('em', 'f1'))}"
        yield ""
        if not self.has_options:
            yield "def init_arguments(self):"
            yield '    if self.model_type == "base":  # it would go on with another question'
            end = r"\n\n" if self.reading.lines else r"\n"
            yield f'        self.extra_model_args = {{"stop": ["{end}"]}}'
            yield ""

    def _loading(self) -> Iterator[str]:
        if self.trailing:
            yield "def load_raw_dataset(self, *places):"
            yield "    super().load_raw_dataset(*places)"
            yield "    # the file ends in empty rows"
            yield "    self.evaluation_data = [row for row in self.evaluation_data if any(row.values())]"
            yield "    self.example_data = [row for row in self.example_data if any(row.values())]"
            yield ""

    def _formatting(self) -> Iterator[str]:
        columns = self.reading.columns
        yield "def format_instance(self, instance):"
        fields = ["**instance"]
        if columns.question is not None:
            fields.append(f'"question": instance[{_quoted(columns.question)}]')
        if "row" in (field_names(self.instruction or "") or ()):
            fields.append('"row": instance')
        if self.has_options:
            yield from (f"    {line}" for line in self._options())
            yield from (f"    {line}" for line in self._right())
            fields += ['"options": options', '"target_idx": right']
        else:
            fields.append(f'"target": {self._target()}')
        yield "    return {"
        yield from (f"        {field}," for field in fields)
        yield "    }"

    def _options(self) -> Iterator[str]:
        names = self.reading.columns.options
        if len(names) > 1:
            fewer = any(len(self.reading.options(row).texts) < len(names) for row in self.rows)
            which = " if instance[name]]  # a question may have fewer" if fewer else "]"
            yield f"options = [instance[name] for name in {_tuple(names)}{which}"
            return
        cell = f"instance[{_quoted(names[0])}]"
        values = self._cells(names[0])
        if self._mixed():
            yield f"listed = options_in({cell}{f', {_quoted(self.reading.cut)}' if self.reading.cut else ''})"
            yield "options = list(listed.texts)"
            return
        literal = next((from_literal(value)[1] for value in values if isinstance(value, str)), "")
        if literal:
            yield f"listed = {'json.loads' if literal == 'json' else 'ast.literal_eval'}({cell})"
            cell, values = "listed", [from_literal(value)[0] if isinstance(value, str) else value for value in values]
        yield f"options = {self._of_cell(cell, values[0])}"

    def _mixed(self) -> bool:
        """Whether cells of one column list their options in several forms, which no single expression reads."""
        return len({_form(value) for value in self._cells(self.reading.columns.options[0])}) > 1

    def _of_cell(self, cell: str, value: Any) -> str:
        if isinstance(value, Mapping):
            return f'{cell}["text"]' if isinstance(value.get("text"), list) else f"list({cell}.values())"
        if isinstance(value, (list, tuple)):
            return f'[each["text"] for each in {cell}]' if isinstance(value[0], Mapping) else cell
        separator = next((each for each, name in SEPARATORS.items() if name == self.reading.cut), None)
        if separator is None:
            return f"list(cut_by_letters({cell}))"
        return f"[part.strip() for part in {cell}.split({_quoted(separator)})]"

    def _right(self) -> Iterator[str]:
        column = self.reading.columns.answer or ""
        answers = self._cells(column)
        cell = f"instance[{_quoted(column)}]"
        if not any(isinstance(value, (list, tuple)) for value in answers):
            yield f"right = {self._index(cell)}"
            return
        yield f"answers = {cell} if isinstance({cell}, list) else [{cell}]  # any of them is right"
        yield f"right = [{self._index('answer')} for answer in answers]"

    def _index(self, cell: str) -> str:
        """Return the expression of the index that an answer names."""
        form = self.reading.form.name if self.reading.form is not None else "letter"
        text = f"str({cell}).strip()"
        match form:
            case "letter":
                return f'LETTERS.index({text}.lstrip("(")[0].upper())'
            case "label":
                return self._label_index(text)
            case "text" if self._exact():
                return f"[str(each).strip() for each in options].index({text})"
            case "text":
                return f"[str(each).strip().casefold() for each in options].index({text}.casefold())"
            case "index":
                return f"int(float({cell}))"
            case _:
                return f"int(float({cell})) - 1"

    def _exact(self) -> bool:
        """Whether every answer is written as its option is."""
        for row in self.rows:
            given = row.get(self.reading.columns.answer or "")
            texts = {text.strip() for text in self.reading.options(row).texts}
            if not texts.issuperset(text_of(each).strip() for each in (given if isinstance(given, list) else [given])):
                return False
        return True

    def _label_index(self, text: str) -> str:
        names = self.reading.columns.options
        if len(names) == 1 and self._mixed():
            return f"[each.casefold() for each in listed.labels].index({text}.casefold())"
        if len(names) == 1:
            cell = f"instance[{_quoted(names[0])}]"
            _, value = _form(self._cells(names[0])[0])
            labels = {"columns": f'{cell}["label"]', "keys": f"list({cell})"}.get(
                value, f'[each["label"] for each in {cell}]'
            )
            if self._imports():
                labels = labels.replace(cell, "listed")
            return f"[str(each).casefold() for each in {labels}].index({text}.casefold())"
        if [name.strip() for name in names] == [letter(index) for index in range(len(names))]:
            return f"LETTERS.index({text}.upper())"
        lowered = tuple(name.strip().casefold() for name in names)
        return f"{_tuple(lowered)}.index({text}.casefold())"

    def _target(self) -> str:
        column = self.reading.columns.target or ""
        cell = f"instance[{_quoted(column)}]"
        values = self._cells(column)
        if any(isinstance(value, Mapping) for value in values):
            return f'{cell}["text"]'
        if any(isinstance(value, (list, tuple)) for value in values):
            return f"{cell} if isinstance({cell}, list) else str({cell})"
        return f"str({cell})"

    def _cells(self, column: str) -> list[Any]:
        return [row.get(column) for row in self.rows]

    # ---- its test ----

    def test(self) -> str:
        """Return the text of the test."""
        fields = [self.reading.fields(row) for row in self.rows[:_TESTED_ROWS]]
        return (
            f'"""Tests of {self.file}: pytest test_{self.file}"""\n\n'
            "from pathlib import Path\n\nimport kshot\n\n"
            f'DATASET = f"{{Path(__file__).with_name({self.file!r})}}:{self.name}"\n\n\n'
            "def test_every_row_gives_a_prompt():\n"
            f"    assert len(kshot.preview(DATASET)) == {len(self.rows)}\n\n\n"
            f"{self._test_of_answers(fields)}"
        )

    def _test_of_answers(self, fields: Sequence[Mapping[str, Any]]) -> str:
        if not self.has_options:
            first = fields[0]["target"]
            return (
                "def test_the_right_text_is_right():\n"
                f"    right = {_quoted(first if isinstance(first, str) else first[0])}\n"
                '    result = kshot.evaluate(lambda prompt: right, DATASET, metric="em", limit=1)\n'
                '    assert result.results[0]["value"] == 100.0\n'
            )
        right = [each["target_idx"] for each in fields]
        named = sum(0 in (each if isinstance(each, list) else [each]) for each in right)
        return (
            "def test_the_first_option_is_right_where_it_should_be():\n"
            '    """The right options of the first rows have the indices '
            f'{", ".join(map(str, right))}."""\n'
            '    options = {"ranking_type": "generation", "limit": ' + str(len(right)) + "}\n"
            '    result = kshot.evaluate(lambda prompt: "The answer is A.", DATASET, **options)\n'
            f'    assert round(result.results[0]["value"] * {len(right)} / 100) == {named}\n'
        )


def _form(value: Any) -> tuple[str, str]:
    """Return how a cell holds options: how its text writes them (``json``, ``ast``), and what that is.

    It is ``columns`` (texts and labels), ``keys``, ``objects``, ``list``, or ``text``.
    """
    written = ""
    if isinstance(value, str):
        value, written = from_literal(value)
    if isinstance(value, Mapping):
        return written, "columns" if isinstance(value.get("text"), list) else "keys"
    if isinstance(value, (list, tuple)):
        return written, "objects" if value and isinstance(value[0], Mapping) else "list"
    return written, "text"


def _quoted(value: Any) -> str:
    """Write a text as Python people do: in double quotes."""
    text = repr(text_of(value))
    if text.startswith("'") and '"' not in text:
        return '"' + text[1:-1].replace("\\'", "'") + '"'
    return text


def _tuple(values: Sequence[str]) -> str:
    return f"({', '.join(map(_quoted, values))}{',' if len(values) == 1 else ''})"


def written_table(place: str, name: str, file: str, settings: DatasetSettings, folder: Path) -> WrittenTable:
    """Read a table, and return what is written of it; faults of rows are errors, as in a run."""
    if not is_local(place):
        raise UsageError("there is no such file", where=place, hint="Name a table: csv, tsv, json, jsonl or parquet.")
    require(place, *row_packages(place, None))
    check_named(settings, place)
    tables = RowTables(place, None)
    splits = tables.chosen_splits(settings.evaluation_set, settings.example_set)
    rows = tables.load(splits[0])
    settings = _with_columns(settings, column_names(rows))
    base = RowsWithTargets if settings.target is not None else RowsWithOptions
    dataset = rows_class(name, place, base)(settings)
    reading = dataset.examined(rows, place)
    raise_first(reading)
    row_metrics(dataset)  # what cannot score the table is an error
    return WrittenTable(
        name,
        file,
        Path(os.path.relpath(Path(place).expanduser(), folder)).as_posix(),
        rows,
        reading,
        None if settings.instruction is None else decode_escapes(settings.instruction),
        tuple(each for names in settings.metric or () for each in split_names(names)),
        splits,
        tables.left_out,
    )


def _with_columns(settings: DatasetSettings, names: list[str]) -> DatasetSettings:
    """Return the settings with the columns that have the usual names, if the user names none."""
    found = guessed(names)
    if settings.changed(RowSettings) or found is None:
        return settings
    options = found.options or None
    return replace(settings, question=found.question, options=options, answer=found.answer, target=found.target)
