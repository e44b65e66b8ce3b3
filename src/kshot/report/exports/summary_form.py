"""Rows of a comparison of runs in the form of ``summary.json``: the baseline is ``a``, the run ``b``."""

from __future__ import annotations

from kshot.core.records import ResultRow

_AHEAD = {"better": "run", "worse": "baseline"}
_LETTERS = {"baseline": "a", "run": "b"}


def in_summary_form(row: ResultRow) -> ResultRow:
    """Return a row with the names of ``summary.json``; differences are ``b`` minus ``a`` in both."""
    ahead = _AHEAD.get(row["verdict"] or "")
    found: ResultRow = {letter: row[side] for side, letter in _LETTERS.items()}
    for name in ("run", "model", "value"):
        found |= {f"{letter}_{name}": row[f"{side}_{name}"] for side, letter in _LETTERS.items()}
    if "run_task" in row:
        found |= {"a_task": row["task"], "b_task": row["run_task"]}
    counts = {f"{what}_{side}": f"{what}_{letter}" for what in ("only", "failed") for side, letter in _LETTERS.items()}
    left_out = {"verdict", "run_task", *_LETTERS} | {
        f"{side}_{n}" for side in _LETTERS for n in ("run", "model", "value")
    }
    rest = {counts.get(name, name): value for name, value in row.items() if name not in left_out}
    return {**found, **rest, "ahead": None if ahead is None else row[ahead]}
