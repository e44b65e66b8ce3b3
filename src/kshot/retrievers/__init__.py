"""Which examples go into the prompt: ``RandomRetriever(dataset, ice_num=3, seed=123).retrieve()``.

Each retriever takes a dataset (``train`` and ``test`` rows) and returns a list of training row numbers for each test
row. A retriever is imported when its name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.core.lazy import lazy_names

if TYPE_CHECKING:
    from kshot.retrievers.base import Retriever
    from kshot.retrievers.bm25 import BM25Retriever
    from kshot.retrievers.embedding import DPPRetriever, MDLRetriever, MMRRetriever, TopkRetriever, VotekRetriever
    from kshot.retrievers.making import RETRIEVERS, make, select
    from kshot.retrievers.simple import (
        BalancedRetriever,
        FirstNRetriever,
        FixKRetriever,
        LMEvalRetriever,
        RandomRetriever,
        SlidingWindowRetriever,
        XiezhiRetriever,
        ZeroRetriever,
    )
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "kshot.retrievers.base": ("Retriever",),
            "kshot.retrievers.bm25": ("BM25Retriever",),
            "kshot.retrievers.making": ("RETRIEVERS", "make", "select"),
            "kshot.retrievers.embedding": (
                "DPPRetriever",
                "MDLRetriever",
                "MMRRetriever",
                "TopkRetriever",
                "VotekRetriever",
            ),
            "kshot.retrievers.simple": (
                "BalancedRetriever",
                "FirstNRetriever",
                "FixKRetriever",
                "LMEvalRetriever",
                "RandomRetriever",
                "SlidingWindowRetriever",
                "XiezhiRetriever",
                "ZeroRetriever",
            ),
        },
    )

__all__ = [
    "RETRIEVERS",
    "BM25Retriever",
    "BalancedRetriever",
    "DPPRetriever",
    "FirstNRetriever",
    "FixKRetriever",
    "LMEvalRetriever",
    "MDLRetriever",
    "MMRRetriever",
    "RandomRetriever",
    "Retriever",
    "SlidingWindowRetriever",
    "TopkRetriever",
    "VotekRetriever",
    "XiezhiRetriever",
    "ZeroRetriever",
    "make",
    "select",
]
