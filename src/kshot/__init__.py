"""kshot measures what language models and search engines can find.

Everything public is importable from here; heavy parts load when they are first used (types: ``__init__.pyi``).
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "kshot.api": ("Preview", "evaluate", "preview", "score"),
    "kshot.backends.search.search_engine": ("Engine", "Found"),
    "kshot.core.corpus": ("Corpus", "Passage"),
    "kshot.datasets": (
        "Dataset",
        "GenerationDataset",
        "MultipleChoiceDataset",
        "get_raw_dataset_loader",
        "load_raw_dataset_from_file",
    ),
    "kshot.core.errors": ("KshotError",),
    "kshot.metrics": ("F1", "Accuracy", "Bleu", "Em", "GPTEval", "Metric", "PassAtK", "Perplexity", "Rouge"),
    "kshot.core.records": (
        "Answers",
        "Evidence",
        "Generate",
        "Generated",
        "Graded",
        "Loglik",
        "Message",
        "Option",
        "Prompt",
        "Sample",
        "Search",
        "ask",
    ),
    "kshot.runs.runner": ("Result",),
    "kshot.core.task": ("Task",),
}
_PARTS = ("configs", "datasets", "lookup", "methods", "metrics", "passages", "prompts", "records", "retrievers")
"""Parts that people use by their own name: ``kshot.lookup.prompts(…)``."""

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    """Import a public name from its home when it is first asked for."""
    if name in _PARTS:
        return importlib.import_module(f"kshot.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'kshot' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
