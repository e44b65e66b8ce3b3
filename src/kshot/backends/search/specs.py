"""From what a user writes, such as ``hybrid:bm25+dense``, to the engine.

    ENGINE  = fts5 | bm25[:disk][OPTIONS] | dense[:MODEL][OPTIONS] | late[:MODEL][OPTIONS]
            | hybrid[:FUSION][:PART+PART…] | rerank:MODEL[OPTIONS]@ENGINE | replay:FILE[#SYSTEM]
    OPTIONS = ,NAME=VALUE …

A MODEL may have any of these marks in its name: ``+`` and ``@`` part only before the name of an engine, and ``,`` only
before NAME=.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kshot.backends.search.hybrid import FUSIONS, Hybrid
from kshot.backends.search.search_engine import Engine
from kshot.core.errors import UsageError

Options = Mapping[str, Any]
DEFAULT_HYBRID = "zscore:bm25,stem=english+dense+late"
"""Its encoder knows English, so its BM25 stems English words; chosen on the handbook (docs/passages.md)."""


class Entry(NamedTuple):
    """One kind of engine: how it is written, what it is, and which extra it needs."""

    spec: str
    text: str
    extra: str
    make: Callable[[str, Options], Engine]


def engine_of(spec: str, options: Options | None = None) -> Engine:
    """Make the engine that a spec names.

    ``options`` are for any part that knows them (such as ``device``); those in the spec go before them.
    """
    kind = is_engine(spec)
    if kind is None:
        known = ", ".join(entry.spec for entry in ENGINES.values())
        raise UsageError(f"there is no search engine {spec!r}", hint=f"Write one of: {known}.")
    return ENGINES[kind].make(spec[len(kind) :], options or {})


def is_engine(spec: str) -> str | None:
    """Give the kind of engine that a spec names, or nothing if it names none."""
    kind = re.split("[:,@+]", spec, maxsplit=1)[0]
    return kind if kind in ENGINES else None


# ---- parts of a spec ----


def _split_options(text: str) -> tuple[str, dict[str, str]]:
    """Take the trailing ``,NAME=VALUE`` from a text; a name given twice is an error."""
    given: dict[str, str] = {}
    while found := re.fullmatch(r"(.*),\s*([A-Za-z_]\w*)\s*=([^,]*)", text, re.DOTALL):
        text, name, value = found.groups()
        if name in given:
            raise UsageError(f"the option {name!r} is given twice")
        given[name] = value
    return text, given


def _before_engine(mark: str) -> re.Pattern[str]:
    """Where this mark stands before the name of an engine."""
    return re.compile(rf"{re.escape(mark)}(?=(?:{'|'.join(ENGINES)})(?:[:,@+]|$))")


def _model_and_options(rest: str, spec: str) -> tuple[str, dict[str, str]]:
    """What stands behind the kind: ``:MODEL,name=value``."""
    text, given = _split_options(rest)
    if text and not text.startswith(":"):
        raise UsageError(
            f"{text!r} cannot be understood",
            where=spec,
            hint=f"Options are ,NAME=VALUE; a hybrid joins engines by +: {', '.join(ENGINES)}.",
        )
    return text[1:], given


def _made(factory: Callable[..., Engine], spec: str, given: Mapping[str, str], shared: Options, *args: Any) -> Engine:
    """Call an engine's class with the options it knows."""
    known = {
        parameter.name: parameter
        for parameter in inspect.signature(factory).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    for name in given:
        if name not in known:
            hint = f"It knows: {', '.join(known)}." if known else "It has none."
            raise UsageError(f"there is no option {name!r}", where=spec, hint=hint)
    chosen = {name: value for name, value in shared.items() if name in known and value is not None}
    chosen.update({name: _value(known[name], value, spec) for name, value in given.items()})
    return factory(*args, **chosen)


def _value(parameter: inspect.Parameter, text: str, spec: str) -> Any:
    """Read an option's text as its type says."""
    hint = parameter.annotation
    kinds = (hint.__name__ if isinstance(hint, type) else str(hint)).replace(" ", "").split("|")
    if "None" in kinds and text.strip().lower() == "none":
        return None
    for kind, read in _READERS.items():
        if kind in kinds:
            try:
                return read(text)
            except (ValueError, KeyError):
                what = {"int": "a whole number", "float": "a number", "bool": "yes or no"}[kind]
                raise UsageError(f"the option {parameter.name!r} is {text!r}; it must be {what}", where=spec) from None
    return text


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_TRUTH = {"true": True, "yes": True, "1": True, "on": True, "false": False, "no": False, "0": False, "off": False}
_READERS: dict[str, Callable[[str], Any]] = {
    "bool": lambda text: _TRUTH[text.strip().lower()],
    "int": int,
    "float": _number,
}


# ---- the kinds ----


def _fts5(rest: str, options: Options) -> Engine:
    from kshot.backends.search.fts5 import Fts5

    name, given = _model_and_options(rest, f"fts5{rest}")
    if name:
        raise UsageError(f"nothing can follow its name: {name!r}", where=f"fts5{rest}")
    return _made(Fts5, f"fts5{rest}", given, options)


def _bm25(rest: str, options: Options) -> Engine:
    from kshot.backends.search.bm25 import Bm25
    from kshot.backends.search.bm25_disk import Bm25Disk

    spec = f"bm25{rest}"
    name, given = _model_and_options(rest, spec)
    if name not in {"", "disk"}:
        raise UsageError(f"there is no bm25 {name!r}", where=spec, hint="Write bm25 or bm25:disk.")
    return _made(Bm25Disk if name else Bm25, spec, given, options)


def _dense(rest: str, options: Options) -> Engine:
    from kshot.backends.search.dense import Dense

    model, given = _model_and_options(rest, f"dense{rest}")
    return _made(Dense, f"dense{rest}", given, options, *_named(model))


def _late(rest: str, options: Options) -> Engine:
    from kshot.backends.search.late import Late

    model, given = _model_and_options(rest, f"late{rest}")
    return _made(Late, f"late{rest}", given, options, *_named(model))


def _named(model: str) -> tuple[str, ...]:
    return (model,) if model else ()


def _rerank(rest: str, options: Options) -> Engine:
    from kshot.backends.search.rerank import Rerank

    spec = f"rerank{rest}"
    head, *tail = _before_engine("@").split(rest, maxsplit=1)
    model, given = _model_and_options(head, spec)
    if not model or not tail:
        raise UsageError("it needs a model and an engine", where=spec, hint="Write rerank:MODEL@ENGINE.")
    return _made(Rerank, spec, given, options, model, engine_of(tail[0], options))


def _hybrid(rest: str, options: Options) -> Engine:
    spec = f"hybrid{rest}"
    if rest and not rest.startswith(":"):
        raise UsageError(f"{rest!r} cannot be understood", where=spec, hint="Write hybrid:bm25+dense.")
    fusion, _, parts = (rest[1:] or DEFAULT_HYBRID).partition(":")
    if fusion not in FUSIONS:
        fusion, parts = "zscore", rest[1:]
    parts = parts or DEFAULT_HYBRID.partition(":")[2]
    engines, weights = [], []
    for part in _before_engine("+").split(parts):
        if is_engine(part) == "hybrid":
            raise UsageError("a hybrid cannot be part of a hybrid", where=spec)
        text, given = _split_options(part)
        weight = given.pop("weight", "1")
        try:
            weights.append(_number(weight))
        except ValueError:
            raise UsageError(f"the weight of {text!r} is {weight!r}; it must be a number", where=spec) from None
        engines.append(engine_of(text + "".join(f",{n}={v}" for n, v in reversed(given.items())), options))
    made = Hybrid(engines, fusion=fusion, weights=weights)
    if not rest:
        made.name = "hybrid"  # tables call it as it was written; its fingerprint tells the parts
    return made


def _replay(rest: str, options: Options) -> Engine:  # noqa: ARG001 - a recording has no options
    from kshot.backends.search.recorded import Recorded

    if not rest.startswith(":") or rest == ":":
        raise UsageError("it needs a file", where=f"replay{rest}", hint="Write replay:FILE or replay:FILE#SYSTEM.")
    return Recorded(rest[1:])


ENGINES: dict[str, Entry] = {
    "fts5": Entry("fts5", "SQLite's full-text search: small corpora, nothing to install", "", _fts5),
    "bm25": Entry(
        "bm25[:disk][,k1=…,b=…,method=…,stem=english,stopwords=english]",
        "BM25 in mapped memory (bm25s), or on disk (tantivy; it takes stem and stopwords)",
        "search",
        _bm25,
    ),
    "dense": Entry("dense[:MODEL][,OPTIONS]", "one vector a passage or window, by an encoder", "dense", _dense),
    "late": Entry("late[:MODEL][,OPTIONS]", "a vector a token, compared one by one (MaxSim)", "dense", _late),
    "hybrid": Entry(
        "hybrid[:zscore|rrf|minmax][:ENGINE[,weight=…]+ENGINE…]",
        "several engines' scores added; alone it is bm25,stem=english+dense+late",
        "search,dense",
        _hybrid,
    ),
    "rerank": Entry("rerank:MODEL[,OPTIONS]@ENGINE", "another engine's best, read again by a model", "dense", _rerank),
    "replay": Entry("replay:FILE[#SYSTEM]", "recorded runs: TREC, or JSON with lists of passage numbers", "", _replay),
}
"""Every kind of engine by its name."""
