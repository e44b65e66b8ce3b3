"""Which examples go into the prompt: ``RandomRetriever(dataset, ice_num=3, seed=123).retrieve()``.

Each retriever takes a dataset (``train`` and ``test`` rows) and returns a list of training row numbers for each test
row. A retriever is imported when its name is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kshot.retrievers.balanced import BalancedRetriever
    from kshot.retrievers.base import Retriever
    from kshot.retrievers.bm25 import BM25Retriever
    from kshot.retrievers.diverse import DPPRetriever, MMRRetriever
    from kshot.retrievers.making import RETRIEVERS, make, select
    from kshot.retrievers.simple import FixKRetriever, RandomRetriever, SlidingWindowRetriever, ZeroRetriever
    from kshot.retrievers.topk import TopkRetriever
    from kshot.retrievers.votek import VotekRetriever

__all__ = [
    "RETRIEVERS",
    "BM25Retriever",
    "BalancedRetriever",
    "DPPRetriever",
    "FixKRetriever",
    "MMRRetriever",
    "RandomRetriever",
    "Retriever",
    "SlidingWindowRetriever",
    "TopkRetriever",
    "VotekRetriever",
    "ZeroRetriever",
    "make",
    "select",
]

_MODULES = {
    "balanced": ("BalancedRetriever",),
    "base": ("Retriever",),
    "bm25": ("BM25Retriever",),
    "diverse": ("DPPRetriever", "MMRRetriever"),
    "making": ("RETRIEVERS", "make", "select"),
    "simple": ("FixKRetriever", "RandomRetriever", "SlidingWindowRetriever", "ZeroRetriever"),
    "topk": ("TopkRetriever",),
    "votek": ("VotekRetriever",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a retriever from its module when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
