"""From a class of LLMBox to a Task: rows are formatted once, in LLMBox's order, under its seed."""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import total_ordering
from numbers import Real
from typing import Any, ClassVar, TypeVar, overload

from kshot.core.errors import DataError
from kshot.core.metric import Measure, judged, measure_names
from kshot.core.records import AnyOption, Failed, Gold, Option, Prompt, Repeats, Row, Sample, Target, bare
from kshot.core.task import Task
from kshot.datasets.compiler import DatasetCompiler, DatasetSamples, Layout, ShownExamples, TokenCounter
from kshot.datasets.dataset import Dataset, checked_metrics, copied, where_of
from kshot.datasets.generation import GenerationCompiler
from kshot.datasets.llmbox.classes import (
    LLMBoxDataset,
    LLMBoxGeneration,
    LLMBoxMultipleChoice,
    TokenLengths,
    WordAccuracy,
)
from kshot.datasets.llmbox.imports import refusals_raised
from kshot.datasets.multiple_choice import MultipleChoiceCompiler, choices_of, has_contexts
from kshot.datasets.replies import SAMPLING_OPTIONS
from kshot.methods import rolling_likelihood
from kshot.metrics import Perplexity
from kshot.statistics.averages import Average

LENGTHS_FACT = "token_lengths"
"""The fact of a run that says how many tokens texts have."""

_BY_SUBSET = frozenset({"init_arguments", "load_raw_dataset", "format_instance"})
"""The methods in which a class may look at its subset first."""


T = TypeVar("T")


class LLMBoxLayout(Layout):
    """The layout of LLMBox's prompts.

    The text of a base model is stripped at both ends, and an answer that is measured at its right end; nothing else is.
    """

    def value(self, value: T) -> T:
        """Return a value of a row as it is."""
        return value

    def continuation(self, prompt: Prompt, text: str) -> str:
        """Return an answer as it follows its prompt: after one space, where no white space is there."""
        text = text.rstrip()
        if prompt.messages or not prompt.text:
            return text.lstrip()
        if self.target_delimiter is not None:
            return self.target_delimiter + text
        return self._answered(prompt.text, text)[len(prompt.text) :]


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


_LOCK = threading.RLock()
_LARGEST_SEED = 2**32


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed ``random`` and ``numpy.random`` for a block; their states are restored afterwards."""
    import numpy as np

    with _LOCK:
        plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002 - the files draw from the global one
        random.seed(seed)
        np.random.seed(seed % _LARGEST_SEED)  # noqa: NPY002 - see above
        try:
            yield
        finally:
            random.setstate(plain)
            np.random.set_state(arrays)  # noqa: NPY002 - see above


class Collector(logging.Handler):
    """Keeps the texts that are logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one text."""
        self.texts.append(record.getMessage())


@contextmanager
def logged_warnings(logger_name: str) -> Iterator[list[str]]:
    """Collect what a logger says in a block, in place of writing it to the screen."""
    logger, collector = logging.getLogger(logger_name), Collector()
    propagates = logger.propagate
    logger.addHandler(collector)
    logger.propagate = False
    try:
        yield collector.texts
    finally:
        logger.propagate = propagates
        logger.removeHandler(collector)


@total_ordering
class ModelNumbers(Sequence[float]):
    """What a model gave for one option or question: NLL and tokens, or probabilities.

    It can be unpacked, indexed and compared. It is neither tuple nor list: a class may take those for the turns of a
    conversation.
    """

    def __init__(self, numbers: Sequence[float]) -> None:
        self._numbers = tuple(numbers)

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...
    def __getitem__(self, index: Any) -> Any:
        """Return one of the numbers, or several."""
        return self._numbers[index]

    def __len__(self) -> int:
        return len(self._numbers)

    def __eq__(self, other: object) -> bool:
        return tuple(other) == self._numbers if isinstance(other, Sequence) else NotImplemented

    def __lt__(self, other: Sequence[float]) -> bool:
        return self._numbers < tuple(other)

    def __hash__(self) -> int:
        return hash(self._numbers)

    def __repr__(self) -> str:
        """Show the numbers."""
        return repr(self._numbers)


Call = Callable[[str, Callable[[], Any]], Any]
"""Calls code of the class; an error names it."""


class OwnFigures:
    """What ``calculate_metric`` of a class gives beside, or in place of, the figures of its metrics.

    A figure has a value for each sample where the class gives one; else every sample has the figure itself.
    """

    def __init__(self, dataset: LLMBoxDataset, known: Sequence[str]) -> None:
        """``known`` are the names of the metrics of the dataset."""
        self._dataset, self._known = dataset, frozenset(known)
        self._values: dict[str, list[float]] = {}

    def __repr__(self) -> str:
        """Show the dataset; the figures are no settings."""
        return f"OwnFigures({self._dataset.display_name!r})"

    @property
    def measures(self) -> Sequence[Measure]:
        """The means of its figures, once all answers are there."""
        return [Measure(name) for name in self._values]

    def compute(self, predictions: Sequence[Any]) -> None:
        """Have the class compute its figures over all predictions; those that its metrics give too are left out."""
        results, lists = self._dataset.calculate_metric(predictions)
        usual, _ = LLMBoxDataset.calculate_metric(self._dataset, predictions)
        for group, figures in results.items():
            for name, value in figures.items():
                if not _is_number(value) or _same(usual.get(group, {}).get(name), float(value)):
                    continue
                scores = lists.get(name, []) if group == self._dataset.display_name else []
                self._values[self._title(group, name)] = _values(float(value), scores, len(predictions))

    def _title(self, group: str, name: str) -> str:
        if group != self._dataset.display_name:
            return f"{group}: {name}"
        return f"{name} (calculate_metric)" if name in self._known else name

    def score(self, sample: Sample, answer: Any) -> Mapping[str, float]:  # noqa: ARG002 - all were scored at once
        """Return the values of one sample."""
        return {name: values[sample.position] for name, values in self._values.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _same(one: Any, other: float) -> bool:
    return isinstance(one, (int, float)) and math.isclose(one, other, abs_tol=1e-9)


def _values(figure: float, scores: Any, size: int) -> list[float]:
    """Return the scores of the samples if the figure is their mean, else the figure for each of them."""
    plain = [float(score) for score in scores if score is not None] if isinstance(scores, (list, tuple)) else []
    if len(plain) == size and math.isclose(sum(plain) / size, figure, abs_tol=1e-6):
        return plain
    return [figure] * size


def with_own_figures(task: Task[Any], dataset: LLMBoxDataset, call: Call) -> Task[Any]:
    """Return the task with the figures of ``calculate_metric``, which sees all answers that are scored."""
    own = OwnFigures(dataset, measure_names(task.metrics))

    def finish(answers: Sequence[Any]) -> Sequence[Any]:
        done = task.finish(answers) if task.finish is not None else answers
        if not any(isinstance(answer, Failed) for answer in answers):  # figures over some of the samples mislead
            plain = map(bare, done)
            predictions = [each.majority if isinstance(each, Repeats) else each for each in plain]
            call("calculate_metric", lambda: own.compute(predictions))
        return done

    if judged(task.metrics):
        note = f"{dataset.display_name}: its calculate_metric is not called: a judge rates the replies one by one"
        return replace(task, notes=(*task.notes, note))
    return replace(task, metrics=(*task.metrics, own), finish=finish)


class LLMBoxMultipleChoiceCompiler(LLMBoxCompiler, MultipleChoiceCompiler):
    """Makes the Task of a class of multiple choice."""

    dataset_class: ClassVar[type[Dataset]] = LLMBoxMultipleChoice
    dataset: LLMBoxMultipleChoice

    def _format_rows(self) -> None:
        super()._format_rows()
        rows = enumerate(self.dataset.evaluation_data)
        found = [(self.fields(row, self.where), self.locate(index, row)) for index, row in rows]
        self.dataset._kshot_choices = [self.choices(fields, where) for fields, where in found]  # noqa: SLF001 - see there
        if self.dataset.ranking_with_options and any(has_contexts(fields) for fields, _ in found):
            self.note(
                f"its rows have contexts in place of options: ppl_no_option takes the place of {self._ranking_name()}"
            )
            self.dataset.ranking_with_options = False

    def choices(self, fields: Mapping[str, Any], where: str) -> tuple[str, ...]:
        """Return the options of a row; LLMBox shows an empty one by its letter."""
        shown = self.dataset.ranking_with_options and not has_contexts(fields)
        return choices_of(fields, where, may_be_empty=shown)

    def right_choices(self, fields: Mapping[str, Any], choices: Sequence[str], where: str) -> Option | AnyOption | None:
        """Return what is right; a label that is no number names no option."""
        label = fields.get("label")
        known = isinstance(label, int) or (isinstance(label, str) and label.strip().isdigit())
        return super().right_choices(fields if known else {**fields, "label": None}, choices, where)

    def question(self, sample: Sample, *, example_idx: int = -1, turn_idx: int = 0, shots: int = 0, **more: Any) -> str:
        """Render the instruction, which may use the index of the right option."""
        if sample.fields.get("target_idx") is None and isinstance(sample.target, Option):
            more.setdefault("target_idx", sample.target.index)
        return super().question(sample, example_idx=example_idx, turn_idx=turn_idx, shots=shots, **more)

    def referenced_choices(self, reference: Any, choices: Sequence[str], where: str) -> Target:
        """Return what a reference means; a class with answers of its own may have references of its own."""
        try:
            return super().referenced_choices(reference, choices, where)
        except DataError:
            if not self.processes_answers:
                raise
            return Gold(reference)

    def _baseline(self) -> Prompt | None:
        self.dataset.normalization_prompt = self.dataset.normalization_prompt.strip()
        return super()._baseline()

    def _refuse_sampling_options(self) -> None:
        """Let options of generation pass: a class may set them whatever the ranking type."""

    def _process(self, predictions: Sequence[Any]) -> Sequence[Any]:
        return super()._process([each if isinstance(each, str) else ModelNumbers(each) for each in predictions])


class LLMBoxGenerationCompiler(LLMBoxCompiler, GenerationCompiler):
    """Makes the Task of a class of generation."""

    dataset_class: ClassVar[type[Dataset]] = LLMBoxGeneration


class LLMBoxPerplexityCompiler(LLMBoxCompiler):
    """Makes the Task of a class whose rows are texts: each is measured by itself."""

    dataset_class: ClassVar[type[Dataset]] = LLMBoxDataset

    def _prepare(self) -> None:
        self.dataset.instruction = ""
        self.dataset.num_shots = 0
        super()._prepare()

    def _own_references(self) -> None:
        """Ask for none: a text is its own reference."""

    def sample(self, index: int, row: Row) -> Sample:
        """Make the sample of one text, which is the only option of its row."""
        where = self.locate(index, row)
        fields = self.fields(row, where)
        text = (
            fields["target"] if fields.get("options") is None and fields.get("target") else _only_option(fields, where)
        )
        fields = {**fields, "target": self.layout.continuation(Prompt(), str(text))}
        loaded = self._as_loaded[index]
        return Sample(self.identify(index, row), fields, None, (), self.category(row, where), index, loaded)

    def task(self, count_tokens: TokenCounter | None = None, recorded: Mapping[str, Any] | None = None) -> Task[Any]:  # noqa: ARG002 - no examples are shown
        """Make the Task."""
        self.mark_unread("sample_num")
        metrics = [
            Perplexity(documents=True) if isinstance(m, Perplexity) else m for m in checked_metrics(self.dataset)
        ]
        return Task(
            self.dataset.display_name,
            DatasetSamples(self),
            lambda sample, _: str(sample.fields["target"]),
            rolling_likelihood(self.dataset.args.rolling_start),
            tuple(metrics),
            notes=tuple(self.notes),
            facts=self._token_facts(),
        )


def _only_option(fields: Mapping[str, Any], where: str) -> str:
    text, *others = choices_of(fields, where)
    if others:
        raise DataError(f"a text is measured by itself, and there are {len(others) + 1} options", where=where)
    return text


def compile_llmbox(
    dataset: LLMBoxDataset, count_tokens: TokenCounter | None = None, recorded: Mapping[str, Any] | None = None
) -> DatasetCompiler:
    """Read and format the rows of a dataset, and make it ready to run; ``recorded`` are the facts of an earlier run."""
    lengths = TokenLengths(count_tokens, (recorded or {}).get(LENGTHS_FACT))
    dataset._kshot_tokens = lengths  # noqa: SLF001 - private, so that a subclass may use the name
    if isinstance(dataset, LLMBoxMultipleChoice):
        return LLMBoxMultipleChoiceCompiler(dataset)
    if isinstance(dataset, LLMBoxGeneration):
        return LLMBoxGenerationCompiler(dataset)
    if dataset.evaluation_type == "perplexity":
        return LLMBoxPerplexityCompiler(dataset)
    raise DataError(
        f"its evaluation_type is {dataset.evaluation_type!r}",
        where=where_of(dataset),
        hint="Subclass MultipleChoiceDataset or GenerationDataset, or set evaluation_type = 'perplexity'.",
    )
