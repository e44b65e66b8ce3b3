"""Token lookup data: seeded records, by the published procedure.

A record of length L has L - 1 context characters and a query character, which occurs in the context once (group
``unique``) or several times, never side by side (group ``nonunique``). The same settings give the same bytes.
"""

from __future__ import annotations

import json
import random
import string
from functools import lru_cache
from itertools import pairwise
from math import comb
from pathlib import Path

from kshot.core.errors import UsageError

VOCAB = string.ascii_letters + string.digits
DIVISOR = 5
TASKS: dict[str, tuple[str, ...]] = {
    "unique": ("UL", "UR"),
    "nonunique": ("NLFirst", "NRFirst", "NLLast", "NRLast"),
}
# Below this chance that a draw has no neighbours, drawing again is hopeless (at length 1,000 it would outlast the
# universe): the positions are then drawn directly, from the same distribution. With the default divisor lengths
# up to 130 are never affected, with divisor 4 those up to 76.
REJECTABLE = 1 / 500


def group_of(task: str) -> str:
    """The group of records a task is asked of."""
    for group, tasks in TASKS.items():
        if task in tasks:
            return group
    known = ", ".join(task for tasks in TASKS.values() for task in tasks)
    raise UsageError(f"there is no lookup task {task!r}", hint=f"Choose from {known}.")


def answers(context: str, query: str) -> dict[str, str]:
    """Every task's answer, keyed by task in the published order; which tasks, the query's occurrences decide."""
    first, last = context.find(query), context.rfind(query)
    if first < 0:
        return {}
    left, right = context[max(0, first - 1) : first], context[first + 1 : first + 2]
    if first == last:
        return {"UL": left, "UR": right}
    return {"NLFirst": left, "NRFirst": right, "NLLast": context[last - 1], "NRLast": context[last + 1 : last + 2]}


def generate(
    group: str,
    length: int,
    samples: int,
    seed: int,
    *,
    hard: bool = False,
    divisor: int = DIVISOR,
    vocab: str = VOCAB,
) -> list[dict[str, str]]:
    """Make the records that ``random.Random(seed)`` gives.

    Nonunique records hold the query k times, k uniform in [2, max(2, (L - 1) // divisor)]; ``hard`` keeps them to the
    first half of the context. (The published files of length 20, 30 and 40 were made with ``divisor=4``.)
    """
    check(group, length, samples, hard=hard, divisor=divisor, vocab=vocab)
    rng = random.Random(seed)  # noqa: S311 - reproducible data, no secrets
    without = {query: vocab.replace(query, "") for query in vocab}
    size = length - 1
    allowed = _allowed(size, hard=hard)
    records = []
    for _ in range(samples):
        query = rng.choice(vocab)
        if group == "unique":
            places = [rng.randint(1, size - 2)]
        else:
            places = _apart(rng, allowed, rng.randint(2, max(2, size // divisor)))
        others = without[query]
        characters = [rng.choice(others) for _ in range(size)]
        for place in places:
            characters[place] = query
        context = "".join(characters)
        records.append(
            {"input_no_space": context + query, "input_with_space": f"{context}|{query}", **answers(context, query)}
        )
    return records


def check(group: str, length: int, samples: int, *, hard: bool, divisor: int, vocab: str) -> None:
    """Refuse settings under which some record could not be made."""
    if group not in TASKS:
        raise UsageError(f"there is no group {group!r}", hint="Choose unique or nonunique.")
    if samples < 1:
        raise UsageError(f"cannot make {samples} records", hint="Ask for 1 or more.")
    if divisor < 1:
        raise UsageError(f"the divisor must be 1 or more, not {divisor}")
    odd = sorted({c for c in vocab if c.isspace() or c in "|:" or vocab.count(c) > 1})
    if odd:
        raise UsageError(
            f"the vocabulary holds {' '.join(map(repr, odd))}",
            hint="Give each character once, and neither white space nor '|' nor ':'.",
        )
    if len(vocab) < 2:  # noqa: PLR2004 - a query and something that is not the query
        raise UsageError(f"a vocabulary of {len(vocab)} characters is too small", hint="Give two or more.")
    if group == "unique":
        if hard:
            raise UsageError("hard records exist only in the nonunique group")
        if length < 4:  # noqa: PLR2004 - query, its two neighbours, and the query again
            raise UsageError(f"unique records of length {length} do not exist", hint="The shortest is 4.")
        return
    most = max(2, (length - 1) // divisor)
    room = (len(_allowed(length - 1, hard=hard)) + 1) // 2
    if most > room:
        kind = "hard nonunique" if hard else "nonunique"
        raise UsageError(
            f"{kind} records of length {length} have room for {max(0, room)} occurrences that are not neighbours; "
            f"divisor {divisor} asks for up to {most}",
            hint="Use a greater length (nonunique: 7 or more) or a greater divisor.",
        )


def _allowed(size: int, *, hard: bool) -> range:
    return range(2, size // 2) if hard else range(2, size - 1)


@lru_cache(maxsize=4096)
def _rejectable(places: int, count: int) -> bool:
    return comb(places - count + 1, count) / comb(places, count) >= REJECTABLE


def _apart(rng: random.Random, allowed: range, count: int) -> list[int]:
    """Draw this many places of which no two are neighbours, all such sets alike."""
    if not _rejectable(len(allowed), count):
        compact = range(len(allowed) - count + 1)
        return [allowed[slot + rank] for rank, slot in enumerate(sorted(rng.sample(compact, count)))]
    while True:
        places = sorted(rng.sample(allowed, count))
        if all(right - left > 1 for left, right in pairwise(places)):
            return places


def file_name(samples: int, length: int, seed: int, *, hard: bool = False) -> str:
    """Published name of a data file."""
    return f"{'hard_' if hard else ''}sample_{samples}_len_{length}_seed_{seed}.jsonl"


def dumps(records: list[dict[str, str]]) -> str:
    """Render records as the published files hold them: one default ``json.dumps`` a line."""
    return "".join(json.dumps(record) + "\n" for record in records)


def write(
    out: str | Path,
    group: str,
    length: int,
    samples: int,
    seed: int,
    *,
    hard: bool = False,
    divisor: int = DIVISOR,
    vocab: str = VOCAB,
) -> Path:
    """Generate and write ``OUT/<group>/<published name>``; gives the path."""
    records = generate(group, length, samples, seed, hard=hard, divisor=divisor, vocab=vocab)
    path = Path(out).expanduser() / group / file_name(samples, length, seed, hard=hard)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dumps(records), encoding="utf-8")
    except OSError as exc:
        raise UsageError(f"it cannot be written: {exc.strerror or exc}", where=str(path)) from exc
    return path
