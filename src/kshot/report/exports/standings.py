"""Which figure a test puts ahead of all others that answer the same question, and which ones no test has seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

from kshot.core.records import ResultRow
from kshot.runs.headline import finite

Question: TypeAlias = tuple[str, str]
"""What systems are compared by: a task, or a whole benchmark of passages, and a metric."""


class SystemId(NamedTuple):
    """A model of a run; search engines differ also by how passages are cut."""

    run: str
    model: str
    chunks: str = ""


class Standings:
    """What paired tests found about some figures: who is ahead of whom, and who was tested at all.

    The best number alone is no reason to be ahead: each of its comparisons must be decided, and both figures must be
    of exactly the samples that were compared. A test on those that two systems share says nothing about the others.
    """

    def __init__(
        self, rows: Sequence[tuple[SystemId, ResultRow]], comparisons: Iterable[ResultRow], run: str = ""
    ) -> None:
        """Take figures with their systems, and comparisons; ``run`` is that of comparisons that name none."""
        self._rivals: dict[Question, list[int]] = {}
        self._beaten: dict[int, set[int]] = {}
        self._families: dict[frozenset[int], int] = {}
        self._partial: set[frozenset[int]] = set()
        counts = {id(row): row["n"] for _, row in rows}
        places: dict[tuple[SystemId, str, str], int] = {}
        for system, row in rows:
            self._rivals.setdefault(question_of(row), []).append(id(row))
            places[system._replace(chunks=""), row["task"], row["metric"]] = id(row)
            places[system, question_of(row)[0], row["metric"]] = id(row)
        for row in comparisons:
            one, other = (places.get(_side(row, side, run)) for side in ("a", "b"))
            if one is None or other is None or finite(row["p_corrected"]) is None:
                continue
            pair = frozenset((one, other))
            self._families[pair] = row["family"]
            if {counts[one], counts[other]} != {row.get("n")}:
                self._partial.add(pair)
            elif row["ahead"] in {row["a"], row["b"]}:
                winner, loser = (one, other) if row["ahead"] == row["a"] else (other, one)
                self._beaten.setdefault(winner, set()).add(loser)

    def is_ahead(self, row: ResultRow) -> bool:
        """Whether a figure is ahead of all others that answer the same question."""
        others = set(self._rivals[question_of(row)]) - {id(row)}
        return bool(others) and others <= self._beaten.get(id(row), set())

    def families(self, rows: Iterable[ResultRow]) -> set[int]:
        """Return how many comparisons those of these figures were corrected for; nothing if none was tested."""
        questions = {question_of(row) for row in rows}
        return {self._families[pair] for each in questions for pair in self._pairs(each) if pair in self._families}

    def untested(self, rows: Iterable[ResultRow]) -> list[Question]:
        """Return the tasks and metrics of these figures by which not every two systems were tested."""
        questions = dict.fromkeys(map(question_of, rows))
        return [each for each in questions if any(pair not in self._families for pair in self._pairs(each))]

    def partial(self, rows: Iterable[ResultRow]) -> list[Question]:
        """Return the tasks and metrics of these figures of which some are not of the samples that were compared."""
        questions = dict.fromkeys(map(question_of, rows))
        return [each for each in questions if any(pair in self._partial for pair in self._pairs(each))]

    def _pairs(self, question: Question) -> Iterator[frozenset[int]]:
        return map(frozenset, combinations(self._rivals[question], 2))


def question_of(row: ResultRow) -> Question:
    """Return what a figure is an answer to."""
    whole = row.get("kind") == "passages" and "category" not in row
    return str(row["benchmark"] if whole else row["task"]), row["metric"]


def _side(row: ResultRow, side: str, run: str) -> tuple[SystemId, str, str]:
    """Return whose figure is compared: that of a system, by the name of the task, and by the metric."""
    model, chunks = row.get(f"{side}_model", row[side]), row.get(f"{side}_chunks", "")
    task = str(row.get(f"{side}_task", row["task"]))
    named = f"{task}[{row['category']}]" if "category" in row else task
    return SystemId(str(row.get(f"{side}_run", run)), str(model), str(chunks)), named, row["metric"]
