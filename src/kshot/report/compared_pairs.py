"""The names of compared systems in tables: short, and no longer than it takes to tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kshot.core.records import ResultRow
from kshot.report.cells import shortened

_MAX_LABEL = 20
"""Longer labels of runs are cut in their middle."""

PairKey = tuple[str, str]


class PairNames(NamedTuple):
    """What a table calls the pairs of its rows: the heading of their column, and each by the labels of its systems.

    ``baseline`` and ``run`` are what all rows compare, where that is one thing; else they are empty.
    """

    heading: str
    names: dict[PairKey, str]
    baseline: str
    run: str

    @property
    def several(self) -> bool:
        """Whether there is more than one pair."""
        return len(self.names) > 1


def pair_of(row: ResultRow) -> PairKey:
    """Return the labels of the systems that a row compares."""
    return row["baseline"], row["run"]


def pair_names(rows: Sequence[ResultRow]) -> PairNames:
    """Name the pairs of systems that rows compare.

    A model that is compared with itself in two runs is named by its own name alone. Where one baseline serves all, a
    pair is named by what is compared with it.
    """
    pairs = {pair_of(row): row for row in rows}
    baselines, runs = ([*dict.fromkeys(pair[side] for pair in pairs)] for side in (0, 1))
    folders = dict.fromkeys((row["baseline_run"], row["run_run"]) for row in pairs.values())
    one_each = len(folders) == 1 and all(before != after for before, after in folders)  # two runs, several models
    if len(baselines) == 1:
        return PairNames("run", _named(pairs, "run", runs), baselines[0], runs[0] if len(runs) == 1 else "")
    if one_each:
        ((before, after),) = folders
        if all(row["baseline_model"] == row["run_model"] for row in pairs.values()):
            models = {pair: str(row["run_model"]) for pair, row in pairs.items()}
            return PairNames("model", models, before, after)
        names = {pair: f"{row['run_model']} − {row['baseline_model']}" for pair, row in pairs.items()}
        return PairNames("models", names, before, after)
    one_baseline = len({before for before, _ in folders}) == 1
    if all(row["baseline_model"] == row["run_model"] for row in pairs.values()):
        if one_baseline:
            return PairNames("run", _named(pairs, "run", runs), next(iter(folders))[0], "")
        several = len({row["run_model"] for row in pairs.values()}) > 1
        names = {
            pair: f"{row['run_run']} − {row['baseline_run']}" + (f" · {row['run_model']}" if several else "")
            for pair, row in pairs.items()
        }
        return PairNames("run", names, "", "")
    return PairNames("run", _differences(pairs), "", "")


def _named(pairs: dict[PairKey, ResultRow], side: str, labels: Sequence[str]) -> dict[PairKey, str]:
    short = _short(labels)
    return {pair: short[row[side]] for pair, row in pairs.items()}


def _differences(pairs: dict[PairKey, ResultRow]) -> dict[PairKey, str]:
    short = _short([label for pair in pairs for label in pair])
    return {(before, after): f"{short[after]} − {short[before]}" for before, after in pairs}


def _short(labels: Sequence[str]) -> dict[str, str]:
    short = {label: shortened(label, _MAX_LABEL) for label in labels}
    if len(set(short.values())) < len(short):
        return {label: label for label in labels}  # their ends do not tell them apart
    return short
