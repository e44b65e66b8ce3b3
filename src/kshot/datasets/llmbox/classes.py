"""LLMBox's base classes, as its dataset files know them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, MutableSequence, Sequence
from hashlib import blake2b
from typing import Any, Literal

from kshot.core.errors import DataError
from kshot.core.metric import Metric
from kshot.datasets.dataset import Dataset, where_of
from kshot.datasets.generation import GenerationDataset
from kshot.datasets.multiple_choice import MultipleChoiceDataset
from kshot.datasets.settings import DatasetSettings
from kshot.methods.likelihood import OnTie
from kshot.metrics import Accuracy
from kshot.metrics.metric import Metric as AnswerMetric

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

        low, high = 0, min(1, len(words))
        while high < len(words) and len(self.tokenizer_encode(joined(high))) <= max_tokens:
            low, high = high, min(2 * high, len(words))  # the words may be those of a whole corpus
        while low < high:
            middle = (low + high + 1) // 2
            if len(self.tokenizer_encode(joined(middle))) <= max_tokens:
                low = middle
            else:
                high = middle - 1
        found = TruncatedText(joined(low))
        found.tokens, found.words = len(self.tokenizer_encode(found)), low
        return found

    def calculate_metric(
        self, predictions: Sequence[Any], /
    ) -> tuple[dict[str, dict[str, float]], dict[str, list[float]]]:
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
    metrics: Sequence[Metric | str] = (Accuracy(),)
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
        if not isinstance(metric, AnswerMetric):
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
