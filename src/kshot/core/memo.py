"""Where the engine keeps responses, so that nothing is asked twice."""

from __future__ import annotations

from typing import Protocol

from kshot.core.records import Failed, Response


class Memo(Protocol):
    """Responses by content address: a run's journal, or a dict in memory."""

    def get(self, key: str, /) -> Response | None:
        """Return the stored response, if there is one to use."""
        ...

    def put(self, key: str, asked: str, response: Response, /) -> None:
        """Store a response; when this returns, it survives a crash."""
        ...


class MemoryMemo:
    """A memo for runs without a folder. It does not store failures: they are asked again."""

    def __init__(self) -> None:
        self._held: dict[str, Response] = {}

    def get(self, key: str) -> Response | None:
        """Return the stored response."""
        return self._held.get(key)

    def put(self, key: str, asked: str, response: Response) -> None:  # noqa: ARG002 - only the journal needs ``asked``
        """Store a response for as long as the process lives."""
        if not isinstance(response, Failed):
            self._held[key] = response
