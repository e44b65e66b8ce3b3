"""Points of the normal distribution and of Student's t."""

from __future__ import annotations

import math

Z = 1.959963984540054
"""The 97.5 % point of the normal distribution."""

_EXACT = {1: 12.706204736432095, 2: 4.302652729911275}
_TERMS = (((1, 1), 4), ((3, 16, 5), 96), ((-15, 17, 19, 3), 384), ((-945, -1920, 1482, 776, 79), 92160))
"""The polynomials of Fisher and Cornish's expansion: coefficients of z, z³, z⁵ …, and what divides them."""


def student_point(degrees: float) -> float:
    """Return the 97.5 % point of Student's t; below 3 degrees of freedom that of the next lower whole number."""
    if degrees < 3:  # noqa: PLR2004 - the expansion holds from 3
        return _EXACT[max(1, math.floor(degrees))]
    found = Z
    for power, (coefficients, divisor) in enumerate(_TERMS, start=1):
        found += sum(c * Z ** (2 * k + 1) for k, c in enumerate(coefficients)) / divisor / degrees**power
    return found


def normal_share(deviate: float) -> float:
    """Return the share of a normal distribution below a deviate."""
    return math.erfc(-deviate / math.sqrt(2)) / 2
