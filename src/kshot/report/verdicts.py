"""What a run shows, in sentences: which system is ahead of which, and how much the choice of examples matters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kshot.core.failed_parts import failure_mark, p_text
from kshot.core.records import ResultRow
from kshot.core.visible import metric_label
from kshot.report.figures import number, short_names, signed
from kshot.report.systems import shown_measures

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
        others = [row for row in pairs if leader in {row["a"], row["b"]}]
        behind = [row for row in others if row["ahead"] == leader]
        level = [row for row in others if row["ahead"] != leader]
        parts = [f"is ahead of {_listed(behind, leader, names)}"] if behind else []
        if level:
            parts.append(f"cannot be told from {_listed(level, leader, names)}")
        mark = max(map(failure_mark, others))  # the stronger one
        who = system_name(others[0], "a" if others[0]["a"] == leader else "b", names)
        found = f"{task}{mark} {measure}: {who} {', but '.join(parts)}"
        line = f"{found}{corrected_for(others[0]['family'])}."
        yield _Sentence(line, "average" in others[0], min(row["p_corrected"] for row in others), bool(behind))


def _leader(pairs: Sequence[ResultRow]) -> str:
    """Return the system with the best figure: it is behind no other."""
    behind = {row["a"] if _gain(row) > 0 else row["b"] for row in pairs}
    systems = dict.fromkeys(str(system) for row in pairs for system in (row["a"], row["b"]))
    return next((system for system in systems if system not in behind), next(iter(systems)))


def _gain(row: ResultRow) -> float:
    """Return by how much the second system of a pair is better than the first."""
    return float(row["difference"] if row["higher_is_better"] else -row["difference"])


def system_name(row: ResultRow, side: str, names: Mapping[str, str]) -> str:
    """Return the name of one of two systems that are compared, with its chunks if there are several."""
    chunks = row.get(f"{side}_chunks")
    return names[row[f"{side}_model"]] + ("" if chunks is None else f" · {chunks}")


def _listed(rows: Sequence[ResultRow], leader: str, names: Mapping[str, str]) -> str:
    """Return what a leader is compared with, the closest first, and by how much they differ."""
    closest = sorted(rows, key=lambda row: -_gain(row) if row["a"] == leader else _gain(row))[:_MAX_LISTED]
    shown = [f"{system_name(row, 'b' if row['a'] == leader else 'a', names)} ({differs_by(row)})" for row in closest]
    more = len(rows) - len(shown)
    return "; ".join(shown) + (f" and {more} more" if more > 0 else "")


def differs_by(row: ResultRow, mark: str = "") -> str:
    """Return the second system minus the first for a sentence, with its interval and p; ``mark`` follows the figure."""
    ends = row["ci95"] or ()
    digits = 3 if all(abs(each) <= 1 for each in (row["difference"], *ends)) else 1
    if row["ahead"] is None and ends and not ends[0] <= 0 <= ends[1]:
        ends = ()  # it knows nothing of the correction, or of the test: beside "cannot be told" it would contradict
    figure, *low_high = (signed(each, digits) for each in (row["difference"], *ends))
    between = f", 95 %: {' to '.join(low_high)}" if low_high else ""
    return f"{figure}{mark}{between}, {shown_p(row)}"


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
