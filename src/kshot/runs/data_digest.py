"""The fingerprint of a dataset: a digest of the contents of its samples, as they are when they are asked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, is_dataclass
from typing import Any

from kshot.core.records import Sample


class DigestedSamples:
    """Samples that are digested as they pass. ``digest`` is None until all have passed."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        """Take the samples of a task."""
        self._samples = samples
        self.digest: str | None = None

    def __iter__(self) -> Iterator[Sample]:
        """Yield the samples."""
        state = hashlib.blake2b(digest_size=16)
        for sample in self._samples:
            state.update(_content(sample))
            yield sample
        self.digest = state.hexdigest()


def _content(sample: Sample) -> bytes:
    try:
        fields = _encode([sample.id, sample.fields, sample.target, sample.choices, sample.category])
    except (TypeError, ValueError, RecursionError):  # a value that holds itself, or with an equality of its own
        fields = _encode([sample.id, sorted(map(str, sample.fields)), sample.choices, sample.category])
    return fields.encode() + b"\n"


def _plain(value: Any) -> Any:
    """Return a value that JSON does not know in a form that is the same in every process."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return hashlib.blake2b(value, digest_size=16).hexdigest()
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    return type(value).__qualname__  # its text may hold an address


_encode = json.JSONEncoder(separators=(",", ":"), default=_plain, skipkeys=True).encode
