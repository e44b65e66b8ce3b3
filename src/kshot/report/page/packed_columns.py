"""The table of samples that pages without a server filter and sort: ``columns.json``, beside blocks of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kshot.core.records import ResultRow
from kshot.core.visible import one_line
from kshot.report.page.samples_read import VERDICT_LETTERS
from kshot.runs.headline import TaskOnModel, task_rows
from kshot.runs.sample_filters import HEADLINE, MetricScale, metric_scales, name_of

BLOCK = 50
"""Samples that are stored together: a page reads a block to show one of them."""
_NAMED = ("task", "model", "category", "answer")
_TEXTS = ("id", "text", "target")


class MetricScales:
    """The scales of a run by metric: that of each headline, and of so many others in the order of the figures."""

    def __init__(self, results: Sequence[ResultRow], most: int) -> None:
        """Take the figures of a run."""
        names = list(dict.fromkeys(row["metric"] for row in task_rows(results)))[:most]
        self.by_metric: dict[str, Mapping[TaskOnModel, MetricScale]] = {HEADLINE: metric_scales(results)}
        self.by_metric |= {name: metric_scales(results, name) for name in names}

    def downward(self) -> dict[str, list[str]]:
        """Return by metric the tasks of which lower scores are better."""
        found = {
            name: sorted({one_line(task) for (task, _), scale in scales.items() if not scale.upwards})
            for name, scales in self.by_metric.items()
        }
        return {name: tasks for name, tasks in found.items() if tasks}

    def of(self, row: ResultRow) -> dict[str, tuple[str, float | None]]:
        """Return the letter of the verdict, and the score, of a sample by each metric."""
        key = name_of(row, "task"), name_of(row, "model")
        found = {name: scales.get(key) for name, scales in self.by_metric.items()}
        return {name: _judged(scale, row) for name, scale in found.items()}


def _judged(scale: MetricScale | None, row: ResultRow) -> tuple[str, float | None]:
    if row.get("failed"):
        return VERDICT_LETTERS["failed"], None
    return (
        (VERDICT_LETTERS["unrated"], None) if scale is None else (VERDICT_LETTERS[scale.verdict(row)], scale.score(row))
    )


@dataclass
class PackedColumns:
    """The columns of the samples that are at hand; ``web/packed.js`` describes them."""

    metrics: Sequence[str]
    downward: Mapping[str, Sequence[str]] = field(default_factory=dict)
    names: dict[str, dict[str, int]] = field(default_factory=lambda: {name: {} for name in _NAMED})
    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in ("n", *_TEXTS, *_NAMED)})
    verdicts: dict[str, list[str]] = field(default_factory=dict)
    scores: dict[str, list[float | None]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.columns["n"])

    def add(self, line: Mapping[str, Any], judged: Mapping[str, tuple[str, float | None]]) -> None:
        """Add a sample: its ``SampleLine``, and its verdict and score by each metric."""
        for name in ("n", *_TEXTS):
            self.columns[name].append(line[name])
        for name in _NAMED:
            known, value = self.names[name], line[name]
            self.columns[name].append(-1 if value is None else known.setdefault(value, len(known)))
        for metric in self.metrics:
            letter, score = judged[metric]
            self.verdicts.setdefault(metric, []).append(letter)
            self.scores.setdefault(metric, []).append(score)

    def as_dict(self, *, total: int) -> dict[str, Any]:
        """Return the file; ``total`` are the samples of the run."""
        return {
            "total": total,
            "blocks": BLOCK,
            "metrics": list(self.metrics),
            "downward": dict(self.downward),
            "names": {name: list(known) for name, known in self.names.items()},
            "columns": {
                **self.columns,
                "verdict": {metric: "".join(letters) for metric, letters in self.verdicts.items()},
                "score": self.scores,
            },
        }
