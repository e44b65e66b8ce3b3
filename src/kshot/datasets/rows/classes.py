"""The dataset classes that rows and flags stand for: where their rows come from, and what ``kshot check`` says."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from kshot.cleanups.letters import letter
from kshot.core.entry_checks import EntryCheck, Lack
from kshot.core.errors import DataError, UsageError
from kshot.core.metric import Metric, measure_names
from kshot.core.records import Answers, Row
from kshot.datasets.compiler import DatasetCompiler
from kshot.datasets.dataset import RESERVED_FIELDS, Dataset, checked_metrics, requested_metrics
from kshot.datasets.generation import GenerationCompiler, GenerationDataset
from kshot.datasets.multiple_choice import MultipleChoiceCompiler, MultipleChoiceDataset, choice_metrics
from kshot.datasets.rows.reading import RowColumns, RowReading, column_names, columns_named, place_of, reading_of
from kshot.metrics import F1, Em
from kshot.metrics.passatk import check_targets
from kshot.prompts.strings import field_names
from kshot.tables.files import FILE_SUFFIXES, LocatedRow, Rows, check_text, read_located, slice_rows, split_name
from kshot.tables.hub import hub_splits, load_from_hub
from kshot.tables.loading import LocalRows, local_splits

_EVALUATED = ("test", "validation", "valid", "val", "dev", "eval", "evaluation")
_SHOWN = ("train", "training", "examples", "dev", "validation", "valid", "val", "test")
WHOLE = "all"
"""What the split of a table without splits is called."""
_SLICED = re.compile(r"(?P<file>.*?)(?P<slice>\[[^\]]*\])?")


def is_local(place: str) -> bool:
    """Whether a place is on this machine: it exists, or is written as a path, a pattern or the name of a file."""
    written = place.startswith(("/", "./", "../", "~")) or "{split}" in place
    return written or place.lower().endswith(FILE_SUFFIXES) or Path(place).expanduser().exists()


class RowTables:
    """The tables of one dataset: split by split, from one place."""

    def __init__(self, place: str, subset: str | None) -> None:
        """``place`` is a local path, or the name of a dataset on the hub, which may have subsets."""
        self.place, self._subset = place, subset
        self.left_out = False  # whether empty rows at the end of a file were left out
        self._local = None
        if is_local(place):
            self._local = LocalRows(place, "", subset, check=_check_file, read=read_located, whole=WHOLE)

    def chosen_splits(self, evaluated: str | None, shown: str | None) -> tuple[str, str]:
        """Return the splits that are evaluated and that examples are taken from: the user's, else the usual ones."""
        if evaluated and shown:
            return evaluated, shown
        names = self._splits()
        usual = next((name for name in _EVALUATED if name in names), names[0] if names else WHOLE)
        others = next((name for name in _SHOWN if name in names and name != usual), usual)
        chosen = evaluated or usual
        return chosen, shown or (others if chosen == usual else chosen)

    def _splits(self) -> Sequence[str]:
        if self._local is None:
            return hub_splits(self.place, self._subset, self.place) or ("test",)
        _check_exists(self.place)
        return local_splits(self.place, (*_EVALUATED, *_SHOWN), _checked)

    def load(self, split: str) -> Rows:
        """Return the rows of a split; it may also be a file of its own, such as ``train.csv[:100]``."""
        parts = _SLICED.fullmatch(split)
        if parts is not None and parts["file"].lower().endswith(FILE_SUFFIXES):
            rows = _file_rows(parts["file"])
            found = slice_rows(rows, WHOLE + (parts["slice"] or ""), parts["file"])
        elif self._local is None:
            found = load_from_hub(self.place, self._subset, split, self.place)
        else:
            _check_exists(self.place)
            found = self._local.load(split)
        rows = _without_empty_end(found)
        self.left_out |= len(rows) < len(found)
        if not len(rows):
            raise _nothing(split, self.place)
        return rows


def _nothing(split: str, place: str) -> DataError:
    path = Path(place).expanduser()
    if path.is_file() and not path.read_bytes().strip():
        return DataError("the file is empty", where=f"{place}:1")
    if path.suffix.lower() in {".csv", ".tsv"} and split_name(split) == WHOLE:
        return DataError("below the header there are no rows", where=f"{place}:1")
    named = "" if split_name(split) == WHOLE else f" in the split {split!r}"
    return DataError(f"there are no rows{named}", where=place)


def _file_rows(file: str) -> Rows:
    _check_exists(file)
    found = _checked(Path(file).expanduser())
    if isinstance(found, Mapping):
        raise DataError(f"it has splits: {', '.join(found)}", where=file, hint="Name a file with one list of rows.")
    return found


def _checked(file: Path) -> Rows | Mapping[str, Rows]:
    _check_file(file)
    return read_located(file)


def _check_exists(place: str) -> None:
    path = Path(place).expanduser()
    if "{" in place or path.exists():
        return
    if path.is_symlink():
        raise DataError("this is a link that leads to no file", where=place)
    near = {each.stem.lower(): each for each in path.parent.iterdir()} if path.parent.is_dir() else {}
    close = difflib.get_close_matches(path.stem.lower(), list(near), 1)
    hint = f"Did you mean {str(near[close[0]])!r}?" if close else ""
    raise DataError("there is no such file or folder", where=place, hint=hint)


def _check_file(path: Path) -> None:
    """Refuse a file that is no table: its first bytes tell more than an error about its first line."""
    if path.suffix.lower() not in {".parquet", ".arrow"} and path.is_file():
        try:
            check_text(path)
        except OSError as exc:
            raise DataError(f"the file cannot be read: {exc.strerror or exc}", where=str(path)) from exc


def _without_empty_end(rows: Rows) -> Rows:
    """Leave out rows at the end in which every cell is empty, as spreadsheets write them."""
    end = len(rows)
    while end and isinstance(rows[end - 1], LocatedRow) and not any(rows[end - 1].values()):
        end -= 1
    return rows if end == len(rows) else [rows[number] for number in range(end)]


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
            tables = RowTables(dataset_path or self.place, subset_name)
            self._load(tables, *tables.chosen_splits(evaluation_set, example_set))
            self.loaded[key] = {name: getattr(self, name) for name in _LOADED}
        vars(self).update(self.loaded[key])

    def _load(self, tables: RowTables, evaluated: str, shown: str) -> None:
        self.evaluation_set, self.example_set = evaluated, shown
        self.evaluation_data = tables.load(evaluated)
        self.reading = self._read(self.evaluation_data, tables.place)
        self._number_if_needed()
        if self.num_shots and shown == evaluated:
            self.example_data = self.evaluation_data
        elif self.num_shots:
            self.example_data = tables.load(shown)
            self._read(self.example_data, tables.place)

    def _number_if_needed(self) -> None:
        """Number the rows if their ids do not tell them apart."""
        ids = [str(row.get(self.id_column or "") or "") for row in self.evaluation_data]
        if any(ids) and self.reading is not None and ("" in ids or len({*ids}) < len(ids)):
            note = f"the values of column {self.id_column!r} do not tell the rows apart: samples have numbers instead"
            self.reading = replace(self.reading, notes=(*self.reading.notes, note))
            self.id_column = None

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

    def load_raw_dataset(self, *place: str | None) -> None:
        """Read the rows; a base model would go on with another question, so its reply ends where an answer does."""
        super().load_raw_dataset(*place)
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


class RowsWithTargetsCompiler(_RowsCompiler, GenerationCompiler):
    """Makes the Task of rows with targets."""

    dataset: RowsWithTargets


def compile_rows(dataset: RowsDataset) -> DatasetCompiler:
    """Read the rows of a table and make it ready to run."""
    return (
        RowsWithOptionsCompiler(dataset) if isinstance(dataset, RowsWithOptions) else RowsWithTargetsCompiler(dataset)
    )


def check_table(dataset: RowsDataset) -> EntryCheck:
    """Look at all rows of a table, and list what is wrong with them."""
    args = dataset.args
    tables = RowTables(args.dataset_path or dataset.place, dataset.subset_name)
    split, _ = tables.chosen_splits(args.evaluation_set, args.example_set)
    rows = tables.load(split)
    reading = dataset.examined(rows, tables.place)
    metrics = row_metrics(dataset)
    return EntryCheck(
        dataset.display_name,
        "messages" if dataset.model_type == "chat" else "text",
        _described(rows, reading),
        ", ".join(measure_names(metrics)),
        missing=tuple(_lacks(metrics, reading, rows)),
        notes=reading.notes,
    )


def _lacks(metrics: Sequence[Metric], reading: RowReading, rows: Sequence[Mapping[str, Any]]) -> Iterator[Lack]:
    yield from (Lack("row", str(fault), (str(fault),)) for fault in reading.faults)
    if reading.faults:
        return
    targets = (reading.fields(row).get("target", ()) for row in rows)
    try:
        check_targets(metrics, (Answers((each,) if isinstance(each, str) else tuple(each)) for each in targets), "")
    except UsageError as exc:
        yield Lack("evaluation", str(exc), (str(exc),))


def row_metrics(dataset: RowsDataset) -> list[Metric]:
    """Return the metrics of a table, those of ``--metric`` if there are any; what cannot score it is an error."""
    if dataset.args.metric:
        dataset.metrics = requested_metrics(dataset)
    return choice_metrics(dataset) if isinstance(dataset, RowsWithOptions) else checked_metrics(dataset)


def _described(rows: Sequence[Mapping[str, Any]], reading: RowReading) -> str:
    counted = f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}"
    if reading.form is None:
        return counted
    found = Counter[int]()
    for row in rows:
        with suppress(DataError):
            right = reading.fields(row)["target_idx"]
            found.update(right if isinstance(right, list) else [right])
    shares = " ".join(f"{letter(index)} {count}" for index, count in sorted(found.items()))
    return f"{counted}; right: {shares or 'none'}"
