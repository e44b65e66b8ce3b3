"""``kshot.compare``: finished runs, sample by sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kshot.core.errors import UsageError
from kshot.metrics.aggregates import aggregate
from kshot.runs.compared_run import open_run
from kshot.runs.comparing import Comparison, compare_runs
from kshot.runs.record import RunRecord

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from kshot.core.records import ResultRow


class ComparisonResult(Comparison):
    """What a comparison found, for scripts and notebooks."""

    def __repr__(self) -> str:
        """Return who is ahead, in sentences."""
        from kshot.report.comparison import comparison_sentences

        return f"<Comparison of {self._names()}: {' '.join(comparison_sentences(self))}>"

    def to_pandas(self, part: Literal["rows", "categories", "flips"] = "rows") -> pd.DataFrame:
        """Return the rows of a part as a frame of pandas; the ends of the interval are columns of their own."""
        from kshot.report.exports.columns import pandas_frame

        return pandas_frame(self._rows_of(part))

    def to_polars(self, part: Literal["rows", "categories", "flips"] = "rows") -> pl.DataFrame:
        """Return the rows of a part as a frame of polars."""
        from kshot.report.exports.columns import polars_frame

        return polars_frame(self._rows_of(part))

    def _rows_of(self, part: str) -> list[ResultRow]:
        if part == "flips":
            return list(self.flips())
        parts = {"rows": self.rows, "categories": self.categories}
        if part not in parts:
            hint = f"Its parts: {', '.join((*parts, 'flips'))}."
            raise UsageError(f"a comparison has no part {part!r:.60}", hint=hint)
        return parts[part]

    def _repr_html_(self) -> str:
        """Return who is ahead for a notebook."""
        from kshot.report.notebook import comparison_html

        return comparison_html(self)


def compare(
    *runs: str | Path | RunRecord,
    metric: str | None = None,
    task: str | Sequence[str] | None = None,
    all_pairs: bool = False,
) -> ComparisonResult:
    """Compare finished runs, paired by sample id and question, whatever their models, prompts, shots and clean-ups.

    Each run is a folder, or what ``evaluate`` or ``load`` returned. The first is the baseline of every other one
    (``all_pairs``: every two are compared). Models that two runs share are compared with themselves, otherwise each of
    one run with each of the other; of a single run, the first model is the baseline of its others. Tasks are paired by
    name; those left over if they ask the same questions. ``metric`` chooses one, ``task`` one or several, by their
    names, by that of their dataset, or by the beginning of a name.
    """
    if not runs:
        raise UsageError("there is no run to compare", hint="Name two run folders.")
    opened = [open_run(run) for run in runs]
    found = compare_runs(opened, aggregate, metric=metric, task=task, all_pairs=all_pairs)
    found.notes[:0] = [caution for run in opened for caution in run.cautions]
    return ComparisonResult(*(getattr(found, each.name) for each in fields(found)))


def compare_with_baseline(baseline: str | Path | RunRecord, run: RunRecord) -> Comparison:
    """Compare a run with its baseline, as gates do: runs without folder are named by what they are to each other."""
    runs = [open_run(baseline), open_run(run)]
    runs[0].label, runs[1].label = "the baseline", "this run"
    return compare_runs(runs, aggregate)
