"""Every option of an evaluation: the command line and the Python functions are both made from this class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kshot.backends.pool.settings import PoolSettings
from kshot.backends.server.settings import ServersSettings
from kshot.backends.settings import ModelSettings
from kshot.configs.settings import ConfigSettings
from kshot.core.errors import UsageError
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
    0 of them, which is the default elsewhere, means something there if the user gives it. Beside other datasets
    ``num_fewshot`` is the number of the task files, and ``num_shots`` that of the others.
    """
    named = dataset if isinstance(dataset, (list, tuple)) else [dataset]
    task_files = [isinstance(each, str) and each.startswith("lmeval:") for each in named]
    number, own = options.get("num_shots"), options.get("num_fewshot")
    if any(task_files) and number == 0 and own is None:
        options = {**options, "num_fewshot": 0}
    if all(task_files) and number is not None and own is not None and number != own:
        what = f"-k {_written(number)} and --num-fewshot {_written(own)} both say how many examples a task file shows"
        raise UsageError(what, hint="Leave one of them out.")
    return options_from(Settings, options)


def _written(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
