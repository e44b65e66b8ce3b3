"""Every option of an evaluation: the command line and the Python functions are both made from this class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kshot.backends.pool.settings import PoolSettings
from kshot.backends.server.settings import ServersSettings
from kshot.backends.settings import ModelSettings
from kshot.configs.settings import ConfigSettings
from kshot.core.options import options_from
from kshot.core.settings import FolderSettings, LimitSettings, ProgramSettings, ResponseSettings, ShardSettings
from kshot.datasets.settings import DatasetSettings
from kshot.lmeval.settings import LmevalSettings
from kshot.lookup.settings import LookupSettings
from kshot.passages.settings import PassageSettings


@dataclass(frozen=True, kw_only=True)
class Settings(
    ProgramSettings,
    FolderSettings,
    ShardSettings,
    ResponseSettings,
    LimitSettings,
    ServersSettings,
    PoolSettings,
    PassageSettings,
    LookupSettings,
    LmevalSettings,
    ConfigSettings,
    DatasetSettings,
    ModelSettings,
):
    """How datasets are put to models: the settings of all parts.

    A dataclass takes its fields from the last base to the first, and that is the order of ``--help``.
    """


def settings_from(options: Mapping[str, Any], dataset: Any = None) -> Settings:
    """Make settings from keyword options; an unknown name is an error that lists the known ones.

    ``dataset``: what the user names, one or several. A task file of lm-eval says itself how many examples it shows, so
    0 of them, which is the default elsewhere, means something there if the user gives it.
    """
    named = dataset if isinstance(dataset, (list, tuple)) else [dataset]
    task_files = any(isinstance(each, str) and each.startswith("lmeval:") for each in named)
    if task_files and options.get("num_shots") == 0 and options.get("num_fewshot") is None:
        options = {**options, "num_fewshot": 0}
    return options_from(Settings, options)
