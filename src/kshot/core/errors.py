"""Errors that a person can act on: what was wrong, where the user wrote it, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Literal, TypeAlias

from kshot.core.visible import one_line

_MOST_SHOWN = 300


class KshotError(Exception):
    """An error that the user can fix. ``str()`` gives the message that the command line shows."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        """State what is wrong, where it is (file, dataset, row), and what to do about it."""
        self.what, self.where, self.hint = what, where, hint
        super().__init__(what)

    def __str__(self) -> str:
        """Compose ``where: what. hint`` on one line; names and texts of strangers are shown, not obeyed."""
        text = f"{self.where}: {self.what}" if self.where else self.what
        return one_line(f"{text.rstrip('.')}. {self.hint}" if self.hint else text)


class UsageError(KshotError):
    """An option or argument that cannot be used."""


class BadValue(UsageError, ValueError):  # noqa: N818 - config files know it as AISBenchValueError
    """A value that is not possible, such as the id of a training row that does not exist."""


class DataError(KshotError):
    """A dataset, row, template or class that cannot be used."""


class BackendError(KshotError):
    """A model or index that cannot be opened, or cannot answer a request."""


class RunError(KshotError):
    """A run folder that cannot be written, read or continued."""


class MissingExtra(KshotError):  # noqa: N818 - it names what is missing
    """Packages of kshot's extras that are needed and not installed."""

    def __init__(self, missing: Mapping[str, Sequence[str]], extras: Sequence[str]) -> None:
        """Take the packages by what needs them, and the extras that one command installs."""
        needs = [f"{purpose} needs the {_packages(names)}" for purpose, names in missing.items()]
        several = len({name for names in missing.values() for name in names}) > 1
        command = f"pip install 'kshot[{','.join(extras)}]'"
        super().__init__("; ".join(needs), hint=f"Install {'them' if several else 'it'}: {command}")


def unforeseen(exc: BaseException) -> str:
    """Return the message for an error that is not kshot's: the system's for a file, else that it is a fault."""
    cause = exc.__context__ if isinstance(exc, RuntimeError) else exc  # as which pathlib tells a circle of links
    if isinstance(cause, OSError) and isinstance(cause.filename, str):
        return f"{one_line(cause.filename)[:_MOST_SHOWN]}: {cause.strerror}"
    return f"{type(exc).__name__}: {exc}. This is a fault in kshot or in your code; KSHOT_DEBUG=1 shows where."


def _packages(names: Sequence[str]) -> str:
    *before, last = map(repr, names)
    return f"packages {', '.join(before)} and {last}" if before else f"package {last}"


# ---- where the user wrote what a run is made of, such as line 12 of a run file ----

OriginKind: TypeAlias = Literal["file", "model", "dataset", "log", "setting", "gate"]
"""What was written; ``file`` is the run file itself, under an empty text."""
Origins: TypeAlias = Mapping[tuple[OriginKind, str], str]

_ORIGINS: ContextVar[Origins] = ContextVar("_ORIGINS", default=MappingProxyType({}))


@contextmanager
def written_at(origins: Origins) -> Iterator[None]:
    """Let errors of this block name these places."""
    token = _ORIGINS.set(origins)
    try:
        yield
    finally:
        _ORIGINS.reset(token)


def located(error: KshotError, kind: OriginKind, *texts: str) -> None:
    """Add to an error where the first of these texts was written; without texts, the file that the run comes from.

    A text that is not among the origins was given on the command line.
    """
    origins = _ORIGINS.get()
    place = next((origins[kind, text] for text in texts or ("",) if (kind, text) in origins), "")
    if place and not error.where.startswith(place):
        error.where = f"{place}: {error.where}" if error.where else place


@contextmanager
def naming(kind: OriginKind, *texts: str) -> Iterator[None]:
    """Add to an error of this block where these texts were written."""
    try:
        yield
    except KshotError as exc:
        located(exc, kind, *texts)
        raise
