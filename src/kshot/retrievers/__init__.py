"""Which examples go into the prompt: ``RandomRetriever(dataset, ice_num=3, seed=123).retrieve()``.

Each retriever takes a dataset (``train`` and ``test`` rows) and returns a list of training row numbers for each test
row. A retriever is imported when its name is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.core.lazy import lazy_names

if TYPE_CHECKING:
    from kshot.retrievers.balanced import BalancedRetriever
    from kshot.retrievers.base import Retriever
    from kshot.retrievers.bm25 import BM25Retriever
    from kshot.retrievers.diverse import DPPRetriever, MMRRetriever
    from kshot.retrievers.lm_eval import FirstNRetriever, LMEvalRetriever
    from kshot.retrievers.making import RETRIEVERS, make, select
    from kshot.retrievers.mdl import MDLRetriever
    from kshot.retrievers.shared_labels import XiezhiRetriever
    from kshot.retrievers.simple import FixKRetriever, RandomRetriever, SlidingWindowRetriever, ZeroRetriever
    from kshot.retrievers.topk import TopkRetriever
    from kshot.retrievers.votek import VotekRetriever
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "kshot.retrievers.balanced": ("BalancedRetriever",),
            "kshot.retrievers.base": ("Retriever",),
            "kshot.retrievers.bm25": ("BM25Retriever",),
            "kshot.retrievers.diverse": ("DPPRetriever", "MMRRetriever"),
            "kshot.retrievers.lm_eval": ("FirstNRetriever", "LMEvalRetriever"),
            "kshot.retrievers.making": ("RETRIEVERS", "make", "select"),
            "kshot.retrievers.mdl": ("MDLRetriever",),
            "kshot.retrievers.shared_labels": ("XiezhiRetriever",),
            "kshot.retrievers.simple": (
                "FixKRetriever",
                "RandomRetriever",
                "SlidingWindowRetriever",
                "ZeroRetriever",
            ),
            "kshot.retrievers.topk": ("TopkRetriever",),
            "kshot.retrievers.votek": ("VotekRetriever",),
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
