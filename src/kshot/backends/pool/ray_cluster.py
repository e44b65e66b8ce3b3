"""Workers that are actors of a Ray cluster. Ray places them, starts them again, and knows which machines come and go.

An actor runs the same loop as a worker process. Its events are the items of one streaming call, ``run``, which lasts
as long as the actor; messages are calls of ``receive``, in another thread of the actor. If the actor or its machine is
lost, ``run`` ends with an error; Ray makes the actor anew wherever there is room, and ``run`` is called again.
"""

from __future__ import annotations

import atexit
import importlib
import os
import pickle
import queue
import re
import secrets
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

from kshot.backends.pool.worker import (
    CloseJob,
    Died,
    Event,
    Job,
    Message,
    Placed,
    Raised,
    Report,
    WaitsFor,
    WorkerLoop,
    packed_events,
)
from kshot.core import interrupts
from kshot.core.errors import BackendError, UsageError
from kshot.core.extras import import_package
from kshot.core.visible import one_line

# ---- the cluster that a run may join: its owner can run code on every machine that joins it ----

_ADDRESS = re.compile(r"(?:(?P<owner>[^@\s/]+)@)?(?P<scheme>ray://)?(?P<host>[^@\s/]+):(?P<port>[0-9]{1,5})")
_CONNECT_SECONDS = 10.0
_LAST_PORT = 65535
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"
_FORMS = "Write HOST:PORT, OWNER@HOST:PORT, or local for a cluster of this run alone."


@dataclass(frozen=True, slots=True)
class RayAddress:
    """The address of a cluster, and the user who may own it besides this one."""

    text: str
    """The address in Ray's form."""
    host: str
    port: int
    owner: str
    where: str
    """The option or variable that names it, for messages."""

    @classmethod
    def given(cls, text: str) -> RayAddress | None:
        """Return the address that ``--ray`` means; None: start a cluster for the run."""
        where = f"--ray {text}"
        if text == "auto":
            text = os.environ.get("RAY_ADDRESS", "").strip() or "local"
            where = f"RAY_ADDRESS={text}"
        if text == "local":
            return None
        found = _ADDRESS.fullmatch(text)
        if not found or int(found["port"]) > _LAST_PORT:
            raise UsageError("this is not the address of a Ray cluster", where=where, hint=_FORMS)
        host, port = found["host"], found["port"]
        return cls(f"{found['scheme'] or ''}{host}:{port}", host.strip("[]"), int(port), found["owner"] or "", where)

    def check(self) -> None:
        """Refuse an address where nothing listens, and a cluster that another user of this machine owns."""
        try:
            with socket.create_connection((self.host, self.port), _CONNECT_SECONDS) as connection:
                here, there = connection.getsockname()[0], connection.getpeername()[0]
        except (OSError, UnicodeError) as exc:
            raise self.error(getattr(exc, "strerror", None) or str(exc)) from exc
        if here == there or there.startswith("127."):
            self._check_owner()

    def error(self, why: str) -> BackendError:
        """Return the error for an address without a cluster."""
        hint = "Start one: ray start --head. If it is there and wants a token, set RAY_AUTH_MODE=token."
        return BackendError(f"there is no Ray cluster: {why}", where=self.where, hint=hint)

    def _check_owner(self) -> None:
        trusted = {self.owner, _name(os.getuid()) if hasattr(os, "getuid") else ""}
        owners = set(_owners(self.port)) or {self.owner or "an unknown user"}
        for owner in sorted(owners):
            if owner not in trusted:
                raise BackendError(
                    f"the Ray cluster belongs to {owner}, who can run code as you if you join it",
                    where=self.where,
                    hint=f"Leave the address out for a cluster of your own; to join this one, write "
                    f"--ray OWNER@{self.text} with the name of its owner.",
                )


def _owners(port: int) -> Iterator[str]:
    """Yield the users whose processes listen at a port of this machine, as Linux lists them."""
    for table in _TABLES:
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                _, local, _, state, _, _, _, user, *_ = line.split()
                if state == _LISTENS and int(local.rpartition(":")[2], 16) == port:
                    yield _name(int(user))


def _name(user: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(user).pw_name
    except (ImportError, KeyError):
        return str(user)


# ---- workers ----

_WAIT_SECONDS = 10.0
"""After so long without a place for a worker, the user is told what it waits for."""
_LONG_WAITS = 6
"""After so many of these waits, a worker is taken to find no machine, though the cluster has what it needs."""
_RETRY_SECONDS = 0.5
_WATCH_SECONDS = 1.0
_GRACE_SECONDS = 3.0
"""The wait after an actor that ended before it had a place: its cluster may be ending, too."""
_RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"
"""The variable for the time after which Ray's processes, kshot among them, end themselves if the head is gone."""
_RECONNECT_SECONDS = 60.0
"""Ray's default."""
_OWN_RECONNECT_SECONDS = 5
"""In a cluster of kshot's own, so that its processes end soon after a run that was killed."""
_PATIENCE = 0.7
"""After this part of that time kshot gives up a silent head, before Ray ends the process."""
_CLOSE_SECONDS = 20.0
_METHOD_THREADS = 4
_LOOPBACK = "127.0.0.1"


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
        yield pickle.dumps([Placed(f"process {os.getpid()} on {socket.gethostname()}")])
        threading.Thread(target=self._work, args=(job,), name="kshot worker", daemon=True).start()
        while (events := self._events.get()) is not None:
            yield packed_events(events)

    def _work(self, job: bytes) -> None:
        self._loop.run(lambda: pickle.loads(job))  # noqa: S301 - from the run that made this actor
        self._events.put(None)

    def receive(self, message: bytes) -> None:
        """Take a message."""
        self._loop.receive(pickle.loads(message))  # noqa: S301 - as above


class RayActors:
    """Starts workers as actors of a cluster: one at an address, or one of this run's own."""

    def __init__(self, address: str) -> None:
        """Connect to the cluster that ``--ray`` names, unless this process is connected to one already."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")  # Ray would join what it finds at its first call
        self._ray = import_package("--ray", "ray")
        _check_tokens(self._ray.__version__)
        self._own = not self._ray.is_initialized()
        self._needs: dict[str, float] = {}
        self._actors: list[Any] = []
        self._threads: dict[int, threading.Thread] = {}
        self._job, self._closed, self._ended = b"", threading.Event(), threading.Event()
        self._report: Report = _silent
        self._sockets: list[Path] = []
        self._head: tuple[str, int] | None = None
        self._patience = _PATIENCE * _RECONNECT_SECONDS
        if self._own:
            self._connect(RayAddress.given(address))

    def _connect(self, address: RayAddress | None) -> None:
        with _signals_kept():
            try:
                if address is None:
                    self._patience = _PATIENCE * _OWN_RECONNECT_SECONDS
                    with _loopback_with_token(self._ray):
                        context = self._init("local")
                else:
                    self._patience = _PATIENCE * float(os.environ.get(_RECONNECT, _RECONNECT_SECONDS))
                    address.check()
                    context = self._init(address.text)
            except (ConnectionError, RuntimeError, ValueError, OSError) as exc:
                why = one_line(exc)[:200]
                raise address.error(why) if address else _not_started(why) from exc
        found = getattr(context, "address_info", None) or {}
        self._sockets = [
            Path(found[name]) for name in ("raylet_socket_name", "object_store_address") if found.get(name)
        ]
        host, _, port = str(found.get("gcs_address", "")).rpartition(":")
        self._head = (host.strip("[]"), int(port)) if host else None
        if address is None and not (self._head and self._head[0] == _LOOPBACK):
            self._ray.shutdown()
            raise _not_started(f"it listens at {host}, where others can reach it")

    def _init(self, address: str) -> Any:
        return self._ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")

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
        threading.Thread(target=self._watch, name="kshot Ray cluster", daemon=True).start()

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
            waited_for = () if self._ended.is_set() else idle
            for worker in waited_for:
                self.send(worker, CloseJob())
            for worker in waited_for:
                self._threads[worker].join(max(0.0, until - monotonic()))
        finally:
            self._closed.set()
            self._report = _silent
            if not self._ended.is_set():
                self._release()
            self._actors, self._threads = [], {}

    def _release(self) -> None:
        for actor in self._actors:
            with suppress(Exception):  # it may be gone already
                self._ray.kill(actor, no_restart=True)
        for thread in self._threads.values():
            thread.join(_CLOSE_SECONDS)
        if self._own:
            self._ray.shutdown()
            _forget_token()
            for path in self._sockets:
                if _is_dead(path):  # Ray leaves those of a cluster that it has ended
                    path.unlink(missing_ok=True)

    def _watch(self) -> None:
        """Watch for the end of the cluster, to report it before Ray ends this process."""
        heard = monotonic()
        while not self._closed.wait(_WATCH_SECONDS):
            if self._head is None or _answers(self._head):
                heard = monotonic()
            if self._node_is_dead() or monotonic() - heard > self._patience:
                self._end_cluster()
                return

    def _node_is_dead(self) -> bool:
        return bool(self._sockets) and _is_dead(self._sockets[0])

    def _end_cluster(self) -> None:
        """Report that the cluster has ended. After that no call of Ray returns, not even those of its exit handlers."""
        if self._closed.is_set() or self._ended.is_set():
            return
        self._ended.set()
        atexit.register(interrupts.leave)
        self._report(0, [Raised(BackendError, "the Ray cluster has ended", "", "")])

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
        if not life.placed:
            self._closed.wait(_GRACE_SECONDS)
        if self._node_is_dead():
            self._end_cluster()
        elif not life.raised and not self._closed.is_set():
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


def _not_started(why: str) -> BackendError:
    return BackendError(f"Ray cannot start a cluster: {why}", where="--ray local")


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep kshot's signal handlers: Ray replaces that of SIGTERM, and its own ends the process during a connection."""
    on_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    stopped = False
    try:
        yield
    except SystemExit as exc:
        stopped = exc.code == signal.SIGTERM
        if not stopped:
            raise BackendError(f"Ray has given up: it ended with code {exc.code}", where="--ray") from exc
    finally:
        for number, handler in handlers.items() if on_main else ():
            if handler is not None:
                signal.signal(number, handler)
        if stopped:
            signal.raise_signal(signal.SIGTERM)


@contextmanager
def _loopback_with_token(ray: Any) -> Iterator[None]:
    """Have a cluster started in this block listen on loopback alone, and require its token."""
    constants: Any = importlib.import_module("ray._private.ray_constants")
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    variables = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        _RECONNECT: str(_OWN_RECONNECT_SECONDS),
    }
    try:
        with _variables(variables):
            _forget_token()
            yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before
        if not ray.is_initialized():
            _forget_token()


@contextmanager
def _variables(given: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables in this block, for the processes that it starts."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _check_tokens(version: str) -> None:
    if not hasattr(importlib.import_module("ray._raylet"), "AuthenticationTokenLoader"):
        what = f"Ray {version} has no tokens, so others could give orders to its clusters"
        raise BackendError(what, where="--ray", hint="Install a later one: pip install -U 'kshot[ray]'")


def _forget_token() -> None:
    """Have Ray read mode and token anew: it caches those of its import, or of its last use."""
    raylet = importlib.import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


def _answers(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, _WATCH_SECONDS).close()
    except OSError:
        return False
    return True


def _is_dead(path: Path) -> bool:
    """Whether the file is a socket without a listener, or is gone."""
    with suppress(AttributeError, OSError), socket.socket(socket.AF_UNIX) as tried:  # not every system has such sockets
        try:
            tried.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return True
    return False


def _silent(_worker: int, _events: Sequence[Event]) -> None:
    """Take events that nobody wants any more."""


def _reason(exc: BaseException) -> str:
    """Return the first line of what Ray says, which goes on for many."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return one_line(lines[0])[:200] if lines else "its actor is gone"
