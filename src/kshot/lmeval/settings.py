"""The settings of lm-eval's task files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kshot.core.options import option
from kshot.core.settings import GenerationSettings, RunSettings
from kshot.prompts.settings import ConversationSettings, PromptSettings
from kshot.retrievers.settings import ExampleSettings
from kshot.tables.settings import DataSettings, DownloadSettings, TableSettings

_option = partial(option, group="task files of lm-eval (-d lmeval:NAME)")


@dataclass(frozen=True, kw_only=True)
class LmevalSettings(
    GenerationSettings,
    DataSettings,
    DownloadSettings,
    TableSettings,
    ConversationSettings,
    PromptSettings,
    RunSettings,
    ExampleSettings,
):
    """What a task file of lm-eval reads."""

    lmeval_root: str | None = _option(
        None,
        "folder of the task files: a clone of lm-evaluation-harness, or your own (default: the installed lm_eval)",
        metavar="DIR",
    )
    num_fewshot: int | None = _option(
        None,
        "number of examples instead of the task file's own, 0 included, or several; -k N does the same",
        kind=int,
        least=0,
        sweeps=True,
    )
