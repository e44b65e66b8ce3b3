"""Models: those that run in this process, those behind a server, recorded answers, and search engines."""

from __future__ import annotations

from kshot.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
