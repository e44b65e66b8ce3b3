"""The Tasks of rows without a class: messages name the line of a row, and notes say how its cells are read."""

from __future__ import annotations

from typing import Any, ClassVar

from kshot.core.errors import DataError
from kshot.core.records import Row
from kshot.datasets.compiler import DatasetCompiler
from kshot.datasets.dataset import Dataset
from kshot.datasets.generation import GenerationCompiler
from kshot.datasets.multiple_choice import MultipleChoiceCompiler
from kshot.datasets.rows.classes import RowsDataset, RowsWithOptions, RowsWithTargets
from kshot.datasets.rows.reading import place_of


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
