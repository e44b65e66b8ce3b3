"""Where the engine keeps responses, so that nothing is asked twice; and a map from their addresses to file offsets."""

from __future__ import annotations

from array import array
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


_MAX_LOAD = 2 / 3
"""The table doubles when more than this share of its slots is used."""


class Offsets:
    """A map from content addresses to file offsets: a hash table with open addressing over two arrays.

    An entry takes 24 to 48 bytes; in a dict it takes more than 100.

    Keys are 64-bit digests, so they are spread evenly. A slot whose value is 0 is free.
    """

    def __init__(self, room: int = 1024) -> None:
        """Start with ``room`` slots, a power of two."""
        self._mask = room - 1
        self._keys = array("Q", bytes(8 * room))
        self._values = array("Q", bytes(8 * room))
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def __contains__(self, key: int) -> bool:
        return self._values[self._slot(key)] > 0

    def get(self, key: int) -> int | None:
        """Return the offset stored under a key."""
        value = self._values[self._slot(key)]
        return value - 1 if value else None

    def __setitem__(self, key: int, offset: int) -> None:
        slot = self._slot(key)
        if not self._values[slot]:
            self._used += 1
            self._keys[slot] = key
        self._values[slot] = offset + 1
        if self._used > _MAX_LOAD * (self._mask + 1):
            self._grow()

    def _slot(self, key: int) -> int:
        keys, values, mask = self._keys, self._values, self._mask
        slot = key & mask
        while values[slot] and keys[slot] != key:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        keys, values = self._keys, self._values
        self._mask = 2 * (self._mask + 1) - 1
        self._keys = array("Q", bytes(8 * (self._mask + 1)))
        self._values = array("Q", bytes(8 * (self._mask + 1)))
        for key, value in zip(keys, values, strict=True):
            if value:
                slot = self._slot(key)
                self._keys[slot], self._values[slot] = key, value


def address(digest: str) -> int:
    """Return the 64 bits of a hexadecimal digest that an index keeps."""
    return int(digest[:16], 16)
