"""Recorded answers as a model: another run's journal, or JSON lines with ``prompt`` and ``response``."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kshot.core.errors import BackendError
from kshot.core.offsets import Offsets, address
from kshot.core.protocols import Abilities, Model, RequestQueue
from kshot.core.records import (
    Failed,
    Generate,
    Generated,
    Loglik,
    Prompt,
    Request,
    Response,
    Search,
    digest,
    response_from_json,
)


def open_recording(path: str) -> Model:
    """Open ``replay:FILE``: a search engine for recorded rankings, else a language model."""
    from kshot.backends.search.recorded import RecordedSearchEngine, is_recorded_run

    return RecordedSearchEngine(path) if is_recorded_run(path) else Replay(path)


class Replay:
    """Answers from a file. It keeps an offset per record, not the records, so large files cost little memory.

    A prompt recorded several times answers that many replicas; what it does not hold is a ``Failed``.
    """

    notes = ()

    def __init__(self, path: str | Path) -> None:
        """Index the file (or the ``journal.jsonl`` of a run folder)."""
        self._path = Path(path).expanduser()
        if self._path.is_dir():
            self._path /= "journal.jsonl"
        self.name = f"replay:{path}"
        self._first = Offsets()
        self._repeats: dict[int, list[int]] = {}
        self._journal: bool | None = None
        whole = hashlib.blake2b(digest_size=16)
        try:
            self._file = self._path.open("rb")
        except OSError as exc:
            raise BackendError(f"the recording cannot be read: {exc.strerror or exc}", where=self.name) from exc
        offset = 0
        for number, line in enumerate(self._file, start=1):
            whole.update(line)
            if line.strip():
                self._index(self._parsed(line, number), offset, number)
            offset += len(line)
        self.fingerprint = f"replay:{whole.hexdigest()}"

    @property
    def answers(self) -> tuple[type, ...]:
        """A journal may hold anything; prompts with responses hold generations."""
        return (Generate, Loglik, Search) if self._journal else (Generate,)

    @property
    def abilities(self) -> Abilities:
        """It can say which file it replays."""
        return Abilities(recording=self._path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response]]:
        """Look every request up."""
        for request in queue:
            yield request, self._find(request)

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise BackendError("this line is not JSON", where=f"{self._path}:{number}") from exc
        if not isinstance(row, dict):
            raise BackendError("this line is not an object", where=f"{self._path}:{number}")
        return row

    def _index(self, row: dict[str, Any], offset: int, number: int) -> None:
        journal = isinstance(row.get("response"), dict) and "asked" in row
        if self._journal not in {None, journal}:
            raise BackendError("the file mixes journal records and prompts", where=f"{self._path}:{number}")
        self._journal = journal
        if journal:
            if not isinstance(row["asked"], str) or not re.fullmatch(r"[0-9a-f]{32}", row["asked"]):
                raise BackendError("this line is not a journal record", where=f"{self._path}:{number}")
            if "failed" not in row["response"]:
                self._first[address(row["asked"])] = offset
            return
        if "prompt" not in row or not isinstance(_reply(row), str):
            raise BackendError(
                "this line is no recorded answer",
                where=f"{self._path}:{number}",
                hint="It needs a prompt and a response text.",
            )
        place = _address(row["prompt"])
        if place in self._first:
            self._repeats.setdefault(place, []).append(offset)
        else:
            self._first[place] = offset

    def _find(self, request: Request) -> Response:
        if self._journal:
            place = self._first.get(address(digest(request)))
            if place is not None:
                return self._recorded(place)
        elif isinstance(request, Generate):
            for prompt in _spellings(request.prompt):
                offset = self._offset(_address(prompt), request.replica)
                if offset is not None:
                    return Generated(str(_reply(self._row(offset))))
        return Failed("not_recorded", f"{self._path} holds no answer to this prompt")

    def _offset(self, place: int, replica: int) -> int | None:
        if not replica:
            return self._first.get(place)
        repeats = self._repeats.get(place, ())
        return repeats[replica - 1] if replica <= len(repeats) else None

    def _recorded(self, offset: int) -> Response:
        row = self._row(offset)
        try:
            return response_from_json(row["response"])
        except (KeyError, TypeError, ValueError) as exc:
            raise BackendError(f"the record {row['asked']} is damaged", where=str(self._path)) from exc

    def _row(self, offset: int) -> dict[str, Any]:
        self._file.seek(offset)
        row: dict[str, Any] = json.loads(self._file.readline())
        return row


def _reply(row: dict[str, Any]) -> Any:
    """The recorded text; files of token lookup results call it ``full_output``."""
    return row.get("response", row.get("full_output"))


def _spellings(prompt: Prompt) -> Iterator[Any]:
    if prompt.messages:
        yield [{"role": m.role, "content": m.content} for m in prompt.messages]
    yield prompt.text


def _address(prompt: Any) -> int:
    body = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True)
    return int.from_bytes(hashlib.blake2b(body.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
