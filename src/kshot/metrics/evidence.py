"""Which components of an answer the retrieved passages contain, by verbatim quotes: this works with any chunking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kshot.core.corpus import Corpus
from kshot.core.errors import DataError, UsageError
from kshot.core.fixed_text import Fixer
from kshot.core.metric import Measure
from kshot.core.records import Evidence, Sample
from kshot.metrics.measures import AC_MRR, AC_Recall, RankingMeasure, checked_measures
from kshot.metrics.metric import Metric

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

    def __init__(
        self,
        corpus: Corpus | EvidenceFinder | None = None,
        measures: Iterable[RankingMeasure | str] = (AC_MRR @ 10, AC_Recall @ 10),
    ) -> None:
        self.finder = finder_for(corpus)
        self._rated_by = checked_measures(measures, evidence=True)
        if self.finder.corpus is None and any(measure.budget is not None for measure in self._rated_by):
            raise UsageError("a token budget needs a corpus whose passages have their token counts")
        self._measures = tuple(measure.reported for measure in self._rated_by)

    @property
    def measures(self) -> Sequence[Measure]:
        """Those that were asked for."""
        return self._measures

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
