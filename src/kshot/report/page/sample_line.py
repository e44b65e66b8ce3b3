"""A sample as one line of a list."""

from __future__ import annotations

from typing import Any

from kshot.core.records import ResultRow
from kshot.core.visible import one_line
from kshot.report.sample_look import SampleLook
from kshot.runs.sample_filters import name_of
from kshot.runs.sample_verdicts import MetricScale

_MOST = 200


def sample_line(row: ResultRow, scale: MetricScale, n: int, shots: int | None) -> dict[str, Any]:
    """Return what a list shows of a sample, as the JSON ``SampleLine``; ``shots`` is how many examples it may show."""
    look = SampleLook(row, scale, shots=shots)
    return {
        "n": n,
        **{part: one_line(name_of(row, part)) for part in ("task", "model", "id")},
        "category": one_line(row["category"]) if row.get("category") is not None else None,
        "verdict": scale.verdict(row),
        "score": scale.score(row),
        "answer": short(look.answer),
        "target": short(row.get("target")),
        "text": short(look.question.messages[-1][1]),
    }


def short(value: Any) -> str:
    """Return the beginning of a value on one line."""
    return one_line(value)[:_MOST]
