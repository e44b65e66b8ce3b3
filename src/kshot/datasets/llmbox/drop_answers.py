"""The answers of a row of DROP as its own files have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def get_answers(doc: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the answer of a row and those of its validators, each as a tuple of texts and each once."""
    return list(dict.fromkeys(_parsed(each) for each in (doc["answer"], *_validated(doc["validated_answers"]))))


def _validated(columns: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the validators' answers, which a row lists column by column."""
    names = ("number", "date", "spans")
    for values in zip(*(columns[name] for name in names), strict=True):
        yield dict(zip(names, values, strict=True))


def _parsed(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a number, else the spans, else a date as day, month and year."""
    if answer["number"] != "":
        return (str(answer["number"]),)
    if answer["spans"]:
        return tuple(answer["spans"])
    return (" ".join(str(answer["date"][part]) for part in ("day", "month", "year")).strip(),)
