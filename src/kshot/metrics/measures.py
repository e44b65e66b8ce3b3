"""Measures of a ranking as values: ``AC_MRR @ 10`` is a measure, and its repr is its name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kshot.core.errors import UsageError
from kshot.core.metric import Measure

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
