"""The settings of a pool: how many workers, and where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kshot.core.errors import UsageError
from kshot.core.options import Options, option

MAX_WORKERS = 4096
"""More are a slip of the hand: each is a process with a model."""

_option = partial(option, group="workers (models that run in this process)", identity=False)


@dataclass(frozen=True, kw_only=True)
class PoolSettings(Options):
    """In how many processes an evaluated model runs."""

    workers: str | None = _option(
        None,
        "run each evaluated model, or build its index, in N worker processes; auto: one for each GPU, or each core",
        metavar="N|auto",
        numbers=True,
    )
    gpus_per_worker: int | None = _option(
        None, "GPUs that each worker sees (default: 1 where there are GPUs)", kind=int, least=0
    )
    ray: str | None = _option(
        None,
        "run the workers on a Ray cluster: the one at HOST:PORT (of another user of this machine: OWNER@HOST:PORT); "
        "without an address the one that RAY_ADDRESS names, else a new one for this run alone",
        metavar="ADDRESS",
        bare="auto",
    )

    def __post_init__(self) -> None:
        """Check every value."""
        super().__post_init__()
        given = self.workers
        if given not in (None, "auto") and not (given.isascii() and given.isdecimal() and int(given) > 0):
            raise UsageError(f"--workers is {given!r:.60}; it must be auto, or 1 or more")
        if given not in (None, "auto") and int(given) > MAX_WORKERS:
            raise UsageError(f"--workers is {given:.60}; it must be {MAX_WORKERS:,} or less")
        if self.ray is not None and not self.ray.strip():
            raise UsageError("--ray is empty", hint="Name the address of a cluster, or write --ray alone.")
