"""Which components of an answer the passages found contain: verbatim quotes are looked for, so any chunking will do."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kshot.core.corpus import Corpus
from kshot.core.errors import DataError, UsageError
from kshot.core.records import Evidence, Sample, Value
from kshot.metrics.measures import AC_MRR, AC_Recall, Measure, checked_measures
from kshot.metrics.metric import Metric

Parts = tuple[tuple[str, ...], ...]

# Outside of this, ftfy may change something: beyond ASCII, control characters, CR, and & (an HTML entity).
_ODD = re.compile(r"[^\t\n\f\x20-\x25\x27-\x7e]")


class Fixer:
    """``ftfy.fix_text``, once a line: lines of plain ASCII, which it leaves as they are, are passed by.

    ftfy works line by line; all that a line learns from those before it is whether a ``<`` stood in one of them: then
    HTML entities are kept.
    """

    def __init__(self) -> None:
        """Start with no line known."""
        self._lines: dict[tuple[str, bool], str] = {}

    def __call__(self, text: str) -> str:
        """Give exactly what ``ftfy.fix_text`` gives."""
        if _ODD.search(text) is None:
            return text
        fixed, markup = [], False
        for line in io.StringIO(text, newline="\n"):
            fixed.append(line if _ODD.search(line) is None else self._line(line, markup))
            markup = markup or "<" in line
        return "".join(fixed)

    def _line(self, line: str, markup: bool) -> str:  # noqa: FBT001 - half of a key
        known = self._lines.get((line, markup))
        if known is None:
            from ftfy import fix_text

            known = fix_text(line, unescape_html=False if markup else "auto")
            self._lines[line, markup] = known
        return known


class Judge:
    """Tells which components a passage contains, and remembers: the text of a passage or quote is fixed once.

    Without a corpus, passages are given as their texts instead of ids.
    """

    def __init__(self, corpus: Corpus | None = None) -> None:
        """Judge the passages of this corpus."""
        self.corpus = corpus
        self.fixed = Fixer()
        self._texts: dict[str, str] = {}
        self._found: dict[Parts, Found] = {}

    def text(self, passage: str) -> str:
        """Give the fixed text of a passage."""
        known = self._texts.get(passage)
        if known is None:
            known = self._texts[passage] = self.fixed(self.raw(passage))
        return known

    def found(self, parts: Parts) -> Found:
        """Give what is known of the passages for a question with these parts, and is found out on demand."""
        known = self._found.get(parts)
        if known is None:
            if not parts:
                raise DataError("the question has no answer components", hint="Leave it out of the benchmark.")
            known = self._found[parts] = Found(self, parts)
        return known

    def raw(self, passage: str) -> str:
        """Give the text of a passage as it is; one that the corpus does not have is an error."""
        if self.corpus is None:
            if not isinstance(passage, str):
                raise DataError(f"a passage is {passage!r}, which is not a text")
            return passage
        if passage not in self.corpus:
            raise DataError(
                f"passage {passage!r} is not in the corpus", hint="Score a run with the chunks that it was made on."
            )
        return self.corpus[passage].text


class Found(dict[str, int]):
    """Passage → the components it contains, as bits; looking up a passage judges it."""

    def __init__(self, judge: Judge, parts: Parts) -> None:
        """Prepare the quotes."""
        super().__init__()
        self._judge = judge
        self.quotes: Parts = tuple(tuple(judge.fixed(quote) for quote in quotes) for quotes in parts)
        self.all = (1 << len(parts)) - 1

    def __missing__(self, passage: str) -> int:
        bits = self[passage] = self.of(self._judge.text(passage))
        return bits

    def of(self, text: str) -> int:
        """Judge a text that is fixed already, and do not remember it."""
        bits = 0
        for place, quotes in enumerate(self.quotes):
            if any(quote in text for quote in quotes):
                bits |= 1 << place
        return bits


def judge_of(corpus: Corpus | Judge | None) -> Judge:
    """Give the judge itself, or a new one for the corpus."""
    return corpus if isinstance(corpus, Judge) else Judge(corpus)


class AnswerComponents(Metric):
    """Share of the answer's components that the passages contain, and the rank by which they contain them all.

    An answer is a list of passage ids, best first (without a corpus: their texts). A component is found in a passage
    that contains one of its quotes, both after ``ftfy.fix_text``; one without quotes is never found, and counts.

    - ``AC_MRR@k``: 1/rank of the passage by which every component is found, 0 if one is not within the first k.
    - ``AC_Recall@k``: components found in the first k passages, divided by all components.
    - ``AC_Recall@Nt``: the same for the passages that fit into N tokens, taken in order up to the first that does not.

    The target is ``Evidence``. Give several metrics one ``Judge`` and no text is compared twice.
    """

    bounds = (0.0, 1.0)
    name = "AC_MRR@10"

    def __init__(
        self,
        corpus: Corpus | Judge | None = None,
        measures: Iterable[Measure | str] = (AC_MRR @ 10, AC_Recall @ 10),
    ) -> None:
        self.judge = judge_of(corpus)
        self.measures = checked_measures(measures, evidence=True)
        if self.judge.corpus is None and any(measure.budget is not None for measure in self.measures):
            raise UsageError("a budget of tokens needs a corpus whose passages carry their number of tokens")
        self._names = tuple(map(str, self.measures))

    @property
    def names(self) -> tuple[str, ...]:
        """The measures' names."""
        return self._names

    @property
    def token_budgeted(self) -> tuple[str, ...]:
        """The names of the measures with a token budget."""
        return tuple(str(measure) for measure in self.measures if measure.budget is not None)

    def score(self, sample: Sample, answer: Any) -> Mapping[str, Value]:
        """Rate a sample's ranking against its evidence."""
        if not isinstance(sample.target, Evidence):
            raise DataError("the question has no evidence to look for", hint="Give it a target: Evidence(parts).")
        return self.rate(answer, sample.target.parts)

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value]:
        """Rate a ranking against quotes, grouped by component."""
        if not isinstance(prediction, list | tuple):
            raise DataError(f"an answer must be a list of passages, best first, not {prediction!r:.80}")
        found = self.judge.found(_grouped(reference))
        depths = [self._depth(measure, prediction) for measure in self.measures]
        held, so_far = 0, []
        for passage in prediction[: max(depths)]:
            held |= found[passage]
            so_far.append(held)
        rank = so_far.index(found.all) + 1 if held == found.all else 0
        values: dict[str, Value] = {}
        for name, measure, depth in zip(self._names, self.measures, depths, strict=True):
            if measure.name == AC_MRR.name:
                values[name] = 1.0 / rank if 0 < rank <= depth else 0.0
            else:
                values[name] = so_far[depth - 1].bit_count() / len(found.quotes) if depth else 0.0
        return values

    def _depth(self, measure: Measure, passages: Sequence[str]) -> int:
        """How many of the passages the measure looks at."""
        if measure.budget is None:
            return len(passages) if measure.cutoff is None else min(measure.cutoff, len(passages))
        left = measure.budget
        for depth, passage in enumerate(passages):
            left -= self._tokens(passage)
            if left < 0:
                return depth
        return len(passages)

    def _tokens(self, passage: str) -> int:
        text = self.judge.raw(passage)
        assert self.judge.corpus is not None  # noqa: S101 - the constructor saw to it
        return counted(self.judge.corpus[passage].tokens, text, passage)

    def __repr__(self) -> str:
        """Show the measures; the corpus has its own address in the spec."""
        return f"AnswerComponents({', '.join(self._names)})"


def counted(tokens: int, text: str, passage: str) -> int:
    """Check that a passage's tokens were counted."""
    if tokens < 1 and text:
        raise DataError(
            f"passage {passage!r} does not say how many tokens it has", hint="Cut the documents with a token splitter."
        )
    return tokens


def _grouped(reference: Any) -> Parts:
    """Check quotes that come from outside: a component given as one text would be searched letter by letter."""
    if type(reference) is tuple and all(type(quotes) is tuple for quotes in reference):
        return reference
    if isinstance(reference, str) or any(isinstance(quotes, str) for quotes in reference):
        raise DataError("evidence must be a list of quotes for each component of the answer, not a text")
    return tuple(tuple(quotes) for quotes in reference)
