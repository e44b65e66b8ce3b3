"""Template languages: format and jinja strings, templates and dialogues of configs, chat templates."""

from __future__ import annotations

from kshot.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
