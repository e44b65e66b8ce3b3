"""Task files of lm-evaluation-harness: load them, see their requests, score them, run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.core.lazy import lazy_names

if TYPE_CHECKING:
    from kshot.lmeval.task_file import TaskFile, load
else:
    __getattr__, __dir__ = lazy_names(__name__, {"kshot.lmeval.task_file": ("TaskFile", "load")})

__all__ = ["TaskFile", "load"]
