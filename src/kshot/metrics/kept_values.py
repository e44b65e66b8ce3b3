"""Values that are no numbers, kept under numbers, for metrics that need all of them at once.

The number comes from what a value contains, so that resamples, which are drawn from sorted numbers, do not depend on
the order of the samples; where two systems are compared, values of both are measured together.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

_MAX_NUMBERS = 2**52
"""Numbers are whole numbers that a float holds exactly."""


class KeptValue:
    """A value with its number; it is found by the number as long as someone holds it."""

    __slots__ = ("__weakref__", "_digest", "number", "value")

    def __init__(self, value: Any, number: int, digest: bytes) -> None:
        """Take what ``keep`` found."""
        self.value, self.number, self._digest = value, number, digest

    def contains(self, digest: bytes) -> bool:
        """Whether it is the value of this digest."""
        return self._digest == digest


_KEPT: WeakValueDictionary[int, KeptValue] = WeakValueDictionary()


def keep(value: Any) -> KeptValue:
    """Return a value under its number, which is the same for equal ones."""
    digest = sha256(repr(value).encode("utf-8", "surrogatepass")).digest()
    number = int.from_bytes(digest[:8], "big") % _MAX_NUMBERS
    while (known := _KEPT.get(number)) is not None and not known.contains(digest):
        number = (number + 1) % _MAX_NUMBERS
    return known or _KEPT.setdefault(number, KeptValue(value, number, digest))


def kept_value(number: float) -> Any:
    """Return the value that is kept under a number."""
    return _KEPT[int(number)].value
