"""What no ranking can exceed: the best order of these passages, and the evidence that none of them holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kshot.core.corpus import Corpus, Passage, Where
from kshot.core.errors import DataError, UsageError
from kshot.core.records import Evidence, Sample
from kshot.metrics.evidence import Found, Judge, counted, judge_of
from kshot.metrics.measures import AC_MRR, Measure, checked_measures

STEPS = 200_000  # of one question's search; real ones take a few dozen

Within = Callable[[Sample], Where]


def everywhere(sample: Sample) -> Where:  # noqa: ARG001 - the filter that looks at nothing
    """Let a question search the whole corpus."""
    return ()


def ceiling(
    corpus: Corpus | Judge, samples: Iterable[Sample], measure: Measure | str, *, within: Within = everywhere
) -> tuple[float, ...]:
    """Give each sample's value of the measure under the best order of the passages that ``within`` allows it. Exact.

    AC_MRR: 1/size of the smallest set of passages that holds every component (a minimum set cover). AC_Recall: the
    most components that the passages within the cutoff, or the tokens' budget, can hold together.
    """
    (measure,) = checked_measures([measure], evidence=True)
    judge = _with_corpus(corpus)
    return tuple(_best(judge, sample, measure, within(sample)) for sample in samples)


def _best(judge: Judge, sample: Sample, measure: Measure, where: Where) -> float:
    found = judge.found(_parts(sample))
    options: dict[int, int] = {}  # what a passage holds → the least that one holding it costs
    for passage in _allowed(judge, where):
        text = judge.text(passage.id)
        if bits := found.of(text):
            cost = counted(passage.tokens, text, passage.id) if measure.budget is not None else 1
            options[bits] = min(cost, options.get(bits, cost))
    count = len(found.quotes)
    sets = _undominated(options)
    try:
        if measure.name == AC_MRR.name:
            most = min(measure.cutoff or count, count)
            return next((1.0 / n for n in range(1, most + 1) if cover(sets, n) == count), 0.0)
        return cover(sets, measure.budget or measure.cutoff or count) / count
    except DataError as exc:
        exc.where = f"question {sample.id}"
        raise


def _undominated(options: dict[int, int]) -> list[tuple[int, int]]:
    """Leave out what another option holds too, and more, for no higher a cost."""
    return [
        (bits, cost)
        for bits, cost in options.items()
        if not any(bits | other == other != bits and less <= cost for other, less in options.items())
    ]


def cover(sets: Sequence[tuple[int, int]], budget: int) -> int:
    """Give the most bits that sets (bits, cost) within the budget cover together: branch and bound, exact.

    What a set adds only shrinks as others are taken, so filling the budget with the best ratios of gain to cost, the
    last one in part, gives a bound from above.
    """
    best = steps = 0

    def grow(covered: int, left: int, rest: Sequence[tuple[int, int]]) -> None:
        nonlocal best, steps
        steps += 1
        if steps > STEPS:
            raise DataError("its best order is too hard to find: too many components and passages overlap")
        held = covered.bit_count()
        best = max(best, held)
        gains = [((bits & ~covered).bit_count(), cost, bits) for bits, cost in rest if cost <= left]
        gains = sorted((each for each in gains if each[0]), key=lambda each: (each[1] / each[0], -each[0], each[2]))
        limit, union = _limit(gains, left), covered
        for _, _, bits in gains:
            union |= bits
        limit = min(held + limit, union.bit_count())
        later = [(bits, cost) for _, cost, bits in gains]
        for place, (bits, cost) in enumerate(later, start=1):
            if limit <= best:
                return
            grow(covered | bits, left - cost, later[place:])

    grow(0, budget, sets)
    return best


def _limit(gains: Sequence[tuple[int, int, int]], left: int) -> int:
    """Bound what can still be gained."""
    total = 0.0
    for gain, cost, _ in gains:
        if cost > left:
            total += gain * left / cost
            break
        total += gain
        left -= cost
    return math.floor(total + 1e-9)


# ---- evidence that cannot be found ----


class Spot(NamedTuple):
    """A component of a question (counted from 0), and one of its quotes where one is meant."""

    sample: str
    component: int
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """Evidence out of reach: components without quotes, components whose quotes no passage holds, and those quotes.

    ``straddling``: the quote is in the documents, and a border between passages cuts it. ``absent``: it is not in them.
    Both list quotes of any component, also where another quote of it can be found.
    """

    empty: tuple[Spot, ...]
    components: tuple[Spot, ...]
    straddling: tuple[Spot, ...]
    absent: tuple[Spot, ...]


def lost(
    corpus: Corpus | Judge,
    samples: Iterable[Sample],
    documents: Callable[[Sample], Iterable[str]],
    *,
    within: Within = everywhere,
) -> Lost:
    """List what no passage that ``within`` allows contains; ``documents`` gives the whole texts a sample may search."""
    judge = _with_corpus(corpus)
    whole: dict[str, str] = {}  # documents are long: fixed once
    empty: list[Spot] = []
    components: list[Spot] = []
    straddling: list[Spot] = []
    absent: list[Spot] = []
    for sample in samples:
        found = judge.found(_parts(sample))
        texts = [judge.text(passage.id) for passage in _allowed(judge, within(sample))]
        for place, quote, fixed in _unheld(found, _parts(sample), texts):
            for text in documents(sample):
                if text not in whole:
                    whole[text] = judge.fixed(text)
            inside = any(fixed in whole[text] for text in documents(sample))
            (straddling if inside else absent).append(Spot(sample.id, place, quote))
        held = 0
        for text in texts:
            held |= found.of(text)
        for place, quotes in enumerate(found.quotes):
            if not held >> place & 1:
                (components if quotes else empty).append(Spot(sample.id, place))
    return Lost(tuple(empty), tuple(components), tuple(straddling), tuple(absent))


def _unheld(found: Found, parts: Sequence[Sequence[str]], texts: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    for place, (raw, fixed) in enumerate(zip(parts, found.quotes, strict=True)):
        for quote, wanted in zip(raw, fixed, strict=True):
            if not any(wanted in text for text in texts):
                yield place, quote, wanted


def _with_corpus(corpus: Corpus | Judge) -> Judge:
    judge = judge_of(corpus)
    if judge.corpus is None:
        raise UsageError("the best order of passages needs a corpus to order")
    return judge


def _allowed(judge: Judge, where: Where) -> Iterator[Passage]:
    assert judge.corpus is not None  # noqa: S101 - ``_with_corpus`` saw to it
    passages, among = judge.corpus.passages, judge.corpus.among(where)
    return iter(passages) if among is None else (passages[position] for position in among)


def _parts(sample: Sample) -> tuple[tuple[str, ...], ...]:
    if not isinstance(sample.target, Evidence):
        raise DataError("the question has no evidence to look for", where=f"question {sample.id}")
    if not sample.target.parts:
        raise DataError("the question has no answer components", where=f"question {sample.id}")
    return sample.target.parts
