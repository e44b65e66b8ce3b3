"""Opening a model or an executor in a pool of workers, and the checks that come before."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from kshot.backends.checking import is_server
from kshot.backends.making import names_search_engine
from kshot.backends.pool.dispatcher import MAX_DEATHS, Dispatcher, Lost
from kshot.backends.pool.model import (
    PackedObject,
    PooledModel,
    TravellingFiles,
    check_computes,
    check_poolable,
    open_object,
    open_spec,
)
from kshot.backends.pool.processes import Processes
from kshot.backends.pool.settings import PoolSettings
from kshot.backends.pool.worker import Job, Launcher, OpenJob, WorkQueue
from kshot.backends.search.specs import builds_shards
from kshot.core.errors import BackendError, UsageError
from kshot.core.extras import require
from kshot.core.options import flag
from kshot.core.protocols import Executor, InlineExecutor, Model, SearchEngine, Work
from kshot.core.specs import parse_spec

# ---- plain work in workers: the shards of an index ----

_ITEMS_EACH = 2
"""Items on the way for each worker: one that it works on, and the next."""
_WAIT_SECONDS = 1.0
"""How long it waits for an event before it looks again: a signal may have come."""
_WHERE = "building an index"


class PoolExecutor:
    """Does work in workers, which are started for each ``map`` and end with it."""

    def __init__(self, launcher: Callable[[int], tuple[Launcher, int]], tell: Callable[[str], None]) -> None:
        """``launcher`` returns a launcher for at most this many workers, and their number; ``tell`` shows a line."""
        self._launcher, self._tell = launcher, tell

    def map(
        self, work: Work, numbers: Sequence[int], item: Callable[[int], Any], /
    ) -> Generator[tuple[int, Any], None, None]:
        """Yield each number with the result of its item, as they come; what a worker had that dies is done again."""
        launcher, count = self._launcher(len(numbers))
        dispatcher = Dispatcher(
            launcher, partial(_OpenWork, work), count, where=_WHERE, tell=self._tell, again="shards to build again"
        )
        woken, waiting = threading.Event(), iter(numbers)
        dispatcher.notify = woken.set
        try:
            while True:
                for number in islice(waiting, max(0, _ITEMS_EACH * count - dispatcher.unanswered)):
                    dispatcher.add((number, item(number)), f"{number:09}")
                if not dispatcher.unanswered:
                    return
                answered = False
                for (number, _), result in dispatcher.step():
                    if isinstance(result, Lost):
                        what = f"{MAX_DEATHS} workers died while they did shard {number + 1}"
                        hint = "The same command goes on after the shards that are done."
                        raise BackendError(f"{what}; the last one: {result.reason}", where=_WHERE, hint=hint)
                    answered = True
                    yield number, result
                if not answered:
                    woken.wait(_WAIT_SECONDS)
                    woken.clear()
        finally:
            dispatcher.cancel()
            dispatcher.close()


class _OpenWork(OpenJob):
    """Work that is open in a worker: one item after the other."""

    def __init__(self, work: Work) -> None:
        self._do = work.open()

    def work(self, queue: WorkQueue, /) -> Iterator[tuple[int, Any]]:
        while taken := queue.take(1):
            ((number, (_, item)),) = taken
            yield number, self._do(item)


# ---- how many workers auto means, and what each of them sees of this machine ----

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


# ---- models and executors ----


def check_pool(models: Sequence[str | Model], settings: PoolSettings) -> None:
    """Refuse workers that make no sense, before anything is started; a plug-in may show only when it is open."""
    if settings.workers is None:
        for name in settings.changed(PoolSettings):
            raise UsageError(f"{flag(name)} needs --workers", hint="Add --workers N.")
        return
    if settings.ray is not None:
        require("--ray", "ray")
    for model in models:
        if not runs_in_pool(model, settings):
            if isinstance(model, str) and not builds_shards(model):
                what = "its index is not built in shards, and --workers is for search engines whose index is"
                raise UsageError(what, where=model, hint="Leave --workers out.")
        elif not isinstance(model, str):
            PackedObject.of(check_poolable(model))
        else:
            check_computes(model, server=is_server(model), recording=parse_spec(model).name == "replay")


def runs_in_pool(model: str | Model, settings: PoolSettings) -> bool:
    """Whether an evaluated model runs in workers. A search engine does not: they build its index."""
    if settings.workers is None:
        return False
    return not (names_search_engine(model) if isinstance(model, str) else isinstance(model, SearchEngine))


def open_executor(settings: PoolSettings, tell: Callable[[str], None], *, device: str | None) -> Executor:
    """Return what builds indexes: workers, if the user wants some."""
    if settings.workers is None:
        return InlineExecutor()
    on_gpus = (device or "cuda") == "cuda"
    return PoolExecutor(
        lambda at_most: _launcher(settings, on_gpus=on_gpus, deterministic=False, at_most=at_most), tell
    )


def open_pool(
    given: str | Model, options: Mapping[str, Any], settings: PoolSettings, tell: Callable[[str], None]
) -> PooledModel:
    """Open a model in workers; ``options`` are those that it is opened with, ``tell`` shows a line to the user."""
    name = given if isinstance(given, str) else given.name
    if isinstance(given, str):
        job: Job = partial(open_spec, given, dict(options), TravellingFiles.of(given, options))
        on_gpus = uses_gpus(given, options)
    else:
        job, on_gpus = partial(open_object, PackedObject.of(given)), True
    deterministic = bool(options.get("deterministic"))
    launcher, count = _launcher(settings, on_gpus=on_gpus, deterministic=deterministic)
    dispatcher = Dispatcher(launcher, job, count, where=name, tell=tell)
    try:
        return PooledModel(dispatcher)
    except BaseException:
        dispatcher.close()
        raise


def _launcher(
    settings: PoolSettings, *, on_gpus: bool, deterministic: bool, at_most: int | None = None
) -> tuple[Launcher, int]:
    """Return what starts workers, and how many."""
    if settings.ray is not None:
        return _on_ray(settings, on_gpus=on_gpus, at_most=at_most)
    return _here(settings, on_gpus=on_gpus, deterministic=deterministic, at_most=at_most)


def _here(settings: PoolSettings, *, on_gpus: bool, deterministic: bool, at_most: int | None) -> tuple[Launcher, int]:
    """Return what starts processes on this machine, and how many."""
    gpus = visible_gpus() if on_gpus else []
    each = min(1, len(gpus)) if settings.gpus_per_worker is None else settings.gpus_per_worker
    if each > len(gpus):
        needs = f"each worker needs {each} {'GPU' if each == 1 else 'GPUs'}"
        what = f"{needs}, and this machine has {len(gpus)}" if on_gpus else f"{needs}, and the model would not use them"
        raise UsageError(what, where="--gpus-per-worker", hint="Give a smaller number, or more machines by --ray.")
    count = worker_count(settings.workers or "auto", len(gpus), each, cores())
    count = count if at_most is None else min(count, at_most)
    return Processes(environments(count, gpus, each, deterministic=deterministic)), count


def _on_ray(settings: PoolSettings, *, on_gpus: bool, at_most: int | None) -> tuple[Launcher, int]:
    """Return what starts actors on a cluster, and how many; machines with what they need may come later."""
    from kshot.backends.pool.ray_cluster import RayActors

    actors = RayActors(settings.ray or "auto")
    resources = actors.resources()
    gpus, cpus = int(resources.get("GPU", 0)), int(resources.get("CPU", 1))
    each = settings.gpus_per_worker
    each = (min(1, gpus) if on_gpus else 0) if each is None else each
    actors.need(gpus=each)
    count = worker_count(settings.workers or "auto", gpus, each, cpus)
    return actors, count if at_most is None else min(count, at_most)
