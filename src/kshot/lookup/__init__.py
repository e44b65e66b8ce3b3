"""Token lookup: which character is next to the query? Data, prompts, scores and kinds of error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.core.lazy import lazy_names

if TYPE_CHECKING:
    from kshot.lookup.prompt_writer import prompts
else:
    __getattr__, __dir__ = lazy_names(__name__, {"kshot.lookup.prompt_writer": ("prompts",)})

__all__ = ["prompts"]
