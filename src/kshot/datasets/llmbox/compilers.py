"""The kinds of LLMBox's classes: multiple choice, generation, and texts that are measured by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from kshot.core.errors import DataError
from kshot.core.records import AnyOption, Gold, Option, Prompt, Row, Sample, Target
from kshot.core.task import Task
from kshot.datasets.checks import checked_metrics
from kshot.datasets.choices import choices_of, has_contexts
from kshot.datasets.compiler import DatasetCompiler
from kshot.datasets.dataset import Dataset, where_of
from kshot.datasets.examples import TokenCounter
from kshot.datasets.generation import GenerationCompiler
from kshot.datasets.llmbox.classes import LLMBoxDataset, LLMBoxGeneration, LLMBoxMultipleChoice
from kshot.datasets.llmbox.compiler import LENGTHS_FACT, LLMBoxCompiler
from kshot.datasets.llmbox.predictions import ModelNumbers
from kshot.datasets.llmbox.tokens import TokenLengths
from kshot.datasets.multiple_choice import MultipleChoiceCompiler
from kshot.datasets.samples import DatasetSamples
from kshot.methods import rolling_likelihood
from kshot.metrics import Perplexity


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
