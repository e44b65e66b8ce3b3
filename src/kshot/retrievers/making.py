"""Retrievers by name, and as a function from a test row to its examples: what front ends use."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import kshot.retrievers as house
from kshot.core.errors import UsageError
from kshot.retrievers.base import Retriever

CLASSES = {
    "zero": "ZeroRetriever",
    "fixk": "FixKRetriever",
    "random": "RandomRetriever",
    "bm25": "BM25Retriever",
    "topk": "TopkRetriever",
    "mmr": "MMRRetriever",
    "dpp": "DPPRetriever",
    "votek": "VotekRetriever",
    "window": "SlidingWindowRetriever",
    "balanced": "BalancedRetriever",
}


def select(retriever: Retriever) -> Callable[[int], list[int]]:
    """The retriever as a function: the number of a test row → the training rows to show before it.

    The whole choice is worked out at the first call, so the order of calls changes nothing.
    """

    def selector(row: int) -> list[int]:
        return list(retriever.chosen[row])

    return selector


def retriever_class(name: str) -> type[Retriever]:
    """The class of a retriever by its short name, or by the name of the class."""
    wanted = name.lower().removesuffix("retriever")
    by_class = {known.lower().removesuffix("retriever"): short for short, known in CLASSES.items()}
    short = wanted if wanted in CLASSES else by_class.get(wanted)
    if short is None:
        raise UsageError(f"there is no retriever {name!r}", hint=f"Retrievers: {', '.join(CLASSES)}.")
    found: type[Retriever] = getattr(house, CLASSES[short])
    return found


def make(name: str, dataset: Any, ice_num: int = 1, seed: int | None = 43, **options: Any) -> Retriever:
    """Make a retriever by name; ``fixk`` without a list takes the first ``ice_num`` training rows."""
    kind = retriever_class(name)
    known = accepted(kind)
    unknown = sorted(set(options) - known)
    if unknown:
        allowed = ", ".join(sorted(known - {"ice_num", "seed"}))
        raise UsageError(f"the retriever {name!r} has no option {unknown[0]!r}", hint=f"Options: {allowed}.")
    if "fix_id_list" in known:
        options.setdefault("fix_id_list", range(ice_num))
    return kind(dataset, **{"ice_num": ice_num, "seed": seed, **options})


def as_config(name: str, ice_num: int, seed: int) -> dict[str, Any]:
    """A retriever by name as config files write one: ``dict(type=…, ice_num=…)``."""
    kind = retriever_class(name)
    options = {"ice_num": ice_num, "seed": seed, "fix_id_list": list(range(ice_num))}
    known = accepted(kind)
    return {"type": kind, **{option: value for option, value in options.items() if option in known}}


_REST = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def accepted(kind: type[Retriever]) -> set[str]:
    """The options a retriever takes: its own and those it hands on to its parents."""
    names: set[str] = set()
    for cls in kind.__mro__:
        if "__init__" not in vars(cls) or cls is object:
            continue
        parameters = inspect.signature(vars(cls)["__init__"]).parameters.values()
        names |= {each.name for each in parameters if each.kind not in _REST}
    return names - {"self", "dataset"}
