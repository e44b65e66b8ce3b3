"""Workers that are actors of a Ray cluster. Ray places them, starts them again, and knows which machines come and go.

An actor runs the same loop as a worker process. Its events are the items of one streaming call, ``run``, which lasts
as long as the actor; messages are calls of ``receive``, in another thread of the actor. If the actor or its machine is
lost, ``run`` ends with an error; Ray makes the actor anew wherever there is room, and ``run`` is called again.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import socket
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from kshot.backends.pool.contract import (
    CloseJob,
    Died,
    Event,
    Job,
    Message,
    Placed,
    Raised,
    Report,
    WaitsFor,
)
from kshot.backends.pool.worker import WorkerLoop, packed_events
from kshot.core.errors import BackendError
from kshot.core.extras import import_package
from kshot.core.visible import one_line

_WAIT_SECONDS = 10.0
"""After so long without a place for a worker, the user is told what it waits for."""
_LONG_WAITS = 6
"""After so many of these waits, a worker is taken to find no machine, though the cluster has what it needs."""
_RETRY_SECONDS = 0.5
_CONNECT_SECONDS = 10.0
_OWN_CLUSTER = {"RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
"""What a cluster that is started for a run is told: how long its processes look for a run that was killed (Ray: 60 s).
As an environment variable, because a version of Ray that does not know it leaves it alone."""
_CLOSE_SECONDS = 20.0
_METHOD_THREADS = 4


class ActorWorker:
    """A worker inside of a Ray actor."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Sequence[Event] | None] = queue.SimpleQueue()
        self._loop = WorkerLoop(self._events.put)

    def run(self, job: bytes, folder: str, path: Sequence[str]) -> Iterator[bytes]:
        """Do the job, and yield the events as they come; ``folder`` and ``path`` are those of the run."""
        with suppress(OSError):  # another machine may have no such folder
            os.chdir(folder)
        sys.path.extend(each for each in path if each not in sys.path)
        yield pickle.dumps([Placed(f"process {os.getpid()} on {_host()}")])
        threading.Thread(target=self._work, args=(job,), name="kshot worker", daemon=True).start()
        while (events := self._events.get()) is not None:
            yield packed_events(events)

    def _work(self, job: bytes) -> None:
        self._loop.run(lambda: pickle.loads(job))  # noqa: S301 - from the run that made this actor
        self._events.put(None)

    def receive(self, message: bytes) -> None:
        """Take a message."""
        self._loop.receive(pickle.loads(message))  # noqa: S301 - as above


def _host() -> str:
    return socket.gethostname()


def _check_somebody_listens(address: str) -> None:
    """Refuse an address HOST:PORT at which nothing listens: Ray itself tries for minutes, and then ends the process."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return  # Ray knows what it is
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as exc:
        what = f"there is no Ray cluster: {getattr(exc, 'strerror', None) or exc}"
        raise BackendError(what, where=f"--ray {address}", hint="Start one: ray start --head.") from exc


class RayActors:
    """Starts workers as actors of a cluster: the one at an address, the one that Ray finds, or one of this machine."""

    def __init__(self, address: str) -> None:
        """Connect to the cluster; ``auto`` is the one that Ray finds, else a new one on this machine."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray = import_package("--ray", "ray")
        self._own = not self._ray.is_initialized()
        self._needs: dict[str, float] = {}
        self._actors: list[Any] = []
        self._threads: dict[int, threading.Thread] = {}
        self._job, self._closed = b"", threading.Event()
        self._report: Report = _silent
        self._sockets: list[Path] = []
        if self._own:
            self._connect(None if address == "auto" else address)

    def _connect(self, address: str | None) -> None:
        _check_somebody_listens(address or os.environ.get("RAY_ADDRESS", ""))
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with _variables(_OWN_CLUSTER if address == "local" else {}):
                context = self._ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            names = (context.address_info.get(name) for name in ("raylet_socket_name", "object_store_address"))
            self._sockets = [Path(name) for name in names if name]
        except (ConnectionError, RuntimeError, ValueError, OSError) as exc:
            what = f"there is no Ray cluster: {one_line(exc)[:200]}"
            raise BackendError(
                what, where=f"--ray {address or ''}".strip(), hint="Start one: ray start --head."
            ) from exc
        finally:
            if threading.current_thread() is threading.main_thread():
                for number, handler in handlers.items():  # Ray takes SIGTERM for itself
                    if handler is not None:
                        signal.signal(number, handler)

    def resources(self) -> Mapping[str, float]:
        """Return what all machines of the cluster have."""
        found: Mapping[str, float] = self._ray.cluster_resources()
        return found

    def need(self, *, gpus: int) -> None:
        """Say what each worker needs: so many GPUs, and a core."""
        self._needs = {"CPU": 1, **({"GPU": gpus} if gpus else {})}

    def start(self, job: Job, workers: int, report: Report, /) -> None:
        """Make the actors; they need not have a place yet."""
        self._job, self._report = pickle.dumps(job, pickle.HIGHEST_PROTOCOL), report
        made = self._ray.remote(ActorWorker).options(
            num_cpus=self._needs.get("CPU", 1),
            num_gpus=self._needs.get("GPU", 0),
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=_METHOD_THREADS,
        )
        self._actors = [made.remote() for _ in range(workers)]
        for worker in range(workers):
            self.restart(worker)

    def restart(self, worker: int, /) -> None:
        """Have an actor run the job; Ray has made it anew, or does so when there is room."""
        thread = threading.Thread(target=self._follow, args=(worker,), name=f"kshot actor {worker}", daemon=True)
        self._threads[worker] = thread
        thread.start()

    def send(self, worker: int, message: Message, /) -> None:
        """Call the actor; the call is lost if the actor is gone."""
        self._actors[worker].receive.remote(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    def close(self, idle: Collection[int], /) -> None:
        """End the actors, and the cluster if it was started for this run."""
        until = monotonic() + _CLOSE_SECONDS
        try:
            for worker in idle:
                self.send(worker, CloseJob())
            for worker in idle:
                self._threads[worker].join(max(0.0, until - monotonic()))
        finally:
            self._closed.set()
            self._report = _silent
            for actor in self._actors:
                with suppress(Exception):  # it may be gone already
                    self._ray.kill(actor, no_restart=True)
            for thread in self._threads.values():
                thread.join(_CLOSE_SECONDS)
            self._actors, self._threads = [], {}
            if self._own:
                self._ray.shutdown()
                for path in self._sockets:
                    _remove_dead(path)

    def _follow(self, worker: int) -> None:
        """Report the events of an actor until it ends or is lost."""
        errors, actor = self._ray.exceptions, self._actors[worker]
        while not self._closed.is_set():
            life = _Life()
            try:
                self._report_life(worker, actor, life)
            except errors.ActorUnavailableError as exc:
                if not life.placed:  # Ray is making it anew
                    self._closed.wait(_RETRY_SECONDS)
                    continue
                with suppress(Exception):  # perhaps it lives and is only out of reach: then it must not go on
                    self._ray.kill(actor, no_restart=False)
                self._end_life(worker, life, Died(_reason(exc)))
            except errors.RayActorError as exc:
                self._end_life(worker, life, Died(_reason(exc)))
            except Exception as exc:  # noqa: BLE001 - the run must not wait for a worker that nobody follows any more
                self._end_life(worker, life, Raised.of(exc, "Ray failed"))
            return

    def _end_life(self, worker: int, life: _Life, event: Event) -> None:
        if not life.raised and not self._closed.is_set():
            self._report(worker, [event])

    def _report_life(self, worker: int, actor: Any, life: _Life) -> None:
        """Run the job in an actor, and report its events."""
        stream = actor.run.options(num_returns="streaming").remote(self._job, str(Path.cwd()), sys.path)
        waits = 0
        while not self._ray.wait([stream], timeout=_WAIT_SECONDS)[0]:
            waits += 1
            if not life.told and (missing := self._missing(long=waits >= _LONG_WAITS)):
                self._report(worker, [WaitsFor(missing)])
                life.told = True
        for item in stream:
            events = pickle.loads(self._ray.get(item))  # noqa: S301 - from an actor of this run
            life.placed = True
            life.raised |= any(isinstance(event, Raised) for event in events)
            self._report(worker, events)

    def _missing(self, *, long: bool) -> str:
        """Say what a worker needs and what the cluster has; "" if it has enough, and the actor is just not up yet.

        A worker needs all of it on one machine. Ray does not say what is free on which: one that waits for ``long``
        finds none, though the cluster has enough.
        """
        total, free = self._ray.cluster_resources(), self._ray.available_resources()
        machines = [machine["Resources"] for machine in self._ray.nodes() if machine["Alive"]]
        fits = any(self._enough(machine) for machine in machines)
        scattered = self._enough(free)
        if fits and scattered and not long:
            return ""
        wanted = " and ".join(f"{amount:g} {name}" for name, amount in self._needs.items())
        there = ", ".join(f"{total.get(name, 0):g} {name} ({free.get(name, 0):g} free)" for name in self._needs)
        but = f", but no machine has {'all of that free' if fits else 'all of that'}" if scattered else ""
        return f"{wanted}; the cluster has {there}{but}"

    def _enough(self, resources: Mapping[str, float]) -> bool:
        return all(resources.get(name, 0) >= amount for name, amount in self._needs.items())


@dataclass(slots=True)
class _Life:
    """One life of an actor: whether it has had a place, has ended by an error, and the user knows that it waits."""

    placed: bool = False
    raised: bool = False
    told: bool = False


@contextmanager
def _variables(added: Mapping[str, str]) -> Iterator[None]:
    """Have environment variables in this block; those that the user has set stay as they are."""
    new = [name for name in added if name not in os.environ]
    os.environ.update({name: added[name] for name in new})
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


def _remove_dead(path: Path) -> None:
    """Remove the file of a socket that nobody listens to: Ray leaves those of a cluster that it has ended."""
    import socket

    with suppress(OSError, AttributeError), socket.socket(socket.AF_UNIX) as tried:  # not every system has such sockets
        try:
            tried.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()


def _silent(_worker: int, _events: Sequence[Event]) -> None:
    """Take events that nobody wants any more."""


def _reason(exc: BaseException) -> str:
    """Return the first line of what Ray says, which goes on for many."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return one_line(lines[0])[:200] if lines else "its actor is gone"
