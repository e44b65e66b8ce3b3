"""Evaluators that look at several rows together: questions in four orders, attacked and contaminated ones, labels."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from kshot.configs.evaluators.factories import Factory, either, plain
from kshot.configs.evaluators.scores import CorpusMetric, Counts, ScoredPair, SeesRows, Tally, columns, gold_of, shares
from kshot.core.errors import DataError
from kshot.core.metric import MEAN, Aggregate, Observation, Whole
from kshot.core.records import Sample
from kshot.metrics.aggregates import SHARE

_LETTERS, _OTHER = "ABCD", "-"
_ORDERS = {4: ("ABCD", "BCDA", "CDAB", "DABC"), 1: ("ABCD",)}


class _Circled(NamedTuple):
    """One answer to a question that is asked in several orders of its options."""

    question: str
    order: str
    right: bool
    voted: str
    """The option that was chosen, as the letter that it has in the first order."""
    gold: str


@lru_cache(maxsize=100_000)
def _circled(prediction: str, reference: str) -> _Circled:
    question, letter, order = (*reference.split("--"), "", "")[:3]
    if reference.count("--") != 2 or len(order) != len(_LETTERS) or letter not in _LETTERS or not letter:  # noqa: PLR2004 - three parts
        raise DataError(f"CircularEvaluator wants the reference as id--letter--order, not {reference!r:.80}")
    back = dict(zip(_LETTERS, order, strict=True))
    return _Circled(question, order, prediction == letter, back.get(prediction, _OTHER), back[letter])


_MORE = {f"more_{i}_{j}": (i, j) for i in (1, 4) for j in range(i + 1)} | {"perf_1": (1, 1), "perf_4": (4, 4)}
"""By name: how many orders count, and how many answers in them must be right at least."""
_VOTES = {"vote_4": 4, "vote_1": 1}
"""By name: how many orders have a vote."""
_PRIORS = {f"prior_{letter}": letter for letter in (*_LETTERS, _OTHER)}


class Circular(SeesRows, CorpusMetric):
    """Answers to questions that are asked in four orders of their options.

    ``acc_4`` counts all orders, ``acc_1`` the first one. ``more_4_j``: questions with at least j right answers;
    ``vote_4``: questions whose most frequent option is right; ``prior_A``: how often A was replied. A question of which
    no answer in the orders that count was scored is left out, if it was asked in them.
    """

    name = "acc_4"
    names = ("acc_4", "acc_1", *_MORE, *_VOTES, *_PRIORS)
    details = tuple(name for name in (*_PRIORS, *_MORE) if name not in ("perf_1", "perf_4"))

    def __init__(self) -> None:
        self._asked: set[tuple[int, str]] = set()
        self._whole = False

    @property
    def bounds(self) -> tuple[float, float] | None:  # type: ignore[override]  # the rows decide
        """Shares; the home takes the first order for a quarter of the rows, and gives more than 100 where it is not."""
        return (0.0, 100.0) if self._whole else None

    def aggregate(self, name: str) -> Aggregate:
        """Return a mean of the rows, or a share of the questions."""
        return SHARE if name == "acc_1" else super().aggregate(name) if name in _MORE or name in _VOTES else MEAN

    def see(self, samples: Iterable[Sample]) -> None:
        """Find out in which orders each question is asked."""
        rows = [_circled("", str(gold_of(sample))) for sample in samples]
        self._asked = {(i, row.question) for row in rows for i, orders in _ORDERS.items() if row.order in orders}
        self._whole = len(rows) == len(_LETTERS) * sum(row.order in _ORDERS[1] for row in rows)

    def observed(self, pair: ScoredPair) -> Mapping[str, Any]:
        """Return a pair; figures that are means get a plain value."""
        said = str(pair[0])
        found = _circled(said, str(pair[1]))
        first = found.order in _ORDERS[1]
        rows = float(first) if self._whole else 1 / len(_LETTERS)
        letter = said if said in tuple(_LETTERS) else _OTHER
        priors = {name: 100.0 * (letter == each) for name, each in _PRIORS.items()}
        rights = {
            "acc_4": 100.0 * (found.right and found.order in _ORDERS[4]),
            "acc_1": (float(found.right and first), rows),
        }
        return {**super().observed(pair), **rights, **priors}

    def figure(self, name: str, values: Sequence[Observation]) -> float | None:
        """Group the rows by question."""
        found = [_circled(str(value.content[0]), str(value.content[1])) for value in values]
        if name in _VOTES:
            rights = self._voted(found, _VOTES[name])
        else:
            i, least = _MORE[name]
            rights = [sum(each.right for each in group) >= least for _, group in self._questions(found, i)]
        return 100 * sum(rights) / len(rights) if rights else None

    def _questions(self, found: Sequence[_Circled], i: int) -> Iterator[tuple[str, list[_Circled]]]:
        """Yield each question with its answers in the orders that count."""
        groups: dict[str, list[_Circled]] = {}
        for each in found:
            groups.setdefault(each.question, []).extend([each] if each.order in _ORDERS[i] else [])
        yield from (item for item in groups.items() if item[1] or (i, item[0]) not in self._asked)

    def _voted(self, found: Sequence[_Circled], i: int) -> list[bool]:
        """Return whether the most frequent option of each question is right; of several the first one counts."""
        gold: dict[str, str] = {}
        for each in found:
            gold.setdefault(each.question, each.gold)
        votes = {question: Counter(each.voted for each in group) for question, group in self._questions(found, i)}
        return [
            max(counted, key=counted.__getitem__, default="") == gold[question] for question, counted in votes.items()
        ]


class Drop(Tally):
    """Accuracy after an attack on the questions, before it, and the share that is lost.

    The first half of the rows is attacked, the second half is as it was.
    """

    name = "acc_drop"
    names = ("acc_drop", "acc_after", "acc_before")

    def __init__(self) -> None:
        self._half: int | None = None

    def see(self, samples: Iterable[Sample]) -> None:
        """Count the rows."""
        size = len(list(samples))
        if size % 2:
            raise DataError(
                f"AccDropEvaluator got {size} rows: the first half must be attacked ones, the second half the others",
                hint="Give an even number of rows; --limit cuts the second half off.",
            )
        self._half = size // 2

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Count right answers and rows, attacked and not."""
        right = float(str(answer) == str(gold_of(sample)))
        attacked = self._half is not None and sample.position < self._half
        return (right, 1.0, 0.0, 0.0) if attacked else (0.0, 0.0, right, 1.0)

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Compare the two halves; where no answer without an attack is right, nothing can be lost."""
        found = shares(("acc_after", "acc_before"), sums)
        if len(found) == 2 and found["acc_before"]:  # noqa: PLR2004 - both halves
            found["acc_drop"] = 1 - found["acc_after"] / found["acc_before"]
        return found

    def aggregate(self, name: str) -> Aggregate:
        """Return the figure; there is no drop of nothing, which is an error as it is in the home."""
        own = super().aggregate(name)

        def dropped(values: Sequence[Counts]) -> float | None:
            if len(values) > 1 and not any(value[2] for value in values):
                raise DataError("acc_drop cannot be computed: no answer to a question without an attack is right")
            return own(values)

        return Whole(dropped) if name == "acc_drop" else own


_CONTAMINATIONS = {
    "clean": "accuracy - clean",
    "input contamination": "accuracy - input contaminated",
    "input-and-label contamination": "accuracy - input-and-label contaminated",
}


def contamination_counts(sample: Sample, answer: Any) -> Counts:
    """Count right answers and rows by how much of them is in training data, as their column ``is_clean`` says."""
    (is_clean,) = columns(sample.fields, "is_clean", hint="AccContaminationEvaluator needs it.")
    right = float(str(answer) == str(gold_of(sample)))
    return tuple(each * (is_clean == kind) for kind in _CONTAMINATIONS for each in (right, 1.0))


# ---- labels ----


class Mcc(CorpusMetric):
    """Matthews' correlation of predicted and true labels, times 100."""

    bounds = (-100.0, 100.0)

    def __init__(self, name: str = "MCC") -> None:
        self.name, self.names = name, (name,)

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float]:
        """Correlate: ``(c·s - Σ tₖpₖ) / √((s² - Σ pₖ²)(s² - Σ tₖ²))``."""
        predicted, true = [str(p) for p, _, _ in pairs], [str(t) for _, t, _ in pairs]
        size, right = len(pairs), sum(a == b for a, b in zip(predicted, true, strict=True))
        labels = {*predicted, *true}
        p, t = ([column.count(label) for label in labels] for column in (predicted, true))
        spread = (size**2 - sum(x * x for x in p)) * (size**2 - sum(x * x for x in t))
        agreed = right * size - sum(x * y for x, y in zip(p, t, strict=True))
        return {self.name: 100 * agreed / math.sqrt(spread) if spread else 0.0}


class AucRoc(CorpusMetric):
    """Area under the curve of the second option's probability against the true label, and accuracy."""

    bounds = (0.0, 100.0)

    def __init__(self, name: str = "AUC", share: str = "Accuracy") -> None:
        self.name, self.share, self.names = name, share, (name, share)

    def figures(self, pairs: Sequence[ScoredPair]) -> Mapping[str, float | None]:
        """Rank the probabilities; rows of one label alone have no area."""
        predicted: list[list[float]] = []
        for prediction, _, _ in pairs:
            if not isinstance(prediction, (list, tuple)):
                raise DataError("AUCROCEvaluator needs probabilities", hint="Use it with CLPInferencer.")
            predicted.append([float(each) for each in prediction])
        true = [int(label) for _, label, _ in pairs]
        above = [probabilities[1] for probabilities, label in zip(predicted, true, strict=True) if label == 1]
        below = sorted(probabilities[1] for probabilities, label in zip(predicted, true, strict=True) if label != 1)
        ordered = sum(bisect_left(below, x) + bisect_right(below, x) for x in above) / 2
        right = sum(p.index(max(p)) == label for p, label in zip(predicted, true, strict=True))
        area = 100 * ordered / (len(above) * len(below)) if above and below else None
        return {self.name: area, self.share: 100 * right / len(pairs)}


EVALUATORS: dict[str, Factory] = {
    "CircularEvaluator": lambda name, *_: None if ".datasets." in name.whole else Circular(),  # two have that name
    "AccDropEvaluator": plain(Drop),
    "AccContaminationEvaluator": plain(
        Tally, tuple(_CONTAMINATIONS.values()), contamination_counts, partial(shares, _CONTAMINATIONS.values())
    ),
    "MccEvaluator": either(Mcc, partial(Mcc, "matthews_correlation")),
    "AUCROCEvaluator": either(AucRoc, partial(AucRoc, "auc_score", "accuracy")),
}
