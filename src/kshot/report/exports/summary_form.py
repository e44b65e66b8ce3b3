"""Rows of a comparison of runs in the form of ``summary.json``: the first system is ``a``, the second ``b``."""

from __future__ import annotations

from kshot.core.records import ResultRow

_AHEAD = {"better": "run", "worse": "baseline"}


def in_summary_form(row: ResultRow, first: str = "run") -> ResultRow:
    """Return a row in which ``first`` (``run`` or ``baseline``) is ``a``; differences are ``a`` minus ``b``."""
    second = "baseline" if first == "run" else "run"
    letters = {first: "a", second: "b"}
    ahead = _AHEAD.get(row["verdict"] or "")
    found: ResultRow = {letters[side]: row[side] for side in (first, second)}
    for name in ("run", "model", "value"):
        found |= {f"{letters[side]}_{name}": row[f"{side}_{name}"] for side in (first, second)}
    if "run_task" in row:
        found |= {f"{letters['run']}_task": row["run_task"], f"{letters['baseline']}_task": row["task"]}
    counts = {f"{what}_{side}": f"{what}_{letters[side]}" for what in ("only", "failed") for side in (first, second)}
    left_out = {"verdict", "run_task", "run", "baseline"} | {
        f"{side}_{name}" for side in letters for name in ("run", "model", "value")
    }
    rest = {counts.get(name, name): value for name, value in row.items() if name not in left_out}
    if first == "baseline":
        rest |= _mirrored(rest)
    return {**found, **rest, "ahead": None if ahead is None else row[ahead]}


def _mirrored(row: ResultRow) -> ResultRow:
    """Return what changes if the two systems change places."""
    difference, ends = row["difference"], row["ci95"]
    return {
        "difference": None if difference is None else -difference,
        "ci95": None if ends is None else [-ends[1], -ends[0]],
        **({"won": row["lost"], "lost": row["won"]} if "won" in row else {}),
    }
