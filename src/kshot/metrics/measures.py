"""Measures of a ranking as values: ``AC_MRR @ 10`` is a measure whose repr is its name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kshot.core.errors import UsageError

_CUTOFF = re.compile(r"([0-9]{1,9})(t?)")


@dataclass(frozen=True, slots=True, repr=False)
class Measure:
    """How a ranking is rated, and how much of it is looked at: ``cutoff`` passages, or a ``budget`` of tokens.

    ``measure @ 10`` and ``measure @ "2000t"`` (tokens) are copies cut there; without either the whole ranking counts.
    A measure ``needs_evidence`` (quotes, by component of the answer) or else graded ids (qrels).
    """

    name: str
    needs_evidence: bool = False
    cutoff: int | None = None
    budget: int | None = None

    def __matmul__(self, cutoff: int | str) -> Measure:
        """Copy the measure with this cutoff."""
        found = _CUTOFF.fullmatch(str(cutoff)) if isinstance(cutoff, int | str) else None
        if isinstance(cutoff, bool) or found is None or int(found[1]) < 1:
            raise UsageError(
                f"{self.name}@{cutoff} has no usable cutoff",
                hint=f"Give a whole number from 1 on, such as {self.name}@10.",
            )
        if found[2] and self.name not in _BUDGETED:
            raise UsageError(
                f"{self.name} does not take a budget of tokens",
                hint=f"Use {self.name}@10, or {' or '.join(sorted(_BUDGETED))} with @{cutoff}.",
            )
        many = int(found[1])
        return replace(self, cutoff=None, budget=many) if found[2] else replace(self, cutoff=many, budget=None)

    def __repr__(self) -> str:
        """Give the name under which it is reported."""
        if self.budget is not None:
            return f"{self.name}@{self.budget}t"
        return self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"

    __str__ = __repr__


AC_MRR = Measure("AC_MRR", needs_evidence=True)
AC_Recall = Measure("AC_Recall", needs_evidence=True)
nDCG = Measure("nDCG")  # noqa: N816 - its name everywhere
AP = MAP = Measure("AP")
P = Measure("P")
R = Measure("R")
RR = MRR = Measure("RR")

_BUDGETED = frozenset({"AC_Recall"})
_CUT = frozenset({"P", "R"})  # they mean nothing without a cutoff
_KNOWN = {"AC_MRR": AC_MRR, "AC_Recall": AC_Recall, "nDCG": nDCG, "AP": AP, "MAP": AP, "P": P, "R": R, "RR": RR}
_KNOWN |= {"MRR": RR}
_FOLDED = {name.casefold(): measure for name, measure in _KNOWN.items()}


def parse_measure(text: str) -> Measure:
    """Read a measure's name; ``MAP`` and ``MRR`` are other names of ``AP`` and ``RR``, and case does not matter."""
    name, at, cutoff = text.strip().partition("@")
    measure = _FOLDED.get(name.strip().casefold())
    if measure is None:
        raise UsageError(
            f"the measure {text!r} is not known",
            hint=f"Use one of: {', '.join(_KNOWN)}; with a cutoff as in AC_MRR@10, nDCG@10 or AC_Recall@2000t.",
        )
    return measure @ cutoff.strip() if at else measure


def checked_measures(measures: Iterable[Measure | str], *, evidence: bool) -> tuple[Measure, ...]:
    """Read the measures of a metric: names are parsed; those of the other kind, repeated ones and none are refused."""
    given = [parse_measure(each) if isinstance(each, str) else each for each in measures]
    if not given:
        raise UsageError("no measure is given", hint="Give at least one, such as AC_MRR@10 or nDCG@10.")
    for place, measure in enumerate(given):
        if measure.needs_evidence != evidence:
            needed = "quoted evidence" if measure.needs_evidence else "graded ids (qrels)"
            raise UsageError(f"{measure} needs {needed}, which this metric does not look at")
        if measure.name in _CUT and measure.cutoff is None:
            raise UsageError(f"{measure} needs a cutoff", hint=f"Use {measure}@10, for example.")
        if measure in given[:place]:
            raise UsageError(f"the measure {measure} is given twice")
    return tuple(given)
