"""Task files of lm-evaluation-harness: load them, see their requests, score them, run them."""

from __future__ import annotations

from kshot.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
