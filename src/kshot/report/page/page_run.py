"""A run as pages show it: what it found, and the key by which links and numbers name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kshot.core.records import ResultRow
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
