"""Retrievers by spec, and as a function from a test row to its examples: what front ends use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.registry import Entry, Registry
from kshot.core.specs import Spec, options_of, parse_spec, read_option
from kshot.retrievers.base import Retriever


def _is_retriever(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, Retriever)


RETRIEVERS = Registry(
    "retrievers",
    "retriever",
    [
        Entry("zero", "kshot.retrievers.simple:ZeroRetriever", "no examples"),
        Entry(
            "fixk",
            "kshot.retrievers.simple:FixKRetriever",
            "the training rows you name (fix_id_list), the same for every row; by default the first ones",
        ),
        Entry(
            "random",
            "kshot.retrievers.simple:RandomRetriever",
            "a seeded draw without replacement from the example split",
        ),
        Entry(
            "bm25",
            "kshot.retrievers.bm25:BM25Retriever",
            "the training rows with the highest BM25 score for the words of the row",
        ),
        Entry(
            "topk",
            "kshot.retrievers.embedding:TopkRetriever",
            "the training rows whose embeddings are nearest to the row's",
        ),
        Entry(
            "mmr",
            "kshot.retrievers.embedding:MMRRetriever",
            "near the row and unlike each other: maximal marginal relevance",
        ),
        Entry(
            "dpp",
            "kshot.retrievers.embedding:DPPRetriever",
            "near the row and unlike each other: greedy determinantal point process",
        ),
        Entry(
            "votek",
            "kshot.retrievers.embedding:VotekRetriever",
            "training rows that are near to many others, spread out; the same for every row",
        ),
        Entry(
            "window",
            "kshot.retrievers.simple:SlidingWindowRetriever",
            "the training rows just before the row's own position",
        ),
        Entry(
            "balanced",
            "kshot.retrievers.simple:BalancedRetriever",
            "a seeded draw with every label as often as the others",
        ),
        Entry(
            "lm_eval",
            "kshot.retrievers.simple:LMEvalRetriever",
            "a draw for every row from one stream, as lm-evaluation-harness draws (seed=1234)",
        ),
        Entry(
            "first_n",
            "kshot.retrievers.simple:FirstNRetriever",
            "the first rows of the example split, as lm-evaluation-harness's first_n",
        ),
    ],
    accepts=_is_retriever,
)


def select(retriever: Retriever) -> Callable[[int], list[int]]:
    """Return the retriever as a function from the number of a test row to the training rows to show before it.

    The first call computes the choice for all rows, so the order of calls changes nothing.
    """
    return lambda row: list(retriever.chosen[row])


def retriever_class(spec: Spec) -> type[Retriever]:
    """Return the class that a spec names: by its short name, by the name of the class, or in a file."""
    found, argument = (_entry(spec.name).load(), spec.argument) if spec.file is None else RETRIEVERS.load(spec)
    if argument:
        raise UsageError(f"only options can follow its name, not {argument!r}", where=spec.shown)
    if not _is_retriever(found):
        raise UsageError("it is not a retriever class", where=spec.shown, hint="Subclass kshot.Retriever.")
    kind: type[Retriever] = found
    return kind


def retriever_packages(text: str) -> tuple[str, ...]:
    """Return the packages of kshot's extras that the retriever of a spec needs."""
    spec = parse_spec(text)
    return retriever_class(spec).packages(spec.options)


def check_wanted(retriever: str | type[Retriever], wanted: int, *, where: str) -> None:
    """Refuse a retriever that has nothing to choose, because the number of examples is 0."""
    kind = retriever_class(parse_spec(retriever)) if isinstance(retriever, str) else retriever
    if kind.shows_examples and not wanted:
        raise UsageError(
            f"--retriever {kind.__name__ if isinstance(retriever, type) else retriever} has no examples to choose: "
            "their number is 0",
            where=where,
            hint="Add -k N.",
        )


def _entry(name: str) -> Entry:
    """Return the entry of a name, or that of a class: ``BM25Retriever`` and ``SlidingWindow`` are known too."""
    if (found := RETRIEVERS.find(name)) is not None:
        return found
    classes = {_short(entry.target.rpartition(":")[2]): entry for entry in RETRIEVERS.entries()}
    return classes.get(_short(name)) or RETRIEVERS.get(name.lower())


def _short(class_name: str) -> str:
    return class_name.lower().removesuffix("retriever")


def make(text: str, dataset: Any, ice_num: int = 1, seed: int | None = 43, **options: Any) -> Retriever:
    """Make the retriever that a spec names; ``fixk`` without a list takes the first ``ice_num`` training rows."""
    kind, chosen = _chosen(text, ice_num, seed, options)
    return kind(dataset, **chosen)


def as_config(text: str, ice_num: int, seed: int) -> dict[str, Any]:
    """Return a retriever as config files write one: ``dict(type=…, ice_num=…)``."""
    kind, chosen = _chosen(text, ice_num, seed, {})
    return {"type": kind, **chosen}


def _chosen(
    text: str, ice_num: int, seed: int | None, given: Mapping[str, Any]
) -> tuple[type[Retriever], dict[str, Any]]:
    """Return the class that a spec names, and its options: those of the run, of the caller, and of the spec."""
    spec = parse_spec(text)
    kind = retriever_class(spec)
    known = options_of(kind, positional=1)
    if unknown := sorted({*given, *spec.options} - set(known)):
        allowed = ", ".join(sorted(set(known) - {"ice_num", "seed"}))
        raise UsageError(f"the retriever {text!r} has no option {unknown[0]!r}", hint=f"Options: {allowed}.")
    of_run = {"ice_num": ice_num, "seed": seed, "fix_id_list": list(range(ice_num))}
    taken = [name for name in of_run if name in known and (name != "seed" or kind.takes_run_seed)]
    usual = {name: of_run[name] for name in taken}
    written = {name: read_option(known[name], value, spec.shown) for name, value in spec.options.items()}
    return kind, {**usual, **given, **written}


def with_seed(text: str, seed: int) -> str:
    """Return the spec of a retriever with the seed of one draw, where the seed of the run does not set it."""
    return text if retriever_class(parse_spec(text)).takes_run_seed else f"{text},seed={seed}"
