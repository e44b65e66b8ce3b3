"""How a p is written, the same on every screen, in every file and in every message."""

from __future__ import annotations

_SMALLEST, _LEVEL = 1e-4, 0.05


def p_text(p: float) -> str:
    """Return a p with enough digits to see on which side of 5 % it lies."""
    if p < _SMALLEST:
        return "< 0.0001"
    texts = (f"{p:.{digits}g}" for digits in (2, 4, 8))
    return next((text for text in texts if float(text) != _LEVEL), repr(p))
