"""What no ranking can exceed: the score of the best order of the passages, and the evidence that is in no passage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kshot.core.corpus import Corpus, Passage, Where
from kshot.core.errors import DataError, UsageError
from kshot.core.records import Evidence, Sample
from kshot.metrics.ranking import (
    AC_MRR,
    ComponentMatches,
    ComponentQuotes,
    EvidenceFinder,
    RankingMeasure,
    checked_measures,
    checked_tokens,
    finder_for,
)

MAX_STEPS = 200_000
"""Steps of the search for one question's best order; real questions take a few dozen."""

PassageFilter: TypeAlias = Callable[[Sample], Where]
"""Returns the fields that a passage must have for a question to search it."""

_ROUNDING = 1e-9


def no_filter(sample: Sample) -> Where:  # noqa: ARG001 - it filters nothing
    """Let a question search the whole corpus."""
    return ()


def ceiling(
    corpus: Corpus | EvidenceFinder,
    samples: Iterable[Sample],
    measure: RankingMeasure | str,
    *,
    within: PassageFilter = no_filter,
) -> tuple[float, ...]:
    """Return, for each sample, the exact value of the measure under the best order of the passages that it may search.

    AC_MRR: 1/size of the smallest set of passages that contains every component (a minimum set cover). AC_Recall: the
    most components that the passages within the cutoff, or within the token budget, can contain together.
    """
    (measure,) = checked_measures([measure], evidence=True)
    finder = _with_corpus(corpus)
    return tuple(_best_value(finder, sample, measure, within(sample)) for sample in samples)


def _best_value(finder: EvidenceFinder, sample: Sample, measure: RankingMeasure, where: Where) -> float:
    matches = finder.matches(_quotes(sample))
    costs: dict[int, int] = {}  # the components that a passage contains → the lowest cost of such a passage
    for passage in _searched(finder, where):
        text = finder.fixed_text(passage.id)
        if bits := matches.match(text):
            cost = checked_tokens(passage.tokens, text, passage.id) if measure.budget is not None else 1
            costs[bits] = min(cost, costs.get(bits, cost))
    count = len(matches.quotes)
    sets = _undominated(costs)
    try:
        if measure.name == AC_MRR.name:
            max_size = min(measure.cutoff or count, count)
            return next((1.0 / n for n in range(1, max_size + 1) if max_cover(sets, n) == count), 0.0)
        return max_cover(sets, measure.budget or measure.cutoff or count) / count
    except DataError as exc:
        exc.where = f"question {sample.id}"
        raise


def _undominated(costs: dict[int, int]) -> list[tuple[int, int]]:
    """Drop every set that is part of another set of no higher cost."""
    return [
        (bits, cost)
        for bits, cost in costs.items()
        if not any(bits | other == other != bits and less <= cost for other, less in costs.items())
    ]


def max_cover(sets: Sequence[tuple[int, int]], budget: int) -> int:
    """Return the most bits that sets (bits, cost) within the budget cover together: branch and bound, exact.

    The gain of a set only shrinks as others are taken. So the sets with the best ratios of gain to cost, the last one
    in part, give an upper bound.
    """
    best = steps = 0

    def extend(covered: int, left: int, candidates: Sequence[tuple[int, int]]) -> None:
        nonlocal best, steps
        steps += 1
        if steps > MAX_STEPS:
            raise DataError("its best order is too hard to find: too many components and passages overlap")
        count = covered.bit_count()
        best = max(best, count)
        gains = [((bits & ~covered).bit_count(), cost, bits) for bits, cost in candidates if cost <= left]
        gains = sorted((each for each in gains if each[0]), key=lambda each: (each[1] / each[0], -each[0], each[2]))
        union = covered
        for _, _, bits in gains:
            union |= bits
        bound = min(count + _gain_bound(gains, left), union.bit_count())
        remaining = [(bits, cost) for _, cost, bits in gains]
        for position, (bits, cost) in enumerate(remaining, start=1):
            if bound <= best:
                return
            extend(covered | bits, left - cost, remaining[position:])

    extend(0, budget, sets)
    return best


def _gain_bound(gains: Sequence[tuple[int, int, int]], left: int) -> int:
    """Return an upper bound of what can still be gained."""
    total = 0.0
    for gain, cost, _ in gains:
        if cost > left:
            total += gain * left / cost
            break
        total += gain
        left -= cost
    return math.floor(total + _ROUNDING)


# ---- evidence that cannot be found ----


class EvidenceLocation(NamedTuple):
    """A component of a question (counted from 0), and one of its quotes where a quote is meant."""

    sample: str
    component: int
    quote: str = ""


@dataclass(frozen=True, slots=True)
class UnreachableEvidence:
    """Components without quotes, components whose quotes no passage contains, and the quotes that no passage contains.

    ``straddling``: the quote is in the documents, but a border between passages cuts it. ``absent``: it is not in them.
    Both list quotes of every component, even if another quote of the component can be found.
    """

    empty: tuple[EvidenceLocation, ...]
    components: tuple[EvidenceLocation, ...]
    straddling: tuple[EvidenceLocation, ...]
    absent: tuple[EvidenceLocation, ...]


def unreachable_evidence(
    corpus: Corpus | EvidenceFinder,
    samples: Iterable[Sample],
    documents: Callable[[Sample], Iterable[str]],
    *,
    within: PassageFilter = no_filter,
) -> UnreachableEvidence:
    """List the evidence that is in no passage that a sample may search; ``documents`` gives its whole texts."""
    finder = _with_corpus(corpus)
    fixed_documents: dict[str, str] = {}  # documents are long: each is fixed once
    empty: list[EvidenceLocation] = []
    components: list[EvidenceLocation] = []
    straddling: list[EvidenceLocation] = []
    absent: list[EvidenceLocation] = []
    for sample in samples:
        matches = finder.matches(_quotes(sample))
        texts = [finder.fixed_text(passage.id) for passage in _searched(finder, within(sample))]
        for component, quote, fixed in _missing_quotes(matches, _quotes(sample), texts):
            for text in documents(sample):
                if text not in fixed_documents:
                    fixed_documents[text] = finder.fix(text)
            inside = any(fixed in fixed_documents[text] for text in documents(sample))
            (straddling if inside else absent).append(EvidenceLocation(sample.id, component, quote))
        found = 0
        for text in texts:
            found |= matches.match(text)
        for component, quotes in enumerate(matches.quotes):
            if not found >> component & 1:
                (components if quotes else empty).append(EvidenceLocation(sample.id, component))
    return UnreachableEvidence(tuple(empty), tuple(components), tuple(straddling), tuple(absent))


def _missing_quotes(
    matches: ComponentMatches, raw_quotes: ComponentQuotes, texts: Sequence[str]
) -> Iterator[tuple[int, str, str]]:
    """Yield the component, the quote and the fixed quote of every quote that is in none of the texts."""
    for component, (raw, fixed) in enumerate(zip(raw_quotes, matches.quotes, strict=True)):
        for quote, fixed_quote in zip(raw, fixed, strict=True):
            if not any(fixed_quote in text for text in texts):
                yield component, quote, fixed_quote


def _with_corpus(corpus: Corpus | EvidenceFinder) -> EvidenceFinder:
    finder = finder_for(corpus)
    if finder.corpus is None:
        raise UsageError("the best order of passages needs a corpus to order")
    return finder


def _searched(finder: EvidenceFinder, where: Where) -> Iterator[Passage]:
    assert finder.corpus is not None  # noqa: S101 - ``_with_corpus`` checks it
    passages, among = finder.corpus.passages, finder.corpus.among(where)
    return iter(passages) if among is None else (passages[position] for position in among)


def _quotes(sample: Sample) -> ComponentQuotes:
    if not isinstance(sample.target, Evidence):
        raise DataError("the question has no evidence to look for", where=f"question {sample.id}")
    if not sample.target.parts:
        raise DataError("the question has no answer components", where=f"question {sample.id}")
    return sample.target.parts
