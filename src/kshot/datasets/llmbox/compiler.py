"""From a class of LLMBox to a Task: rows are formatted once, in LLMBox's order, under its seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from kshot.core.errors import DataError
from kshot.core.records import Prompt, Row, Sample
from kshot.core.task import Task
from kshot.datasets.compiler import DatasetCompiler
from kshot.datasets.examples import ShownExamples, TokenCounter
from kshot.datasets.layout import Layout
from kshot.datasets.llmbox.classes import LLMBoxDataset
from kshot.datasets.llmbox.layout import LLMBoxLayout
from kshot.datasets.llmbox.metrics import WordAccuracy
from kshot.datasets.llmbox.own_figures import with_own_figures
from kshot.datasets.llmbox.programs import refusals_raised
from kshot.datasets.llmbox.seeding import seeded
from kshot.datasets.llmbox.tokens import TokenLengths
from kshot.datasets.llmbox.warnings import logged_warnings
from kshot.datasets.rendering import copied
from kshot.datasets.sampling_options import SAMPLING_OPTIONS
from kshot.statistics.averages import Average

LENGTHS_FACT = "token_lengths"
"""The fact of a run that says how many tokens texts have."""

_BY_SUBSET = frozenset({"init_arguments", "load_raw_dataset", "format_instance"})
"""The methods in which a class may look at its subset first."""


class GlobalDraw(ShownExamples):
    """Examples that the global generator draws, as LLMBox does: a row may be its own example."""

    among_evaluated = False
    _dataset: LLMBoxDataset

    @property
    def budget(self) -> int | None:
        """The most tokens that the examples may have together: LLMBox's default, the user's, or the class's."""
        return self._dataset.max_example_tokens

    def draw(self, size: int, wanted: int) -> Sequence[int]:
        """Draw the numbers of example rows."""
        import numpy as np

        drawn: list[int] = np.random.choice(size, wanted, replace=False).tolist()  # noqa: NPY002 - as LLMBox draws
        return drawn


class LLMBoxCompiler(DatasetCompiler):
    """Hands every row to ``format_instance`` once: row 0, the examples, then the other rows. References come last."""

    examples_class: ClassVar[type[ShownExamples]] = GlobalDraw
    layout_class: ClassVar[type[Layout]] = LLMBoxLayout
    dataset: LLMBoxDataset

    def __init__(self, dataset: LLMBoxDataset) -> None:
        """Read and format the rows under the seed."""
        self._formatted: dict[int, Mapping[str, Any]] = {}
        self._compiling = True
        self._as_loaded: list[Row] = []
        with seeded(dataset.seed), logged_warnings(type(dataset).__module__) as warnings:
            super().__init__(dataset)
        for text in dict.fromkeys(warnings):
            self.note(text)
        self._compiling = False

    def _read_rows(self) -> None:
        super()._read_rows()
        dataset = self.dataset
        dataset.evaluation_data = self._own_rows(dataset.evaluation_data, "row")
        self._as_loaded = [copied(row) for row in dataset.evaluation_data]
        if dataset.num_shots:
            dataset.example_data = self._own_rows(dataset.example_data, "example")
        ids = [self._own_id(row) for row in dataset.evaluation_data]
        if len({*ids}) < len(ids):
            dataset.id_column = None  # LLMBox knows no ids: what is called so may stand in several rows

    def _format_rows(self) -> None:
        dataset = self.dataset
        constructed = self._constructs_examples
        shown = not constructed and not dataset.args.retriever
        if shown or (constructed and dataset.num_shots and len(dataset.example_data)):
            dataset.random_indice = list(self.examples.numbers)
        for index, row in enumerate(dataset.evaluation_data):
            self.fields(row, self.locate(index, row))
            if index == 0 and shown:
                self.examples.choose()

    def _own_rows(self, rows: Sequence[Any], name: str) -> list[dict[str, Any]]:
        """Copy the rows: a file may have them in a list of its own, and format_instance may change them."""
        return [copied(dict(self._checked(row, f"{name} {index}"))) for index, row in enumerate(rows)]

    def call(self, name: str, method: Callable[[], Any]) -> Any:
        """Call code of the class; one that has subsets may fail for want of one."""
        try:
            with refusals_raised():
                return super().call(name, method)
        except DataError as exc:
            exc.where = exc.where or self.where
            if not exc.hint and name in _BY_SUBSET and self._may_lack_subset(exc.__cause__):
                exc.hint = "If it has subsets, name one: -d FILE.py:CLASS:SUBSET."
            raise

    def _may_lack_subset(self, cause: BaseException | None) -> bool:
        """Whether a subset may be what is missing: none is named, and it is no column of a row that is missing."""
        missing_column = isinstance(cause, KeyError) and all(isinstance(key, str) for key in cause.args)
        fixed = len(self.dataset.load_args or ()) > 1
        return self.dataset.subset_name is None and not fixed and not missing_column

    def sample(self, index: int, row: Row) -> Sample:
        """Make the sample of one evaluated row; its row is the one that was loaded, however it was changed since."""
        return replace(super().sample(index, row), row=self._as_loaded[index])

    def fields(self, row: Row, where: str) -> dict[str, Any]:
        """Return what ``format_instance`` made of a row; it is called once for each row."""
        if id(row) not in self._formatted:
            if self._compiling:
                self._formatted[id(row)] = self._once(row, where)
            else:  # an example that a retriever chose
                with seeded(self.dataset.seed):
                    self._formatted[id(row)] = self._once(row, where)
        return dict(self._formatted[id(row)])

    def _once(self, row: Row, where: str) -> dict[str, Any]:
        given = row if isinstance(row, dict) else dict(row)
        formatted: dict[str, Any] = self.call("format_instance", lambda: self.format(given, where))
        return formatted

    @property
    def average(self) -> Average:
        """How the subsets are averaged: LLMBox weights them where the class puts them into no categories."""
        own: Average = "weighted" if self.dataset.categorized_subsets is None else "macro"
        return self.dataset.args.average or own

    def sampling_options(self) -> Mapping[str, Any]:
        """Return the class's options of generation; those that kshot's generation does not have are noted."""
        given = {name: value for name, value in super().sampling_options().items() if value is not None}
        unused = [name for name in given if name not in SAMPLING_OPTIONS]
        if unused:
            self.note(f"extra_model_args has {', '.join(unused)}, which kshot's generation does not use")
        return {name: value for name, value in given.items() if name not in unused}

    def prompt(self, sample: Sample, shots: Sequence[Sample], question: str) -> Prompt:
        """Put examples and question together; a class that constructs its examples draws them by row."""
        if not self._constructs_examples:
            return super().prompt(sample, shots, question)
        with seeded(self.dataset.seed + max(sample.position, 0)):
            return super().prompt(sample, shots, question)

    @property
    def _lengths(self) -> TokenLengths:
        return self.dataset._kshot_tokens  # noqa: SLF001 - private, so that a subclass may use the name

    def _token_facts(self) -> dict[str, Any]:
        """Return the tokens that were counted, which a run records; some are counted while it runs."""
        counted_later = self._constructs_examples or any(isinstance(m, WordAccuracy) for m in self.dataset.metrics)
        return {LENGTHS_FACT: self._lengths.counts} if counted_later or self._lengths.counts else {}

    def task(self, count_tokens: TokenCounter | None = None, recorded: Mapping[str, Any] | None = None) -> Task[Any]:
        """Make the Task; a class with its own ``calculate_metric`` adds its figures."""
        given, lengths = self.dataset.metrics, self._lengths
        if not lengths.known and any(isinstance(metric, WordAccuracy) for metric in given):
            self.note("WordAccuracy counts words in place of tokens: there is no tokenizer")
        counter = lengths if lengths.known else None
        self.dataset.metrics = [m.counting(counter) if isinstance(m, WordAccuracy) else m for m in given]
        made = super().task(count_tokens, recorded)
        self.dataset.real_num_shots = len(self.examples.shots)
        made = replace(made, facts={**made.facts, **self._token_facts()})
        own = type(self.dataset).calculate_metric is not LLMBoxDataset.calculate_metric
        return with_own_figures(made, self.dataset, self.call) if own else made
