"""What ``evaluate``, ``score`` and ``load`` return: the record of a run, for scripts and notebooks."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from kshot.core.arguments import checked_folder
from kshot.core.errors import UsageError
from kshot.core.records import ResultRow
from kshot.runs.record import RunRecord, read_record

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from kshot.runs.gates import Baseline

Part: TypeAlias = Literal["results", "samples", "comparisons", "usage"]


class Result(RunRecord):
    """The record of a run. In a notebook it shows itself as a table with a chart."""

    @classmethod
    def of(cls, record: RunRecord) -> Result:
        """Return a record as a result."""
        return cls(*(getattr(record, each.name) for each in fields(record)))

    def find(
        self,
        *,
        wrong: bool = False,
        right: bool = False,
        failed: bool = False,
        task: str | Sequence[str] = (),
        model: str | Sequence[str] = (),
        id: str | Sequence[str] = (),  # noqa: A002 - as the rows and the command line call it
        category: str | Sequence[str] = (),
        contains: str | None = None,
        metric: str | None = None,
        below: float | None = None,
        above: float | None = None,
        flipped: str | Path | RunRecord | None = None,
    ) -> Iterator[ResultRow]:
        """Yield the samples that ``kshot samples`` with these options shows, in the order of the run.

        ``flipped``: the folder or the result of another run; of the samples of both, those that one alone gets right.
        """
        from kshot.runs.sample_selection import find_samples

        return find_samples(
            self,
            flipped,
            wrong=wrong,
            right=right,
            failed=failed,
            task=task,
            model=model,
            id=id,
            category=category,
            contains=contains,
            metric=metric,
            below=below,
            above=above,
        )

    def to_pandas(self, part: Part = "results") -> pd.DataFrame:
        """Return the rows of a part as a frame of pandas: ``ci95_low`` and ``score_EM`` are columns of their own."""
        from kshot.report.exports.columns import pandas_frame

        return pandas_frame(self._rows(part))

    def to_polars(self, part: Part = "results") -> pl.DataFrame:
        """Return the rows of a part as a frame of polars; a column of lists or of several types holds JSON texts."""
        from kshot.report.exports.columns import polars_frame

        return polars_frame(self._rows(part))

    def check(
        self,
        *,
        fail_under: str | Sequence[str] | Mapping[str, float] = (),
        fail_if_worse: Baseline | Sequence[Baseline] = (),
        fail_on_failed: bool = False,
    ) -> list[ResultRow]:
        """Return what the gates of ``kshot gate`` found, one row for each check; raise ``GateFailed`` if one fails.

        ``fail_under``: ``{"Accuracy": 60}``, or texts as on the command line. ``fail_if_worse``: folders or results.
        A row whose ``passed`` is None could not be compared with the baseline. Notes are warnings.
        """
        from kshot.comparing import compare_with_baseline
        from kshot.runs.gates import Gates

        gates = Gates.of(fail_under, fail_if_worse, fail_on_failed=fail_on_failed)
        if not gates:
            raise UsageError("no gate is named", hint="Give fail_under, fail_if_worse or fail_on_failed.")
        checked = gates.check(self, compare_with_baseline)
        for note in checked.notes:
            warnings.warn(note, stacklevel=2)
        return checked.enforce()

    def _rows(self, part: Part) -> Iterable[ResultRow]:
        parts = {"results": self.results, "comparisons": self.comparisons, "usage": self.usage}
        if part == "samples":
            from kshot.runs.sample_filters import with_rules

            return with_rules(self.iter_samples(), self.results)
        if not isinstance(part, str) or part not in parts:
            raise UsageError(f"a run has no part {part!r:.60}", hint=f"Its parts: {', '.join((*parts, 'samples'))}.")
        return parts[part]

    def _repr_html_(self) -> str:
        """Return the figures for a notebook."""
        from kshot.report.notebook import results_html

        return results_html(self)


def load(run: str | Path) -> Result:
    """Read a run folder back: its results, samples, comparisons and settings."""
    return Result.of(read_record(checked_folder("the run", run)))
