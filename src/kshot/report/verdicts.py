"""What a run shows, in sentences: which system is ahead of which, and how much the choice of examples matters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kshot.core.failed_parts import failure_mark
from kshot.core.p_values import p_text
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.report.systems import shown_measures
from kshot.report.table import number, short_names

_MAX_LISTED = 3
"""Systems that a verdict lists."""

_MAX_LINES = 5
"""Sentences of one kind on the screen; the rest is in ``summary.json``."""


class _Sentence(NamedTuple):
    """What is said of one task and measure, whether that is an average, the smallest p, and whether any is behind."""

    line: str
    average: bool
    p: float
    decided: bool


def verdicts(comparisons: Sequence[ResultRow], rows: Sequence[ResultRow]) -> Iterator[str]:
    """Say for each measure that is shown which systems the best one is ahead of, and which it cannot be told from."""
    shown = set(shown_measures(rows))
    yield from (found.line for found in _sentences([row for row in comparisons if row["metric"] in shown]))


def model_verdicts(comparisons: Sequence[ResultRow]) -> Iterator[str]:
    """Say the same of models, task by task: averages and then the clearest differences, and only a few of many."""
    found = sorted(_sentences(comparisons), key=lambda sentence: (not sentence.average, sentence.p))
    yield from (sentence.line for sentence in found[:_MAX_LINES])
    if rest := found[_MAX_LINES:]:
        ahead = sum(sentence.decided for sentence in rest)
        yield f"… and {len(rest)} more comparisons in summary.json; a model is ahead in {ahead} of them."


def _sentences(comparisons: Sequence[ResultRow]) -> Iterator[_Sentence]:
    """Yield a sentence for each task and measure."""
    names = short_names(row[side] for row in comparisons for side in ("a_model", "b_model"))
    for task, measure in dict.fromkeys((row["task"], metric_label(row)) for row in comparisons):
        pairs = [row for row in comparisons if (row["task"], metric_label(row)) == (task, measure)]
        systems = {system for row in pairs for system in (row["a"], row["b"])}
        if len(pairs) < len(systems) * (len(systems) - 1) // 2:  # systems with different chunks cannot all be compared
            continue
        leader = _leader(pairs)
        others = [_seen_by(leader, row) for row in pairs if leader in {row["a"], row["b"]}]
        behind = [row for row in others if row["ahead"] == leader]
        level = [row for row in others if row["ahead"] != leader]
        parts = [f"is ahead of {_listed(behind, names)}"] if behind else []
        if level:
            parts.append(f"cannot be told from {_listed(level, names)}")
        mark = max(map(failure_mark, others))  # the stronger one
        found = f"{task}{mark} {measure}: {_system_name(others[0], 'a', names)} {', but '.join(parts)}"
        line = f"{found}{corrected_for(others[0]['family'])}."
        yield _Sentence(line, "average" in others[0], min(row["p_corrected"] for row in others), bool(behind))


def _leader(pairs: Sequence[ResultRow]) -> str:
    """Return the system with the best figure: it is behind no other."""
    behind = {row["b"] if _first_is_better(row) else row["a"] for row in pairs}
    systems = dict.fromkeys(str(system) for row in pairs for system in (row["a"], row["b"]))
    return next((system for system in systems if system not in behind), next(iter(systems)))


def _first_is_better(row: ResultRow) -> bool:
    """Whether the first system of a pair has the better figure, or the same."""
    better: bool = row["difference"] >= 0 if row["higher_is_better"] else row["difference"] <= 0
    return better


def _seen_by(leader: str, row: ResultRow) -> ResultRow:
    """Return the pair with the leader as its first system."""
    if row["a"] == leader:
        return row
    swapped = {name: row.get(other) for name, other in _SWAPPED.items()}
    interval = None if row["ci95"] is None else [-row["ci95"][1], -row["ci95"][0]]
    return {**row, **swapped, "difference": -row["difference"], "ci95": interval}


_SWAPPED = {
    "a": "b",
    "b": "a",
    "a_model": "b_model",
    "b_model": "a_model",
    "a_chunks": "b_chunks",
    "b_chunks": "a_chunks",
}


def _system_name(row: ResultRow, side: str, names: Mapping[str, str]) -> str:
    chunks = row.get(f"{side}_chunks")
    return names[row[f"{side}_model"]] + ("" if chunks is None else f" · {chunks}")


def _listed(rows: Sequence[ResultRow], names: Mapping[str, str]) -> str:
    closest = sorted(rows, key=lambda row: row["difference"] if row["higher_is_better"] else -row["difference"])
    shown = [_against(row, names) for row in closest[:_MAX_LISTED]]
    more = len(rows) - len(shown)
    return "; ".join(shown) + (f" and {more} more" if more > 0 else "")


def _against(row: ResultRow, names: Mapping[str, str]) -> str:
    digits = 3 if abs(row["difference"]) <= 1 and abs((row["ci95"] or [0])[-1]) <= 1 else 1
    # adding 0 turns a rounded -0.0 into 0.0
    ends = [round(end, digits) + 0.0 for end in row["ci95"] or ()]
    if row["ahead"] is None and row["ci95"] and not row["ci95"][0] <= 0 <= row["ci95"][1]:
        ends = []  # it knows nothing of the correction, or of the test: beside "cannot be told" it would contradict
    between = f", 95 %: {number(ends[0], digits, '+')} to {number(ends[1], digits, '+')}" if ends else ""
    return f"{_system_name(row, 'b', names)} ({number(row['difference'], digits, '+')}{between}, {shown_p(row)})"


def shown_p(row: ResultRow) -> str:
    """Return the p by which a comparison is decided, for a sentence."""
    return f"p {p_value(row)}"


def p_value(row: ResultRow) -> str:
    """Return that p for a table."""
    return p_text(row["p_corrected"])


def corrected_for(family: int) -> str:
    """Say for how many comparisons p is corrected, if there are several: the end of a sentence."""
    return f"; {correction(family)}" if family > 1 else ""


def correction(family: int) -> str:
    """Say for how many comparisons p is corrected."""
    return f"p is corrected for {family} comparisons"


# ---- draws of examples ----


def spreads(rows: Sequence[ResultRow]) -> Iterator[str]:
    """Say how far the choice of examples alone moves each figure, beside what the samples leave open."""
    found = [row for row in rows if row.get("sd") is not None and not row.get("detail")]
    names = short_names(dict.fromkeys(row["model"] for row in found))
    for row in found[:_MAX_LINES]:
        interval, of = row["ci95"], f" of {names[row['model']]}" if len(names) > 1 else ""
        beside = (
            f"; by the choice of samples alone: {number(interval[0], 1)}–{number(interval[1], 1)} (95 %)"
            if interval
            else ""
        )
        yield (
            f"{row['task']} {metric_label(row)}{of}: {number(row['value'], 2)}{failure_mark(row)} on average, "
            f"from {number(row['lowest'], 2)} to {number(row['highest'], 2)} by the choice of examples "
            f"(SD {number(row['sd'], 2)}){beside}."
        )
    if len(found) > _MAX_LINES:
        yield f"… and {len(found) - _MAX_LINES} more spreads in summary.json."
