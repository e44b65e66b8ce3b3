"""The settings of token lookup."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kshot.core.options import option
from kshot.core.settings import GenerationSettings, RunSettings
from kshot.metrics.settings import ScoringSettings
from kshot.prompts.settings import PromptSettings
from kshot.retrievers.settings import ExampleSettings
from kshot.tables.settings import DataSettings

_option = partial(option, group="token lookup (-d lookup)")

MAX_LENGTH, MAX_SAMPLES = 100_000, 10_000_000
"""More would fill the memory before the first record is asked."""


@dataclass(frozen=True, kw_only=True)
class LookupSettings(ScoringSettings, GenerationSettings, DataSettings, PromptSettings, RunSettings, ExampleSettings):
    """What token lookup reads."""

    length: tuple[int, ...] | None = _option(
        None, "lengths of the records, such as 10,20,30", kind=int, listed=True, least=1, most=MAX_LENGTH
    )
    variant: tuple[str, ...] | None = _option(
        None, "prompt variant, such as 'sep|small|simple_rule'; 'all' means all 20 (repeatable)", repeat=True
    )
    shots: int | None = _option(
        None, "number of examples in the prompt, or several (default: 5)", kind=int, least=0, sweeps=True
    )
    samples: int | None = _option(
        None, "number of records for each length (default: 100)", kind=int, least=1, most=MAX_SAMPLES
    )
    templates: str | None = _option(None, "file with texts to use instead of kshot's own", metavar="FILE")
    reference: bool | None = _option(
        None,
        "draw as the published code does; with its texts (--templates) the prompts are the same, byte for byte",
        kind=bool,
    )
