"""The settings of prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kshot.core.options import Options, option


@dataclass(frozen=True, kw_only=True)
class PromptSettings(Options):
    """What a prompt says beside the sample, and in which form."""

    instruction: str | None = option(
        None,
        "prompt template to use instead of the dataset's own (repeatable: each is evaluated)",
        sweeps=True,
        whole_text=True,
    )
    system_prompt: str | None = option(None, "system message of chat models; for base models the text before all else")
    model_type: Literal["base", "chat"] | None = option(
        None,
        "whether prompts are text (base) or messages (chat); default: what a config says of its model, else base",
        choices=("base", "chat"),
        group="model",
        earlier_default="base",
    )


@dataclass(frozen=True, kw_only=True)
class ConversationSettings(Options):
    """How a chat model sees the examples."""

    examples_as: Literal["turns", "text"] = option(
        "turns",
        "how a chat model sees examples: as turns of the conversation, or as text in the one turn of the user",
        choices=("turns", "text"),
    )


@dataclass(frozen=True, kw_only=True)
class TemplateSettings(Options):
    """The chat template that a model gets; datasets need it to place the system message."""

    chat_template: str | None = option(
        None,
        "file with a jinja chat template to use instead of the model's own",
        metavar="FILE",
        group="model",
        whole_run=True,
    )
