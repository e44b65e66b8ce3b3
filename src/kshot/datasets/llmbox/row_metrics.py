"""LLMBox's metrics whose reference is a whole row: IFEval and Gaokao."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from kshot.core.errors import DataError
from kshot.core.records import Absent, Value
from kshot.metrics import Metric
from kshot.metrics.instruction_checks import follows, loose_forms


class ShareOfPoints(Metric):
    """Points of all samples as a share of the points that could be had; a subclass says what one sample has."""

    bounds = (0.0, 100.0)

    def points(self, prediction: Any, row: Mapping[str, Any]) -> tuple[float, float]:
        """Return the points of one prediction, and the possible ones."""
        raise NotImplementedError

    def rate(self, prediction: Any, reference: Any, /) -> Mapping[str, Value | Absent]:
        """Return the points of one prediction, and the possible ones, under the name of the metric."""
        if not isinstance(reference, Mapping):
            raise DataError(f"{self.name} needs the row as its reference, not {type(reference).__name__}")
        try:
            return {self.name: self.points(prediction, reference)}
        except KeyError as exc:
            raise DataError(
                f"{self.name} wants the column {exc.args[0]!r}; the row has: {', '.join(reference)}"
            ) from exc

    def reduce(self, name: str, values: Sequence[Value]) -> float:  # noqa: ARG002 - it has one name
        """Divide the sums."""
        pairs = [value for value in values if isinstance(value, tuple)]
        possible = sum(pair[1] for pair in pairs)
        return 100 * sum(pair[0] for pair in pairs) / possible if possible else 0.0


class IFEval(ShareOfPoints):
    """Share of the instructions that replies follow; ``loose`` also looks at a reply without its first or last line."""

    name = "IFEval"

    def __init__(self, type: Literal["strict", "loose"] = "strict") -> None:  # noqa: A002 - LLMBox's name
        if type not in {"strict", "loose"}:
            raise DataError(f"IFEval has the type {type!r}", hint="It is 'strict' or 'loose'.")
        self.type = type
        self.name = f"IFEval:{type}"

    def points(self, prediction: Any, row: Mapping[str, Any]) -> tuple[float, float]:
        """Return how many of the row's instructions a reply follows, and their number."""
        forms = loose_forms(str(prediction)) if self.type == "loose" else (str(prediction),)
        asked = list(zip(row["instruction_id_list"], row["kwargs"], strict=True))
        followed = sum(any(follows(name, options or {}, form) for form in forms) for name, options in asked)
        return float(followed), float(len(asked))


class GaokaoBenchMetric(ShareOfPoints):
    """The points of an exam: each row has ``score`` points for each of its answers.

    Where several letters are right, some of them and no wrong one have half of the points.
    """

    name = "GaokaoBench"

    def points(self, prediction: Any, row: Mapping[str, Any]) -> tuple[float, float]:
        """Return the points of the letters that were given."""
        answer = row["answer"]
        right = [str(each) for each in (list(answer) if isinstance(answer, (list, tuple)) else [answer])]
        given = _parts(prediction, len(right))
        each = float(row.get("score") or 1)
        reached = sum(_reached(mine, letters, each) for mine, letters in zip(given, right, strict=False))
        return reached, each * len(right)


def _parts(prediction: Any, count: int) -> list[str]:
    """Return the answers to the parts of a question: a list, or the letters of one text."""
    if not isinstance(prediction, str):
        return [str(each) for each in prediction]
    return [prediction.strip()] if count == 1 else [letter for letter in prediction if letter.isalpha()]


def _reached(given: str, right: str, points: float) -> float:
    if given == right:
        return points
    return points / 2 if given and len(right) > 1 and set(given) < set(right) else 0.0
