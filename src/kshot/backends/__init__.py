"""Models: those that run in this process, those behind a server, recorded answers, and search engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.core.lazy import lazy_names

if TYPE_CHECKING:
    from kshot.backends.making import MODELS, check_deterministic, model_packages, names_search_engine, open_model
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "kshot.backends.making": (
                "MODELS",
                "check_deterministic",
                "model_packages",
                "names_search_engine",
                "open_model",
            )
        },
    )

__all__ = ["MODELS", "check_deterministic", "model_packages", "names_search_engine", "open_model"]
