"""Rules by which the tuples of all samples become one figure: those that ``summary.json`` may name.

They are kshot's own, so that a figure can be computed again from a run folder without code that the folder names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from kshot.core.errors import DataError
from kshot.core.records import Value
from kshot.core.specs import parse_spec
from kshot.statistics.resampling import Reduce

_MAX_ORDER = 4


def bleu(values: Sequence[Value]) -> float:
    """BLEU of (hypothesis length, reference length, matches of order 1-4, n-grams of order 1-4), by sacrebleu."""
    from sacrebleu.metrics.bleu import BLEU

    sums = [int(total) for total in _sums(values)]
    score = BLEU.compute_bleu(
        correct=sums[2 : 2 + _MAX_ORDER],
        total=sums[2 + _MAX_ORDER :],
        sys_len=sums[0],
        ref_len=sums[1],
        smooth_method="exp",
    )
    return float(score.score)


def chrf(values: Sequence[Value], *, beta: int) -> float:
    """Return chrF of, for each order, (n-grams of the prediction, of the reference, common ones), by sacrebleu."""
    sums = _sums(values)
    return float(_chrf(len(sums) // 3, beta)._compute_score_from_stats(sums).score)  # noqa: SLF001 - it has no public name


@cache
def _chrf(orders: int, beta: int) -> Any:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(char_order=orders, word_order=0, beta=beta)  # words and characters count alike once they are counted


def ter(values: Sequence[Value]) -> float:
    """Return edits per 100 words; without words in the references 100, or 0 if there is no edit either."""
    edits, words = _sums(values)
    return 100 * (edits / words) if words else 100.0 if edits else 0.0


def perplexity(values: Sequence[Value]) -> float:
    """Return exp of the mean negative log-likelihood over all units."""
    try:
        return math.exp(_nats_per_unit(values))
    except OverflowError:
        return math.inf


def bits(values: Sequence[Value]) -> float:
    """Return the mean negative log-likelihood over all units, in bits."""
    return _nats_per_unit(values) / math.log(2)


def share(values: Sequence[Value]) -> float | None:
    """Return the points in percent of those that could be had, of (points, out of); None where none could be had."""
    points, out_of = _sums(values)
    return 100 * points / out_of if out_of else None


def f1(values: Sequence[Value]) -> float:
    """Return F1 of a label in percent, of (how often it was right, was the gold, was predicted)."""
    right, golds, predicted = _sums(values)
    return 200 * right / (golds + predicted) if golds + predicted else 0.0


def rounded_share(values: Sequence[Value]) -> float | None:
    """Return the same, rounded to two digits."""
    found = share(values)
    return None if found is None else round(found, 2)


def _nats_per_unit(values: Sequence[Value]) -> float:
    nats, units = _sums(values)
    if units <= 0:
        raise DataError("it cannot be computed: the texts have no tokens", hint="Leave empty texts out.")
    return nats / units


def _sums(values: Sequence[Value]) -> list[float]:
    return [math.fsum(column) for column in zip(*(v for v in values if isinstance(v, tuple)), strict=True)]


# ---- by name ----

_RULES: Mapping[str, tuple[Callable[..., float | None], Callable[[int], bool]]] = {
    "bleu": (bleu, lambda width: width == 2 + 2 * _MAX_ORDER),
    "chrf": (chrf, lambda width: width > 0 and width % 3 == 0),
    "ter": (ter, lambda width: width == 2),  # noqa: PLR2004 - edits and words
    "perplexity": (perplexity, lambda width: width == 2),  # noqa: PLR2004 - nats and units
    "bits": (bits, lambda width: width == 2),  # noqa: PLR2004 - nats and units
    "share": (share, lambda width: width == 2),  # noqa: PLR2004 - points and how many there are
    "f1": (f1, lambda width: width == 3),  # noqa: PLR2004 - right, golds and predictions
    "rounded_share": (rounded_share, lambda width: width == 2),  # noqa: PLR2004 - points and how many there are
}
"""By name: the rule, and whether it can sum up tuples of so many numbers."""

_MAX_DIGITS = 3


def aggregate(name: str, width: int) -> Reduce | None:
    """Return the rule that has this name, such as ``chrf,beta=2``, for tuples of so many numbers; None: there is none.

    The name may come from a run folder that a stranger wrote.
    """
    spec = parse_spec(name)
    rule, suits = _RULES.get(spec.name, (None, None))
    if rule is None or suits is None or not suits(width) or spec.argument or spec.file:
        return None
    if spec.name == "chrf":
        beta = spec.options.get("beta", "")
        known = set(spec.options) == {"beta"} and beta.isascii() and beta.isdigit() and len(beta) <= _MAX_DIGITS
        return partial(_computed, spec.name, partial(rule, beta=int(beta))) if known and int(beta) else None
    return None if spec.options else partial(_computed, spec.name, rule)


def _computed(name: str, rule: Reduce, values: Sequence[Value]) -> float | None:
    """Compute a figure; numbers that no run has, such as negative counts, are an error that says so."""
    try:
        return rule(values)
    except (ArithmeticError, ValueError) as exc:
        raise DataError(f"{name} cannot be computed from these parts: {exc}") from exc
