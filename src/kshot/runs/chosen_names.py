"""What users mean by a name of a task, a model, a category or a sample: its whole name, or its beginning."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable, Iterator, Sequence

from kshot.core.errors import UsageError

_MAX_LISTED = 10
_MAX_COMPARED = 80
"""Characters of a name that are compared with those of another."""

_NEAR = 0.6
"""So alike are names that may be meant, as ``difflib`` measures it."""


def meant(
    part: str, name: str, known: Sequence[str], others: Iterable[str] | None = None, nobody: str = "this run has no"
) -> Sequence[str]:
    """Return what a user means by a name: that very one, all of a dataset or subset, or the one that begins so.

    ``part`` says what has the name. ``others``: names that may be suggested, where those known are not all;
    ``nobody``: how the message begins if there is none.
    """
    folded = name.casefold()
    inside = (f"{name}:", f"{name}@", f"{name},")  # a subset, a draw of examples, options
    subsets = [one for one in known if one.startswith(inside) or one.endswith(f":{name}")] if part == "task" else []
    for found in ([name] if name in known else [], subsets, [one for one in known if one.casefold() == folded]):
        if found:
            return found
    begun = [one for one in known if one.casefold().startswith(folded)] if name and part != "id" else []
    if len(begun) > 1:
        what = f"{name!r:.80} is the beginning of {len(begun)} {_PLURALS[part]}"
        raise UsageError(what, hint=f"Name one: {_listed(begun)}.")
    if not begun:
        hint = _suggestion(part, name, known if others is None else others)
        raise UsageError(f"{nobody} {part} {name!r:.80}", hint=hint)
    return begun


_PLURALS = {"task": "tasks", "model": "models", "category": "categories", "id": "ids"}


def _suggestion(part: str, name: str, known: Iterable[str]) -> str:
    """Return which names there are: all of them, or the nearest of many."""
    matcher = difflib.SequenceMatcher(a="", b=name[:_MAX_COMPARED].casefold(), autojunk=False)
    first: dict[str, None] = {}

    def with_nearness() -> Iterator[tuple[float, str]]:
        for one in known:
            if len(first) <= _MAX_LISTED:
                first[one] = None
            matcher.set_seq1(one[:_MAX_COMPARED].casefold())
            yield matcher.quick_ratio(), one

    nearest = heapq.nlargest(30, with_nearness())  # the same id may stand in several tasks
    near = list(dict.fromkeys(one for ratio, one in nearest if ratio >= _NEAR))[:3]
    if len(first) > _MAX_LISTED and near:
        return f"Did you mean {' or '.join(near)}?"
    return f"Its {_PLURALS[part]}: {_listed(list(first))}." if first else f"Its samples have no {part}."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_LISTED]) + (", …" if len(names) > _MAX_LISTED else "")
