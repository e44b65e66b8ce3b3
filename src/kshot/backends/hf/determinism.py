"""``deterministic``: what torch is told, and what the bits of an answer depend on besides the request."""

from __future__ import annotations

import os
from typing import Any

from kshot import __version__
from kshot.core.errors import UsageError

_owners: set[int] = set()
"""The models that need deterministic algorithms now; torch has one switch for the whole process."""
_earlier: dict[str, bool] = {}
"""How the switches stood before the first of these models."""


def check_device(device: Any, name: str) -> None:
    """Refuse a device for which nothing can be promised."""
    if device.type not in ("cpu", "cuda"):
        raise UsageError(
            f"deterministic cannot be promised on the device {device}", where=name, hint="Use cpu or cuda."
        )


def machine(device: Any, torch: Any, transformers: Any) -> list[Any]:
    """Return what the bits of an answer depend on: versions, the kind of device, and on a CPU the number of threads.

    With other threads or another processor, matrix products are summed up in another order.
    """
    versions = [__version__, torch.__version__, transformers.__version__]
    if device.type == "cuda":
        return [*versions, torch.cuda.get_device_name(device), torch.version.cuda, torch.backends.cudnn.version()]
    return [*versions, device.type, torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()]


def require_deterministic_algorithms(owner: object, device: Any, torch: Any) -> None:
    """Have torch refuse algorithms whose results vary, until every owner has released them."""
    if device.type == "cuda":
        # cuBLAS needs a workspace of a fixed size; torch says so and names this variable.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if not _owners:
        _earlier["warn_only"] = torch.is_deterministic_algorithms_warn_only_enabled()
        _earlier["enabled"] = torch.are_deterministic_algorithms_enabled()
        _earlier["fill"] = torch.utils.deterministic.fill_uninitialized_memory
        _earlier["benchmark"] = torch.backends.cudnn.benchmark
    _owners.add(id(owner))
    torch.use_deterministic_algorithms(mode=True)
    torch.backends.cudnn.benchmark = False
    # All memory is written before it is read here, so filling it would only take time.
    torch.utils.deterministic.fill_uninitialized_memory = False


def release_deterministic_algorithms(owner: object, torch: Any) -> None:
    """Put the switches back once no owner is left."""
    if id(owner) not in _owners:
        return
    _owners.remove(id(owner))
    if not _owners:
        torch.use_deterministic_algorithms(mode=_earlier["enabled"], warn_only=_earlier["warn_only"])
        torch.backends.cudnn.benchmark = _earlier["benchmark"]
        torch.utils.deterministic.fill_uninitialized_memory = _earlier["fill"]
