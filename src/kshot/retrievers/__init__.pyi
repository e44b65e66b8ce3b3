from kshot.retrievers.base import Retriever as Retriever
from kshot.retrievers.bm25 import BM25Retriever as BM25Retriever
from kshot.retrievers.embedding import (
    DPPRetriever as DPPRetriever,
    MDLRetriever as MDLRetriever,
    MMRRetriever as MMRRetriever,
    TopkRetriever as TopkRetriever,
    VotekRetriever as VotekRetriever,
)
from kshot.retrievers.making import RETRIEVERS as RETRIEVERS, make as make, select as select
from kshot.retrievers.simple import (
    BalancedRetriever as BalancedRetriever,
    FirstNRetriever as FirstNRetriever,
    FixKRetriever as FixKRetriever,
    LMEvalRetriever as LMEvalRetriever,
    RandomRetriever as RandomRetriever,
    SlidingWindowRetriever as SlidingWindowRetriever,
    XiezhiRetriever as XiezhiRetriever,
    ZeroRetriever as ZeroRetriever,
)

__all__: list[str]  # noqa: PYI035 - lazy_names makes it
