"""What the dispatcher, a launcher and a worker say to one another.

A *job* is what workers do. It travels to each of them by pickling, and is opened there once. *Items* are pieces of work
with a number; they are sent in *chunks*. A launcher starts workers and carries messages to them and events back.

The rules of a launcher:

- ``start`` returns at once. Every worker then says ``Placed``, ``Opened`` and, for its chunks, ``Begun``,
  ``ItemResults`` and ``GivenBack``, in this order for each of them.
- ``Raised`` or ``Died`` is the last event of a worker. After ``Died`` the dispatcher may call ``restart``, and the
  events begin again with ``Placed``. Nothing of the earlier life comes after that.
- Results arrive in the order in which they were sent; what a worker had not sent when it died is lost.
- ``report`` may be called from any thread. A launcher reports ``WaitsFor`` for a worker that has no place yet.
- ``close`` leaves nothing behind: no process, no actor, no file. The ``idle`` workers close their jobs first; the
  others are ended at once, whatever they compute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kshot.core.errors import BackendError, DataError, KshotError, UsageError

if TYPE_CHECKING:
    from kshot.backends.pool.worker import WorkQueue

# ---- what a worker does ----


class OpenJob(ABC):
    """A job that is open in a worker."""

    facts: Any = "open"
    """What the dispatcher should know of it; all workers must say the same."""

    @abstractmethod
    def work(self, queue: WorkQueue, /) -> Iterator[tuple[int, Any]]:
        """Yield each item's number with its result, in any order, until none waits."""

    def call(self, name: str, *arguments: Any) -> Any:
        """Answer a question beside the work, in another thread than ``work``."""
        raise NotImplementedError(name, arguments)

    def report(self) -> Any:  # noqa: B027 - not every job has something to say
        """Return what the dispatcher should know of the work so far; it goes with the results."""

    def close(self) -> None:  # noqa: B027 - not every job holds something open
        """Release what is open."""


Job: TypeAlias = Callable[[], OpenJob]
"""Opens what workers do. It is pickled, and called once in each worker; an error ends the run."""


# ---- messages to a worker ----


@dataclass(frozen=True, slots=True)
class WorkChunk:
    """Items to work on, with their numbers."""

    items: tuple[tuple[int, Any], ...]


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Give half of the items back that the job has not taken: another worker has nothing to do."""


@dataclass(frozen=True, slots=True)
class Call:
    """Answer a question beside the work."""

    number: int
    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class CloseJob:
    """Close the job and end."""


Message: TypeAlias = WorkChunk | GiveBack | Call | CloseJob

# ---- events of a worker ----


@dataclass(frozen=True, slots=True)
class WaitsFor:
    """There is no place for it yet; ``what`` says what it needs and what there is. Said by the launcher."""

    what: str


@dataclass(frozen=True, slots=True)
class Placed:
    """Its process runs. ``where``: its process id, and the machine if it is another one."""

    where: str


@dataclass(frozen=True, slots=True)
class Opened:
    """The job is open."""

    facts: Any


@dataclass(frozen=True, slots=True)
class Begun:
    """The job has taken all items that wait: it can be sent more."""


@dataclass(frozen=True, slots=True)
class ItemResults:
    """Results by number, and the job's report."""

    results: tuple[tuple[int, Any], ...]
    report: Any


@dataclass(frozen=True, slots=True)
class GivenBack:
    """These items go back: the job had not taken them."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The answer to a ``Call``."""

    number: int
    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """An error in the worker, in parts: exceptions of others do not always survive pickling."""

    kind: type[KshotError]
    what: str
    where: str
    hint: str

    @classmethod
    def of(cls, error: BaseException, doing: str) -> Raised:
        """Take an error apart; ``doing`` says what failed, if the error is not one that speaks to the user."""
        if not isinstance(error, KshotError):
            return cls(BackendError, f"{doing}: {type(error).__name__}: {error}", "", "")
        kind = next((kind for kind in (UsageError, DataError) if isinstance(error, kind)), BackendError)
        return cls(kind, error.what, error.where, error.hint)

    def error(self, where: str) -> KshotError:
        """Put it together again; ``where`` is named if the error names no place."""
        return self.kind(self.what, where=self.where or where, hint=self.hint)


@dataclass(frozen=True, slots=True)
class Died:
    """Its process is gone. Said by the launcher."""

    reason: str


Event: TypeAlias = WaitsFor | Placed | Opened | Begun | ItemResults | GivenBack | CallAnswer | Raised | Died

Report: TypeAlias = Callable[[int, Sequence[Event]], None]
"""Receives the events of a worker, by its number; any thread may call it."""


class Launcher(Protocol):
    """Starts workers somewhere, and carries messages and events. The rules are at the top of this module."""

    def start(self, job: Job, workers: int, report: Report, /) -> None:
        """Start so many workers, numbered from 0."""
        ...

    def restart(self, worker: int, /) -> None:
        """Start a worker again that has died."""
        ...

    def send(self, worker: int, message: Message, /) -> None:
        """Send a message to a worker; it is lost if the worker is gone."""
        ...

    def close(self, idle: Collection[int], /) -> None:
        """End all workers; the ``idle`` ones close their jobs first."""
        ...
