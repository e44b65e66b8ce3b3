"""Datasets as small classes: write one, or take one from the catalogue."""

from __future__ import annotations

from kshot.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
