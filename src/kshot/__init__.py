"""kshot measures what language models and search engines can find.

Everything public is importable from here; heavy parts load when they are first used.
"""

from __future__ import annotations

from kshot.core.lazy import lazy_names

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
