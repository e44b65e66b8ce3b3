"""Times, rates, tokens and costs in few characters, for people."""

from __future__ import annotations

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_THOUSAND, _MANY_TOKENS = 1_000, 10_000


def duration(seconds: float) -> str:
    """Return a time in its two largest units, such as ``5 min 12 s``."""
    left = round(max(0.0, seconds))
    for index, (size, unit) in enumerate(_UNITS):
        if left >= size or size == 1:
            smaller, name = _UNITS[index + 1] if index + 1 < len(_UNITS) else (1, "")
            rest = left % size // smaller if name else 0
            return f"{left // size:,} {unit}" + (f" {rest} {name}" if rest else "")
    raise AssertionError("every time has a unit")


def rough_duration(seconds: float) -> str:
    """Return a time in one unit, for a list: ``90 min``, ``2 h``."""
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= 2 * size or size == 1)
    return f"{seconds / size:,.0f} {unit}"


def pace(per_second: float) -> str:
    """Return a rate: per second, or per minute or hour where that is a number that one can read."""
    for scale, unit in ((1, "s"), (60, "min"), (3_600, "h")):
        if per_second * scale >= 1 or unit == "h":
            rate = per_second * scale
            return f"{rate:,.0f}/{unit}" if rate >= 100 else f"{rate:.1f}/{unit}"  # noqa: PLR2004 - three digits
    raise AssertionError("every rate has a unit")


def abridged(count: int) -> str:
    """Return a large count with three digits: ``34.5k``, ``1.23M``; one below 10,000 is exact."""
    if count < _MANY_TOKENS:
        return f"{count:,}"
    value = float(count)
    for unit in "kMGT":
        value /= _THOUSAND
        if float(f"{value:.3g}") < _THOUSAND or unit == "T":
            digits = 2 if value < 10 else 1 if value < 100 else 0  # noqa: PLR2004 - three digits
            return f"{value:,.{digits}f}{unit}"
    raise AssertionError("every count has a unit")


def money(usd: float) -> str:
    """Return a cost with its currency."""
    return f"{dollars(usd)} USD"


def dollars(usd: float) -> str:
    """Return a cost as a number: whole cents from ten cents on, and below as many digits as tell something."""
    return f"{usd:,.2f}" if usd >= 0.1 or usd == 0 else f"{usd:.2g}" if usd >= 0.0001 else "<0.0001"  # noqa: PLR2004
