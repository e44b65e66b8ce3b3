"""Evaluators that look at several rows together: questions asked in four orders, attacked ones, contaminated ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from kshot.configs.corpus_metrics import AucRoc, CorpusMetric, Mcc, ScoredPair
from kshot.configs.evaluators.factories import Factory, either, plain
from kshot.configs.evaluators.tallies import Counts, Tally, gold_of, shares
from kshot.core.errors import DataError
from kshot.core.records import Sample, Value
from kshot.statistics.figures import OWN_AGGREGATE
from kshot.statistics.resampling import mean

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


class Circular(CorpusMetric):
    """Answers to questions that are asked in four orders of their options.

    ``acc_4`` counts all orders, ``acc_1`` the first one. ``more_4_j``: questions with at least j right answers;
    ``vote_4``: questions whose most frequent option is right; ``prior_A``: how often A was replied.
    """

    name = "acc_4"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the figures."""
        more = [f"more_{i}_{j}" for i in (1, 4) for j in range(i + 1)]
        prior = [f"prior_{letter}" for letter in (*_LETTERS, _OTHER)]
        return ("acc_4", "acc_1", *more, "perf_1", "perf_4", "vote_4", "vote_1", *prior)

    @property
    def details(self) -> tuple[str, ...]:
        """The shares of the letters break nothing down by which systems could be compared."""
        return tuple(name for name in self.names if name.startswith(("prior_", "more_")))

    @property
    def aggregates(self) -> Mapping[str, str]:
        """Some are means of the rows."""
        return {name: OWN_AGGREGATE for name in self.names if not name.startswith(("acc_", "prior_"))}

    def keep(self, pair: ScoredPair) -> Mapping[str, Value]:
        """Keep a pair; figures that are means get a plain value."""
        found = _circled(str(pair[0]), str(pair[1]))
        times = {"acc_4": 4, "acc_1": 1}
        rights = {
            name: 400.0 / i * (found.right and found.order in _ORDERS[i]) for name, i in times.items()
        }  # each order is a quarter of the rows
        said = str(pair[0]) if str(pair[0]) in tuple(_LETTERS) else _OTHER
        priors = {f"prior_{letter}": 100.0 * (letter == said) for letter in (*_LETTERS, _OTHER)}
        return {**super().keep(pair), **rights, **priors}

    def reduce(self, name: str, values: Sequence[Value]) -> float | None:
        """Return a mean, or a share of the questions."""
        return super().reduce(name, values) if name in self.aggregates else mean(values)

    def figure(self, name: str, pairs: Sequence[ScoredPair]) -> float:
        """Group the rows by question."""
        orders = _ORDERS[int(name.split("_")[1])]
        found = [_circled(str(prediction), str(gold)) for prediction, gold, _ in pairs]
        if name.startswith("vote_"):
            return _voted(found, orders)
        rights: Counter[str] = Counter()
        for each in found:
            rights[each.question] += each.right and each.order in orders
        least = int(name.rpartition("_")[2])
        return 100 * sum(right >= least for right in rights.values()) / len(rights)


def _voted(found: Sequence[_Circled], orders: Sequence[str]) -> float:
    votes: dict[str, Counter[str]] = {}
    gold: dict[str, str] = {}
    for each in found:
        counted = votes.setdefault(each.question, Counter())
        gold.setdefault(each.question, each.gold)
        if each.order in orders:
            counted[each.voted] += 1
    right = sum(max(each, key=each.__getitem__, default="") == gold[question] for question, each in votes.items())
    return 100 * right / len(votes)


class Drop(Tally):
    """Accuracy after an attack on the questions, before it, and the share that is lost.

    The first half of the rows is attacked, the second half is as it was.
    """

    name = "acc_drop"

    def __init__(self) -> None:
        self._half: int | None = None

    def __repr__(self) -> str:
        """Show the class alone: the number of rows is no setting."""
        return "Drop()"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the figures."""
        return ("acc_drop", "acc_after", "acc_before")

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

    def reduce(self, name: str, values: Sequence[Value]) -> float | None:
        """Return the figure; there is no drop of nothing, which is an error as it is in the home."""
        if name == "acc_drop" and len(values) > 1 and not any(value[2] for value in values if isinstance(value, tuple)):
            raise DataError("acc_drop cannot be computed: no answer to a question without an attack is right")
        return super().reduce(name, values)


_CONTAMINATIONS = {
    "clean": "accuracy - clean",
    "input contamination": "accuracy - input contaminated",
    "input-and-label contamination": "accuracy - input-and-label contaminated",
}


class Contaminated(Tally):
    """Accuracy of rows by how much of them is in training data, as their column ``is_clean`` says."""

    name = "accuracy - clean"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the figures."""
        return tuple(_CONTAMINATIONS.values())

    def counts(self, sample: Sample, answer: Any) -> Counts:
        """Count right answers and rows of each kind."""
        if "is_clean" not in sample.fields:
            raise DataError("the rows have no column 'is_clean'", hint="AccContaminationEvaluator needs it.")
        right = float(str(answer) == str(gold_of(sample)))
        return tuple(each * (sample.fields["is_clean"] == kind) for kind in _CONTAMINATIONS for each in (right, 1.0))

    def figures(self, sums: Counts) -> Mapping[str, float]:
        """Return the share of each kind."""
        return shares(self.names, sums)


EVALUATORS: dict[str, Factory] = {
    "CircularEvaluator": plain(Circular),
    "AccDropEvaluator": plain(Drop),
    "AccContaminationEvaluator": plain(Contaminated),
    "MccEvaluator": either(Mcc, partial(Mcc, "matthews_correlation")),
    "AUCROCEvaluator": either(AucRoc, partial(AucRoc, "auc_score", "accuracy")),
}
