"""Specs: how a user names a plug-in and its options, such as ``bm25,k1=1.2`` or ``mine.py:Class,size=3``.

A piece that contains ``=`` belongs to the name before it; other commas separate names.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from kshot.core.errors import KshotError, UsageError
from kshot.core.options import OptionsT, options_named, read_value
from kshot.core.shareable import without_secrets

T = TypeVar("T")

_FILE = re.compile(r"(.*?\.py)(?::(.*))?$", re.DOTALL)
_OPTION = re.compile(r"(.*)(?<!\\),\s*([A-Za-z_]\w*)\s*=((?:\\,|[^,])*)", re.DOTALL)
_COMMA = re.compile(r"(?<!\\),")
_PLUS = re.compile(r"(?<!\\)\+")
_OWN_URL = re.compile(r"@(?=https?://)", re.IGNORECASE)
_NEXT_URL = re.compile(r"\+(?=https?://)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Spec:
    """The parts of a spec: ``NAME[:ARGUMENT][,option=value…]`` or ``file.py[:ARGUMENT][,option=value…]``."""

    text: str
    name: str
    argument: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    file: Path | None = None

    @property
    def shown(self) -> str:
        """The text as a message shows it: without what may be a key or a password."""
        return without_secrets([self.text])[0]

    @property
    def option_text(self) -> str:
        """The options as they are written after a name."""
        return option_text(self.options)


def option_text(options: Mapping[str, str]) -> str:
    r"""Write options as they follow a name: ``,k1=1.2,b=0.5``. A comma in a value is written ``\,``."""
    written = ((name, value.replace(",", "\\,")) for name, value in options.items())
    return "".join(f",{name}={value}" for name, value in written)


def parse_spec(text: str) -> Spec:
    """Split a spec into its parts. Only ``,NAME=VALUE`` at its end is an option: a path may contain other commas."""
    head, options = split_options(text)
    if found := _FILE.match(head):
        path = Path(found[1])
        with suppress(RuntimeError):  # ~name of a user that does not exist
            path = path.expanduser()
        return Spec(text, "", found[2] or "", options, path)
    name, _, argument = head.partition(":")
    return Spec(text, name, argument, options)


def without_options(text: str) -> str:
    """Return a text without the ``,NAME=VALUE`` options at its end, whatever they are: for names that are shown."""
    while found := _OPTION.fullmatch(text):
        text = found[1]
    return text


def split_options(text: str) -> tuple[str, dict[str, str]]:
    r"""Split the trailing ``,NAME=VALUE`` options from a text; a name that is given twice is an error.

    A comma in a value is written ``\,``.
    """
    given: dict[str, str] = {}
    rest = text
    while found := _OPTION.fullmatch(rest):
        rest, name, value = found.groups()
        if name in given:
            shown = text.partition(",")[0] if name == "header" else text  # the value of a header may be secret
            raise UsageError(f"the option {name!r} is given twice", where=shown)
        given[name] = value.replace("\\,", ",")
    return rest, dict(reversed(given.items()))


def split_names(text: str) -> list[str]:
    """Split ``a,b,x=1,c`` into ``a``, ``b,x=1`` and ``c``."""
    names: list[str] = []
    for piece in _COMMA.split(text):
        if "=" in piece and names:
            names[-1] += f",{piece}"
        elif piece.strip():
            names.append(piece.strip())
    return names


def split_values(text: str) -> list[str]:
    r"""Split the values of one option, which have ``+`` between them; a ``+`` in a value is written ``\+``."""
    return [part.replace("\\+", "+") for part in _PLUS.split(text)]


def join_values(values: Iterable[str]) -> str:
    """Write the values of one option as one text."""
    return "+".join(value.replace("+", "\\+") for value in values)


def split_urls(text: str) -> tuple[str, tuple[str, ...]]:
    """Split ``MODEL@URL+URL`` into the model and its servers; a plus belongs to an address unless another follows."""
    found = _OWN_URL.search(text)
    return (text[: found.start()], tuple(_NEXT_URL.split(text[found.end() :]))) if found else (text, ())


def own_urls(spec: Spec) -> tuple[str, ...]:
    """Return where a spec says that its servers are: no key or header of another server may go there."""
    urls = split_urls(spec.argument)[1] if spec.file is None else ()
    return urls or (tuple(split_values(spec.options["base_url"])) if "base_url" in spec.options else ())


# ---- making objects from options ----


def construct(factory: Callable[..., T], spec: Spec, *args: Any, **defaults: Any) -> T:
    """Call a class or function with the options of a spec; its annotations say how their texts are read.

    ``defaults`` (such as ``device``) are passed on if the factory takes them; the options of the spec override them.
    """
    options = chosen_options(factory, spec, len(args), defaults)
    try:
        return factory(*args, **options)
    except KshotError:
        raise
    except (Exception, SystemExit) as exc:  # a plug-in may raise anything
        raise UsageError(f"it cannot be made: {type(exc).__name__}: {exc}", where=spec.shown) from exc


def bind_options(function: Callable[..., T], spec: Spec, arguments: int = 1) -> Callable[..., T]:
    """Return a function of so many arguments with the options of a spec filled in."""
    return partial(function, **chosen_options(function, spec, arguments, {}))


def chosen_options(
    factory: Callable[..., Any], spec: Spec, positional: int, defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the keyword arguments for a class or function that gets so many positional arguments."""
    known = options_of(factory, positional=positional)
    for name in spec.options:
        if name not in known:
            hint = f"It knows: {', '.join(known)}." if known else "It has none."
            raise UsageError(f"there is no option {name!r}", where=spec.shown, hint=hint)
    chosen = {name: value for name, value in defaults.items() if name in known and value is not None}
    chosen |= {name: read_option(known[name], text, spec.shown) for name, text in spec.options.items()}
    missing = [name for name, each in known.items() if each.default is each.empty and name not in chosen]
    if missing:
        raise UsageError(f"it needs the option {missing[0]!r}", where=spec.shown, hint=f"Write …,{missing[0]}=VALUE.")
    return chosen


def with_options(settings: OptionsT, spec: Spec | None) -> OptionsT:
    """Return the settings of one dataset: those of the run, changed by the options of its spec."""
    if spec is None or not spec.options:
        return settings
    declared = options_named(type(settings), spec.options, where=spec.shown)
    changed: dict[str, Any] = {}
    for name, text in spec.options.items():
        kind = declared[name].kind.__name__
        annotation = f"Sequence[{kind}]" if declared[name].several else kind
        parameter = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
        changed[name] = read_value(name, declared[name], read_option(parameter, text, spec.shown))
    return settings.with_values(**changed)


_REST = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def positional_parameter(factory: Callable[..., Any], position: int) -> inspect.Parameter | None:
    """Return the parameter that takes the positional argument at this position, if there is one."""
    parameters = inspect.signature(factory).parameters.values()
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return positional[position] if position < len(positional) else None


def options_of(factory: Callable[..., Any], *, positional: int = 0) -> dict[str, inspect.Parameter]:
    """Return the options that a class or function takes besides its first positional arguments.

    A class that takes ``**options`` passes them on to its parents, so the options of the parents count too.
    """
    if not isinstance(factory, type):
        own = [each for each in inspect.signature(factory).parameters.values() if each.kind not in _REST]
        return {each.name: each for each in own[positional:]}
    found: dict[str, inspect.Parameter] = {}
    for cls in factory.__mro__:
        if "__init__" not in vars(cls) or cls is object:
            continue
        parameters = list(inspect.signature(vars(cls)["__init__"]).parameters.values())[1:]
        named = [each for each in parameters if each.kind not in _REST]
        placed = [each.name for each in named if each.kind is not each.KEYWORD_ONLY][:positional]
        for each in named:
            if each.name not in placed:
                found.setdefault(each.name, each)
        if not any(each.kind is each.VAR_KEYWORD for each in parameters):
            break
    return found


def read_option(parameter: inspect.Parameter, text: str, where: str) -> Any:
    """Read the text of an option as the annotation of its parameter says, or as the type of its default.

    Several values are written with ``+`` between them: ``k=1+10`` for ``Sequence[int]`` (see ``split_values``).
    """
    hint = parameter.annotation
    if hint is parameter.empty and parameter.default not in (None, parameter.empty):
        hint = type(parameter.default)
    kinds = _kinds(hint)
    names = [name for name, _ in kinds]
    if "None" in names and text.strip().lower() == "none":
        return None
    items = next((inner for name, inner in kinds if name in _SEQUENCES), None)
    scalars = [name for name in names if name not in _SEQUENCES and name != "None"]
    parts = split_values(text)
    if items is not None and (not scalars or (len(parts) > 1 and all(parts))):  # "c++" is one text
        return tuple(_read_value(parameter.name, items, part, where) for part in parts)
    return _read_value(parameter.name, scalars, text, where)


_Kind: TypeAlias = tuple[str, list[str]]
"""The name of a type, and the names of the types of its items."""


def _kinds(hint: Any) -> list[_Kind]:
    """Return the alternatives of an annotation, which may be a type or a text."""
    text = hint.__name__ if type(hint) is type else str(hint)
    try:
        return _alternatives(ast.parse(text, mode="eval").body)
    except SyntaxError:  # the repr of an object that is no type
        return []


def _alternatives(node: ast.expr) -> list[_Kind]:
    match node:
        case ast.BinOp(left, ast.BitOr(), right):
            return [*_alternatives(left), *_alternatives(right)]
        case ast.Subscript(value, inner):
            return _subscripted(_last_name(value), inner.elts if isinstance(inner, ast.Tuple) else [inner])
        case ast.Constant(None):
            return [("None", [])]
    return [(name, [])] if (name := _last_name(node)) else []


def _subscripted(name: str, parts: Sequence[ast.expr]) -> list[_Kind]:
    inner = [kind for part in parts for kind in _alternatives(part)]
    if name in {"Optional", "Union"}:
        return [*inner, ("None", [])] if name == "Optional" else inner
    return [(name, [each for each, _ in inner])]


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Attribute(_, name) | ast.Name(name):
            return name
    return ""


def _read_value(name: str, kinds: Sequence[str], text: str, where: str) -> Any:
    readable = [kind for kind in kinds if kind in _READERS]
    for kind in readable:
        with suppress(ValueError, KeyError):
            return _READERS[kind](text)
    if unreadable := [kind for kind in kinds if kind in _UNREADABLE]:
        if len(unreadable) == len(kinds):
            raise UsageError(
                f"the option {name!r} is a {unreadable[0]}, which cannot be written as text",
                where=where,
                hint="Write a class or function of your own that sets it, and name that: file.py:NAME.",
            )
    elif readable and len(readable) == len(kinds):
        what = " or ".join(_EXPECTED[kind] for kind in readable)
        raise UsageError(f"the option {name!r} is {text!r}; it must be {what}", where=where)
    return text


def finite_number(text: str) -> float:
    """Read a finite number."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_TRUTH = {"true": True, "yes": True, "1": True, "on": True, "false": False, "no": False, "0": False, "off": False}
_READERS: dict[str, Callable[[str], Any]] = {
    "bool": lambda text: _TRUTH[text.strip().lower()],
    "int": int,
    "float": finite_number,
}
_SEQUENCES = {"Sequence", "Iterable", "Collection", "list", "tuple", "set", "frozenset"}
_UNREADABLE = {"Callable", "Mapping", "dict"}
_EXPECTED = {"bool": "yes or no", "int": "a whole number", "float": "a number"}
