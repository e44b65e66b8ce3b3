"""Errors of a running model that the user can act on."""

from __future__ import annotations

from typing import Any

from kshot.core.errors import BackendError


def invalid_logits(name: str) -> BackendError:
    """Return the error for a model whose logits are not numbers."""
    return BackendError(
        "the model's logits are NaN or infinite",
        where=name,
        hint="Try another dtype (float32, or bfloat16 in place of float16); otherwise its weights are damaged.",
    )


def out_of_memory(name: str, device: Any) -> BackendError:
    """Return the error for a model that does not fit into the memory of its device."""
    hint = "Use a smaller dtype, or a device with more memory."
    return BackendError(f"out of memory on {device}", where=name, hint=hint)
