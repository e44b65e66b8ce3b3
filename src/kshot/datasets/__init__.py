"""Datasets as small classes: write one, or take one from the catalogue."""

from kshot.datasets.dataset import Dataset
from kshot.datasets.generation import GenerationDataset
from kshot.datasets.multiple_choice import MultipleChoiceDataset
from kshot.tables.files import load_raw_dataset_from_file
from kshot.tables.loading import get_raw_dataset_loader

__all__ = [
    "Dataset",
    "GenerationDataset",
    "MultipleChoiceDataset",
    "get_raw_dataset_loader",
    "load_raw_dataset_from_file",
]
