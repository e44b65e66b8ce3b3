"""The fingerprint of a dataset: a digest of the contents of its samples, as they are when they are asked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from kshot.core.records import Answers, AnyOption, Gold, Option, Sample
from kshot.core.visible import ADDRESS


class DataDigests:
    """What ``spec.json`` records of the data of each task: the first samples, as many as have passed, and their digest.

    ``{"samples": 40, "digest": "…", "all": true}``. A run that is continued compares its data with those that it began
    with, also if it was stopped or killed on its way; the record of the first data stays.
    """

    def __init__(self, recorded: Mapping[str, Any], changed: Callable[[str], None]) -> None:
        """Take what was recorded; ``changed`` is called once with the name of each task whose data differ from it."""
        self._records = {name: each for name, each in recorded.items() if _is_record(each)}
        self._changed = changed
        self._passing: dict[str, _DigestedSamples] = {}

    def of(self, name: str, samples: Iterable[Sample]) -> Iterable[Sample]:
        """Return the samples of a task, which are digested as they pass."""
        earlier = self.records().get(name)
        self._passing[name] = _DigestedSamples(samples, earlier, lambda: self._changed(name))
        return self._passing[name]

    def records(self) -> dict[str, Any]:
        """Return what is to be recorded now."""
        for name, samples in self._passing.items():
            if (record := samples.record()) is not None:
                self._records[name] = record
        return dict(self._records)


def _is_record(found: Any) -> bool:
    """Whether this is a record as kshot writes it; the first versions had only the digest of all samples."""
    types = {"samples": int, "digest": str, "all": bool}
    return isinstance(found, dict) and all(type(found.get(name)) is kind for name, kind in types.items())


class _DigestedSamples:
    """Samples that are digested as they pass, and compared with an earlier record."""

    def __init__(
        self, samples: Iterable[Sample], earlier: Mapping[str, Any] | None, changed: Callable[[], None]
    ) -> None:
        self._samples, self._earlier, self._changed = samples, earlier, changed
        self._state = hashlib.blake2b(digest_size=16)
        self._count, self._all, self._differ = 0, False, False

    def __iter__(self) -> Iterator[Sample]:
        self._state, self._count, self._all = hashlib.blake2b(digest_size=16), 0, False
        known = -1 if self._earlier is None else self._earlier["samples"]
        for sample in self._samples:
            self._state.update(_content(sample))
            self._count += 1
            if self._count in {known, known + 1}:
                self._compare()
            yield sample
        self._all = True
        self._compare()

    def _compare(self) -> None:
        """Tell it if the samples so far, or their number, are not those of the record."""
        earlier, count = self._earlier, self._count
        if earlier is None or self._differ:
            return
        other = count == earlier["samples"] and self._state.hexdigest() != earlier["digest"]
        if other or (self._all and count < earlier["samples"]) or (earlier["all"] and count > earlier["samples"]):
            self._differ = True
            self._changed()

    def record(self) -> dict[str, Any] | None:
        """Return the record of what has passed; None if it says no more than the earlier one."""
        if self._differ or not self._count or self._count < (self._earlier or {}).get("samples", 0):
            return None
        return {"samples": self._count, "digest": self._state.hexdigest(), "all": self._all}


def question_digest(sample: Sample) -> str:
    """Return the digest of what is asked and what is right, whatever the prompt, the examples and the clean-up.

    The id and the category are no part of it. Two runs are compared on samples with the same id and the same digest.
    """
    try:
        whole = [sample.fields, sample.target, sample.choices]
        text = _encode_sorted(whole if sample.row is None else [sample.row, *_right(sample)])
    except (TypeError, ValueError, RecursionError):  # keys of several types, or a value that holds itself
        text = _content(sample).decode()
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _right(sample: Sample) -> list[str]:
    """Return the right answers of a row, as a class has found them: it may take others after a change of its code.

    Options count by their texts, so that their order may change; white space and capital letters may change, too. The
    gold of a config is a column of the row, and a clean-up may work on it.
    """
    match sample.target:
        case Option(index):
            texts: Iterable[str] = [sample.choices[index]] if index < len(sample.choices) else [str(index)]
        case AnyOption(indices):
            texts = [sample.choices[each] if each < len(sample.choices) else str(each) for each in indices]
        case Answers(texts):
            pass
        case Gold(value) if sample.row is not sample.fields:
            texts = [_encode_sorted(value)]
        case _:
            texts = []
    return sorted(" ".join(str(text).split()).casefold() for text in texts)


def _content(sample: Sample) -> bytes:
    try:
        fields = _encode([sample.id, sample.fields, sample.target, sample.choices, sample.category])
    except (TypeError, ValueError, RecursionError):  # a value that holds itself, or with an equality of its own
        fields = _encode([sample.id, sorted(map(str, sample.fields)), sample.choices, sample.category])
    return fields.encode() + b"\n"


def _plain(value: Any) -> Any:
    """Return a value that JSON does not know in a form that is the same in every process, and differs if it does."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return hashlib.blake2b(value, digest_size=16).hexdigest()
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    as_list = getattr(value, "tolist", None)  # arrays and numbers of numpy, torch and their like
    if callable(as_list) and not isinstance(value, type):
        return as_list()
    shown = repr(value)
    return type(value).__qualname__ if ADDRESS.search(shown) else f"{type(value).__qualname__} {shown}"


_encode = json.JSONEncoder(separators=(",", ":"), default=_plain, skipkeys=True).encode
_encode_sorted = json.JSONEncoder(separators=(",", ":"), default=_plain, skipkeys=True, sort_keys=True).encode
