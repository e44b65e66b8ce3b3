"""The settings of a pool: how many workers, and where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kshot.core.options import Options, option

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
        "run the workers on a Ray cluster: the one at this address; without an address the one that Ray finds, else "
        "one that is started on this machine",
        metavar="ADDRESS",
        bare="auto",
    )
