"""Measures of a ranking, with evidence or graded ids: ``AC_MRR @ 10`` is a measure, and its repr is its name.

Evidence says which components of an answer the passages contain, by verbatim quotes: this works with any chunking.
Graded ids (qrels) are compared by ir_measures on pytrec-eval.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

from kshot.core.corpus import Corpus
from kshot.core.errors import DataError, UsageError
from kshot.core.extras import require
from kshot.core.fixed_text import Fixer
from kshot.core.metric import Measure
from kshot.core.records import Evidence, Graded, Sample
from kshot.metrics.metric import Metric

_CUTOFF = re.compile(r"([0-9]{1,9})(t?)")


@dataclass(frozen=True, slots=True, repr=False)
class RankingMeasure:
    """How a ranking is rated, and how much of it counts: ``cutoff`` passages, or a ``budget`` of tokens.

    ``measure @ 10`` and ``measure @ "2000t"`` (tokens) are copies with that cutoff or budget; without either the whole
    ranking counts. A measure that ``needs_evidence`` compares with quotes by component, any other with graded ids.
    """

    name: str
    needs_evidence: bool = False
    cutoff: int | None = None
    budget: int | None = None

    def __matmul__(self, cutoff: int | str) -> RankingMeasure:
        """Return a copy of the measure with this cutoff or budget."""
        found = _CUTOFF.fullmatch(str(cutoff)) if isinstance(cutoff, int | str) else None
        if isinstance(cutoff, bool) or found is None or int(found[1]) < 1:
            raise UsageError(
                f"{self.name}@{cutoff} has no usable cutoff",
                hint=f"Give a whole number from 1 on, such as {self.name}@10.",
            )
        if found[2] and self.name not in _BUDGETED:
            raise UsageError(
                f"{self.name} does not take a token budget",
                hint=f"Use {self.name}@10, or {' or '.join(sorted(_BUDGETED))} with @{cutoff}.",
            )
        limit = int(found[1])
        return replace(self, cutoff=None, budget=limit) if found[2] else replace(self, cutoff=limit, budget=None)

    def __repr__(self) -> str:
        """Return the name under which it is reported."""
        if self.budget is not None:
            return f"{self.name}@{self.budget}t"
        return self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"

    __str__ = __repr__

    @property
    def reported(self) -> Measure:
        """The measure that results have."""
        return Measure(str(self), bounds=(0.0, 1.0), token_budget=self.budget is not None)


AC_MRR = RankingMeasure("AC_MRR", needs_evidence=True)
AC_Recall = RankingMeasure("AC_Recall", needs_evidence=True)
nDCG = RankingMeasure("nDCG")  # noqa: N816 - its usual name
AP = MAP = RankingMeasure("AP")
P = RankingMeasure("P")
R = RankingMeasure("R")
RR = MRR = RankingMeasure("RR")

_BUDGETED = frozenset({"AC_Recall"})
_CUTOFF_NEEDED = frozenset({"P", "R"})
_KNOWN = {"AC_MRR": AC_MRR, "AC_Recall": AC_Recall, "nDCG": nDCG, "AP": AP, "MAP": AP, "P": P, "R": R, "RR": RR}
_KNOWN |= {"MRR": RR}
_BY_FOLDED_NAME = {name.casefold(): measure for name, measure in _KNOWN.items()}


def parse_measure(text: str) -> RankingMeasure:
    """Return the measure of a name; ``MAP`` and ``MRR`` are other names of ``AP`` and ``RR``, in any case."""
    name, at, cutoff = text.strip().partition("@")
    measure = _BY_FOLDED_NAME.get(name.strip().casefold())
    if measure is None:
        raise UsageError(
            f"the measure {text!r} is not known",
            hint=f"Use one of: {', '.join(_KNOWN)}; with a cutoff as in AC_MRR@10, nDCG@10 or AC_Recall@2000t.",
        )
    return measure @ cutoff.strip() if at else measure


def checked_measures(measures: Iterable[RankingMeasure | str], *, evidence: bool) -> tuple[RankingMeasure, ...]:
    """Return the measures of a metric: at least one, none twice, all for evidence or all for graded ids."""
    given = [parse_measure(each) if isinstance(each, str) else each for each in measures]
    if not given:
        raise UsageError("no measure is given", hint="Give at least one, such as AC_MRR@10 or nDCG@10.")
    for position, measure in enumerate(given):
        if measure.needs_evidence != evidence:
            needed = "quoted evidence" if measure.needs_evidence else "graded ids (qrels)"
            raise UsageError(f"{measure} needs {needed}, which this metric does not use")
        if measure.name in _CUTOFF_NEEDED and measure.cutoff is None:
            raise UsageError(f"{measure} needs a cutoff", hint=f"Use {measure}@10, for example.")
        if measure in given[:position]:
            raise UsageError(f"the measure {measure} is given twice")
    return tuple(given)


ComponentQuotes: TypeAlias = tuple[tuple[str, ...], ...]
"""The quotes of each component of an answer."""


class EvidenceFinder:
    """Finds the components that a passage contains, with a cache: each passage and quote is fixed once.

    Without a corpus, passages are given as texts instead of ids.
    """

    def __init__(self, corpus: Corpus | None = None) -> None:
        """Search the passages of this corpus."""
        self.corpus = corpus
        self.fix = Fixer()
        self._texts: dict[str, str] = {}
        self._matches: dict[ComponentQuotes, ComponentMatches] = {}

    def fixed_text(self, passage: str) -> str:
        """Return the fixed text of a passage."""
        known = self._texts.get(passage)
        if known is None:
            known = self._texts[passage] = self.fix(self.raw_text(passage))
        return known

    def matches(self, quotes: ComponentQuotes) -> ComponentMatches:
        """Return the matches of a question with these quotes; they are computed on demand."""
        known = self._matches.get(quotes)
        if known is None:
            if not quotes:
                raise DataError("the question has no answer components", hint="Leave it out of the benchmark.")
            known = self._matches[quotes] = ComponentMatches(self, quotes)
        return known

    def raw_text(self, passage: str) -> str:
        """Return the text of a passage as it is; a passage that is not in the corpus is an error."""
        if self.corpus is None:
            if not isinstance(passage, str):
                raise DataError(f"a passage is {passage!r}, which is not a text")
            return passage
        if passage not in self.corpus:
            raise DataError(
                f"passage {passage!r} is not in the corpus", hint="Score a run with the chunks that it was made on."
            )
        return self.corpus[passage].text


class ComponentMatches(dict[str, int]):
    """Passage → the components that it contains, one bit for each; a passage is matched when it is first looked up."""

    def __init__(self, finder: EvidenceFinder, quotes: ComponentQuotes) -> None:
        """Fix the quotes."""
        super().__init__()
        self._finder = finder
        self.quotes: ComponentQuotes = tuple(tuple(finder.fix(quote) for quote in each) for each in quotes)
        self.all_components = (1 << len(quotes)) - 1

    def __missing__(self, passage: str) -> int:
        bits = self[passage] = self.match(self._finder.fixed_text(passage))
        return bits

    def match(self, fixed_text: str) -> int:
        """Return the components that a fixed text contains; nothing is cached."""
        bits = 0
        for component, quotes in enumerate(self.quotes):
            if any(quote in fixed_text for quote in quotes):
                bits |= 1 << component
        return bits


def finder_for(corpus: Corpus | EvidenceFinder | None) -> EvidenceFinder:
    """Return the finder itself, or a new one for the corpus."""
    return corpus if isinstance(corpus, EvidenceFinder) else EvidenceFinder(corpus)


class AnswerComponents(Metric):
    """Share of the answer's components that the passages contain, and the rank by which they contain them all.

    An answer is a list of passage ids, best first (without a corpus: their texts). A passage contains a component if it
    contains one of the component's quotes, both after ``ftfy.fix_text``. A component without quotes is never found, and
    counts.

    - ``AC_MRR@k``: 1/rank of the passage by which every component is found, 0 if one is not within the first k.
    - ``AC_Recall@k``: components found in the first k passages, divided by all components.
    - ``AC_Recall@Nt``: the same for the passages that fit into N tokens, taken in order up to the first that does not.

    The target is ``Evidence``. Several metrics that share one ``EvidenceFinder`` compare no text twice.
    """

    measures: Sequence[Measure] = ()

    def __init__(
        self,
        corpus: Corpus | EvidenceFinder | None = None,
        measures: Iterable[RankingMeasure | str] = (AC_MRR @ 10, AC_Recall @ 10),
    ) -> None:
        self.finder = finder_for(corpus)
        self._rated_by = checked_measures(measures, evidence=True)
        if self.finder.corpus is None and any(measure.budget is not None for measure in self._rated_by):
            raise UsageError("a token budget needs a corpus whose passages have their token counts")
        self.measures = tuple(measure.reported for measure in self._rated_by)

    def score(self, sample: Sample, answer: Any) -> Mapping[str, float]:
        """Rate the ranking of a sample against its evidence."""
        if not isinstance(sample.target, Evidence):
            raise DataError("the question has no evidence to look for", hint="Give it a target: Evidence(parts).")
        return self.rate(answer, sample.target.parts)

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, float]:
        """Rate a ranking against quotes, grouped by component."""
        if not isinstance(prediction, list | tuple):
            raise DataError(f"an answer must be a list of passages, best first, not {prediction!r:.80}")
        matches = self.finder.matches(_grouped(reference))
        depths = [self._depth(measure, prediction) for measure in self._rated_by]
        found, found_by_rank = 0, []
        for passage in prediction[: max(depths)]:
            found |= matches[passage]
            found_by_rank.append(found)
        rank = found_by_rank.index(matches.all_components) + 1 if found == matches.all_components else 0
        values: dict[str, float] = {}
        for measure, depth in zip(self._rated_by, depths, strict=True):
            name = str(measure)
            if measure.name == AC_MRR.name:
                values[name] = 1.0 / rank if 0 < rank <= depth else 0.0
            else:
                values[name] = found_by_rank[depth - 1].bit_count() / len(matches.quotes) if depth else 0.0
        return values

    def found_at(self, passages: Sequence[str], quotes: ComponentQuotes) -> list[list[int]]:
        """Return for each component the ranks, from 1, of the passages that contain it, by the rule of the measures."""
        matches = self.finder.matches(quotes)
        found = [matches[passage] for passage in passages]
        return [
            [rank for rank, bits in enumerate(found, start=1) if bits >> component & 1]
            for component in range(len(quotes))
        ]

    def _depth(self, measure: RankingMeasure, passages: Sequence[str]) -> int:
        """Return how many of the passages the measure counts."""
        if measure.budget is None:
            return len(passages) if measure.cutoff is None else min(measure.cutoff, len(passages))
        left = measure.budget
        for depth, passage in enumerate(passages):
            left -= self._tokens(passage)
            if left < 0:
                return depth
        return len(passages)

    def _tokens(self, passage: str) -> int:
        text = self.finder.raw_text(passage)
        assert self.finder.corpus is not None  # noqa: S101 - the constructor checks it
        return checked_tokens(self.finder.corpus[passage].tokens, text, passage)

    def __repr__(self) -> str:
        """Show the measures; ``spec.json`` has the digest of the corpus."""
        return f"AnswerComponents({', '.join(map(str, self._rated_by))})"


def checked_tokens(tokens: int, text: str, passage: str) -> int:
    """Return the token count of a passage; an uncounted passage is an error."""
    if tokens < 1 and text:
        raise DataError(
            f"passage {passage!r} does not say how many tokens it has", hint="Cut the documents with a token splitter."
        )
    return tokens


def _grouped(reference: Any) -> ComponentQuotes:
    """Check quotes that come from outside: a component given as one text would be searched letter by letter."""
    if type(reference) is tuple and all(type(quotes) is tuple for quotes in reference):
        return reference
    if isinstance(reference, str) or any(isinstance(quotes, str) for quotes in reference):
        raise DataError("evidence must be a list of quotes for each component of the answer, not a text")
    return tuple(tuple(quotes) for quotes in reference)


QRELS_PACKAGES = ("ir-measures", "pytrec-eval-terrier")
"""The packages of kshot's extras that compute the measures."""

_QUESTION_ID = "q"


class Relevance(Metric):
    """nDCG, AP (MAP), P, R and RR (MRR) of a list of ids, best first, against graded ids; grades from 1 are relevant.

    The values are those of trec_eval: the gain of nDCG is the grade itself, P@k divides by k even if there are fewer
    ids, and R@k and AP divide by the number of relevant ids. The order of the list is the ranking, so there are no
    ties. A question with an empty list, or without a relevant id, has the value 0 and counts.
    """

    measures: Sequence[Measure] = ()

    def __init__(self, measures: Iterable[RankingMeasure | str] = (nDCG @ 10,)) -> None:
        ranking = checked_measures(measures, evidence=False)
        self.measures = tuple(measure.reported for measure in ranking)
        # pytrec-eval has no RR@k: the cutoff is applied to RR
        self._plan = {str(m): (RR if m.name == RR.name else m, m.cutoff) for m in ranking}
        self._computed = tuple(dict.fromkeys(str(measure) for measure, _ in self._plan.values()))

    def score(self, sample: Sample, answer: Any) -> Mapping[str, float]:
        """Rate the ranking of a sample against its grades."""
        if not isinstance(sample.target, Graded):
            raise DataError("the question has no graded ids", hint="Give it a target: Graded({id: grade}).")
        return self.rate(answer, sample.target.grades)

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, float]:
        """Rate a list of ids, best first, against id → grade."""
        if not isinstance(prediction, list | tuple) or not all(isinstance(each, str) for each in prediction):
            raise DataError(f"an answer must be a list of ids, best first, not {prediction!r:.80}")
        if len(set(prediction)) < len(prediction):
            twice = next(each for each in prediction if prediction.count(each) > 1)
            raise DataError(f"{twice!r} is in the ranking twice", hint="Keep each id's best place.")
        if not isinstance(reference, Mapping):
            raise DataError(f"the reference must map ids to grades, not {reference!r:.80}")
        values = self._values(prediction, reference)
        return {
            name: self._cut(values[str(measure)], cutoff) if measure is RR else values[str(measure)]
            for name, (measure, cutoff) in self._plan.items()
        }

    def _values(self, ranking: Iterable[str], grades: Mapping[str, int]) -> Mapping[str, float]:
        """Compute the measures, with the relevant ids renamed to numbers.

        An evaluator takes long to make; with numbers for ids one evaluator serves all questions of the same grades. Ids
        that are not relevant count as unjudged: pytrec-eval does not terminate where all grades are negative.
        """
        relevant = sorted((-grade, each) for each, grade in grades.items() if grade > 0)
        evaluator = _evaluator(self._computed, tuple(-grade for grade, _ in relevant))
        numbers = {each: str(number) for number, (_, each) in enumerate(relevant)}
        # falling scores: trec_eval would order equal ones by id
        run = {numbers.get(each, f"-{rank}"): -float(rank) for rank, each in enumerate(ranking)}
        return {str(value.measure): value.value for value in evaluator.iter_calc({_QUESTION_ID: run})}

    @staticmethod
    def _cut(reciprocal: float, cutoff: int | None) -> float:
        return reciprocal if reciprocal and (cutoff is None or round(1 / reciprocal) <= cutoff) else 0.0

    def __repr__(self) -> str:
        """Show the measures."""
        return f"Relevance({', '.join(self._plan)})"


@lru_cache(maxsize=4096)
def _evaluator(measures: tuple[str, ...], grades: tuple[int, ...]) -> Any:
    require("scoring against graded ids (qrels)", *QRELS_PACKAGES)
    import ir_measures

    qrels = {_QUESTION_ID: {str(number): grade for number, grade in enumerate(grades)}}
    return ir_measures.pytrec_eval.evaluator([ir_measures.parse_measure(name) for name in measures], qrels)
