"""How the values of all documents become one figure, by the names that task files use. The figures are lm-eval's."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kshot.core.errors import DataError


def mean(values: Sequence[Any]) -> float:
    """Return the mean, added up in order."""
    return float(sum(values) / len(values))


def median(values: Sequence[Any]) -> float:
    """Return the upper middle value."""
    return float(sorted(values)[len(values) // 2])


def nanmean(values: Sequence[Any]) -> float:
    """Return the mean of the values that are numbers; not a number where none is."""
    known = [float(value) for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def perplexity(values: Sequence[Any]) -> float:
    """Return exp of the mean negative log-likelihood."""
    return _exp(-mean(values))


def weighted_perplexity(values: Sequence[Any]) -> float:
    """Return exp of the negative log-likelihood per unit, of (log-likelihood, units)."""
    return _exp(-_per_unit(values))


def bits_per_byte(values: Sequence[Any]) -> float:
    """Return the negative log-likelihood per byte in bits, of (log-likelihood, bytes)."""
    return -_per_unit(values) / math.log(2)


def _exp(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf


def _per_unit(values: Sequence[Any]) -> float:
    likelihoods, units = zip(*values, strict=True)
    return float(sum(likelihoods) / sum(units))


def f1(values: Sequence[Any]) -> float:
    """Return F1 of the label 1, of (gold, predicted) pairs with at most two labels."""
    golds, predictions = _sides(values)
    labels = {*golds, *predictions}
    if len(labels) > 2 or (len(labels) == 2 and 1 not in labels):  # noqa: PLR2004 - right and wrong
        raise ValueError(f"binary F1 needs the labels 0 and 1, and there are {sorted(map(str, labels))[:5]}")
    both = sum(gold == predicted == 1 for gold, predicted in zip(golds, predictions, strict=True))
    either = golds.count(1) + predictions.count(1)
    return 2 * both / either if either else 0.0


def matthews_corrcoef(values: Sequence[Any]) -> float:
    """Return Matthews' correlation of (gold, predicted) labels; 0 where one side has a single label."""
    golds, predictions = _sides(values)
    size = len(values)
    right = sum(gold == predicted for gold, predicted in zip(golds, predictions, strict=True))
    gold, predicted = Counter(golds), Counter(predictions)
    agreed = right * size - sum(count * predicted[label] for label, count in gold.items())
    spread = math.prod(size**2 - sum(count**2 for count in side.values()) for side in (gold, predicted))
    return agreed / math.sqrt(spread) if spread else 0.0


def brier_score(values: Sequence[Any]) -> float:
    """Return the mean squared distance of probabilities from the gold, of (index, probabilities) pairs."""
    golds, predictions = zip(*values, strict=True)
    probabilities = np.array(predictions, dtype=np.float64)
    right = np.eye(probabilities.shape[1])[list(golds)]
    return float(np.mean(np.sum((probabilities - right) ** 2, axis=1)))


def bleu(values: Sequence[Any]) -> float:
    """Return sacrebleu's BLEU of (reference or references, prediction) pairs."""
    import sacrebleu

    references, predictions = _streams(values)
    return float(sacrebleu.corpus_bleu(predictions, references).score)


def chrf(values: Sequence[Any]) -> float:
    """Return sacrebleu's chrF of (reference or references, prediction) pairs."""
    import sacrebleu

    references, predictions = _streams(values)
    return float(sacrebleu.corpus_chrf(predictions, references).score)


def chrf_words(values: Sequence[Any]) -> float:
    """Return chrF++: chrF with words and pairs of words."""
    import sacrebleu

    references, predictions = _streams(values)
    return float(sacrebleu.corpus_chrf(predictions, references, word_order=2).score)


def ter(values: Sequence[Any]) -> float:
    """Return sacrebleu's TER of (reference or references, prediction) pairs."""
    import sacrebleu

    references, predictions = _streams(values)
    return float(sacrebleu.corpus_ter(predictions, references).score)


def bypass(values: Sequence[Any]) -> float:  # noqa: ARG001 - nothing is measured
    """Return 999, as lm-eval does for a task that only generates."""
    return 999.0


def _sides(values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    golds, predictions = zip(*values, strict=True)
    return list(golds), list(predictions)


def _streams(values: Sequence[Any]) -> tuple[list[list[str]], list[str]]:
    """Return the first references of all documents, the second ones and so on; and the predictions.

    The first document shows whether there are several references, and whether predictions are lists of one.
    """
    references, predictions = _sides(values)
    several = [[each] for each in references] if isinstance(references[0], str) else references
    if not isinstance(predictions[0], str):
        if len(predictions[0]) != 1:
            raise ValueError(f"a prediction must be one text, not {predictions[0]!r:.80}")
        predictions = [each[0] for each in predictions]
    return [list(stream) for stream in zip(*several, strict=False)], predictions


AGGREGATIONS: Mapping[str, Callable[[Sequence[Any]], float]] = {
    "mean": mean,
    "median": median,
    "nanmean": nanmean,
    "perplexity": perplexity,
    "weighted_perplexity": weighted_perplexity,
    "bits_per_byte": bits_per_byte,
    "f1": f1,
    "matthews_corrcoef": matthews_corrcoef,
    "brier_score": brier_score,
    "bleu": bleu,
    "chrf": chrf,
    "chrf++": chrf_words,
    "ter": ter,
    "bypass": bypass,
}
"""The aggregations that a task file can name."""


def aggregated(name: str, metric: str, values: Sequence[Any], where: str) -> float:
    """Sum up the values of a metric by a named aggregation; values that do not suit it are an error."""
    aggregate = AGGREGATIONS.get(name)
    if aggregate is None:
        known = ", ".join(sorted(AGGREGATIONS))
        raise DataError(f"there is no aggregation {name!r}", where=where, hint=f"Use one of {known}, or a !function.")
    try:
        return aggregate(values)
    except (ArithmeticError, TypeError, ValueError, IndexError, AttributeError) as exc:
        first = values[0] if values else None
        what = f"the values of {metric} cannot be summed up by {name}: {exc} (the first value is {first!r:.80})"
        raise DataError(what, where=where) from exc
