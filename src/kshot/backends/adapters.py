"""Turn plug-ins into models: full classes, classes with only the necessary members, and plain functions."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kshot.core.corpus import Corpus
from kshot.core.errors import BackendError, UsageError
from kshot.core.protocols import (
    Abilities,
    Backend,
    IndexStore,
    LanguageModel,
    Model,
    RequestQueue,
    SearchEngine,
)
from kshot.core.records import Generate, Generated, Request, Response

_MODEL_MEMBERS = ("name", "fingerprint", "answers", "serve")
_ENGINE_MEMBERS = ("name", "fingerprint", "over")


def as_model(given: Any, where: str = "") -> Model:
    """Return a model for what the user gives: a model, an object with the necessary members, or a callable."""
    if isinstance(given, (LanguageModel, SearchEngine)):
        return given
    # A plug-in may be an object of any class, so only its attributes tell what it is.
    needed = _ENGINE_MEMBERS if hasattr(given, "over") else _MODEL_MEMBERS
    missing = [member for member in needed if getattr(given, member, None) is None]
    if not missing:
        return _PartialEngine(given) if needed is _ENGINE_MEMBERS else _PartialModel(given)
    if callable(given) and not isinstance(given, type) and not hasattr(given, "serve"):
        return CallableModel(given, where)
    name = where or type(given).__name__
    raise BackendError(
        f"this is neither a language model nor a search engine: it has no {', '.join(missing)}",
        where=name,
        hint="A language model has name, fingerprint, answers and serve, or is a function from a prompt to a text.",
    )


class CallableModel:
    """A language model that calls a function from a prompt to a text.

    Its fingerprint covers the code of the function, and for a function in a file the whole file.
    """

    answers = (Generate,)
    abilities = Abilities()
    notes = ()

    def __init__(self, function: Callable[[str], str], name: str = "") -> None:
        """Take the function; ``name`` is the spec that names it."""
        if inspect.iscoroutinefunction(function):
            raise UsageError("an async function cannot be a model", where=name, hint="Write a plain function.")
        called = getattr(function, "__qualname__", type(function).__qualname__)  # a callable object has none
        self.name = name or called
        self.fingerprint = f"callable {called} {_code_digest(function)}"
        self._function = function

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response]]:
        """Call the function for each prompt; a reply ends before the first stop text."""
        for request in queue:
            assert isinstance(request, Generate)  # noqa: S101 - the engine asks only what ``answers`` lists
            text = self._function(request.prompt.text)
            if isinstance(text, str):
                text = text[: min((at for stop in request.stop if (at := text.find(stop)) >= 0), default=len(text))]
            yield request, Generated(text)

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _code_digest(function: Callable[..., Any]) -> str:
    """Hash the source of a callable: its file, or else its own lines, or else its compiled code."""
    target = function if inspect.isroutine(function) else type(function)
    try:
        source = inspect.getsource(inspect.getmodule(target) or target)
    except (OSError, TypeError):  # typed into a console, or built in
        code = getattr(target, "__code__", None)
        source = repr(target) if code is None else repr((code.co_code, code.co_consts, code.co_names))
    return hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class _PartialModel:
    """Wraps an object with the necessary members of a language model, and supplies the others."""

    def __init__(self, given: Any) -> None:
        self._given = given

    @property
    def name(self) -> str:
        return str(self._given.name)

    @property
    def fingerprint(self) -> str:
        return str(self._given.fingerprint)

    @property
    def answers(self) -> tuple[type, ...]:
        return tuple(self._given.answers)

    @property
    def abilities(self) -> Abilities:
        found: Abilities = getattr(self._given, "abilities", Abilities())
        return found

    @property
    def notes(self) -> Sequence[str]:
        found: Sequence[str] = getattr(self._given, "notes", ())
        return found

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response]]:
        found: Iterator[tuple[Request, Response]] = self._given.serve(queue)
        return found

    def close(self) -> None:
        if callable(close := getattr(self._given, "close", None)):
            close()


class _PartialEngine:
    """Wraps an object with the necessary members of a search engine, and supplies the others."""

    def __init__(self, given: Any) -> None:
        self._given = given

    @property
    def name(self) -> str:
        return str(self._given.name)

    @property
    def fingerprint(self) -> str:
        return str(self._given.fingerprint)

    def over(self, corpus: Corpus, store: IndexStore) -> Backend:
        found: Backend = self._given.over(corpus, store)
        return found

    def close(self) -> None:
        if callable(close := getattr(self._given, "close", None)):
            close()


class RenamedModel(_PartialModel):
    """A model under the name that the user gave: two models with different options must not share a name."""

    def __init__(self, given: LanguageModel, name: str) -> None:
        """Take the model and its name."""
        super().__init__(given)
        self._name = name

    @property
    def name(self) -> str:
        """The name that the user gave."""
        return self._name
