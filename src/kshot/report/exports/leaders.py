"""Which system a test puts ahead of all others, by task and metric."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kshot.core.records import ResultRow


class SystemId(NamedTuple):
    """A model of a run; search engines differ also by how passages are cut."""

    run: str
    model: str
    chunks: str = ""


def question_of(row: ResultRow) -> tuple[str, str]:
    """Return what systems are compared by: a task, or a whole benchmark of passages, and a metric."""
    whole = row.get("kind") == "passages" and "category" not in row
    return str(row["benchmark"] if whole else row["task"]), row["metric"]


def leaders(
    rows: Iterable[tuple[SystemId, ResultRow]], comparisons: Iterable[ResultRow], run: str
) -> dict[tuple[str, str], SystemId]:
    """Return the systems that are ahead of every other one, by what they are compared by.

    The best number alone is no reason: each of its comparisons must be decided. ``run`` is that of comparisons that
    name none.
    """
    rivals: dict[tuple[str, str], dict[SystemId, None]] = {}
    for system, row in rows:
        rivals.setdefault(question_of(row), {})[system] = None
    beaten: dict[tuple[tuple[str, str], SystemId], set[SystemId]] = {}
    for row in comparisons:
        one, other = (_side(row, side, run) for side in ("a", "b"))
        if row["ahead"] in {row["a"], row["b"]}:
            winner, loser = (one, other) if row["ahead"] == row["a"] else (other, one)
            beaten.setdefault(((row["task"], row["metric"]), winner), set()).add(loser)
    found = {}
    for question, systems in rivals.items():
        for system in systems:
            others = {_compared_as(other, systems) for other in systems if other != system}
            if others and others <= beaten.get((question, _compared_as(system, systems)), set()):
                found[question] = system
    return found


def _side(row: ResultRow, side: str, run: str) -> SystemId:
    model, chunks = row.get(f"{side}_model", row[side]), row.get(f"{side}_chunks", "")
    return SystemId(str(row.get(f"{side}_run", run)), str(model), str(chunks))


def _compared_as(system: SystemId, systems: Collection[SystemId]) -> SystemId:
    """Return a system as comparisons name it: with its passages only if they differ."""
    several = len({each.chunks for each in systems}) > 1
    return system if several else system._replace(chunks="")
