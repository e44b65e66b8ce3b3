"""Accuracy: the share of predictions that are the reference."""

from __future__ import annotations

from typing import Any

from kshot.metrics.metric import Metric


class Accuracy(Metric):
    """Share of predictions equal to the reference, or to one of them when there is a list.

    Texts are compared without the white space around them. ``Accuracy("Norm")`` is reported as ``Accuracy:Norm``.
    """

    bounds = (0.0, 100.0)

    def __init__(self, name: str | None = None) -> None:
        self.name = f"Accuracy:{name}" if name else "Accuracy"

    def rate(self, prediction: Any, reference: Any, /) -> float:
        """Give 100 for a right prediction, 0 for any other."""
        given = _bare(prediction)
        among = isinstance(reference, list | tuple | set | frozenset) and given in [_bare(each) for each in reference]
        return 100.0 if among or given == _bare(reference) else 0.0


def _bare(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value
