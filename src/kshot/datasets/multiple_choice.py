"""Multiple choice: the options of a row, asked by perplexity, by the probability of a letter, or by generation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from kshot import metrics as given
from kshot.cleanups.chosen_option import chosen_option
from kshot.cleanups.letters import letter, lettered
from kshot.core.errors import DataError, UsageError
from kshot.core.metric import Metric
from kshot.core.records import AnyOption, Choice, Gold, Message, Option, Prompt, Row, Sample, Target
from kshot.core.task import Task
from kshot.datasets.compiler import DatasetCompiler, DatasetSamples, TaskParts, TokenCounter
from kshot.datasets.dataset import Dataset, as_index, checked_metrics, copied, where_of
from kshot.datasets.replies import (
    option_extractor,
    post_processing_of,
    refuse_cleanup,
    refuse_sampling_options,
    reply_extractor,
    sampling_options,
)
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
from kshot.methods.likelihood import RULES, AccuracyRule, OnTie
from kshot.metrics.exact import Accuracy


def choices_of(fields: Mapping[str, Any], where: str, *, may_be_empty: bool = False) -> tuple[str, ...]:
    """Return the options of a formatted row, or its contexts; those that are asked by their letters may be empty."""
    if has_contexts(fields):
        choices = fields["source"]
        if not str(fields.get("target") or "").strip():
            raise DataError("several contexts need a target to measure after each", where=where)
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
        if not text.strip() and not may_be_empty:
            raise DataError(f"option {number} is empty", where=where)
    return texts


def has_contexts(fields: Mapping[str, Any]) -> bool:
    """Whether the choices are contexts; beside options, a list called ``source`` is for the template alone."""
    return isinstance(fields.get("source"), (list, tuple)) and fields.get("options") is None


def right_choices(fields: Mapping[str, Any], choices: Sequence[str], where: str) -> Option | AnyOption | None:
    """Return what is right: ``target_idx``, ``label`` or ``source_idx``, one index or a list, else that of ``target``.

    None: the row names no right choice.
    """
    for name in ("target_idx", "label", "source_idx"):
        given = fields.get(name)
        if given is not None:
            several = given if isinstance(given, (list, tuple)) else (given,)
            if len(several) > 1:
                _refuse_mask(several, name, where)
            return _target([as_index(each, name, where) for each in several], choices, where)
    target = fields.get("target")
    texts = [choice.strip() for choice in choices]
    return Option(texts.index(str(target).strip())) if target is not None and str(target).strip() in texts else None


def referenced_choices(reference: Any, choices: Sequence[str], where: str) -> Option | AnyOption:
    """Return what a reference means: a letter or an index, or a list of them."""
    letters = [letter(i) for i in range(len(choices))]

    def index(one: Any) -> int:
        known = isinstance(one, str) and one.strip() in letters
        return letters.index(one.strip()) if known else as_index(one, "the reference", where)

    several = reference if isinstance(reference, (list, tuple)) else (reference,)
    return _target([index(each) for each in several], choices, where)


def _refuse_mask(several: Sequence[Any], name: str, where: str) -> None:
    """Refuse what looks like a 0 or 1 for each option: it would be read as the indices 0 and 1."""
    if any(isinstance(each, bool) for each in several) or len(set(map(str, several))) < len(several):
        raise DataError(
            f"{name} is {list(several)!r:.80}; it must list each right option once, by its index",
            where=where,
            hint="Of a 0 or 1 for each option make indices: [i for i, right in enumerate(labels) if right].",
        )


def option_index(answer: Any, choices: Sequence[str]) -> Any:
    """Return the index of the option whose letter or text is the answer; an answer that is neither as it is."""
    if not isinstance(answer, str):
        return answer
    names = [letter(i) for i in range(len(choices))]
    for known in (names, [choice.strip() for choice in choices]):
        if known.count(answer.strip()) == 1:
            return known.index(answer.strip())
    return answer


def _target(indices: Sequence[int], choices: Sequence[str], where: str) -> Option | AnyOption:
    if not indices:
        raise DataError("the list of right options is empty", where=where)
    for index in indices:
        if not 0 <= index < len(choices):
            raise DataError(f"the target is {index}, but there are {len(choices)} options", where=where)
    distinct = tuple(dict.fromkeys(indices))
    return Option(distinct[0]) if len(distinct) == 1 else AnyOption(distinct)


_TEXT_METRICS = (
    *(given.Bleu, given.Chrf, given.Em, given.ExactMatch, given.F1, given.GPTEval, given.Greedy),
    *(given.PassAtK, given.Perplexity, given.Rouge, given.RougeLsum, given.SquadEm, given.SquadF1),
    given.Ter,
)
"""Metrics that cannot compare the index of the chosen option with that of the right one."""


_BY_PERPLEXITY = frozenset({"ppl", "ppl_no_option"})


def choice_metrics(dataset: Dataset) -> list[Metric]:
    """Return the metrics of a dataset with options; one of ``--metric`` that compares texts is refused."""
    metrics = checked_metrics(dataset)
    for metric in metrics:
        if dataset.args.metric and isinstance(metric, _TEXT_METRICS):
            what = f"--metric {metric.measures[0]} compares texts, and an answer here is the index of an option"
            hint = "Use Accuracy, or a metric of your own that compares indices."
            raise UsageError(what, where=where_of(dataset), hint=hint)
    return metrics


class MultipleChoiceDataset(Dataset):
    """Questions with options. ``format_instance`` returns ``options`` and ``target_idx`` (or ``label``).

    With ``source`` a list and ``source_idx``, the same ``target`` is measured after several contexts instead.
    """

    metrics: Sequence[Metric | str] = (Accuracy(),)
    accuracy: AccuracyRule | None = None
    letters: str = "both"
    on_tie: OnTie = "none"

    @property
    def ranking_type(self) -> str:
        """How the model decides among the options. Several replies per question need generation.

        ``first_token`` is ``prob`` from a server's list of likely tokens; ``auto`` without a model is the default.
        """
        if self.args.sample_num > 1:
            return "generation"
        match self.args.ranking_type:
            case "first_token":
                return "prob"
            case "auto" | None:
                return "ppl_no_option"
            case given:
                return given

    def post_processing(self, predictions: Sequence[Any], /) -> Sequence[Any]:
        """Turn raw predictions into option indices.

        Perplexity gives one ``(nll, tokens)`` per option of every question in turn, then, with normalisation, the same
        again after the normalising prompt; probability gives a list per question; generation a text per question.
        """
        choices = self._option_texts()
        counts = [len(texts) for texts in choices]
        match self.ranking_type:
            case "generation":
                return [chosen_option(str(p), texts).index for p, texts in zip(predictions, choices, strict=True)]
            case "prob":
                return [highest(list(p), n) for p, n in zip(predictions, counts, strict=True)]
        size = sum(counts)
        pairs, baseline = predictions[:size], predictions[size:]
        answers, start = [], 0
        for count in counts:
            span = slice(start, start + count)
            answers.append(lowest_against(pairs[span], baseline[span]) if baseline else lowest_per_token(pairs[span]))
            start += count
        return answers

    @property
    def option_nums(self) -> list[int]:
        """The number of options of every evaluated row."""
        return [len(texts) for texts in self._option_texts()]

    def _option_texts(self) -> list[tuple[str, ...]]:
        fields = (self.format_instance(copied(dict(row))) for row in self.evaluation_data)
        return [choices_of(each, where_of(self)) for each in fields]


class MultipleChoiceCompiler(DatasetCompiler):
    """Makes the Task of a ``MultipleChoiceDataset``."""

    dataset_class: ClassVar[type[Dataset]] = MultipleChoiceDataset
    dataset: MultipleChoiceDataset

    def _prepare(self) -> None:
        super()._prepare()
        dataset, args = self.dataset, self.dataset.args
        allowed = {"accuracy": (None, *RULES), "letters": ("both", "spaced"), "on_tie": ("none", "first")}
        for name, values in allowed.items():
            if (value := getattr(dataset, name)) not in values:
                known = ", ".join(str(each) for each in values)
                raise DataError(f"{name} is {value!r}; it must be one of {known}", where=self.where)
        measured = dataset.ranking_type in _BY_PERPLEXITY
        if args.accuracy is not None and (not measured or self.processes_answers):
            who = "a class with its own post_processing" if measured else dataset.ranking_type
            hint = "It is for --ranking-type ppl_no_option and ppl, where kshot decides."
            raise UsageError(f"{who} has no use for --accuracy", where=self.where, hint=hint)
        if args.letters is not None and dataset.ranking_type != "prob":
            hint = "Use --ranking-type prob."
            raise UsageError(f"{dataset.ranking_type} has no use for --letters", where=self.where, hint=hint)
        if self._rule() == "acc_mutual_info":
            dataset.use_normalization = True

    def sample(self, index: int, row: Row) -> Sample:
        """Make the sample of one evaluated row."""
        where = self.locate(index, row)
        fields = self.fields(row, where)
        choices = self.choices(fields, where)
        own = self.own_reference(index)
        right = self.referenced_choices(own[0], choices, where) if own else self.right_choices(fields, choices, where)
        if right is None:
            raise DataError("there is no target_idx, label or matching target", where=where)
        return Sample(self.identify(index, row), fields, right, choices, self.category(row, where), index, row)

    def example(self, index: int, row: Row) -> Sample:
        """Make the sample of one example row."""
        where = self.locate(index, row, example=True)
        fields = self.fields(row, where)
        choices = self.choices(fields, where)
        return Sample(f"example-{index}", fields, self.right_choices(fields, choices, where), choices)

    def choices(self, fields: Mapping[str, Any], where: str) -> tuple[str, ...]:
        """Return the options of a formatted row, or its contexts."""
        return choices_of(fields, where)

    def referenced_choices(self, reference: Any, choices: Sequence[str], where: str) -> Target:
        """Return what the reference of a row means."""
        return referenced_choices(reference, choices, where)

    def right_choices(self, fields: Mapping[str, Any], choices: Sequence[str], where: str) -> Option | AnyOption | None:
        """Return what the fields of a row call right; None: they name no right choice."""
        return right_choices(fields, choices, where)

    def question(self, sample: Sample, *, example_idx: int = -1, turn_idx: int = 0, shots: int = 0, **more: Any) -> str:
        """Render the instruction, with the options listed where the ranking type shows them."""
        listed = None if self.dataset.ranking_type == "ppl_no_option" else "\n".join(lettered(sample.choices))
        if has_contexts(sample.fields):
            more.setdefault("source", self.layout.value(sample.choices[_right(sample)]))
            listed = None
        more |= {"options": listed, "target": self.answer_text(sample)}
        return super().question(sample, example_idx=example_idx, turn_idx=turn_idx, shots=shots, **more)

    def answer_text(self, sample: Sample) -> str:
        """Return the answer of an example.

        That is letter and text in ``ppl``, the letter in ``prob`` and generation, else the text.
        """
        if has_contexts(sample.fields) or sample.target is None:
            return self.layout.value(str(sample.fields.get("target") or ""))
        return self._spellings(sample)[_right(sample)]

    def _spellings(self, sample: Sample) -> list[str]:
        """Return the options as the model is asked about them."""
        match self.dataset.ranking_type:
            case "ppl_no_option":
                return [self.layout.value(choice) for choice in sample.choices]
            case "ppl":
                return [self.layout.value(option) for option in lettered(sample.choices)]
            case _:
                return [letter(i) for i in range(len(sample.choices))]

    def task(self, count_tokens: TokenCounter | None = None, recorded: Mapping[str, Any] | None = None) -> Task[Any]:
        """Make the Task, by the chosen ranking type."""
        if self.dataset.multi_turn:
            raise DataError("multi_turn is for datasets of generation", where=self.where)
        if self.dataset.args.rolling:
            hint = "To use it for another dataset only, write -d NAME,rolling=yes."
            raise UsageError("--rolling is for datasets of generation", where=self.where, hint=hint)
        self.examples.fit(count_tokens, recorded)
        self._note_hidden_options()
        template, method, finish = {
            "ppl_no_option": self._by_perplexity,
            "ppl": self._by_perplexity,
            "prob": self._by_probability,
            "generation": self._by_generation,
        }[self.dataset.ranking_type]()
        return Task(
            self.dataset.display_name,
            DatasetSamples(self),
            template,
            method,
            self._metrics(),
            self.examples.select,
            finish,
            notes=tuple(self.notes),
            facts={**self.example_facts(), "ranking_type": self._ranking_name()},
        )

    def _note_hidden_options(self) -> None:
        """Say so if a model is asked for the letters of options that its prompt does not show."""
        sample = next(iter(self.samples()))
        if self.dataset.ranking_type == "ppl_no_option" or has_contexts(sample.fields):
            return
        question = self.question(sample)
        if not all(choice.strip() in question for choice in sample.choices):
            self.note("the instruction does not show the options, whose letters are asked for; add {{options}}")

    def _ranking_name(self) -> str:
        """The ranking type as the user names it."""
        listed = self.dataset.args.ranking_type == "first_token" and self.dataset.ranking_type == "prob"
        return "first_token" if listed else self.dataset.ranking_type

    def _metrics(self) -> tuple[Metric, ...]:
        metrics = choice_metrics(self.dataset)
        if self.dataset.ranking_type not in _BY_PERPLEXITY or self.processes_answers:
            return tuple(metrics)
        rules = [rule for rule in RULES if rule != "acc_mutual_info" or self.dataset.use_normalization]
        several = Accuracy.by(rules, self._rule())
        headline = Accuracy()
        return tuple(
            each
            for metric in metrics
            for each in (several if type(metric) is Accuracy and metric.name == headline.name else (metric,))
        )

    @property
    def measures_after_delimiter(self) -> bool:
        """Whether options are measured after a prompt and the delimiter."""
        if self.dataset.ranking_type == "prob":
            return self._spaced
        return self.dataset.ranking_type != "generation"

    # ---- by perplexity ----

    def _rule(self) -> AccuracyRule:
        """The rule of the headline: the user's, else that of the class."""
        usual: AccuracyRule = "acc_mutual_info" if self.dataset.use_normalization else "acc_token"
        return self.dataset.args.accuracy or self.dataset.accuracy or usual

    def _by_perplexity(self) -> TaskParts:
        self._refuse_options_of_generation()
        if not self.processes_answers:
            method = perplexity(rule=self._rule(), on_tie=self.dataset.on_tie)
            return self._measured_choices, method, None

        def blank(sample: Sample) -> Any:
            pairs = [(0.0, 1)] * len(sample.choices)
            return pairs, pairs if self.dataset.use_normalization else []

        return self._measured_choices, perplexity(_both), post_processing_of(self, blank, self._process_flattened)

    def _measured_choices(self, sample: Sample, shots: Sequence[Sample]) -> list[Choice]:
        baseline = self._baseline()
        if has_contexts(sample.fields):
            contexts = [self.layout.value(context) for context in sample.choices]
            questions = [self.question(sample, shots=len(shots), source=context) for context in contexts]
            prompts = [self.prompt(sample, shots, question) for question in questions]
            target = self.answer_text(sample)
            return [self.layout.choice(prompt, target, baseline) for prompt in prompts]
        prompt = self._prompt(sample, shots)
        return [self.layout.choice(prompt, text, baseline) for text in self._spellings(sample)]

    def _baseline(self) -> Prompt | None:
        if not self.dataset.use_normalization:
            return None
        # neither description nor system prompt: they would inform the model
        text = self.layout.value(self.dataset.normalization_prompt)
        return Prompt(messages=(Message("user", text),)) if self.dataset.model_type == "chat" else Prompt(text)

    def _process_flattened(self, answers: Sequence[Any]) -> Sequence[Any]:
        """Hand the class one flat list: the pairs of all questions, then those after the normalising prompt."""
        after_prompt = [pair for pairs, _ in answers for pair in pairs]
        after_baseline = [pair for _, pairs in answers for pair in pairs]
        return self._process(after_prompt + after_baseline)

    def _process(self, predictions: Sequence[Any]) -> Sequence[Any]:
        """Call the class's own post_processing; an answer may be the letter or the text of an option."""
        answers = self.dataset.post_processing(predictions)
        if not isinstance(answers, (list, tuple)) or len(answers) != len(self.dataset.evaluation_data):
            return answers  # the caller says what is wrong with it
        return [
            each if isinstance(sample.target, Gold) else option_index(each, sample.choices)
            for each, sample in zip(answers, self.samples(), strict=True)
        ]

    # ---- by the probability of a letter ----

    def _by_probability(self) -> TaskParts:
        self._refuse_options_of_generation()
        listed = self.dataset.args.ranking_type == "first_token"
        if not self.processes_answers:
            return self._letter_choices, probability(listed=listed, on_tie=self.dataset.on_tie), None
        finish = post_processing_of(self, lambda sample: [0.0] * 2 * len(sample.choices), self._process)
        return self._letter_choices, probability(list, listed=listed), finish

    def _letter_choices(self, sample: Sample, shots: Sequence[Sample]) -> list[Choice]:
        prompt = self._prompt(sample, shots)
        letters = self._spellings(sample)
        if self._spaced:
            return [self.layout.choice(prompt, text) for text in letters]
        return [Choice(prompt, space + text) for space in (" ", "") for text in letters]

    @property
    def _spaced(self) -> bool:
        """Whether letters are asked for after a space alone."""
        return (self.dataset.args.letters or self.dataset.letters) == "spaced"

    def _refuse_options_of_generation(self) -> None:
        self._refuse_sampling_options()
        refuse_cleanup(self, self.dataset.ranking_type, "Use --ranking-type generation. ")

    def _refuse_sampling_options(self) -> None:
        refuse_sampling_options(self, self.dataset.ranking_type)

    # ---- by generation ----

    def _by_generation(self) -> TaskParts:
        times = self.dataset.args.sample_num
        if times > 1 and self.dataset.args.ranking_type != "generation":
            self.note(f"multiple choice goes by generation, since {times} replies are sampled")
        options = sampling_options(self)
        if self.dataset.model_type == "base" and self.dataset.num_shots and self.layout.fewshot_delimiter:
            options.setdefault("stop", (self.layout.fewshot_delimiter,))  # where the next example would begin
        method = generate(reply_extractor(self) if self.processes_answers else option_extractor(self), **options)
        finish = post_processing_of(self, lambda _: "", self._process) if self.processes_answers else None
        return self._prompt, repeat(method, times) if times > 1 else method, finish

    def _prompt(self, sample: Sample, shots: Sequence[Sample]) -> Prompt:
        if has_contexts(sample.fields) and self.dataset.ranking_type != "ppl_no_option":
            raise DataError(
                f"several contexts cannot be put to a model by {self.dataset.ranking_type}",
                where=f"{self.where}, sample {sample.id}",
                hint="Use --ranking-type ppl_no_option.",
            )
        return self.prompt(sample, shots, self.question(sample, shots=len(shots)))


def _right(sample: Sample) -> int:
    """Return the index of the right option, the first of several; 0 where none is known."""
    match sample.target:
        case Option(index):
            return index
        case AnyOption(indices):
            return indices[0]
    return 0


def _both(after_prompt: list[Pair], after_baseline: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    return after_prompt, after_baseline
