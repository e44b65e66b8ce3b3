"""Multiple choice: by perplexity, by the probability of a letter, or by generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from kshot.cleanups.letters import last_letter, letter, lettered
from kshot.core.errors import DataError
from kshot.core.protocols import Scorer
from kshot.core.records import Choice, Message, Option, Prompt, RequestGenerator, Sample
from kshot.core.task import Task
from kshot.datasets.asking import Processing, finished, refuse_sampling, sampling
from kshot.datasets.compiled import Compiled, Count
from kshot.datasets.dataset import Dataset, place
from kshot.datasets.rendering import as_index, continuation, copied
from kshot.methods import (
    Pair,
    generate,
    highest,
    lowest_against,
    lowest_per_token,
    perplexity,
    probability,
    repeat,
)
from kshot.metrics import Accuracy
from kshot.tables.loading import Row

_Parts = tuple[Callable[[Sample, Sequence[Sample]], Any], Callable[[Sample, Any], RequestGenerator], Processing | None]


class MultipleChoiceDataset(Dataset):
    """Questions with options. ``format_instance`` returns ``options`` and ``target_idx`` (or ``label``).

    With ``source`` a list and ``source_idx``, the same ``target`` is weighed after several contexts instead.
    """

    metrics: Sequence[Scorer] = (Accuracy(),)

    @property
    def ranking_type(self) -> str:
        """How options are put to the model: several samples per question need generation.

        ``first_token`` is ``prob`` by a server's list of likely tokens; ``auto`` that nobody decided is the default.
        """
        if self.args.sample_num > 1:
            return "generation"
        named = {"first_token": "prob", "auto": "ppl_no_option", None: "ppl_no_option"}
        return named.get(self.args.ranking_type, str(self.args.ranking_type))

    def post_processing(self, predictions: Sequence[Any], /) -> Sequence[Any]:
        """Turn raw predictions into option indices.

        Perplexity gives one ``(nll, tokens)`` per option of every question in turn, then, with normalisation, the same
        again after the normalising prompt; probability a list per question; generation a text per question.
        """
        match self.ranking_type:
            case "generation":
                counts = self.option_nums
                return [last_letter(text, n) for text, n in zip(predictions, counts, strict=True)]
            case "prob":
                return [highest(list(p), n) for p, n in zip(predictions, self.option_nums, strict=True)]
        size = sum(self.option_nums)
        here, there = predictions[:size], predictions[size:]
        answers, start = [], 0
        for count in self.option_nums:
            span = slice(start, start + count)
            answers.append(lowest_against(here[span], there[span]) if there else lowest_per_token(here[span]))
            start += count
        return answers

    @property
    def option_nums(self) -> list[int]:
        """The number of options of every evaluated row."""
        fields = (self.format_instance(copied(dict(row))) for row in self.evaluation_data)
        return [len(choices_of(each, place(self))) for each in fields]


class CompiledChoices(Compiled):
    """Multiple choice as a Task."""

    kind: ClassVar[type[Dataset]] = MultipleChoiceDataset
    dataset: MultipleChoiceDataset

    def sample(self, index: int, row: Row) -> Sample:
        """Make the sample of one evaluated row."""
        where = self.locate(index, row)
        fields = self.fields(row, where)
        choices = choices_of(fields, where)
        own = self.own_reference(index)
        right = self._right_of(own[0], choices, where) if own else self._index_of(fields, choices, where)
        if right is None:
            raise DataError("there is no target_idx, label or matching target", where=where)
        if not 0 <= right < len(choices):
            raise DataError(f"the target is {right}, but there are {len(choices)} options", where=where)
        return Sample(self.identify(index, row), fields, Option(right), choices, self.category(row, where), index)

    def example(self, index: int, row: Row) -> Sample:
        """Make the sample of one example row."""
        where = self.locate(index, row, example=True)
        fields = self.fields(row, where)
        choices = choices_of(fields, where)
        right = self._index_of(fields, choices, where)
        if right is not None and not 0 <= right < len(choices):
            raise DataError(f"the target is {right}, but there are {len(choices)} options", where=where)
        return Sample(f"example-{index}", fields, None if right is None else Option(right), choices)

    def _index_of(self, fields: dict[str, Any], choices: tuple[str, ...], where: str) -> int | None:
        for name in ("target_idx", "label", "source_idx"):
            if fields.get(name) is not None:
                return as_index(fields[name], name, where)
        target = fields.get("target")
        texts = [choice.strip() for choice in choices]
        return texts.index(str(target).strip()) if target is not None and str(target).strip() in texts else None

    def _right_of(self, given: Any, choices: tuple[str, ...], where: str) -> int:
        letters = [letter(i) for i in range(len(choices))]
        if isinstance(given, str) and given.strip() in letters:
            return letters.index(given.strip())
        return as_index(given, "the reference", where)

    def question(self, sample: Sample, *, example_idx: int = -1, turn_idx: int = 0, shots: int = 0, **more: Any) -> str:
        """Render the instruction, options listed where the method shows them."""
        listed = None if self.dataset.ranking_type == "ppl_no_option" else "\n".join(lettered(sample.choices))
        if _in_contexts(sample.fields):
            more.setdefault("source", sample.choices[_right(sample)].strip())
            listed = None
        more |= {"options": listed, "target": self.answer_text(sample)}
        return super().question(sample, example_idx=example_idx, turn_idx=turn_idx, shots=shots, **more)

    def answer_text(self, sample: Sample) -> str:
        """Give an example's answer: letter and text in ``ppl``, letter in ``prob`` and generation, else the text."""
        if _in_contexts(sample.fields) or sample.target is None:
            return str(sample.fields.get("target") or "").strip()
        return self._spelled(sample)[_right(sample)]

    def _spelled(self, sample: Sample) -> list[str]:
        match self.dataset.ranking_type:
            case "ppl_no_option":
                return [choice.strip() for choice in sample.choices]
            case "ppl":
                return [option.strip() for option in lettered(sample.choices)]
            case _:
                return [letter(i) for i in range(len(sample.choices))]

    def _weighed(self, sample: Sample, shots: Sequence[Sample]) -> list[Choice]:
        baseline = self._baseline()
        if _in_contexts(sample.fields):
            questions = [self.question(sample, shots=len(shots), source=context.strip()) for context in sample.choices]
            prompts = [self.prompt(sample, shots, question) for question in questions]
            target = str(sample.fields.get("target") or "")
            return [Choice(prompt, continuation(prompt, target), baseline) for prompt in prompts]
        prompt = self._asked(sample, shots)
        return [Choice(prompt, continuation(prompt, text), baseline) for text in self._spelled(sample)]

    def _baseline(self) -> Prompt | None:
        if not self.dataset.use_normalization:
            return None
        return self.prompt_of([Message("user", self.dataset.normalization_prompt)])

    def _letters(self, sample: Sample, shots: Sequence[Sample]) -> list[Choice]:
        prompt = self._asked(sample, shots)
        letters = self._spelled(sample)
        return [Choice(prompt, lead + text) for lead in (" ", "") for text in letters]

    def _asked(self, sample: Sample, shots: Sequence[Sample]) -> Prompt:
        if _in_contexts(sample.fields) and self.dataset.ranking_type != "ppl_no_option":
            raise DataError(
                f"several contexts cannot be put to a model by {self.dataset.ranking_type}",
                where=f"{self.where}, sample {sample.id}",
                hint="Use --ranking-type ppl_no_option.",
            )
        return self.prompt(sample, shots, self.question(sample, shots=len(shots)))

    def task(self, count: Count | None = None, kept: int | None = None) -> Task[Any]:
        """Compile to a Task by the chosen ranking type."""
        if self.dataset.multi_turn:
            raise DataError("multi_turn is for datasets of generation", where=self.where)
        self.fit_examples(count, kept)
        template, method, finish = {
            "ppl_no_option": self._by_perplexity,
            "ppl": self._by_perplexity,
            "prob": self._by_probability,
            "generation": self._by_generation,
        }[self.dataset.ranking_type](own=self.overrides("post_processing"))
        return Task(
            self.dataset.display_name,
            self.rows(),
            template,
            method,
            self._metrics(),
            self.select,
            finish,
            notes=tuple(self.notes),
            facts={**self.facts(), "ranking_type": self._way()},
        )

    def _way(self) -> str:
        """The ranking type as a user names it."""
        given = self.dataset.args.ranking_type
        return (
            "first_token"
            if given == "first_token" and self.dataset.ranking_type == "prob"
            else self.dataset.ranking_type
        )

    def _metrics(self) -> tuple[Scorer, ...]:
        normalised = self.dataset.use_normalization and self.dataset.ranking_type in {"ppl", "ppl_no_option"}
        return tuple(Accuracy("Norm") if normalised and type(m) is Accuracy else m for m in self.dataset.metrics)

    def _by_perplexity(self, *, own: bool) -> _Parts:
        refuse_sampling(self, self.dataset.ranking_type)
        if not own:
            return self._weighed, perplexity(), None

        def blank(sample: Sample) -> Any:
            pairs = [(0.0, 1)] * len(sample.choices)
            return pairs, pairs if self.dataset.use_normalization else []

        return self._weighed, perplexity(_both), finished(self, blank, self._flattened)

    def _by_probability(self, *, own: bool) -> _Parts:
        refuse_sampling(self, self.dataset.ranking_type)
        listed = self.dataset.args.ranking_type == "first_token"
        if not own:
            return self._letters, probability(listed=listed), None
        blank = finished(self, lambda sample: [0.0] * 2 * len(sample.choices))
        return self._letters, probability(list, listed=listed), blank

    def _by_generation(self, *, own: bool) -> _Parts:
        times = self.dataset.args.sample_num
        if times > 1 and self.dataset.args.ranking_type != "generation":
            self.note(f"multiple choice goes by generation, since {times} replies are sampled")
        options = sampling(self)
        if self.dataset.model_type == "base" and self.dataset.num_shots:
            options.setdefault("stop", ("\n\n",))  # where the next example would begin
        method = generate(**options) if own else generate(_chosen, **options)
        finish = finished(self, lambda _: "") if own else None
        return self._asked, repeat(method, times) if times > 1 else method, finish

    def _flattened(self, answers: Sequence[Any]) -> Sequence[Any]:
        here = [pair for pairs, _ in answers for pair in pairs]
        there = [pair for _, pairs in answers for pair in pairs]
        return self.dataset.post_processing(here + there)


def choices_of(fields: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """The options of a formatted row, or its contexts."""
    if _in_contexts(fields):
        choices = fields["source"]
        if not str(fields.get("target") or "").strip():
            raise DataError("several contexts need a target to weigh after each", where=where)
    else:
        choices = fields.get("options")
    if choices is None:
        raise DataError("format_instance gave no options", where=where)
    if isinstance(choices, str) or not isinstance(choices, Sequence):
        raise DataError(f"options must be a list of texts, not {type(choices).__name__}", where=where)
    if not choices:
        raise DataError("the list of options is empty", where=where)
    texts = tuple("" if choice is None else str(choice) for choice in choices)
    for number, text in enumerate(texts):
        if not text.strip():
            raise DataError(f"option {number} is empty", where=where)
    return texts


def _in_contexts(fields: Mapping[str, Any]) -> bool:
    """Whether the choices are contexts; with options of its own, a list called source is the template's matter."""
    return isinstance(fields.get("source"), (list, tuple)) and fields.get("options") is None


def _right(sample: Sample) -> int:
    return sample.target.index if isinstance(sample.target, Option) else 0


def _chosen(sample: Sample, reply: str) -> int:
    return last_letter(reply, len(sample.choices))


def _both(here: list[Pair], there: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    return here, there
