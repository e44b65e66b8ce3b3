"""The evidence of a search in words: which passages have which component of the answer, and which is missing."""

from __future__ import annotations

from collections.abc import Sequence

from kshot.core.records import ResultRow
from kshot.report.cells import SafeText, cell, joined


def evidence_quotes(row: ResultRow) -> list[list[str]]:
    """Return the quotes of each component of the answer; nothing where a target is not evidence."""
    target = row.get("target")
    if not isinstance(target, list) or not all(isinstance(each, list) for each in target):
        return []
    return [[quote for quote in each if isinstance(quote, str) and quote] for each in target]


def evidence_ranks(row: ResultRow) -> list[list[int]]:
    """Return at which ranks each component was found, as the run recorded it; nothing where it did not."""
    found, components = row.get("evidence"), len(evidence_quotes(row))
    if not isinstance(found, list) or len(found) != components or not all(isinstance(each, list) for each in found):
        return []
    return [[rank for rank in each if type(rank) is int and rank > 0] for each in found]


def evidence_mark(ranks: Sequence[Sequence[int]], rank: int) -> str:
    """Return which components the passage at a rank has; "" for none."""
    numbers = [str(number) for number, each in enumerate(ranks, start=1) if rank in each]
    if not numbers:
        return ""
    return "✓ evidence" if len(ranks) == 1 else f"✓ component{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def evidence_summary(ranks: Sequence[Sequence[int]], shown: int) -> SafeText | None:
    """Say which components no passage has, and which only those below the ones that are shown; None: neither."""
    lines = []
    for number, each in enumerate(ranks, start=1):
        name = "the evidence" if len(ranks) == 1 else f"component {number}"
        if not each:
            lines.append(cell(f"✗ {name} is in none of them", "red"))
        elif min(each) > shown:
            lines.append(cell(f"{name} is first in number {min(each)}", "dim italic"))
    return joined("\n", lines) if lines else None
