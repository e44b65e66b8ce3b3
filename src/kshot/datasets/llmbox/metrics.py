"""LLMBox's metrics, with the arguments that its files give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from kshot.core.errors import DataError
from kshot.core.records import Sample
from kshot.datasets.llmbox.row_metrics import GaokaoBenchMetric, IFEval
from kshot.metrics import F1, Accuracy, Bleu, Em, GPTEval, Metric, PassAtK, Perplexity, Rouge
from kshot.metrics.references import MultiRef


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
        size, low, high = self.count_tokens(reference), 0, len(prediction)
        while low < high:
            middle = (low + high + 1) // 2
            if self.count_tokens(prediction[:middle]) <= size:
                low = middle
            else:
                high = middle - 1
        return prediction[:low]


class PerspectiveApi(Metric):
    """Toxicity by Google's Perspective API, which kshot does not call."""

    name = "Perspective"

    def rate(self, prediction: Any, reference: Any, /) -> float:  # noqa: ARG002 - nothing is rated
        """Refuse to rate: texts would be sent to an external service."""
        raise DataError(
            "PerspectiveApi sends replies to an external service, and kshot does not",
            hint="Use --metric to score the replies in another way.",
        )


BY_NAME: Mapping[str, Any] = {
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
