"""Answers that come in a later call of the same command: those of a server's batch API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kshot.core.budget import LimitReached
from kshot.core.records import Failed


@dataclass(frozen=True, slots=True)
class Postponed(Failed):
    """A backend has taken a request, and answers it in a later call. Nothing is stored, and its sample waits."""

    kind: str = "postponed"
    message: str = "it is answered in a later call"


class RequestsPostponed(Exception):  # noqa: N818 - it is no fault
    """All samples of a task that are not done wait for postponed requests."""


class BatchesOpen(LimitReached):
    """A run stopped because its requests wait in batches; the same command collects the answers."""


class BatchStore(Protocol):
    """Keeps the state of submitted batches in the run folder."""

    def read(self) -> dict[str, Any]:
        """Return the state; an empty one if there is none."""
        ...

    def write(self, state: Mapping[str, Any]) -> None:
        """Store the state; when this returns, a crash cannot lose it."""
        ...

    def is_answered(self, key: str) -> bool:
        """Whether the journal of the run has the answer to a request."""
        ...


class BatchQueue(Protocol):
    """The batches of one model."""

    def open(self, store: BatchStore, role: str) -> Mapping[str, Failed]:
        """Collect what has been answered since; return the requests, by key, that failed for good in this run.

        A model and its judge may be the same one: each role has batches of its own.
        """
        ...

    def submit(self) -> None:
        """Submit the postponed requests that are in no batch yet."""
        ...

    def done(self) -> None:
        """Note that the run is complete: what failed is asked again by the next call."""
        ...

    @property
    def waiting(self) -> int:
        """How many requests are in batches that have not ended."""
        ...
