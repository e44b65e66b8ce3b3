"""What ``sandbox.guest`` calls: the actions of an adapter, with batches of plain data.

Runs inside the confined process. The adapter is a module of kshot that knows a project: what stands in for its
packages, and what can be asked of it. Nothing of the project runs before the process is confined.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import queue
import threading

from kshot.sandbox._guest_imports import ProjectImporter
from kshot.sandbox._guest_project import GuestProject
from kshot.sandbox._guest_values import plain, restored

TYPE_CHECKING = False  # without the module typing, which takes long to load
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any


# ---- pools and processes for code that may start none: what it would run elsewhere runs here ----
# Projects use pools to be quicker, and processes to be able to
# end what hangs: here the limit on the time of a request does that.


class SerialExecutor(concurrent.futures.Executor):
    """Runs what is submitted at once, in this process."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take the arguments of ``ProcessPoolExecutor``; none of them matters here."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        """Run a function, and return its result as a future."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - the caller gets it with the result
            future.set_exception(error)
        return future


class SerialPool:
    """The methods of ``multiprocessing.Pool`` that projects use."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take the arguments of ``Pool``; none of them matters here."""

    def __enter__(self) -> SerialPool:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, func: Callable[..., Any], iterable: Iterable[Any], *_: Any, **__: Any) -> list[Any]:
        """Call a function with each element."""
        return [func(each) for each in iterable]

    def starmap(self, func: Callable[..., Any], iterable: Iterable[Any], *_: Any, **__: Any) -> list[Any]:
        """Call a function with the parts of each element."""
        return [func(*each) for each in iterable]

    def imap(self, func: Callable[..., Any], iterable: Iterable[Any], *_: Any, **__: Any) -> Iterator[Any]:
        """Call a function with each element, when its result is wanted."""
        return (func(each) for each in iterable)

    imap_unordered = imap

    def apply(self, func: Callable[..., Any], args: Any = (), kwds: Any = None) -> Any:
        """Call a function."""
        return func(*args, **(kwds or {}))

    def apply_async(self, func: Callable[..., Any], args: Any = (), kwds: Any = None, **_: Any) -> Any:
        """Call a function, and return what gives its result."""
        future = SerialExecutor().submit(func, *args, **(kwds or {}))
        future.get = future.result  # type: ignore[attr-defined]  # as the result of a pool is asked
        return future

    def close(self) -> None:
        """Do nothing: nothing runs."""

    terminate = join = close


class SerialProcess:
    """Runs its target when it is started; it has ended then."""

    exitcode: int | None = None
    pid: int | None = None
    daemon = True

    def __init__(
        self,
        group: Any = None,
        target: Callable[..., Any] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Take the arguments of ``multiprocessing.Process``."""
        del group
        self.name = name or "process"
        self._target, self._args, self._kwargs = target, tuple(args), dict(kwargs or {})

    def start(self) -> None:
        """Run the target; an exception in it is its own affair, as in another process."""
        try:
            if self._target is not None:
                self._target(*self._args, **self._kwargs)
            self.exitcode = 0
        except Exception:  # noqa: BLE001 - as above
            self.exitcode = 1

    def is_alive(self) -> bool:
        """Say that it has ended."""
        return False

    def join(self, timeout: float | None = None) -> None:
        """Do nothing: it has ended."""

    def terminate(self) -> None:
        """Do nothing: it has ended."""

    kill = close = terminate


class LocalManager:
    """What ``multiprocessing.Manager`` shares between processes: here there is one."""

    list, dict, Queue = list, dict, queue.Queue

    def __enter__(self) -> LocalManager:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def shutdown(self) -> None:
        """Do nothing: nothing runs."""


class _Context:
    """What ``multiprocessing.get_context`` returns; the locks of threads do where there are no other processes."""

    Process, Pool, Manager, Queue, SimpleQueue = SerialProcess, SerialPool, LocalManager, queue.Queue, queue.SimpleQueue
    Lock, RLock, Event, Condition = threading.Lock, threading.RLock, threading.Event, threading.Condition
    Semaphore, BoundedSemaphore, Barrier = threading.Semaphore, threading.BoundedSemaphore, threading.Barrier
    cpu_count = staticmethod(lambda: 1)


def install() -> None:
    """Put these in place of the real ones, which this process may not use."""
    import concurrent.futures.process
    import multiprocessing.pool

    for module in (concurrent.futures, concurrent.futures.process):
        vars(module)["ProcessPoolExecutor"] = SerialExecutor
    vars(multiprocessing.pool)["Pool"] = SerialPool
    context = _Context()
    given = {name: getattr(context, name) for name in vars(_Context) if name[0].isupper()}
    vars(multiprocessing).update(given, get_context=lambda *_: context)


_PREPARED: dict[str, Any] = {}
_ACTIONS: dict[str, Callable[..., Any]] = {}


def prepare(job: dict[str, Any]) -> None:
    """Import the adapter that the job names."""
    _PREPARED.update(job=job, adapter=importlib.import_module(job["adapter"]))


def act(action: str, given: dict[str, Any]) -> Any:
    """Return the plain form of what an action returns; the first call prepares for the project."""
    if not _ACTIONS:
        _ACTIONS.update(_actions(**_PREPARED))
    return plain(_ACTIONS[action](**restored(given)), tuples=_PREPARED["job"]["tuples"])


def _actions(job: dict[str, Any], adapter: Any) -> dict[str, Callable[..., Any]]:
    install()
    project = GuestProject(job["packages"])
    importer = ProjectImporter(project, stand_ins=adapter.stand_ins(), deferred=frozenset(adapter.DEFERRED))
    actions: dict[str, Callable[..., Any]] = adapter.actions(importer, job)
    return actions
