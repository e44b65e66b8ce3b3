"""Which cases ``make test`` takes where there are many of one kind: a fixed sample, or all of them with ``KSHOT_ALL=1``."""

import os
import random

ALL = bool(os.environ.get("KSHOT_ALL"))
"""Whether every case is wanted, as in ``make every-case``."""


def some(cases, most, kind=lambda case: None):
    """Return at most so many cases of each kind: the first, the last, and between them the same ones every time."""
    cases = list(cases)
    if ALL:
        return cases
    places = {}
    for at, case in enumerate(cases):
        places.setdefault(kind(case), []).append(at)
    kept = sorted(at for found in places.values() for at in _drawn(found, most))
    return [cases[at] for at in kept]


def _drawn(places, most):
    if len(places) <= most or most < 2:
        return places[:most]
    return [places[0], *random.Random(most).sample(places[1:-1], most - 2), places[-1]]
