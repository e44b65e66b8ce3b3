"""From what a user writes, such as ``hybrid:bm25+dense``, to the search engine.

    SEARCH_ENGINE = fts5 | bm25[:disk][OPTIONS] | dense[:MODEL][OPTIONS] | late[:MODEL][OPTIONS]
                  | hybrid[:FUSION][:PART+PART…] | rerank:MODEL[OPTIONS]@SEARCH_ENGINE | replay:FILE[#SYSTEM]
                  | NAME[:ARGUMENT][OPTIONS]
    PART          = SEARCH_ENGINE[,weight=NUMBER]
    OPTIONS       = ,NAME=VALUE …

The name of a MODEL may contain any of these marks: ``+`` and ``@`` separate only before the name of a search engine,
and ``,`` only before NAME=.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from kshot.backends.adapters import as_model
from kshot.backends.search.search_engine import IndexSearchEngine
from kshot.core.errors import UsageError
from kshot.core.extras import require
from kshot.core.protocols import SearchEngine
from kshot.core.registry import Entry, Registry
from kshot.core.specs import Spec, construct, finite_number, options_of, split_options
from kshot.index.model_folders import MINILM, encoder_packages
from kshot.index.tantivy import TANTIVY
from kshot.index.words import word_packages

SharedOptions: TypeAlias = Mapping[str, Any]
"""Options for every part that knows them, such as ``device``; those in the spec of a part override them."""
DEFAULT_HYBRID = "zscore:bm25,stem=english+dense+late"
"""Its encoder was trained on English, so its BM25 stems English words; chosen on the handbook (docs/passages.md)."""

SEARCH_ENGINES = Registry(
    "search-engines",
    "search engine",
    [
        Entry(
            "fts5", "kshot.backends.search.fts5:Fts5", "SQLite's full-text search: small corpora, nothing to install"
        ),
        Entry(
            "bm25",
            "kshot.backends.search.bm25:Bm25",
            "BM25 in mapped memory, or on disk (tantivy; it takes stem and stopwords) (disk and stem: extra search)",
            "bm25[:disk][,k1=…,b=…,method=…,stem=english,stopwords=english]",
        ),
        Entry(
            "dense",
            "kshot.backends.search.neural:Dense",
            "one vector for each passage or window, by an encoder (extra: dense)",
            "dense[:MODEL][,OPTIONS]",
        ),
        Entry(
            "late",
            "kshot.backends.search.neural:Late",
            "one vector for each token, compared one by one (MaxSim) (extra: dense)",
            "late[:MODEL][,OPTIONS]",
        ),
        Entry(
            "hybrid",
            "kshot.backends.search.hybrid:Hybrid",
            "the sum of several search engines' scores; default: bm25,stem=english+dense+late (extras: search, dense)",
            "hybrid[:zscore|rrf|minmax][:SEARCH_ENGINE[,weight=…]+SEARCH_ENGINE…]",
        ),
        Entry(
            "rerank",
            "kshot.backends.search.neural:Rerank",
            "the best passages of another search engine, reranked by a cross-encoder (extra: dense)",
            "rerank:MODEL[,OPTIONS]@SEARCH_ENGINE",
        ),
        Entry(
            "replay",
            "kshot.backends.search.recorded:RecordedSearchEngine",
            "recorded runs: TREC, or JSON with lists of passage numbers",
            "replay:FILE[#SYSTEM]",
        ),
    ],
)


def make_search_engine(text: str, options: SharedOptions | None = None) -> SearchEngine:
    """Make the search engine that a spec names."""
    kind = search_engine_kind(text)
    if kind is None:
        known = ", ".join(entry.written for entry in SEARCH_ENGINES.entries())
        raise UsageError(f"there is no search engine {text!r}", hint=f"Write one of: {known}.")
    require(text, *search_engine_packages(text))
    return _READERS.get(kind, partial(_plain, kind))(text[len(kind) :], options or {})


def search_engine_kind(text: str) -> str | None:
    """Return the kind of search engine that a spec names, or None if it names none."""
    kind = re.split("[:,@+]", text, maxsplit=1)[0]
    return kind if SEARCH_ENGINES.find(kind) is not None else None


def search_engine_packages(text: str) -> tuple[str, ...]:
    """Return the packages of kshot's extras that a spec needs, those of its parts included; nothing is opened."""
    return tuple(name for kind, rest in _engines(text) for name in _packages(kind, rest))


def _packages(kind: str, rest: str) -> tuple[str, ...]:
    match kind:
        case "rerank":
            return encoder_packages(_rerank_parts(rest)[0].argument)
        case "dense" | "late":
            return encoder_packages(_parsed(kind, rest).argument or MINILM)
        case "bm25":
            spec = _parsed(kind, rest)
            on_disk = (TANTIVY,) if spec.argument == "disk" else ()
            return (*on_disk, *word_packages(spec.options.get("stem", "none")))
    return ()


def builds_shards(text: str) -> bool:
    """Whether a part of a spec has an index that is built in shards; that of a plug-in may be."""
    return any(
        kind not in {"fts5", "replay", "rerank"} and not (kind == "bm25" and _parsed(kind, rest).argument == "disk")
        for kind, rest in _engines(text)
    )


def varying_part(text: str) -> str | None:
    """Return the part of a spec whose scores may differ in the last digits with the queries beside it, or None.

    Encoders read texts in batches.
    """
    for kind, rest in _engines(text):
        exact = kind in {"fts5", "bm25", "replay"}
        if not exact and not (kind and "deterministic" in options_of(SEARCH_ENGINES.get(kind).load())):
            return kind + rest
    return None


# ---- parts of a spec ----


def _engines(text: str) -> Iterator[tuple[str, str]]:
    """Yield each search engine that a spec names, as its kind and the rest: of a hybrid its parts, without itself."""
    kind = search_engine_kind(text) or ""
    rest = text[len(kind) :]
    if kind == "hybrid":
        for part, _ in _hybrid_parts(rest)[1]:
            yield from _engines(part)
        return
    yield kind, rest
    if kind == "rerank":
        yield from _engines(_rerank_parts(rest)[1])


def _before_search_engine(mark: str) -> re.Pattern[str]:
    """Match this mark where the name of a search engine follows."""
    names = "|".join(re.escape(entry.name) for entry in SEARCH_ENGINES.entries())
    return re.compile(rf"{re.escape(mark)}(?=(?:{names})(?:[:,@+]|$))")


def _parsed(kind: str, rest: str) -> Spec:
    """Take apart what stands behind the kind: ``:ARGUMENT,name=value``."""
    text, options = split_options(rest)
    if text and not text.startswith(":"):
        names = ", ".join(entry.name for entry in SEARCH_ENGINES.entries())
        raise UsageError(
            f"{text!r} cannot be understood",
            where=f"{kind}{rest}",
            hint=f"Options are ,NAME=VALUE; a hybrid joins search engines by +: {names}.",
        )
    return Spec(f"{kind}{rest}", kind, text[1:], options)


def _plain(kind: str, rest: str, options: SharedOptions) -> SearchEngine:
    """Make ``NAME[:ARGUMENT][,name=value…]``: a search engine that is built in, or one of an installed package."""
    spec = _parsed(kind, rest)
    argument = [spec.argument] if spec.argument else []
    made = as_model(construct(SEARCH_ENGINES.get(kind).load(), spec, *argument, **options), spec.text)
    if not isinstance(made, SearchEngine):
        raise UsageError(
            "it is not a search engine", where=spec.shown, hint="A search engine has name, fingerprint and over."
        )
    return made


def _fts5(rest: str, options: SharedOptions) -> SearchEngine:
    spec = _parsed("fts5", rest)
    if spec.argument:
        raise UsageError(f"nothing can follow its name: {spec.argument!r}", where=spec.shown)
    return _plain("fts5", rest, options)


def _bm25(rest: str, options: SharedOptions) -> SearchEngine:
    from kshot.backends.search.bm25 import Bm25, Bm25Disk

    spec = _parsed("bm25", rest)
    if spec.argument not in {"", "disk"}:
        raise UsageError(f"there is no bm25 {spec.argument!r}", where=spec.shown, hint="Write bm25 or bm25:disk.")
    return construct(Bm25Disk if spec.argument else Bm25, spec, **options)


def _rerank(rest: str, options: SharedOptions) -> SearchEngine:
    from kshot.backends.search.neural import Rerank

    spec, search_engine = _rerank_parts(rest)
    return construct(Rerank, spec, spec.argument, _part(search_engine, options), **options)


def _rerank_parts(rest: str) -> tuple[Spec, str]:
    """Return the spec of the cross-encoder, and that of the search engine whose passages it reads."""
    head, *tail = _before_search_engine("@").split(rest, maxsplit=1)
    spec = _parsed("rerank", head)
    if not spec.argument or not tail:
        where = f"rerank{rest}"
        raise UsageError("it needs a model and a search engine", where=where, hint="Write rerank:MODEL@SEARCH_ENGINE.")
    return spec, tail[0]


def _hybrid(rest: str, options: SharedOptions) -> SearchEngine:
    from kshot.backends.search.hybrid import Hybrid

    fusion, parts = _hybrid_parts(rest)
    made = Hybrid([_part(part, options) for part, _ in parts], fusion=fusion, weights=[weight for _, weight in parts])
    if not rest:
        made.name = "hybrid"  # tables show it as it was written; its fingerprint names the parts
    return made


def _hybrid_parts(rest: str) -> tuple[str, list[tuple[str, float]]]:
    """Return how scores are made comparable, and the spec and weight of each part."""
    from kshot.backends.search.hybrid import FUSIONS

    where = f"hybrid{rest}"
    if rest and not rest.startswith(":"):
        raise UsageError(f"{rest!r} cannot be understood", where=where, hint="Write hybrid:bm25+dense.")
    fusion, _, parts = (rest[1:] or DEFAULT_HYBRID).partition(":")
    if fusion not in FUSIONS:
        fusion, parts = "zscore", rest[1:]
    parts = parts or DEFAULT_HYBRID.partition(":")[2]
    found = []
    for part in _before_search_engine("+").split(parts):
        if search_engine_kind(part) == "hybrid":
            raise UsageError("a hybrid cannot be part of a hybrid", where=where)
        text, given = split_options(part)
        weight = given.pop("weight", "1")
        try:
            number = finite_number(weight)
        except ValueError:
            raise UsageError(f"the weight of {text!r} is {weight!r}; it must be a number", where=where) from None
        found.append((text + "".join(f",{name}={value}" for name, value in given.items()), number))
    return fusion, found


def _part(text: str, options: SharedOptions) -> IndexSearchEngine:
    """Make a search engine that can be part of another one."""
    made = make_search_engine(text, options)
    if not isinstance(made, IndexSearchEngine):
        raise UsageError(
            "it cannot be part of another search engine", where=text, hint="It must subclass kshot.IndexSearchEngine."
        )
    return made


def _replay(rest: str, _options: SharedOptions) -> SearchEngine:
    from kshot.backends.search.recorded import RecordedSearchEngine

    if not rest.startswith(":") or rest == ":":
        raise UsageError("it needs a file", where=f"replay{rest}", hint="Write replay:FILE or replay:FILE#SYSTEM.")
    return RecordedSearchEngine(rest[1:])


_READERS: dict[str, Callable[[str, SharedOptions], SearchEngine]] = {
    "fts5": _fts5,
    "bm25": _bm25,
    "hybrid": _hybrid,
    "rerank": _rerank,
    "replay": _replay,
}
"""How specs are read that are not ``NAME[:ARGUMENT][,name=value…]``."""
