"""A run as pages show it: what it found, and the key by which links and numbers name it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kshot.core.records import ResultRow
from kshot.report.figures import short_names
from kshot.runs.record import RunRecord


@dataclass(frozen=True)
class PageRun:
    """A finished run: its key in links, the name that people read, what it found, and its ``spec.json``."""

    key: str
    name: str
    record: RunRecord
    spec: Mapping[str, Any] = field(default_factory=dict)

    def address(self, row: ResultRow) -> str:
        """Return where a row of the record stands in ``summary.json``: ``KEY/results/INDEX``, for ``data-row``."""
        return self._addresses[id(row)]

    @cached_property
    def _addresses(self) -> dict[int, str]:
        lists = {"results": self.record.results, "comparisons": self.record.comparisons}
        return {id(row): f"{self.key}/{name}/{at}" for name, rows in lists.items() for at, row in enumerate(rows)}


def system_names(runs: Sequence[PageRun]) -> dict[tuple[str, str], str]:
    """Return a name for each model of each run, by the run's key and the model: as short as tells them apart.

    Of several runs with one model each, that is the same, the names are those of the runs.
    """
    pairs = [(run, model) for run in runs for model in dict.fromkeys(_models(run))]
    models = short_names(dict.fromkeys(model for _, model in pairs))
    several = len(runs) > 1
    named = {(run.key, model): f"{run.name} · {models[model]}" if several else models[model] for run, model in pairs}
    if several and len(models) == 1:
        return {(run.key, model): run.name for run, model in pairs}
    return named


def _models(run: PageRun) -> list[str]:
    return [str(row.get("model", "")) for row in run.record.results]
