"""What the names in a config stand for, outside the confined process."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from kshot.configs._stand_ins import FRAMEWORKS
from kshot.configs.confine import ConfigProcess
from kshot.core.errors import DataError

T = TypeVar("T")

INFERENCERS = {
    "GenInferencer": "gen",
    "PPLInferencer": "ppl",
    "LLInferencer": "ll",
    "SCInferencer": "gen",
    "CLPInferencer": "clp",
    "MultiTurnGenInferencer": "multiturn",
    "ChatInferencer": "multiturn",
}
"""Inferencers by how kshot asks the model."""

FRAMEWORK_INFERENCERS = {
    "AgentInferencer": "gen",
    "AttackInferencer": "gen",
    "BFCLV3FunctionCallInferencer": "functions",
    "LMMGenInferencer": "gen",
    "PPLOnlyInferencer": "loss",
    "InferencePPLOnlyInferencer": "spans",
}
"""Those that run for configs of the frameworks alone: kshot has nothing to add to a model there, or leaves it out."""


_LISTED = 40
"""Names that an error lists; of more, it has those that are close."""
_CLOSE = 0.85
"""How much of two names must be the same."""


class ImportedName(str):
    """The last part of a name that a config imported from another package; ``called`` is the whole name."""

    __slots__ = ("at", "called")
    called: str
    at: str

    def __new__(cls, called: str, at: str = "") -> ImportedName:  # noqa: PYI034 - Self came with Python 3.11
        """Keep the whole name, and where it was imported."""
        made = super().__new__(cls, called.rpartition(".")[2])
        made.called, made.at = called, at
        return made


class ConfigCallable:
    """A function or class of the config; it is called in the config's confined process, with plain values."""

    def __init__(self, process: ConfigProcess, number: int, name: str, kind: str) -> None:
        """Refer to what the confined process keeps under a number."""
        self.process, self.number, self.__name__, self.kind = process, number, name, kind

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        return self._named(lambda: self.process.call(self.number, args, kwargs))

    def method(self, options: dict[str, Any], method: str, **kwargs: Any) -> Any:
        """Make an object of it, and call a method with those arguments that the method has parameters for."""
        return self._named(lambda: self.process.method(self.number, options, method, kwargs))

    def _named(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except DataError as exc:
            exc.what = f"{self.__name__}: {exc.what}"
            raise

    def __repr__(self) -> str:
        """Show what it is called and in which file it is."""
        return f"<{self.kind} {self.__name__} of {self.process.path}>"


class Opaque:
    """A value of a config that is not plain data: a config may hold it, and kshot cannot use it."""

    def __init__(self, kind: str) -> None:
        """Keep what kind of value it was."""
        self.kind = kind

    def __repr__(self) -> str:
        """Say that it cannot be used."""
        return f"<a {self.kind} of the config, which cannot be used here>"


def short(kind: Any) -> str:
    """Return the last part of a name, however it is given: as text, as a name of the config, as a class or function."""
    if isinstance(kind, str):
        return str(kind).rpartition(".")[2]
    return str(getattr(kind, "__name__", kind))  # whatever a config gives as a type


def unknown(what: str, kind: Any, where: str, known: Iterable[str] = (), searched: str = "") -> NoReturn:
    """Raise the error that kshot has no equivalent of a name, with the names that it knows, or those that are close.

    ``searched``: a sentence on where else kshot looked for it, or could look.
    """
    called = kind.called if isinstance(kind, ImportedName) else kind if isinstance(kind, str) else short(kind)
    at = f" (imported at {kind.at})" if isinstance(kind, ImportedName) and kind.at else ""
    hint = " ".join(filter(None, (_names_known(short(kind), sorted(known)), searched)))
    raise DataError(f"kshot has no {what} {called}{at}", where=where, hint=hint)


def ambiguous_name(what: str, name: str, dotted: str) -> DataError:
    """Return the error for a bare name that several modules have; ``dotted`` lists the whole names."""
    return DataError(f"{name} is the name of more than one {what}", hint=f"Write the whole name: {dotted}.")


def _names_known(name: str, known: Sequence[str]) -> str:
    if len(known) <= _LISTED:
        return f"It has: {', '.join(known)}." if known else ""
    close = difflib.get_close_matches(name, known, cutoff=_CLOSE)
    return f"It has {' and '.join(close)}, which {'is' if len(close) == 1 else 'are'} close." if close else ""


def names_framework(value: Any, *frameworks: str) -> bool:
    """Whether a value mentions anything of AISBench or OpenCompass, or of one of them."""
    wanted = frameworks or FRAMEWORKS
    if isinstance(value, ImportedName):
        return value.called.partition(".")[0] in wanted
    if isinstance(value, str):
        return value.partition(".")[0] in wanted and "." in value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return any(names_framework(each, *frameworks) for each in parts)


def merged(*tables: Mapping[str, T]) -> dict[str, T]:
    """Join tables of names; a name in two of them is a mistake of kshot's own."""
    found: dict[str, T] = {}
    for table in tables:
        if twice := sorted(found.keys() & table.keys()):
            raise ValueError(f"two tables have the same names: {', '.join(twice)}")
        found |= table
    return found
