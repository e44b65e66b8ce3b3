"""Token lookup: which character is next to the query? Data, prompts, scores and kinds of error."""

from __future__ import annotations

from kshot.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
