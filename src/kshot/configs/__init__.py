"""Config files of AISBench and OpenCompass: load them, see their prompts, run them."""

from kshot.configs.data import splits_of
from kshot.configs.dataset_entry import DatasetEntry
from kshot.configs.loader import Config, entry, load
from kshot.configs.models import ModelEntry
from kshot.configs.source import ConfigSource
from kshot.configs.tasks import task_of

__all__ = ["Config", "ConfigSource", "DatasetEntry", "ModelEntry", "entry", "load", "splits_of", "task_of"]
