"""How many workers ``auto`` means, and what each of them sees of this machine: its GPUs, or its share of the cores."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kshot.core.errors import UsageError
from kshot.core.specs import parse_spec

VISIBLE = "CUDA_VISIBLE_DEVICES"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
"""What torch, numpy, onnxruntime and tokenizers read."""


def visible_gpus(environment: Mapping[str, str] | None = None, devices: Path = Path("/dev")) -> list[str]:
    """Return the GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them; nothing is loaded."""
    given = (os.environ if environment is None else environment).get(VISIBLE)
    if given is None:
        found = [each.name.removeprefix("nvidia") for each in devices.glob("nvidia*")]
        return sorted((name for name in found if name.isdecimal()), key=int)
    names = [name.strip() for name in given.split(",")]
    return names[: names.index("-1")] if "-1" in names else [name for name in names if name]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def uses_gpus(spec: str, options: Mapping[str, Any]) -> bool:
    """Whether a model takes the GPU that its process sees, as far as its spec tells."""
    parsed = parse_spec(spec)
    device = str(parsed.options.get("device") or options.get("device") or "")
    return parsed.name != "embedded" and device in ("", "cuda")


def worker_count(workers: str, gpus: int, gpus_each: int, cpus: int) -> int:
    """Return the number of workers that an option names: ``auto`` is as many as find their GPUs, or a core each."""
    if workers != "auto":
        return int(workers)
    return max(1, gpus // gpus_each) if gpus and gpus_each else max(1, cpus)


def environments(count: int, gpus: list[str], gpus_each: int, *, deterministic: bool) -> list[dict[str, str]]:
    """Return what each worker finds in its environment.

    Workers share GPUs only if there are more workers than GPUs. Without GPUs the cores are divided among them, unless
    the user has set the number of threads, or the numbers depend on it (``deterministic``).
    """
    if gpus and gpus_each:
        groups = [gpus[at : at + gpus_each] for at in range(0, len(gpus) - gpus_each + 1, gpus_each)]
        if not groups:
            what = f"each worker needs {gpus_each} GPUs, and this machine has {len(gpus)}"
            raise UsageError(what, hint="Lower --gpus-per-worker.")
        return [{VISIBLE: ",".join(groups[number % len(groups)])} for number in range(count)]
    if deterministic or THREADS[0] in os.environ:
        return [{} for _ in range(count)]
    threads = str(max(1, cores() // count))
    return [dict.fromkeys(THREADS, threads) for _ in range(count)]
