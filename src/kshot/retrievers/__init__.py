"""Which examples go into the prompt: ``RandomRetriever(dataset, ice_num=3, seed=123).retrieve()``.

Each retriever takes a dataset (``train`` and ``test`` rows) and returns a list of training row numbers for each test
row. A retriever is imported when its name is first used.
"""

from __future__ import annotations

from kshot.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
