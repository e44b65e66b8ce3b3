"""Config files of AISBench and OpenCompass: load them, see their prompts, run them."""

from __future__ import annotations

from kshot.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
