"""Turn plug-ins into models: full classes, classes with only the necessary members, and plain functions."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FunctionType, MethodType
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
_SEARCH_ENGINE_MEMBERS = ("name", "fingerprint", "over")


def as_model(given: Any, where: str = "") -> Model:
    """Return a model for what the user gives: a model, an object with the necessary members, or a callable."""
    if isinstance(given, (LanguageModel, SearchEngine)):
        return given
    # A plug-in may be an object of any class, so only its attributes tell what it is.
    needed = _SEARCH_ENGINE_MEMBERS if hasattr(given, "over") else _MODEL_MEMBERS
    missing = [member for member in needed if getattr(given, member, None) is None]
    if not missing:
        return _PartialSearchEngine(given) if needed is _SEARCH_ENGINE_MEMBERS else _PartialModel(given)
    if callable(given) and not isinstance(given, type) and not hasattr(given, "serve"):
        return CallableModel(given, where)
    if isinstance(given, type):
        raise UsageError(
            "this is a class, not a model", where=given.__name__, hint=f"Pass an instance: {given.__name__}()."
        )
    name = where or type(given).__name__
    raise BackendError(
        f"this is neither a language model nor a search engine: it has no {', '.join(missing)}",
        where=name,
        hint="A language model has name, fingerprint, answers and serve, or is a function from a prompt to a text.",
    )


class CallableModel:
    """A language model that calls a function from a prompt to a text.

    Its fingerprint covers the code of the function and of its file, and the values that it was made with: defaults, the
    variables of a closure, the arguments of a ``partial``, the attributes of an object.
    """

    answers = (Generate,)
    abilities = Abilities()
    notes = ()

    def __init__(self, function: Callable[[str], str], name: str = "") -> None:
        """Take the function; ``name`` is the spec that names it."""
        if inspect.iscoroutinefunction(function):
            raise UsageError("an async function cannot be a model", where=name, hint="Write a plain function.")
        try:
            inspect.signature(function).bind("prompt")
        except TypeError as exc:
            raise UsageError(f"it cannot be called with a prompt: {exc}", where=name) from exc
        except ValueError:  # some built-in functions have no signature
            pass
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
    """Hash what decides the answers of a callable: its code, and the values that it was made with."""
    described = repr(_description(function))
    return hashlib.blake2b(described.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _description(value: Any) -> Any:
    """Describe a value in a way that is the same in every process."""
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return value
        case list() | tuple():
            return [_description(each) for each in value]
        case dict():
            return [(_description(key), _description(each)) for key, each in value.items()]
        case FunctionType() | MethodType() | partial():
            return _callable_description(value)
    kind = value if isinstance(value, type) else type(value)
    own = vars(value) if kind is not value and hasattr(value, "__dict__") else {}  # an object of any class
    return [kind.__qualname__, _source(kind), _description(own)]


def _callable_description(value: FunctionType | MethodType | partial[Any]) -> list[Any]:
    match value:
        case partial():
            return ["partial", *map(_description, (value.func, value.args, value.keywords))]
        case MethodType():
            return [_description(value.__func__), _description(value.__self__)]
        case FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            made_with = [_description(each) for each in (cells, value.__defaults__, value.__kwdefaults__)]
            # two lambdas may stand on one line, and then have the same source
            code = _code(value) if value.__name__ == "<lambda>" else None
            return [value.__qualname__, _source(value), code, *made_with]


def _code(function: FunctionType) -> Any:
    """Return the compiled code of a function, which differs between versions of Python."""
    code = function.__code__
    return code.co_code, _description(code.co_consts), code.co_names


def _source(target: Any) -> Any:
    """Return the source of the module that defines a function or class, and its own; else its compiled code."""
    try:
        own = inspect.getsource(target)
    except (OSError, TypeError):  # typed into a console, or built in
        return _code(target) if isinstance(target, FunctionType) else None
    try:
        return own, inspect.getsource(inspect.getmodule(target) or target)
    except (OSError, TypeError):
        return own


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


class _PartialSearchEngine:
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


class _RenamedModel(_PartialModel):
    def __init__(self, given: Backend, name: str) -> None:
        super().__init__(given)
        self._name = name

    @property
    def name(self) -> str:
        return self._name


class _RenamedSearchEngine(_PartialSearchEngine):
    def __init__(self, given: SearchEngine, name: str) -> None:
        super().__init__(given)
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def over(self, corpus: Corpus, store: IndexStore) -> Backend:
        return _RenamedModel(super().over(corpus, store), self._name)


def renamed(model: Model, name: str) -> Model:
    """Return a model under another name: two models with different options must not share a name."""
    if isinstance(model, LanguageModel):
        return _RenamedModel(model, name)
    return _RenamedSearchEngine(model, name)
