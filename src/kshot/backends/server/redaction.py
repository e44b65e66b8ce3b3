"""Secrets in texts: a server may quote a key in any spelling, in other letters, or cut off at either end."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import takewhile
from typing import Any, NamedTuple
from urllib.parse import quote

_MIN_KEY_CHARACTERS, _MIN_ALPHABETIC_KEY_CHARACTERS = 8, 16
"""A shorter key, or a shorter one of letters alone, may be any word (EMPTY, ollama) and is not removed from texts."""
_MIN_PIECE_CHARACTERS = 12
"""So much of a key is removed wherever it stands; of a shorter key, all of it."""
_BLOCK = 6


class _Place(NamedTuple):
    """Where a block of characters stands in a spelling, and how much of the spelling is removed from texts."""

    spelling: str
    offset: int
    fewest: int


class _Index(NamedTuple):
    places: dict[str, list[_Place]]
    """Every block of every spelling."""
    step: int
    """Any piece that is to be removed holds a whole block that begins at a multiple of this."""


def is_secret(text: str) -> bool:
    """Whether a text is long enough to be removed wherever it stands."""
    return len(text) >= (_MIN_ALPHABETIC_KEY_CHARACTERS if text.isalpha() else _MIN_KEY_CHARACTERS)


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """Return the text without any long piece of a secret."""
    places, step = _index(secrets)
    folded = _folded(text)
    if places.keys().isdisjoint(folded[at : at + _BLOCK] for at in range(0, len(folded), step)):
        return text
    kept, end = [], 0
    for start, stop in _spans(folded, places, step):
        kept.append(text[end:start])
        end = stop
    return "…".join([*kept, text[end:]])


def _spans(folded: str, places: dict[str, list[_Place]], step: int) -> Iterator[tuple[int, int]]:
    end = 0
    for at in range(0, len(folded), step):
        found = places.get(folded[at : at + _BLOCK]) if at >= end else None
        spans = [span for place in found or () if (span := _span(folded, at, place))]
        if spans:
            start, end = max(end, min(start for start, _ in spans)), max(stop for _, stop in spans)
            yield start, end


def _span(folded: str, at: int, place: _Place) -> tuple[int, int] | None:
    """Return from where to where the text agrees with a spelling, if that is long enough."""
    spelling, offset, fewest = place
    before = _agreeing(folded[max(0, at - offset) : at][::-1], spelling[:offset][::-1])
    after = _agreeing(folded[at : at + len(spelling) - offset], spelling[offset:])
    return (at - before, at + after) if before + after >= fewest else None


def _agreeing(one: str, other: str) -> int:
    """Return how many characters two texts begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _folded(text: str) -> str:
    """Return the text in small letters, of the same length."""
    small = text.lower()
    return small if len(small) == len(text) else text.replace("\u0130", "i").lower()  # only this one gets longer


@lru_cache
def _index(secrets: tuple[str, ...]) -> _Index:
    places: dict[str, list[_Place]] = {}
    step = _MIN_PIECE_CHARACTERS - _BLOCK + 1
    keys = {part for secret in secrets for part in _parts(secret)}
    spellings = {(_folded(spelling), len(key)) for key in keys for spelling in _spelled(key)}
    for spelling, characters in sorted(spellings):
        fewest = len(spelling) * min(_MIN_PIECE_CHARACTERS, characters) // characters
        step = min(step, fewest - _BLOCK + 1)
        for offset in range(len(spelling) - _BLOCK + 1):
            places.setdefault(spelling[offset : offset + _BLOCK], []).append(_Place(spelling, offset, fewest))
    return _Index(places, step)


def _parts(value: str) -> Iterator[str]:
    """Yield what is secret of a value: all of it, what follows ``Bearer``, and what ``Basic`` encodes."""
    parts = [value, *value.split()[1:]]
    for text in value.split()[1:]:
        try:
            plain = base64.b64decode(text, validate=True).decode()
        except (binascii.Error, ValueError):
            continue
        parts += [plain, plain.partition(":")[2]]
    yield from filter(is_secret, parts)


def _spelled(key: str) -> Iterator[str]:
    yield from (key, quote(key), quote(key, safe=""), json.dumps(key)[1:-1], key.encode().hex())
    for lead in range(3):  # where the key begins within a group of three bytes
        encoded = base64.b64encode(b"\0" * lead + key.encode()).decode().rstrip("=")
        end = len(encoded) - 1 if (lead + len(key)) % 3 else len(encoded)  # the last sign depends on what follows
        for text in (encoded, encoded.replace("+", "-").replace("/", "_")):
            yield text[(0, 2, 3)[lead] : end]


def redacted_json(body: Any, redact: Callable[[str], str]) -> Any:
    """Return the same JSON with every text in it redacted."""
    if isinstance(body, str):
        return redact(body)
    if isinstance(body, list):
        return [redacted_json(item, redact) for item in body]
    if isinstance(body, Mapping):
        return {redact(name): redacted_json(value, redact) for name, value in body.items()}
    return body
