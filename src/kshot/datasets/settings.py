"""The settings of dataset classes."""

from __future__ import annotations

from dataclasses import dataclass

from kshot.core.options import option
from kshot.core.settings import GenerationSettings, RunSettings
from kshot.metrics.settings import ScoringSettings
from kshot.prompts.settings import PromptSettings, TemplateSettings
from kshot.retrievers.settings import ExampleSettings
from kshot.tables.settings import TableSettings

RANKING_TYPES = ("ppl_no_option", "ppl", "prob", "generation", "first_token", "auto")


@dataclass(frozen=True, kw_only=True)
class DatasetSettings(
    ScoringSettings,
    GenerationSettings,
    TableSettings,
    TemplateSettings,
    PromptSettings,
    RunSettings,
    ExampleSettings,
):
    """What a dataset class reads."""

    ranking_type: str | None = option(
        None,
        "how multiple choice is decided; auto takes the best way that the model offers (default: ppl_no_option)",
        choices=RANKING_TYPES,
    )
    cot: str | None = option(None, "reasoning style; it must be one that the dataset supports")
