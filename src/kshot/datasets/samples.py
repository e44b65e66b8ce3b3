"""The samples of a dataset class, as a Task has them."""

from __future__ import annotations

from collections.abc import Iterator

from kshot.core.records import Sample
from kshot.datasets.compiler import DatasetCompiler
from kshot.statistics.averages import Average


class DatasetSamples:
    """The samples of a dataset, formatted anew on each pass, so that none stays in memory."""

    def __init__(self, compiler: DatasetCompiler) -> None:
        self._compiler = compiler

    @property
    def subset(self) -> str:
        """The subset that they belong to; the name of the dataset if it has none."""
        return self._compiler.dataset.subset_name or self._compiler.dataset.display_name

    @property
    def average(self) -> Average:
        """How the subsets of its dataset are averaged."""
        return self._compiler.average

    def __len__(self) -> int:
        return len(self._compiler.dataset.evaluation_data)

    def __iter__(self) -> Iterator[Sample]:
        return self._compiler.samples()
