"""A sample query as SQL over the index: which lines match, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kshot.core.visible import one_line
from kshot.viewer.index_file import NAMED, VERDICTS
from kshot.viewer.sample_query import SampleOrder, SampleQuery

_ORDERS: dict[SampleOrder, str] = {
    "run": "",
    "score": "j.score_key",
    "id": "(SELECT id_key FROM samples s WHERE s.n = j.n)",
    "task": "(SELECT name_key FROM names WHERE part = 'task' AND code = j.task)",
    "category": "(SELECT name_key FROM names WHERE part = 'category' AND code = j.category)",
    "answer": "nullif(j.answer_key, x'')",
}
"""What is sorted by; what has none of it is NULL, and comes last."""


@dataclass(frozen=True, slots=True)
class SampleSql:
    """The condition and the order of a list; ``values`` are those of the condition."""

    where: str
    order: str
    values: tuple[Any, ...]


def sample_sql(query: SampleQuery, *, flips: str = "", words: str = "", match: str = "") -> SampleSql:
    """Return a query for the table ``judged`` as ``j``.

    ``flips`` is the table of samples that flipped (1: won, -1: lost), and ``words`` the full-text table, in which
    ``match`` is looked for; without a name there is no such condition.
    """
    conditions: list[str] = []
    values: list[Any] = []
    if query.verdicts:
        codes = sorted(VERDICTS.index(each) for each in query.verdicts)
        conditions.append(f"j.verdict IN ({', '.join(map(str, codes))})")
    for part in NAMED:
        name = getattr(query, part)
        if name is not None:
            conditions.append(f"j.{part} IN (SELECT code FROM names WHERE part = '{part}' AND name = ?)")
            values.append(one_line(name))
    if query.answer is not None:
        conditions.append("j.answer = ?")
        values.append(one_line(query.answer))
    if flips and query.flip is not None:
        which = {"won": " WHERE flip = 1", "lost": " WHERE flip = -1", "flipped": ""}[query.flip]
        conditions.append(f"j.n IN (SELECT n FROM {flips}{which})")
    if words:
        conditions.append(f"j.n IN (SELECT rowid FROM {words} WHERE {words.rpartition('.')[2]} MATCH ?)")
        values.append(match)
    return SampleSql(" AND ".join(conditions) or "1", _order(query), tuple(values))


def _order(query: SampleQuery) -> str:
    """Return the order; equal samples keep the order of the run, whatever the direction."""
    key, down = _ORDERS[query.sort], " DESC" if query.reverse else ""
    if not key:
        return f"j.n{down}"
    second = f", j.answer{down}" if query.sort == "answer" else ""
    return f"{key} IS NULL, {key}{down}{second}, j.n"
