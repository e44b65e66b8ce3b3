"""The dataset classes that rows and flags stand for; their attributes are those that a user would write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from kshot.core.errors import DataError, UsageError
from kshot.core.records import Row
from kshot.datasets.checks import RESERVED_FIELDS
from kshot.datasets.compiler import DatasetCompiler
from kshot.datasets.dataset import Dataset
from kshot.datasets.generation import GenerationCompiler, GenerationDataset
from kshot.datasets.multiple_choice import MultipleChoiceCompiler, MultipleChoiceDataset
from kshot.datasets.rows.loading import RowTables
from kshot.datasets.rows.reading import RowColumns, RowReading, column_names, columns_named, place_of, reading_of
from kshot.metrics import F1, Em
from kshot.prompts.strings import field_names
from kshot.tables.files import FILE_SUFFIXES

OPTIONS_INSTRUCTION = "Question: {{question}}{{'\n' + options if options}}\nAnswer:"
TARGET_INSTRUCTION = "Question: {{question}}\nAnswer:"
_LOADED = ("evaluation_set", "example_set", "evaluation_data", "example_data", "reading", "id_column")


class RowsDataset(Dataset):
    """Rows of a table, whose columns the settings name."""

    place: str = ""
    reading: RowReading | None = None
    evaluation_set = ""
    example_set = ""
    loaded: ClassVar[dict[Any, Mapping[str, Any]]]
    """What loading the rows has set, by all that it depends on. Each table has a class of its own."""

    def load_raw_dataset(
        self, dataset_path: str | None, subset_name: str | None, evaluation_set: str | None, example_set: str | None
    ) -> None:
        """Read the rows, and look at all of them before any is asked; once, whatever the model makes of them later."""
        place = dataset_path, subset_name, evaluation_set, example_set
        key = *place, self.args.with_values(ranking_type=None)
        if key not in self.loaded:
            self._load(*place)
            self.loaded[key] = {name: getattr(self, name) for name in _LOADED}
        vars(self).update(self.loaded[key])

    def _load(
        self, dataset_path: str | None, subset_name: str | None, evaluation_set: str | None, example_set: str | None
    ) -> None:
        tables = RowTables(dataset_path or self.place, subset_name)
        self.evaluation_set, self.example_set = tables.chosen_splits(evaluation_set, example_set)
        self.evaluation_data = tables.load(self.evaluation_set)
        self.reading = self._read(self.evaluation_data, tables.place)
        self._number_if_needed()
        if self.num_shots:
            self._load_examples(tables, self.example_set)

    def _number_if_needed(self) -> None:
        """Number the rows if their ids do not tell them apart."""
        ids = [str(row.get(self.id_column or "") or "") for row in self.evaluation_data]
        if any(ids) and self.reading is not None and ("" in ids or len({*ids}) < len(ids)):
            note = f"the values of column {self.id_column!r} do not tell the rows apart: samples have numbers instead"
            self.reading = replace(self.reading, notes=(*self.reading.notes, note))
            self.id_column = None

    def _load_examples(self, tables: RowTables, example_set: str) -> None:
        if example_set == self.evaluation_set:
            self.example_data = self.evaluation_data
            return
        self.example_data = tables.load(example_set)
        self._read(self.example_data, tables.place)

    def _read(self, rows: Sequence[Any], table: str) -> RowReading:
        reading = self.examined(rows, table)
        raise_first(reading)
        return reading

    def examined(self, rows: Sequence[Any], table: str) -> RowReading:
        """Look at all rows; the reading lists what is wrong with them."""
        return reading_of(rows, self._columns(rows, table), table, self.args.answer_as)

    def _columns(self, rows: Sequence[Any], table: str) -> RowColumns:
        names = column_names(rows)
        where = f"{table}:1" if table.lower().endswith((".csv", ".tsv")) else table
        columns = columns_named(self.args, names, where, templated=self.args.instruction is not None)
        if self.args.instruction is not None:
            check_instruction(self.args.instruction, names, columns, where)
        return columns

    def format_instance(self, instance: dict[str, Any], /) -> dict[str, Any]:
        """Read a row by the rules that fit all rows."""
        if self.reading is None:
            self.reading = self._read(self.evaluation_data, self.place)
        return self.reading.fields(instance)


def check_instruction(instruction: str, names: Sequence[str], columns: RowColumns, where: str) -> None:
    """Refuse an instruction that shows nothing of a row, or a column that there is not."""
    used = field_names(instruction)
    if used is None:
        return
    shown = ", ".join(names)
    if not used:
        hint = f"Write the names of columns in braces ({shown}). --description is a text before all questions."
        raise UsageError("--instruction shows nothing of a row", where=where, hint=hint)
    known = {*names, *RESERVED_FIELDS, "row", *(("question",) if columns.question is not None else ())}
    unknown = sorted(used - known)
    if unknown:
        what = f"--instruction shows {unknown[0]!r}, and there is no such column"
        raise UsageError(what, where=where, hint=f"The columns are {shown}.")


def raise_first(reading: RowReading) -> None:
    """Raise the first fault of the rows, and say how many more there are."""
    if reading.faults:
        first, more = reading.faults[0], len(reading.faults) - 1
        if more:
            counted = "1 more row has faults" if more == 1 else f"{more} more rows have faults"
            rest = f"{counted}; kshot check with the same flags lists them."
            first.hint = f"{first.hint.rstrip('.')}. {rest}" if first.hint else rest
        raise first


class RowsWithOptions(RowsDataset, MultipleChoiceDataset):
    """Rows with options and the one that is right."""

    instruction = OPTIONS_INSTRUCTION
    accuracy = "acc_norm"


class RowsWithTargets(RowsDataset, GenerationDataset):
    """Rows with the right text."""

    instruction = TARGET_INSTRUCTION
    metrics = (Em(), F1())

    def load_raw_dataset(
        self, dataset_path: str | None, subset_name: str | None, evaluation_set: str | None, example_set: str | None
    ) -> None:
        """Read the rows; a base model would go on with another question, so its reply ends where an answer does."""
        super().load_raw_dataset(dataset_path, subset_name, evaluation_set, example_set)
        if self.model_type == "base" and self.reading is not None:
            self.extra_model_args = {**self.extra_model_args, "stop": ["\n\n" if self.reading.lines else "\n"]}


def rows_class(name: str, place: str, base: type[RowsDataset]) -> type[RowsDataset]:
    """Return the class of one table."""
    attributes: Mapping[str, Any] = {"name": name, "place": place, "loaded": {}, "__doc__": f"The rows of {place}."}
    return type(base.__name__, (base,), dict(attributes))


def is_file_name(text: str) -> bool:
    """Whether a text ends as the names of tables do."""
    return text.lower().endswith(FILE_SUFFIXES)


class _RowsCompiler(DatasetCompiler):
    """What both kinds of rows have in common."""

    dataset: RowsDataset

    def _read_rows(self) -> None:
        super()._read_rows()
        for text in self.dataset.reading.notes if self.dataset.reading is not None else ():
            self.note(text)

    def fields(self, row: Row, where: str) -> dict[str, Any]:
        """Read a row; a fault names its line and its column."""
        try:
            return super().fields(row, where)
        except DataError as exc:
            if not exc.where.startswith(where):
                exc.where = f"{where}, {exc.where}" if exc.where else where
            raise

    def locate(self, index: int, row: Row, *, example: bool = False) -> str:
        """Return the place of a row: the line of its file, if it has one."""
        return place_of(row, index, super().locate(index, row, example=example))


class RowsWithOptionsCompiler(_RowsCompiler, MultipleChoiceCompiler):
    """Makes the Task of rows with options."""

    dataset: RowsWithOptions
    dataset_class: ClassVar[type[Dataset]] = MultipleChoiceCompiler.dataset_class


class RowsWithTargetsCompiler(_RowsCompiler, GenerationCompiler):
    """Makes the Task of rows with targets."""

    dataset: RowsWithTargets
    dataset_class: ClassVar[type[Dataset]] = GenerationCompiler.dataset_class


def compile_rows(dataset: RowsDataset) -> DatasetCompiler:
    """Read the rows of a table and make it ready to run."""
    return (
        RowsWithOptionsCompiler(dataset) if isinstance(dataset, RowsWithOptions) else RowsWithTargetsCompiler(dataset)
    )
