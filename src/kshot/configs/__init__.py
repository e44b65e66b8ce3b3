"""Config files of AISBench and OpenCompass: load them, see their prompts, run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.core.lazy import lazy_names

if TYPE_CHECKING:
    from kshot.configs.data import splits_of
    from kshot.configs.dataset_entry import DatasetEntry
    from kshot.configs.loader import Config, entry, load
    from kshot.configs.models import ModelEntry
    from kshot.configs.source import ConfigSource
    from kshot.configs.tasks import task_of
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "kshot.configs.data": ("splits_of",),
            "kshot.configs.dataset_entry": ("DatasetEntry",),
            "kshot.configs.loader": ("Config", "entry", "load"),
            "kshot.configs.models": ("ModelEntry",),
            "kshot.configs.source": ("ConfigSource",),
            "kshot.configs.tasks": ("task_of",),
        },
    )

__all__ = ["Config", "ConfigSource", "DatasetEntry", "ModelEntry", "entry", "load", "splits_of", "task_of"]
