"""``kshot.compare``: finished runs, sample by sample."""

from __future__ import annotations

from pathlib import Path

from kshot.core.errors import UsageError
from kshot.metrics.aggregates import aggregate
from kshot.runs.compared_run import open_run
from kshot.runs.comparing import Comparison, compare_runs
from kshot.runs.record import RunRecord


def compare(
    *runs: str | Path | RunRecord, metric: str | None = None, task: str | None = None, all_pairs: bool = False
) -> Comparison:
    """Compare finished runs, paired by sample id and question, whatever their models, prompts, shots and clean-ups.

    Each run is a folder, or what ``evaluate`` or ``load`` returned. The first is the baseline of every other one
    (``all_pairs``: every two are compared). Models that two runs share are compared with themselves, otherwise each of
    one run with each of the other; of a single run, the first model is the baseline of its others. Tasks are paired by
    name; those left over if they ask the same questions. ``metric`` and ``task`` choose one of each.
    """
    if not runs:
        raise UsageError("there is no run to compare", hint="Name two run folders.")
    return compare_runs([open_run(run) for run in runs], aggregate, metric=metric, task=task, all_pairs=all_pairs)
