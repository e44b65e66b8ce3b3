"""Generation: the model writes, and any metric scores what it wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from kshot.core.errors import DataError, UsageError
from kshot.core.metric import Metric
from kshot.core.records import Answers, Choice, Dialogue, Gold, Prompt, RequestGenerator, Row, Sample, Target
from kshot.core.task import Task
from kshot.datasets.compiler import DatasetCompiler, DatasetSamples, TaskParts, TokenCounter
from kshot.datasets.dataset import Dataset, checked_metrics
from kshot.datasets.replies import (
    post_processing_of,
    refuse_cleanup,
    refuse_sampling_options,
    reply_extractor,
    sampling_options,
)
from kshot.methods import converse, generate, likelihood, repeat, rolling_likelihood
from kshot.metrics import Greedy, PassAtK, Perplexity
from kshot.metrics.passatk import check_programs, programs_needed

_OF_LAYOUT = ("description", "target_delimiter", "fewshot_delimiter", "examples_as")
"""Options of how a prompt is put together."""


class GenerationDataset(Dataset):
    """Questions answered in free text. ``format_instance`` returns the instruction's fields, and a ``target``.

    With ``multi_turn`` and ``source`` a list, the instruction is rendered once per ``turn_idx`` and the prediction is
    the tuple of all replies. With ``metrics = [Perplexity()]`` the target is measured after the prompt instead. With
    ``rolling`` too, the target is a document by itself, which may be longer than the model's window.
    """

    rolling: bool = False


class GenerationCompiler(DatasetCompiler):
    """Makes the Task of a ``GenerationDataset``."""

    dataset_class: ClassVar[type[Dataset]] = GenerationDataset

    def sample(self, index: int, row: Row) -> Sample:
        """Make the sample of one evaluated row."""
        where = self.locate(index, row)
        fields = self.fields(row, where)
        if self.dataset.multi_turn and (not isinstance(fields.get("source"), (list, tuple)) or not fields["source"]):
            raise DataError("multi_turn needs source to be a list of turns", where=where)
        own = self.own_reference(index)
        target = _target(own[0]) if own else self._default_target(fields)
        return Sample(self.identify(index, row), fields, target, (), self.category(row, where), index, row)

    def example(self, index: int, row: Row) -> Sample:
        """Make the sample of one example row."""
        where = self.locate(index, row, example=True)
        fields = self.fields(row, where)
        if fields.get("target") is None:
            raise DataError("an example needs a target", where=where)
        return Sample(f"example-{index}", fields, self._default_target(fields))

    def _default_target(self, fields: Mapping[str, Any]) -> Target | None:
        target = fields.get("target")
        return Answers((self.layout.value(target),)) if isinstance(target, str) else _target(target)

    def answer_text(self, sample: Sample) -> str:
        """Return the answer of an example."""
        target = sample.fields.get("target")
        first = target[0] if isinstance(target, (list, tuple)) and target else target
        return self.layout.value(str(first))

    def task(self, count_tokens: TokenCounter | None = None, recorded: Mapping[str, Any] | None = None) -> Task[Any]:
        """Make the Task."""
        self.examples.fit(count_tokens, recorded)
        metrics = self._metrics()
        measured = self._measures(metrics)
        if measured:
            metrics = self._measuring_metrics(metrics)
        template, method, finish = self._measuring() if measured else self._generating(programs_needed(metrics))
        return Task(
            self.dataset.display_name,
            DatasetSamples(self),
            template,
            method,
            metrics,
            self.examples.select,
            finish,
            notes=tuple(self.notes),
            facts=self.example_facts(),
        )

    # ---- the target is measured ----

    @property
    def measures_after_delimiter(self) -> bool:
        """Whether the target is measured after a prompt."""
        return not self._rolling and any(isinstance(metric, Perplexity | Greedy) for metric in self.dataset.metrics)

    def _measures(self, metrics: Sequence[Metric]) -> bool:
        """Whether the target is measured rather than a reply scored."""
        measuring = [isinstance(metric, Perplexity | Greedy) for metric in metrics]
        if any(measuring) and not all(measuring):
            raise DataError("Perplexity cannot be mixed with metrics of generated text", where=self.where)
        if self._rolling and not any(measuring):
            raise UsageError(
                "rolling measures documents, and needs the metric Perplexity",
                where=self.where,
                hint="Add --metric perplexity.",
            )
        return any(measuring)

    def _measuring_metrics(self, metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
        """Return the metrics, and with targets also their accuracy, which the same numbers tell."""
        if self._rolling:
            return tuple(Perplexity(documents=True) if type(metric) is Perplexity else metric for metric in metrics)
        return metrics if any(isinstance(metric, Greedy) for metric in metrics) else (*metrics, Greedy())

    @property
    def _rolling(self) -> bool:
        dataset = self.dataset
        given = dataset.args.rolling
        return given if given is not None else isinstance(dataset, GenerationDataset) and bool(dataset.rolling)

    def _prepare(self) -> None:
        if self._rolling:
            self.dataset.instruction = self.dataset.instruction or ""  # a document has no question before it
            if self.dataset.num_shots:
                self.dataset.num_shots = 0
                self.note("documents are measured by themselves: no examples are shown")
        super()._prepare()

    def _measuring(self) -> TaskParts:
        refuse_sampling_options(self, "perplexity")
        refuse_cleanup(self, "perplexity")
        self.mark_unread("sample_num")
        if not self._rolling:
            return self._target_choice, likelihood, None
        self.mark_unread("instruction", "system_prompt", "model_type", *_OF_LAYOUT)
        return self._document, rolling_likelihood(self.dataset.args.rolling_start), None

    def _document(self, sample: Sample, shots: Sequence[Sample]) -> str:  # noqa: ARG002 - no examples are shown
        """Return the target as it is: the white space of a document counts."""
        text = sample.fields.get("target")
        if not isinstance(text, str):
            raise DataError("perplexity needs a target text", where=f"{self.where}, sample {sample.id}")
        return text

    def _target_choice(self, sample: Sample, shots: Sequence[Sample]) -> Choice:
        prompt = self._prompt(sample, shots)
        text = self.answer_text(sample) if sample.fields.get("target") is not None else ""
        if not text:
            raise DataError("perplexity needs a target text", where=f"{self.where}, sample {sample.id}")
        return self.layout.choice(prompt, text)

    # ---- replies are generated ----

    def _generating(self, replies_needed: int) -> TaskParts:
        options = sampling_options(self)
        extract, times = reply_extractor(self), self.dataset.args.sample_num
        method: Callable[[Sample, Any], RequestGenerator]
        template: Callable[[Sample, Sequence[Sample]], Any]
        if self.dataset.multi_turn:
            template, method = self._dialogue, converse(extract, **options)
        else:
            template, method = self._prompt, generate(extract, **options)
        finish = post_processing_of(self, self._blank) if self.processes_answers else None
        return template, repeat(method, times, at_least=replies_needed) if times > 1 else method, finish

    def _prompt(self, sample: Sample, shots: Sequence[Sample]) -> Prompt:
        return self.prompt(sample, shots, self.question(sample, shots=len(shots)))

    def _dialogue(self, sample: Sample, shots: Sequence[Sample]) -> Dialogue:
        turns = [self.question(sample, turn_idx=i, shots=len(shots)) for i in range(len(sample.fields["source"]))]
        return Dialogue(self.prompt(sample, shots, turns[0]), tuple(turns[1:]))

    def _blank(self, sample: Sample) -> Any:
        return ("",) * len(sample.fields["source"]) if self.dataset.multi_turn else ""

    def _metrics(self) -> tuple[Metric, ...]:
        given, sample_num = self.dataset.args.pass_at_k, self.dataset.args.sample_num
        metrics = checked_metrics(self.dataset)
        if given and not any(isinstance(metric, PassAtK) for metric in metrics):
            raise UsageError("--pass-at-k needs a dataset with the metric PassAtK", where=self.where)
        metrics = [metric.with_k(given) if given and isinstance(metric, PassAtK) else metric for metric in metrics]
        for metric in metrics:
            if isinstance(metric, PassAtK) and max(metric.k) > sample_num:
                k = max(metric.k)
                raise UsageError(
                    f"pass@{k} needs {k} replies per sample, not {sample_num}",
                    where=self.where,
                    hint=f"Add --sample-num {k} or more.",
                )
        check_programs(metrics)
        return tuple(metrics)


def _target(reference: Any) -> Target | None:
    """Keep the reference of a class as it is: texts in a list are alternatives, anything else is for the metric."""
    if reference is None:
        return None
    if isinstance(reference, (list, tuple)) and all(isinstance(text, str) for text in reference):
        return Answers(tuple(reference))
    return Gold(reference)
