"""What can be told of a model for vLLM before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kshot.backends.hf import checking
from kshot.backends.vllm.runtime import parse_engine_options


def check_model(path: str, *, engine_option: Sequence[str] = (), **options: Any) -> None:
    """Refuse options that cannot work, a folder that is not a whole model, and a hub name that cannot be fetched."""
    parse_engine_options(engine_option)
    checking.check_model(path, **options)
