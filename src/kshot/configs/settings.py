"""The settings of config files."""

from __future__ import annotations

from dataclasses import dataclass

from kshot.core.options import option
from kshot.core.settings import GenerationSettings, RunSettings
from kshot.metrics.settings import ScoringSettings
from kshot.prompts.settings import PromptSettings
from kshot.tables.settings import DataSettings, DownloadSettings, TableSettings


@dataclass(frozen=True, kw_only=True)
class ConfigSettings(
    ScoringSettings,
    GenerationSettings,
    DataSettings,
    DownloadSettings,
    TableSettings,
    PromptSettings,
    RunSettings,
):
    """What a config file reads."""

    home: str | None = option(
        None,
        "source of OpenCompass or AISBench: what kshot does not know runs by its code, confined",
        metavar="DIR",
    )
    only: tuple[str, ...] | None = option(
        None,
        "run only the entries of a config that have this abbr, or match this pattern",
        metavar="PATTERN",
        repeat=True,
    )
    keep_thoughts: bool = option(
        False,  # noqa: FBT003 - the default of the option
        "leave the thoughts of a model in its replies for clean-ups and evaluators, as OpenCompass and AISBench do",
        kind=bool,
    )
    config_root: str | None = option(
        None, "older name of --home: the folder in which a config may read and import files", metavar="DIR", hidden=True
    )
