from kshot.configs.data import splits_of as splits_of
from kshot.configs.dataset_entry import DatasetEntry as DatasetEntry
from kshot.configs.loader import Config as Config, entry as entry, load as load
from kshot.configs.models import ModelEntry as ModelEntry
from kshot.configs.source import ConfigSource as ConfigSource
from kshot.configs.tasks import task_of as task_of
