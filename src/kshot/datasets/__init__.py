"""Datasets as small classes: write one, or take one from the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.core.lazy import lazy_names

if TYPE_CHECKING:
    from kshot.datasets.dataset import Dataset
    from kshot.datasets.generation import GenerationDataset
    from kshot.datasets.multiple_choice import MultipleChoiceDataset
    from kshot.tables.files import load_raw_dataset_from_file
    from kshot.tables.loading import get_raw_dataset_loader
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "kshot.datasets.dataset": ("Dataset",),
            "kshot.datasets.generation": ("GenerationDataset",),
            "kshot.datasets.multiple_choice": ("MultipleChoiceDataset",),
            "kshot.tables.files": ("load_raw_dataset_from_file",),
            "kshot.tables.loading": ("get_raw_dataset_loader",),
        },
    )

__all__ = [
    "Dataset",
    "GenerationDataset",
    "MultipleChoiceDataset",
    "get_raw_dataset_loader",
    "load_raw_dataset_from_file",
]
