"""Turn plug-ins into models: full classes, classes with only the necessary members, and plain functions."""

from __future__ import annotations

import hashlib
import inspect
import pickle
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any, TypeAlias

from kshot.backends.texts import cut_at_stop
from kshot.core.content import BY_ADDRESS, MEDIA_KINDS
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
from kshot.core.reasoning import ending_early, opens_thoughts, without_thoughts
from kshot.core.records import Failed, Generate, Generated, Prompt, Request, Response

_MODEL_MEMBERS = ("name", "fingerprint", "answers", "serve")
_SEARCH_ENGINE_MEMBERS = ("name", "fingerprint", "over")


def as_model(given: Any, where: str = "") -> Model:
    """Return a model for what the user gives: a model, an object with the necessary members, or a callable."""
    if isinstance(given, (LanguageModel, SearchEngine)):
        return _checked(given, where)
    # A plug-in may be an object of any class, so only its attributes tell what it is.
    needed = _SEARCH_ENGINE_MEMBERS if hasattr(given, "over") else _MODEL_MEMBERS
    missing = [member for member in needed if getattr(given, member, None) is None]
    if not missing:
        return _checked(
            _PartialSearchEngine(given) if needed is _SEARCH_ENGINE_MEMBERS else _PartialModel(given), where
        )
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


def _checked(model: Model, where: str) -> Model:
    """Refuse a model whose name or fingerprint could not be written down, or whose answers are no types of request."""
    for member, value in {"name": model.name, "fingerprint": model.fingerprint}.items():
        if not isinstance(value, str) or not value or not value.isprintable():
            what = f"its {member} is {value!r:.60}; it must be a text without control characters"
            raise BackendError(what, where=where or type(model).__name__)
    if isinstance(model, LanguageModel):
        answers = model.answers
        if not isinstance(answers, tuple) or not answers or not all(isinstance(each, type) for each in answers):
            raise BackendError(
                f"its answers are {answers!r:.60}; they must be a tuple of request types, such as (Generate,)",
                where=model.name,
            )
    return model


class CallableModel:
    """A language model that calls a function from a prompt to a text, or to a ``Generated`` that says more of it.

    The function gets the text of the prompt. One whose parameter is annotated with ``Prompt`` gets the whole record,
    with its messages, images, sounds and videos; the others cannot read those.
    Its fingerprint covers the code of the function and of its file, and the values that it was made with: defaults, the
    variables of a closure, the arguments of a ``partial``, the attributes of an object.
    """

    answers = (Generate,)
    notes = ()

    def __init__(self, function: Callable[[Any], str | Generated | Failed], name: str = "") -> None:
        """Take the function; ``name`` is the spec that names it."""
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            raise UsageError("an async function cannot be a model", where=name, hint="Write a plain function.")
        try:
            inspect.signature(function).bind("prompt")
        except TypeError as exc:
            raise UsageError(f"it cannot be called with a prompt: {exc}", where=name) from exc
        except ValueError:  # some built-in functions have no signature
            pass
        called = getattr(function, "__qualname__", type(function).__qualname__)  # a callable object has none
        self.name = name or called
        self.fingerprint = f"callable {called} {function_digest(function)}"
        self._function, self._whole = function, _takes_prompt(function)
        self.abilities = Abilities(media=frozenset({*MEDIA_KINDS, BY_ADDRESS})) if self._whole else Abilities()

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response]]:
        """Call the function for each prompt; the answer ends before the first stop text."""
        for request in queue:
            assert isinstance(request, Generate)  # noqa: S101 - the engine asks only what ``answers`` lists
            found = self._function(request.prompt if self._whole else request.prompt.text)
            if isinstance(found, Failed):  # this sample has no reply, and the run goes on
                yield request, found
                continue
            reply = found if isinstance(found, Generated) else Generated(found)
            yield request, _cut(reply, request) if isinstance(reply.text, str) else reply

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _takes_prompt(function: Any) -> bool:
    """Whether the first parameter of a function is annotated with ``Prompt``."""
    try:  # in files with ``from __future__ import annotations`` they are texts
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except Exception:  # noqa: BLE001 - an annotation may name anything, also what is not there
        return False
    return any(each.annotation is Prompt for each in islice(parameters, 1))


def _cut(reply: Generated, request: Generate) -> Generated:
    """Return a reply without its thoughts, and without what comes from the first stop text on."""
    reply = without_thoughts(reply, opened=opens_thoughts(request.prompt.text))
    short = cut_at_stop(reply.text, request.stop)
    return reply if short is None else ending_early(reply, short)


def _of_wrapped(name: str, *default: Any) -> Any:
    """Return a property that is that of the wrapped object; with a default, the object may leave it out."""
    return property(lambda self: getattr(self._wrapped, name, *default))


class _Wrapper:
    """Wraps an object, perhaps under another name, and supplies the members that it may leave out."""

    def __init__(self, wrapped: Any, name: str | None = None) -> None:
        self._wrapped, self._name = wrapped, name

    @property
    def name(self) -> Any:
        return self._wrapped.name if self._name is None else self._name

    fingerprint = _of_wrapped("fingerprint")

    def close(self) -> None:
        if callable(close := getattr(self._wrapped, "close", None)):
            close()


class _PartialModel(_Wrapper):
    """An object with the necessary members of a language model."""

    abilities = _of_wrapped("abilities", Abilities())
    notes = _of_wrapped("notes", ())
    in_background = _of_wrapped("in_background", False)  # noqa: FBT003 - its default

    @property
    def answers(self) -> Any:
        found = self._wrapped.answers
        return tuple(found) if isinstance(found, list) else found

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response] | None]:
        found: Iterator[tuple[Request, Response] | None] = self._wrapped.serve(queue)
        return found


class _PartialSearchEngine(_Wrapper):
    """An object with the necessary members of a search engine."""

    def over(self, corpus: Corpus, store: IndexStore) -> Backend:
        found: Backend = self._wrapped.over(corpus, store)
        return found if self._name is None else _PartialModel(found, self._name)


def renamed(model: Model, name: str) -> Model:
    """Return a model under another name: two models with different options must not share a name."""
    return (_PartialModel if isinstance(model, LanguageModel) else _PartialSearchEngine)(model, name)


# ---- a digest of everything that decides what a function returns: its code, and what it was made with ----

Seen: TypeAlias = dict[int, tuple[int, Any]]
"""The objects that were described, by id, with their numbers; they stay alive, so that no id is used twice."""


def function_digest(function: Callable[..., Any]) -> str:
    """Return the digest: the same in every process, and another one for a function that may answer differently."""
    described = repr(_description(function, {}))
    return hashlib.blake2b(described.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _description(value: Any, seen: Seen) -> Any:
    """Describe a value by plain values; an object that refers to itself is described once."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return [type(value).__name__, value]
    if id(value) in seen:
        return ["seen", seen[id(value)][0]]
    seen[id(value)] = len(seen), value
    if isinstance(value, (FunctionType, MethodType, BuiltinFunctionType, partial)):
        return _callable(value, seen)
    return [type(value).__name__, *_items(value, seen)] if isinstance(value, _CONTAINERS) else _object(value, seen)


_CONTAINERS = (list, tuple, set, frozenset, dict)


def _items(value: Any, seen: Seen) -> list[Any]:
    match value:
        case set() | frozenset():
            return sorted(repr(_description(each, seen)) for each in value)
        case dict():
            return [(_description(key, seen), _description(each, seen)) for key, each in value.items()]
    return [_description(each, seen) for each in value]


def _callable(value: FunctionType | MethodType | BuiltinFunctionType | partial[Any], seen: Seen) -> list[Any]:
    match value:
        case partial():
            return ["partial", *(_description(each, seen) for each in (value.func, value.args, value.keywords))]
        case MethodType():
            return ["method", _description(value.__func__, seen), _description(value.__self__, seen)]
        case BuiltinFunctionType():
            return ["built in", value.__module__, value.__qualname__]
        case FunctionType():
            cells = [_contents(cell) for cell in value.__closure__ or ()]
            made_with = (cells, value.__defaults__, value.__kwdefaults__, vars(value))
            # two lambdas may stand on one line, and then have the same source
            code = _code(value, seen) if value.__name__ == "<lambda>" else None
            return [value.__qualname__, _source(value, seen), code, *(_description(each, seen) for each in made_with)]


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return None


def _object(value: Any, seen: Seen) -> list[Any]:
    """Describe a class, or an object by its class and state; one that shows no state is like no other."""
    if isinstance(value, type):
        return ["class", value.__qualname__, _source(value, seen)]
    slots = [name for cls in type(value).__mro__ for name in vars(cls).get("__slots__", ())]
    state = {name: getattr(value, name) for name in slots if hasattr(value, name)}  # a slot may be empty
    if hasattr(value, "__dict__") or state:
        own = {**(vars(value) if hasattr(value, "__dict__") else {}), **state}
        return [type(value).__qualname__, _source(type(value), seen), _description(own, seen)]
    try:
        return [type(value).__qualname__, pickle.dumps(value, protocol=4)]
    except Exception:  # noqa: BLE001 - an object may refuse in any way
        return [type(value).__qualname__, secrets.token_hex(16)]


def _code(function: FunctionType, seen: Seen) -> Any:
    """Return the compiled code of a function, which differs between versions of Python."""
    code = function.__code__
    return (
        code.co_code,
        _description([each for each in code.co_consts if not inspect.iscode(each)], seen),
        code.co_names,
    )


def _source(target: Any, seen: Seen) -> Any:
    """Return the source of a function or class, and of its module; else its compiled code."""
    try:
        own = inspect.getsource(target)
    except (OSError, TypeError):  # typed into a console, or built in
        return _code(target, seen) if isinstance(target, FunctionType) else target.__module__
    try:
        return own, inspect.getsource(inspect.getmodule(target) or target)
    except (OSError, TypeError):
        return own
