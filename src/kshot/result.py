"""What ``evaluate``, ``score`` and ``load`` return: the record of a run, for scripts and notebooks."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from kshot.runs.record import RunRecord, read_record


class Result(RunRecord):
    """The record of a run."""

    @classmethod
    def of(cls, record: RunRecord) -> Result:
        """Return a record as a result."""
        return cls(*(getattr(record, each.name) for each in fields(record)))


def load(run: str | Path) -> Result:
    """Read a run folder back: its results, samples, comparisons and settings."""
    return Result.of(read_record(run))
