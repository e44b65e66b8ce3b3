"""How sums over all samples become one number. Those with a key are what ``summary.json`` may name.

They are kshot's own, so that a figure can be computed again from a run folder without code that the folder names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

from kshot.core.errors import DataError
from kshot.core.specs import parse_spec

_MAX_ORDER = 4

Sums: TypeAlias = Sequence[float]
"""The sums over all samples, one for each number of a value."""


@dataclass(frozen=True, slots=True)
class OfSums:
    """An aggregate of values that are tuples of numbers: they are added up, and the figure is computed from the sums.

    ``key`` is empty if only code knows the figure. ``width``: how many numbers a value has; 0: any count.
    """

    figure: Callable[[Sums], float | None]
    key: str = ""
    width: int = 0

    def __call__(self, values: Sequence[Any], /) -> float | None:
        """Return the figure; numbers that no run has, such as negative counts, are an error that says so."""
        sums = [math.fsum(column) for column in zip(*(v for v in values if isinstance(v, tuple)), strict=True)]
        if not self.key:
            return self.figure(sums)
        try:
            return self.figure(sums)
        except (ArithmeticError, ValueError) as exc:
            name = self.key.partition(",")[0]
            raise DataError(f"{name} cannot be computed from these parts: {exc}") from exc


def _bleu(sums: Sums) -> float:
    """BLEU of (hypothesis length, reference length, matches of order 1-4, n-grams of order 1-4), by sacrebleu."""
    from sacrebleu.metrics.bleu import BLEU as SACREBLEU

    whole = [int(total) for total in sums]
    score = SACREBLEU.compute_bleu(
        correct=whole[2 : 2 + _MAX_ORDER],
        total=whole[2 + _MAX_ORDER :],
        sys_len=whole[0],
        ref_len=whole[1],
        smooth_method="exp",
    )
    return float(score.score)


def _chrf(sums: Sums, beta: int) -> float:
    """Return chrF of, for each order, (n-grams of the prediction, of the reference, common ones), by sacrebleu."""
    scorer = chrf_scorer(len(sums) // 3, 0, beta)  # words and characters count alike once they are counted
    return float(scorer._compute_score_from_stats(sums).score)  # noqa: SLF001 - it has no public name


@cache
def chrf_scorer(char_order: int, word_order: int, beta: int) -> Any:
    """Return sacrebleu's chrF."""
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(char_order=char_order, word_order=word_order, beta=beta)


def _ter(sums: Sums) -> float:
    """Return edits per 100 words; without words in the references 100, or 0 if there is no edit either."""
    edits, words = sums
    return 100 * (edits / words) if words else 100.0 if edits else 0.0


def _perplexity(sums: Sums) -> float:
    """Return exp of the mean negative log-likelihood over all units."""
    try:
        return math.exp(_per_unit(sums))
    except OverflowError:
        return math.inf


def _per_unit(sums: Sums) -> float:
    nats, units = sums
    if units <= 0:
        raise DataError("it cannot be computed: the texts have no tokens", hint="Leave empty texts out.")
    return nats / units


def _share(sums: Sums) -> float | None:
    """Return the points in percent of those that could be had, of (points, out of); None where none could be had."""
    points, out_of = sums
    return 100 * points / out_of if out_of else None


def _rounded_share(sums: Sums) -> float | None:
    """Return the same, rounded to two digits."""
    found = _share(sums)
    return None if found is None else round(found, 2)


def _f1(sums: Sums) -> float:
    """Return F1 of a label in percent, of (how often it was right, was the gold, was predicted)."""
    right, golds, predicted = sums
    return 200 * right / (golds + predicted) if golds + predicted else 0.0


BLEU = OfSums(_bleu, "bleu", 2 + 2 * _MAX_ORDER)
TER = OfSums(_ter, "ter", 2)
PERPLEXITY = OfSums(_perplexity, "perplexity", 2)
BITS = OfSums(lambda sums: _per_unit(sums) / math.log(2), "bits", 2)
"""The mean negative log-likelihood over all units, in bits."""
SHARE = OfSums(_share, "share", 2)
ROUNDED_SHARE = OfSums(_rounded_share, "rounded_share", 2)
LABEL_F1 = OfSums(_f1, "f1", 3)


def chrf(beta: int) -> OfSums:
    """Return chrF in which recall counts ``beta`` times."""
    return OfSums(partial(_chrf, beta=beta), f"chrf,beta={beta}")


# ---- by name ----

_BY_KEY: Mapping[str, OfSums] = {
    each.key: each for each in (BLEU, TER, PERPLEXITY, BITS, SHARE, LABEL_F1, ROUNDED_SHARE)
}
_MAX_DIGITS = 3


def aggregate(key: str, width: int) -> OfSums | None:
    """Return the aggregate with this key, such as ``chrf,beta=2``, for tuples of so many numbers; None: there is none.

    The key may come from a run folder that a stranger wrote.
    """
    spec = parse_spec(key)
    if spec.argument or spec.file:
        return None
    if spec.name == "chrf":
        beta = spec.options.get("beta", "")
        known = set(spec.options) == {"beta"} and beta.isascii() and beta.isdigit() and len(beta) <= _MAX_DIGITS
        return chrf(int(beta)) if known and int(beta) and width > 0 and width % 3 == 0 else None
    found = _BY_KEY.get(spec.name)
    return found if found is not None and not spec.options and found.width == width else None
