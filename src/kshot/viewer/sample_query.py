"""Which samples a reader wants to see, and in which order: the query of a link or of a request, and as SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from kshot.core.errors import UsageError
from kshot.core.visible import one_line
from kshot.runs.sample_filters import HEADLINE, SampleVerdict
from kshot.viewer.index_file import NAMED, VERDICTS

SampleOrder: TypeAlias = Literal["run", "score", "id", "task", "category", "answer"]
Flip: TypeAlias = Literal["won", "lost", "flipped"]
"""``won``: this run is right and the other one is not. ``flipped``: won or lost."""

_Word = TypeVar("_Word", bound=str)

_VERDICTS: tuple[SampleVerdict, ...] = get_args(SampleVerdict)
_ORDERS: tuple[SampleOrder, ...] = get_args(SampleOrder)
_FLIPS: tuple[Flip, ...] = get_args(Flip)
_YES_OR_NO = {"": False, "0": False, "no": False, "false": False, "1": True, "yes": True, "true": True}
_MAX_CHARACTERS = 10_000
_MAX_NUMBER = 10**12


@dataclass(frozen=True, slots=True)
class SampleQuery:
    """What samples must be to be listed; None, an empty set and an empty text: anything.

    ``metric`` is that by which they are right or wrong (None: the headline of each task). ``answer`` is the short text
    of an answer. ``text`` has words and "phrases" that all stand in a sample. ``flip`` needs another run. ``find`` is
    the number of a sample whose place in the list is wanted, too.
    """

    verdicts: frozenset[SampleVerdict] = frozenset()
    task: str | None = None
    model: str | None = None
    category: str | None = None
    answer: str | None = None
    text: str = ""
    metric: str | None = None
    sort: SampleOrder = "run"
    reverse: bool = False
    flip: Flip | None = None
    find: int | None = None


def sample_query(given: Mapping[str, str]) -> SampleQuery:
    """Read the values of a query string; names that are no part of a query are left alone, and empty ones are no limit.

    ``verdict=wrong`` is what pages count as wrong; ``wrong,partly`` is what ``kshot samples --wrong`` lists.
    """
    for name, value in given.items():
        if len(value) > _MAX_CHARACTERS:
            raise UsageError(f"{name!r:.40} has {len(value):,} characters, above the limit of {_MAX_CHARACTERS:,}")
    metric, verdicts = given.get("metric") or None, given.get("verdict", "").split(",")
    return SampleQuery(
        frozenset(_one_of("verdict", each.strip(), _VERDICTS) for each in verdicts if each.strip()),
        task=given.get("task") or None,
        model=given.get("model") or None,
        category=given.get("category") or None,
        answer=given.get("answer") or None,
        text=given.get("q", "").strip(),
        metric=None if metric == HEADLINE else metric,
        sort=_one_of("sort", given.get("sort") or "run", _ORDERS),
        reverse=_flag("reverse", given.get("reverse", "")),
        flip=_one_of("flip", given["flip"], _FLIPS) if given.get("flip") else None,
        find=whole_number("find", given["find"], default=0, most=_MAX_NUMBER) if given.get("find") else None,
    )


def whole_number(name: str, text: str, *, default: int, most: int) -> int:
    """Read a count or a position that a request gives, such as ``offset``; a larger one than ``most`` is that."""
    if not text:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:  # noqa: PLR2004 - SQLite's integers
        raise UsageError(f"{name} is {text!r:.40}, not a whole number")
    return min(int(text), most)


def _one_of(name: str, value: str, known: tuple[_Word, ...]) -> _Word:
    for each in known:
        if each == value:
            return each
    raise UsageError(f"{name} is {value!r:.40}", hint=f"It may be: {', '.join(map(str, known))}.")


def _flag(name: str, value: str) -> bool:
    if value not in _YES_OR_NO:
        raise UsageError(f"{name} is {value!r:.40}", hint="It may be: 0 or 1.")
    return _YES_OR_NO[value]


_ORDER_KEYS: dict[SampleOrder, str] = {
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
    key, down = _ORDER_KEYS[query.sort], " DESC" if query.reverse else ""
    if not key:
        return f"j.n{down}"
    second = f", j.answer{down}" if query.sort == "answer" else ""
    return f"{key} IS NULL, {key}{down}{second}, j.n"
