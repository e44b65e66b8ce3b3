"""Metrics: each rates one answer against one reference, and reduces many values to one figure."""

from __future__ import annotations

from kshot.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
