"""Where the user wrote what a run is made of, such as line 12 of a run file, so that an error can say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Literal, TypeAlias

from kshot.core.errors import KshotError

Kind: TypeAlias = Literal["file", "model", "dataset", "log", "setting", "gate"]
"""What was written; ``file`` is the run file itself, under an empty text."""
Origins: TypeAlias = Mapping[tuple[Kind, str], str]

_ORIGINS: ContextVar[Origins] = ContextVar("_ORIGINS", default=MappingProxyType({}))


@contextmanager
def written_at(origins: Origins) -> Iterator[None]:
    """Let errors of this block name these places."""
    token = _ORIGINS.set(origins)
    try:
        yield
    finally:
        _ORIGINS.reset(token)


def located(error: KshotError, kind: Kind, *texts: str) -> None:
    """Add to an error where the first of these texts was written; without texts, the file that the run comes from.

    A text that is not among the origins was given on the command line.
    """
    origins = _ORIGINS.get()
    place = next((origins[kind, text] for text in texts or ("",) if (kind, text) in origins), "")
    if place and not error.where.startswith(place):
        error.where = f"{place}: {error.where}" if error.where else place


@contextmanager
def naming(kind: Kind, *texts: str) -> Iterator[None]:
    """Add to an error of this block where these texts were written."""
    try:
        yield
    except KshotError as exc:
        located(exc, kind, *texts)
        raise
