"""The settings of config files."""

from __future__ import annotations

from dataclasses import dataclass

from kshot.core.options import option
from kshot.core.settings import GenerationSettings, RunSettings
from kshot.metrics.settings import ScoringSettings
from kshot.prompts.settings import PromptSettings
from kshot.tables.settings import DataSettings, TableSettings


@dataclass(frozen=True, kw_only=True)
class ConfigSettings(ScoringSettings, GenerationSettings, DataSettings, TableSettings, PromptSettings, RunSettings):
    """What a config file reads."""

    config_root: str | None = option(
        None, "project root of a config: the folder in which it may read and import files", metavar="DIR"
    )
