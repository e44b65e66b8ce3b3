"""What the names of a config stand for: kshot's own retrievers, templates, inferencers, evaluators and clean-ups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from kshot.configs.confine import Confined
from kshot.core.errors import DataError

INFERENCERS = {
    "GenInferencer": "gen",
    "AgentInferencer": "",
    "PPLInferencer": "ppl",
    "PPLOnlyInferencer": "",
    "LLInferencer": "ll",
    "SCInferencer": "gen",
    "CLPInferencer": "clp",
    "MultiTurnGenInferencer": "multiturn",
    "ChatInferencer": "multiturn",
}
"""Inferencers by how kshot asks; an empty text: known, and not to be had here."""

HOMES = ("ais_bench", "opencompass")


class Name(str):
    """The last part of a name that a config imported from another package; ``called`` is all of it."""

    __slots__ = ("at", "called")
    called: str
    at: str

    def __new__(cls, called: str, at: str = "") -> Name:  # noqa: PYI034 - Self is younger than 3.10
        """Keep the full name, and where it was imported."""
        made = super().__new__(cls, called.rpartition(".")[2])
        made.called, made.at = called, at
        return made


class Own:
    """A function or class of the config: called in the config's confined process, with plain values."""

    def __init__(self, confined: Confined, number: int, name: str, kind: str) -> None:
        """Refer to what the confined process keeps under a number."""
        self.confined, self.number, self.__name__, self.kind = confined, number, name, kind

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it over there."""
        return self._named(lambda: self.confined.call(self.number, args, kwargs))

    def method(self, made: dict[str, Any], method: str, **kwargs: Any) -> Any:
        """Make an object of it over there, and call a method with what it has parameters for."""
        return self._named(lambda: self.confined.method(self.number, made, method, kwargs))

    def _named(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except DataError as exc:
            exc.what = f"{self.__name__}: {exc.what}"
            raise

    def __repr__(self) -> str:
        """Show what it is called and where it lives."""
        return f"<{self.kind} {self.__name__} of {self.confined.path}>"


class Opaque:
    """A value of a config that is no plain data; mentioning it is fine."""

    def __init__(self, kind: str) -> None:
        """Remember what kind of value it was."""
        self.kind = kind

    def __repr__(self) -> str:
        """Say that it cannot be used."""
        return f"<a {self.kind} of the config, which cannot be used here>"


def short(kind: Any) -> str:
    """Give the last part of a name, however it is given: text, a name of the config, a class or function."""
    if isinstance(kind, str):
        return str(kind).rpartition(".")[2]
    return str(getattr(kind, "__name__", kind))


def unknown(what: str, kind: Any, where: str, known: Callable[[], Any] = tuple) -> NoReturn:
    """Say that kshot has no equivalent of a name that is now needed."""
    called = kind.called if isinstance(kind, Name) else short(kind)
    at = f" (imported at {kind.at})" if isinstance(kind, Name) and kind.at else ""
    listed = ", ".join(sorted(known()))
    raise DataError(f"kshot has no {what} {called}{at}", where=where, hint=f"It has: {listed}." if listed else "")


def from_home(value: Any) -> bool:
    """Whether a value mentions anything of AISBench or OpenCompass."""
    if isinstance(value, Name):
        return value.called.startswith(HOMES)
    if isinstance(value, str):
        return value.partition(".")[0] in HOMES and "." in value
    if isinstance(value, dict):
        return any(from_home(each) for each in value.values())
    return isinstance(value, (list, tuple)) and any(from_home(each) for each in value)
