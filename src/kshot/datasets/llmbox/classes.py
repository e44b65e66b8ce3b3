"""LLMBox's base classes and metrics, as its dataset files know them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from hashlib import blake2b
from typing import Any, Literal

from kshot.core.errors import DataError
from kshot.core.metric import Measure, Metric as AnyMetric
from kshot.core.records import Sample
from kshot.datasets.dataset import Dataset, where_of
from kshot.datasets.generation import GenerationDataset
from kshot.datasets.multiple_choice import MultipleChoiceDataset
from kshot.datasets.settings import DatasetSettings
from kshot.methods.likelihood import OnTie
from kshot.metrics import F1, Accuracy, Bleu, Em, GPTEval, Metric, PassAtK, Perplexity, Rouge
from kshot.metrics.aggregates import SHARE
from kshot.metrics.instruction_checks import follows, loose_forms
from kshot.metrics.metric import PERCENT, MultiRef, best_over_references


class LLMBoxAccuracy(Accuracy):
    """Accuracy; a ``tag`` becomes a part of its name."""

    def __init__(self, tag: str | None = None) -> None:
        super().__init__(tag)


class LLMBoxEm(Em):
    """Exact match; ``dataset`` is the name of the dataset. A single reference need not be in a list."""

    def __init__(self, *, dataset: str | None = None, multiref_strategy: MultiRef = "max") -> None:
        super().__init__(multiref_strategy)
        self.dataset = dataset

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare one prediction with a reference or a list of references."""
        return super().rate(prediction, _listed(reference))


class LLMBoxF1(F1):
    """F1 by LLMBox's names; ``dataset`` is the name of the dataset. A single reference need not be in a list."""

    def __init__(
        self,
        *,
        dataset: str | None = None,
        multiref_strategy: MultiRef = "max",
        word_tokenize: Literal["nltk", "split", "regex"] = "nltk",
        normalize_level: Literal["token", "text", "both"] = "both",
        align_bag: Literal["counter", "set"] = "counter",
        force_number_match: bool = False,
    ) -> None:
        super().__init__(
            word_tokenize,
            align_bag,
            normalize_level,
            force_number_match=force_number_match,
            multiref_strategy=multiref_strategy,
        )
        self.dataset = dataset

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Compare one prediction with a reference or a list of references."""
        return super().rate(prediction, _listed(reference))


def _listed(reference: Any) -> list[Any]:
    several = isinstance(reference, (list, tuple, set, frozenset))
    return [str(each) for each in (reference if several else [reference])]


_ANSWER_KEYS = ("answer", "output", "reference", "response")


class LLMBoxGPTEval(GPTEval):
    """A judge's rating, or with ``type="pairwise"`` its comparison; the reference may be a whole row."""

    def __init__(self, multi_turn: bool = False, type: Literal["single", "pairwise"] = "single") -> None:  # noqa: A002, FBT001, FBT002 - LLMBox's signature
        if type not in {"single", "pairwise"}:
            raise DataError(f"GPTEval has the type {type!r}", hint="It is 'single' or 'pairwise'.")
        super().__init__(multi_turn=multi_turn, pairwise=type == "pairwise")

    def reference_answers(self, sample: Sample) -> tuple[str, ...]:
        """Return the reference answers; those of a whole row are what it calls an answer, an output or a reference."""
        value = getattr(sample.target, "value", None)
        if not isinstance(value, Mapping):
            return super().reference_answers(sample)
        named = [text for key, text in value.items() if any(part in str(key).lower() for part in _ANSWER_KEYS)]
        texts = [text for each in named for text in (each if isinstance(each, (list, tuple)) else [each])]
        return tuple(text for text in texts if isinstance(text, str) and text.strip())


_PROGRAM = "{pred}"


class LLMBoxPassAtK(PassAtK):
    """pass@k; the reference is a whole program, with ``{pred}`` where the prediction goes."""

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Any]:
        """Run what comes before the prediction with it, and what comes after it as the tests."""
        if not isinstance(reference, str) or _PROGRAM not in reference:
            return super().rate(prediction, reference)
        before, _, after = reference.partition(_PROGRAM)
        programs = [prediction] if isinstance(prediction, str) else list(prediction)
        return super().rate([f"{before}{program}\n" for program in programs], after)


class WordAccuracy(Metric):
    """Accuracy of the first words: the prediction is cut to as many tokens as the reference has, by the tokenizer.

    Without the tokenizer of a model, words are counted instead.
    """

    name = "Word Accuracy"
    bounds = (0.0, 100.0)
    binary = True

    def __init__(self) -> None:
        self.count_tokens: Callable[[str], int] | None = None

    def __repr__(self) -> str:
        """Show the class alone: the tokenizer is the model's."""
        return "WordAccuracy()"

    def counting(self, count_tokens: Callable[[str], int] | None) -> WordAccuracy:
        """Return the metric with the tokenizer of a model."""
        made = WordAccuracy()
        made.count_tokens = count_tokens
        return made

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Return 100 if the beginning of the prediction is the reference."""
        references = [reference] if isinstance(reference, str) else list(reference)
        return max(
            100.0 if self._beginning(str(prediction), each).strip() == each.strip() else 0.0 for each in references
        )

    def _beginning(self, prediction: str, reference: str) -> str:
        """Return the beginning of a prediction that has as many tokens as the reference."""
        if self.count_tokens is None:
            return " ".join(prediction.split()[: len(reference.split())])
        count, size = self.count_tokens, self.count_tokens(reference)
        return prediction[: _largest(0, len(prediction), lambda length: count(prediction[:length]) <= size)]


def _largest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number that fits, from ``low``, which does, to ``high``."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


class PerspectiveApi(Metric):
    """Toxicity by Google's Perspective API, which kshot does not call."""

    name = "Perspective"

    def rate(self, prediction: Any, reference: Any, /) -> float:  # noqa: ARG002 - nothing is rated
        """Refuse to rate: texts would be sent to an external service."""
        raise DataError(
            "PerspectiveApi sends replies to an external service, and kshot does not",
            hint="Use --metric to score the replies in another way.",
        )


class ShareOfPoints(Metric):
    """Points of all samples as a share of the points that could be had; a subclass says what one sample has."""

    @property
    def measures(self) -> Sequence[Measure]:
        """The share of the summed points."""
        return (Measure(self.name, SHARE, PERCENT),)

    def points(self, prediction: Any, row: Mapping[str, Any]) -> tuple[float, float]:
        """Return the points of one prediction, and the possible ones."""
        raise NotImplementedError

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, tuple[float, float]]:
        """Return the points of one prediction, and the possible ones, under the name of the metric."""
        if not isinstance(reference, Mapping):
            raise DataError(f"{self.name} needs the row as its reference, not {type(reference).__name__}")
        try:
            return {self.name: self.points(prediction, reference)}
        except KeyError as exc:
            raise DataError(
                f"{self.name} wants the column {exc.args[0]!r}; the row has: {', '.join(reference)}"
            ) from exc


class IFEval(ShareOfPoints):
    """Share of the instructions that replies follow; ``loose`` also looks at a reply without its first or last line."""

    name = "IFEval"

    def __init__(self, type: Literal["strict", "loose"] = "strict") -> None:  # noqa: A002 - LLMBox's name
        if type not in {"strict", "loose"}:
            raise DataError(f"IFEval has the type {type!r}", hint="It is 'strict' or 'loose'.")
        self.type = type
        self.name = f"IFEval:{type}"

    def points(self, prediction: Any, row: Mapping[str, Any]) -> tuple[float, float]:
        """Return how many of the row's instructions a reply follows, and their number."""
        forms = loose_forms(str(prediction)) if self.type == "loose" else (str(prediction),)
        asked = list(zip(row["instruction_id_list"], row["kwargs"], strict=True))
        followed = sum(any(follows(name, options or {}, form) for form in forms) for name, options in asked)
        return float(followed), float(len(asked))


_PARTS = {"multi_mcqs", "seven_option", "multi_question_choice", "five_out_of_seven"}
_ONE_LETTER = {"single_answer_mcq", "single_choice"}
"""The kinds of question (``task``) of gaokao.py, today's names and older ones. In others several letters are right."""


class GaokaoBenchMetric(ShareOfPoints):
    """The points of an exam: each row has ``score`` points for each of its answers.

    The reference is a row, or a list of rows of which the best counts. Where several letters are right, some of them
    and no wrong one have half of the points. A row without a ``task`` is read by the number of its answers.
    """

    name = "GaokaoBench"

    def __init__(self, multiref_strategy: Literal["none", "max", "leave_one_out"] = "none") -> None:
        self.multiref_strategy = multiref_strategy

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, tuple[float, float]]:
        """Return the best points over the rows of a reference; those that could be had are the first row's."""
        if not isinstance(reference, list | tuple) or not reference:
            return super().rate(prediction, reference)
        rated = [super(GaokaoBenchMetric, self).rate(prediction, row)[self.name] for row in reference]
        strategy = "leave_one_out" if self.multiref_strategy == "leave_one_out" else "max"
        return {self.name: (best_over_references(lambda pair: float(pair[0]), rated, strategy), rated[0][1])}

    def points(self, prediction: Any, row: Mapping[str, Any]) -> tuple[float, float]:
        """Return the points of the letters that were given."""
        answer, score, task = row["answer"], row.get("score"), row.get("task")
        right = [str(each) for each in (list(answer) if isinstance(answer, (list, tuple)) else [answer])]
        points = 1.0 if score is None else float(score)
        if task is None:
            given = _parts(prediction, len(right))
            reached = sum(_reached(mine, letters, points) for mine, letters in zip(given, right, strict=False))
        else:
            reached = points * _reached_by_task(list(map(str, prediction)), right, str(task))
        return reached, points * len(right)


def _reached_by_task(given: Sequence[str], right: Sequence[str], task: str) -> float:
    """Return for how many answers LLMBox gives the points of one."""
    if task in _PARTS:
        return float(sum(mine == letter for mine, letter in zip(given, right, strict=False)))
    if not given or not right:
        return 0.0
    if task in _ONE_LETTER:
        return float(given[0] == right[0])
    if not set(given[0]) <= set(right[0]):
        return 0.0
    return 1.0 if len(given[0]) == len(right[0]) else 0.5


def _parts(prediction: Any, count: int) -> list[str]:
    """Return the answers to the parts of a question: a list, or the letters of one text."""
    if not isinstance(prediction, str):
        return [str(each) for each in prediction]
    return [prediction.strip()] if count == 1 else [letter for letter in prediction if letter.isalpha()]


def _reached(given: str, right: str, points: float) -> float:
    if given == right:
        return points
    return points / 2 if given and len(right) > 1 and set(given) < set(right) else 0.0


METRICS: Mapping[str, Any] = {
    "Metric": Metric,
    "Accuracy": LLMBoxAccuracy,
    "Bleu": Bleu,
    "Em": LLMBoxEm,
    "F1": LLMBoxF1,
    "GPTEval": LLMBoxGPTEval,
    "GaokaoBenchMetric": GaokaoBenchMetric,
    "IFEval": IFEval,
    "PPL": Perplexity,
    "PassAtK": LLMBoxPassAtK,
    "PerspectiveApi": PerspectiveApi,
    "Rouge": Rouge,
    "WordAccuracy": WordAccuracy,
}


EXAMPLE_TOKENS = 1024
"""LLMBox's token budget for the examples of a prompt."""

_METHODS = {"ppl": "get_ppl", "ppl_no_option": "get_ppl", "prob": "get_prob", "generation": "generation"}


class LLMBoxDataset(Dataset):
    """A dataset class of LLMBox.

    Its rows are formatted once, in order, and ``format_instance`` may change them; ``references`` see the changed rows.
    """

    evaluation_type: str = ""

    def __init__(self, settings: DatasetSettings | None = None, subset_name: str | None = None) -> None:
        """Set what the methods of a file may read."""
        super().__init__(settings, subset_name)
        self.sample_num = self.args.sample_num
        given = self.args.max_example_tokens
        self.max_example_tokens = EXAMPLE_TOKENS if given is None else given
        self.real_num_shots = 0
        self.random_indice: list[int] = []
        self.prefix_caching = False
        self.jinja2_env.globals["zip"] = zip
        self._kshot_method: str | None = None
        self._kshot_tokens = TokenLengths()

    @property
    def max_num_shots(self) -> int:
        """The number of examples to show."""
        return self.num_shots

    @max_num_shots.setter
    def max_num_shots(self, number: int) -> None:
        self.num_shots = number

    @property
    def model_evaluation_method(self) -> str:
        """How the model is asked: ``get_ppl``, ``get_prob`` or ``generation``, or what the class has set."""
        return self._kshot_method or {"perplexity": "get_ppl"}.get(self.evaluation_type, "generation")

    @model_evaluation_method.setter
    def model_evaluation_method(self, method: str) -> None:
        self._kshot_method = method

    @staticmethod
    def shuffle_options(*lists: MutableSequence[Any]) -> list[int]:
        """Bring lists of equal length into one random order, in place; return the old index of each new place."""
        order = list(range(len(lists[0])))
        random.shuffle(order)
        for each in lists:
            each[:] = [each[index] for index in order]
        return order

    def tokenizer_encode(self, text: str) -> list[int]:
        """Return as many numbers as a text has tokens; without a model, as it has bytes."""
        return list(range(self._kshot_tokens(text)))

    def truncate_by_word(self, words: Sequence[str], max_tokens: int, side: Literal["left", "right"]) -> TruncatedText:
        """Return as many whole words as fit the tokens; ``side`` is the one that is cut off."""

        def joined(count: int) -> str:
            return "".join(words[len(words) - count :] if side == "left" else words[:count])

        def fits(count: int) -> bool:
            return len(self.tokenizer_encode(joined(count))) <= max_tokens

        low, high = 0, min(1, len(words))
        while high < len(words) and fits(high):
            low, high = high, min(2 * high, len(words))  # the words may be those of a whole corpus
        low = _largest(low, high, fits)
        found = TruncatedText(joined(low))
        found.tokens, found.words = len(self.tokenizer_encode(found)), low
        return found

    def calculate_metric(self, predictions: Sequence[Any], /) -> ClassResults:
        """Return the figures by the name of the dataset and of each category, and the scores of the samples."""
        rows, column = self.evaluation_data, self.category_column
        categories = [str(row[column]) for row in rows] if column is not None else None
        return class_results(self.display_name, self.metrics, predictions, list(self.references), categories)

    def _keep_rows(self) -> None:
        """Keep the rows as lists of dicts, which the methods of a file may change."""
        self.evaluation_data = [dict(row) for row in self.evaluation_data]
        if self.num_shots:
            self.example_data = [dict(row) for row in self.example_data]


class TruncatedText(str):
    """A text that was cut; it can be unpacked into the text, its number of tokens and its number of words."""

    __slots__ = ("tokens", "words")

    tokens: int
    words: int

    def __iter__(self) -> Iterator[Any]:
        """Unpack it."""
        return iter((str.__str__(self), self.tokens, self.words))


class LLMBoxGeneration(LLMBoxDataset, GenerationDataset):
    """LLMBox's class of generation."""

    evaluation_type = "generation"


class LLMBoxMultipleChoice(LLMBoxDataset, MultipleChoiceDataset):
    """LLMBox's class of multiple choice. A tie goes to the first option."""

    evaluation_type = "ranking"
    metrics: Sequence[AnyMetric | str] = (Accuracy(),)
    on_tie: OnTie = "first"

    def __init__(self, settings: DatasetSettings | None = None, subset_name: str | None = None) -> None:
        """Show options as the ranking type says, until the class decides otherwise."""
        self._kshot_with_options: bool | None = None
        self._kshot_choices: list[tuple[str, ...]] = []
        super().__init__(settings, subset_name)

    @property
    def ranking_type(self) -> str:
        """How the model decides among the options: what the user asked for, unless the class shows no options."""
        asked = super().ranking_type
        if self._kshot_with_options is False:
            return "ppl_no_option"
        return "ppl" if self._kshot_with_options and asked == "ppl_no_option" else asked

    @property
    def ranking_with_options(self) -> bool:
        """Whether the prompt lists the options."""
        return self.ranking_type != "ppl_no_option"

    @ranking_with_options.setter
    def ranking_with_options(self, shown: bool) -> None:
        self._kshot_with_options = shown

    @property
    def model_evaluation_method(self) -> str:
        """How the model is asked, by the ranking type."""
        return self._kshot_method or _METHODS[self.ranking_type]

    @model_evaluation_method.setter
    def model_evaluation_method(self, method: str) -> None:
        self._kshot_method = method

    def _option_texts(self) -> list[tuple[str, ...]]:
        if len(self._kshot_choices) != len(self.evaluation_data):
            raise DataError("its options are known only once its rows are formatted", where=where_of(self))
        return self._kshot_choices


class TokenLengths:
    """Counts the tokens of texts: by the model's tokenizer, else as an earlier run recorded them, else by bytes."""

    def __init__(self, count: Callable[[str], int] | None = None, recorded: Mapping[str, int] | None = None) -> None:
        """``recorded`` are the counts of an earlier run, by the digest of each text."""
        self._count = count
        self.counts: dict[str, int] = dict(recorded or {})

    @property
    def known(self) -> bool:
        """Whether tokens are counted, now or by an earlier run; else it is bytes."""
        return self._count is not None or bool(self.counts)

    def __call__(self, text: str) -> int:
        """Return the number of tokens of a text."""
        content = text.encode("utf-8", "surrogatepass")
        if not self.known:
            return len(content)
        key = blake2b(content, digest_size=8).hexdigest()
        if key not in self.counts:
            if self._count is None:
                return len(content)
            self.counts[key] = self._count(text)
        return self.counts[key]


ClassResults = tuple[dict[str, dict[str, float]], dict[str, list[float]]]
"""The figures by the name of the dataset and of each category; the scores of the samples by the name of the metric."""


def class_results(
    name: str,
    metrics: Sequence[Any],
    predictions: Sequence[Any],
    references: Sequence[Any],
    categories: Sequence[str] | None = None,
) -> ClassResults:
    """Score all predictions by all metrics, and those of each category by themselves."""
    for metric in metrics:
        if not isinstance(metric, Metric):
            raise DataError(f"calculate_metric cannot compute {metric!r}")
    figures = {}
    for category in sorted(set(categories or ())):
        chosen = [i for i, each in enumerate(categories or ()) if each == category]
        figures[f"{name}[{category}]"] = _figures(
            metrics, [predictions[i] for i in chosen], [references[i] for i in chosen]
        )
    figures[name] = _figures(metrics, predictions, references)
    lists: dict[str, list[float]] = {}
    for metric in metrics:
        lists |= metric.values(predictions, references)
    return figures, lists


def _figures(metrics: Sequence[Any], predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for metric in metrics:
        found |= metric(predictions, references)
    return found
