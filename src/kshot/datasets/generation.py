"""Generation: the model writes, and any metric scores what it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from kshot.cleanups import Cleanup, make_cleanup
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.protocols import Scorer
from kshot.core.records import Answers, Choice, Dialogue, Gold, Prompt, Sample, Target
from kshot.core.task import Task
from kshot.datasets.asking import finished, refuse_sampling, sampling
from kshot.datasets.compiled import Compiled, Count
from kshot.datasets.dataset import Dataset
from kshot.datasets.rendering import continuation
from kshot.methods import converse, generate, likelihood, repeat
from kshot.methods.generation import Extract
from kshot.metrics import PassAtK, Perplexity
from kshot.tables.loading import Row


class GenerationDataset(Dataset):
    """Questions answered in free text. ``format_instance`` returns the instruction's fields, and a ``target``.

    With ``multi_turn`` and ``source`` a list, the instruction is rendered once per ``turn_idx`` and the prediction is
    the tuple of all replies. With ``metrics = [Perplexity()]`` the target is measured after the prompt instead.
    """


class CompiledTexts(Compiled):
    """Generation as a Task."""

    kind: ClassVar[type[Dataset]] = GenerationDataset

    def sample(self, index: int, row: Row) -> Sample:
        """Make the sample of one evaluated row."""
        where = self.locate(index, row)
        fields = self.fields(row, where)
        if self.dataset.multi_turn and (not isinstance(fields.get("source"), (list, tuple)) or not fields["source"]):
            raise DataError("multi_turn needs source to be a list of turns", where=where)
        own = self.own_reference(index)
        target = _target(own[0]) if own else _default_target(fields)
        return Sample(self.identify(index, row), fields, target, (), self.category(row, where), index)

    def example(self, index: int, row: Row) -> Sample:
        """Make the sample of one example row."""
        where = self.locate(index, row, example=True)
        fields = self.fields(row, where)
        if fields.get("target") is None:
            raise DataError("an example needs a target", where=where)
        return Sample(f"example-{index}", fields, _default_target(fields))

    def answer_text(self, sample: Sample) -> str:
        """Give an example's answer."""
        target = sample.fields.get("target")
        first = target[0] if isinstance(target, (list, tuple)) and target else target
        return str(first).strip()

    def _asked(self, sample: Sample, shots: Sequence[Sample]) -> Prompt:
        return self.prompt(sample, shots, self.question(sample, shots=len(shots)))

    def _dialogue(self, sample: Sample, shots: Sequence[Sample]) -> Dialogue:
        turns = [self.question(sample, turn_idx=i, shots=len(shots)) for i in range(len(sample.fields["source"]))]
        return Dialogue(self.prompt(sample, shots, turns[0]), tuple(turns[1:]))

    def _measured(self, sample: Sample, shots: Sequence[Sample]) -> Choice:
        prompt = self._asked(sample, shots)
        text = self.answer_text(sample) if sample.fields.get("target") is not None else ""
        if not text:
            raise DataError("perplexity needs a target text", where=f"{self.where}, sample {sample.id}")
        return Choice(prompt, continuation(prompt, text))

    def task(self, count: Count | None = None, kept: int | None = None) -> Task[Any]:
        """Compile to a Task."""
        self.fit_examples(count, kept)
        metrics = self._metrics()
        template: Any
        method: Any
        if any(isinstance(metric, Perplexity) for metric in metrics):
            if not all(isinstance(metric, Perplexity) for metric in metrics):
                raise DataError("Perplexity cannot be mixed with metrics of generated text", where=self.where)
            refuse_sampling(self, "perplexity")
            template, method, finish = self._measured, likelihood, None
        else:
            template = self._dialogue if self.dataset.multi_turn else self._asked
            options = sampling(self)
            if self.dataset.args.cleanup is not None:
                options["extract"] = _cleaned_by(make_cleanup(self.dataset.args.cleanup))
            method = converse(**options) if self.dataset.multi_turn else generate(**options)
            if self.dataset.args.sample_num > 1:
                method = repeat(method, self.dataset.args.sample_num)
            finish = finished(self, self._blank) if self.overrides("post_processing") else None
        return Task(
            self.dataset.display_name,
            self.rows(),
            template,
            method,
            metrics,
            self.select,
            finish,
            notes=tuple(self.notes),
            facts=self.facts(),
        )

    def _blank(self, sample: Sample) -> Any:
        return ("",) * len(sample.fields["source"]) if self.dataset.multi_turn else ""

    def _metrics(self) -> tuple[Scorer, ...]:
        asked = self.dataset.args.pass_at_k
        if asked and not any(isinstance(metric, PassAtK) for metric in self.dataset.metrics):
            raise UsageError("--pass-at-k needs a dataset with the metric PassAtK", where=self.where)
        metrics = [m.with_k(asked) if asked and isinstance(m, PassAtK) else m for m in self.dataset.metrics]
        for metric in metrics:
            if isinstance(metric, PassAtK) and max(metric.k) > self.dataset.args.sample_num:
                k, n = max(metric.k), self.dataset.args.sample_num
                raise UsageError(
                    f"pass@{k} needs {k} replies per sample, not {n}",
                    where=self.where,
                    hint=f"Add --sample-num {k} or more.",
                )
        return tuple(metrics)


def _cleaned_by(cleanup: Cleanup) -> Extract:
    """Clean a reply, or every reply of a conversation."""

    def extract(sample: Sample, reply: Any) -> Any:
        try:
            return tuple(map(cleanup, reply)) if isinstance(reply, tuple) else cleanup(reply)
        except KshotError:
            raise
        except Exception as exc:
            raise DataError(f"the clean-up fails: {type(exc).__name__}: {exc}", where=f"sample {sample.id}") from exc

    return extract


def _target(reference: Any) -> Target | None:
    """Keep a class's own reference as it is: lists of texts are alternatives, anything else is the metric's matter."""
    if reference is None:
        return None
    if isinstance(reference, (list, tuple)) and all(isinstance(text, str) for text in reference):
        return Answers(tuple(reference))
    return Gold(reference)


def _default_target(fields: dict[str, Any]) -> Target | None:
    target = fields.get("target")
    return Answers((target.strip(),)) if isinstance(target, str) else _target(target)
