"""Recorded answers as a model: the journal of another run, or JSON lines with ``prompt`` and ``response``."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kshot.core.errors import BackendError
from kshot.core.json_text import parse_json
from kshot.core.offsets import Offsets, address
from kshot.core.protocols import Abilities, Model, RequestQueue
from kshot.core.reasoning import opens_thoughts, without_thoughts
from kshot.core.records import Failed, Generate, Generated, Loglik, Prompt, Request, Response, Search
from kshot.core.serialization import digest, response_from_json


def open_recording(path: str) -> Model:
    """Open ``replay:FILE``: a search engine for recorded rankings, else a language model."""
    from kshot.backends.search.recorded import RecordedSearchEngine, is_recorded_run

    return RecordedSearchEngine(path) if is_recorded_run(path) else Replay(path)


class Replay:
    """A language model that answers from a file. It holds offsets, not records, so large files take little memory.

    A prompt that is recorded several times answers that many replicas. A request that is not in the file gets a
    ``Failed``.
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
        self._is_journal: bool | None = None  # unknown until the first record
        file_hash = hashlib.blake2b(digest_size=16)
        try:
            self._file = self._path.open("rb")
        except OSError as exc:
            raise BackendError(f"the recording cannot be read: {exc.strerror or exc}", where=self.name) from exc
        offset = records = 0
        for number, line in enumerate(self._file, start=1):
            file_hash.update(line)
            if line.strip():
                self._add(self._parsed(line, number), offset, number)
                records += 1
            offset += len(line)
        if not records:
            self._file.close()
            raise BackendError("the recording is empty", where=str(self._path), hint="Name a file with answers.")
        self.fingerprint = f"replay:{file_hash.hexdigest()}"

    @property
    def answers(self) -> tuple[type, ...]:
        """All requests for a journal, which may hold any of them; else generations."""
        return (Generate, Loglik, Search) if self._is_journal else (Generate,)

    @property
    def abilities(self) -> Abilities:
        """The model names the file that it replays."""
        return Abilities(recording=self._path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response]]:
        """Answer every request from the file."""
        for request in queue:
            yield request, self._find(request)

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            row = parse_json(line)
        except ValueError as exc:
            raise BackendError("this line is not JSON", where=f"{self._path}:{number}") from exc
        if not isinstance(row, dict):
            raise BackendError("this line is not an object", where=f"{self._path}:{number}")
        return row

    def _add(self, row: dict[str, Any], offset: int, number: int) -> None:
        journal = isinstance(row.get("response"), dict) and "asked" in row
        if self._is_journal not in {None, journal}:
            raise BackendError("the file mixes journal records and recorded prompts", where=f"{self._path}:{number}")
        self._is_journal = journal
        if journal:
            if not isinstance(row["asked"], str) or not re.fullmatch(r"[0-9a-f]{32}", row["asked"]):
                raise BackendError("this line is not a journal record", where=f"{self._path}:{number}")
            if "failed" not in row["response"]:
                self._first[address(row["asked"])] = offset
            return
        if "prompt" not in row or not isinstance(_reply(row), str):
            raise BackendError(
                "this line is not a recorded answer",
                where=f"{self._path}:{number}",
                hint="It needs a prompt and a response text.",
            )
        key = _prompt_key(row["prompt"])
        if key in self._first:
            self._repeats.setdefault(key, []).append(offset)
        else:
            self._first[key] = offset

    def _find(self, request: Request) -> Response:
        if self._is_journal:
            offset = self._first.get(address(digest(request)))
            if offset is not None:
                return self._recorded(offset)
        elif isinstance(request, Generate):
            for prompt in _recorded_forms(request.prompt):
                offset = self._offset(_prompt_key(prompt), request.replica)
                if offset is not None:
                    row = self._row(offset)
                    reply = Generated(str(_reply(row)), reasoning=_reasoning(row))
                    opened = not reply.reasoning and opens_thoughts(request.prompt.text)
                    return without_thoughts(reply, opened=opened)
        return Failed("not_recorded", f"{self._path} holds no answer to this prompt")

    def _offset(self, key: int, replica: int) -> int | None:
        if not replica:
            return self._first.get(key)
        repeats = self._repeats.get(key, ())
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
    """Return the recorded text; files of token lookup results call it ``full_output``."""
    return row.get("response", row.get("full_output"))


def _reasoning(row: dict[str, Any]) -> str:
    """Return the recorded reasoning, under the names that servers have for it."""
    found = row.get("reasoning") or row.get("reasoning_content")
    return found if isinstance(found, str) else ""


def _recorded_forms(prompt: Prompt) -> Iterator[Any]:
    """Yield the forms in which a file may have a prompt: messages, then text."""
    if prompt.messages:
        yield [{"role": message.role, "content": message.content} for message in prompt.messages]
    yield prompt.text


def _prompt_key(prompt: Any) -> int:
    body = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True)
    return int.from_bytes(hashlib.blake2b(body.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
