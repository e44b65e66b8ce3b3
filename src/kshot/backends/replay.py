"""Recorded answers as a model: the journal of another run, or JSON lines with ``prompt`` and ``response``."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from kshot.core.content import BY_ADDRESS, MEDIA_KINDS, content_json
from kshot.core.errors import BackendError
from kshot.core.memo import Offsets, address
from kshot.core.protocols import Abilities, Model, RequestQueue
from kshot.core.reasoning import opens_thoughts, without_thoughts
from kshot.core.records import Failed, Generate, Generated, Loglik, Prompt, Request, Response, Search, TokenLogprobs
from kshot.core.serialization import (
    JournalLine,
    damage_note,
    decoded_line,
    digest,
    journal_lines,
    token_logprobs_from_json,
)
from kshot.core.text_files import lines_of, parse_json, regular_file

_DIGEST = re.compile(r"[0-9a-f]{32}")


def open_recording(path: str) -> Model:
    """Open ``replay:FILE``: a search engine for recorded rankings, else a language model."""
    from kshot.backends.search.recorded import RecordedSearchEngine, is_recorded_run

    return RecordedSearchEngine(path) if is_recorded_run(path) else Replay(path)


class Replay:
    """A language model that answers from a file. It holds offsets, not records, so large files take little memory.

    A prompt that is recorded several times answers that many replicas. A request that is not in the file gets a
    ``Failed``.
    """

    def __init__(self, path: str | Path) -> None:
        """Index the file (or the ``journal.jsonl`` of a run folder)."""
        self._path = Path(path).expanduser()
        if self._path.is_dir():
            self._path /= "journal.jsonl"
        self.name = f"replay:{path}"
        self._first = Offsets()
        self._repeats: dict[int, list[int]] = {}
        self._damaged: list[tuple[int, int]] = []
        self._first_checksum: int | None = None
        try:
            self._file = open(self._path, "rb", opener=regular_file)  # noqa: SIM115 - see close
        except OSError as exc:
            raise BackendError(f"the recording cannot be read: {exc.strerror or exc}", where=self.name) from exc
        try:
            self._is_journal = self._holds_journal()
            self._file.seek(0)
            self.fingerprint = f"replay:{self._indexed()}"
        except BaseException:
            self._file.close()
            raise

    @property
    def notes(self) -> list[str]:
        """Which lines of a journal are damaged, and therefore not used."""
        return [damage_note(str(self._path), self._damaged, "{they} {are} not used")] if self._damaged else []

    @property
    def answers(self) -> tuple[type, ...]:
        """All requests for a journal, which may hold any of them; else generations."""
        return (Generate, Loglik, Search) if self._is_journal else (Generate,)

    @property
    def abilities(self) -> Abilities:
        """The model names the file that it replays."""
        return Abilities(recording=self._path, media=frozenset({*MEDIA_KINDS, BY_ADDRESS}))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def serve(self, queue: RequestQueue) -> Iterator[tuple[Request, Response]]:
        """Answer every request from the file."""
        for request in queue:
            yield request, self._find(request)

    def _holds_journal(self) -> bool:
        """Whether the first line that can be read is a record of a journal; a damaged line before it does not count."""
        for line in lines_of(self._file, self._path):
            with suppress(ValueError):
                row = parse_json(line)
                return isinstance(row, dict) and isinstance(row.get("response"), dict) and "asked" in row
        return False

    def _indexed(self) -> str:
        """Keep where each answer stands, and return the digest of the file."""
        state = hashlib.blake2b(digest_size=16)

        def hashed() -> Iterator[bytes]:
            for line in lines_of(self._file, self._path):
                state.update(line)
                yield line

        if not (self._add_journal if self._is_journal else self._add_prompts)(hashed()):
            raise BackendError("the recording is empty", where=str(self._path), hint="Name a file with answers.")
        return state.hexdigest()

    def _add_journal(self, lines: Iterator[bytes]) -> int:
        records = 0
        for line in journal_lines(lines, str(self._path)):
            if line.record is None or not _DIGEST.fullmatch(line.record.asked):
                self._check_is_no_prompt(line)
                self._damaged.append((line.number, line.offset))
                continue
            records += 1
            if line.record.has_checksum and self._first_checksum is None:
                self._first_checksum = line.offset
            if not line.record.failed:
                self._first[address(line.record.asked)] = line.offset
        if self._damaged and not records:
            raise BackendError("this line is not a journal record", where=f"{self._path}:{self._damaged[0][0]}")
        return records

    def _check_is_no_prompt(self, line: JournalLine) -> None:
        """Refuse a file that was put together from a journal and recorded prompts."""
        with suppress(ValueError):
            row = parse_json(line.raw)
            if isinstance(row, dict) and "prompt" in row:
                where = f"{self._path}:{line.number}"
                raise BackendError("the file mixes journal records and recorded prompts", where=where)

    def _add_prompts(self, lines: Iterator[bytes]) -> int:
        offset = records = 0
        for number, line in enumerate(lines, start=1):
            if line.strip():
                self._add_prompt(self._parsed(line, number), offset, number)
                records += 1
            offset += len(line)
        return records

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            row = parse_json(line)
        except ValueError as exc:
            raise BackendError("this line is not JSON", where=f"{self._path}:{number}") from exc
        if not isinstance(row, dict):
            raise BackendError("this line is not an object", where=f"{self._path}:{number}")
        return row

    def _add_prompt(self, row: dict[str, Any], offset: int, number: int) -> None:
        if isinstance(row.get("response"), dict) and "asked" in row:
            raise BackendError("the file mixes journal records and recorded prompts", where=f"{self._path}:{number}")
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
            for form in _asked_forms(request):
                offset = self._first.get(address(digest(form)))
                if offset is not None:
                    return self._recorded(offset)
        elif isinstance(request, Generate):
            for prompt in _recorded_forms(request.prompt):
                offset = self._offset(_prompt_key(prompt), request.replica)
                if offset is not None:
                    row: dict[str, Any] = json.loads(self._line(offset))
                    reply = Generated(str(_reply(row)), reasoning=_reasoning(row), token_logprobs=_tokens(row))
                    opened = not reply.reasoning and opens_thoughts(request.prompt.text)
                    return without_thoughts(reply, opened=opened)
        return Failed("not_recorded", f"{self._path} holds no answer to this prompt")

    def _offset(self, key: int, replica: int) -> int | None:
        if not replica:
            return self._first.get(key)
        repeats = self._repeats.get(key, ())
        return repeats[replica - 1] if replica <= len(repeats) else None

    def _recorded(self, offset: int) -> Response:
        early = self._first_checksum is None or offset < self._first_checksum
        record = decoded_line(self._line(offset), early=early)
        if record is None:
            raise BackendError("the file changed while it was in use", where=str(self._path), hint="Run it again.")
        return record.response

    def _line(self, offset: int) -> bytes:
        self._file.seek(offset)
        return self._file.readline()


def _reply(row: dict[str, Any]) -> Any:
    """Return the recorded text; files of token lookup results call it ``full_output``."""
    return row.get("response", row.get("full_output"))


def _reasoning(row: dict[str, Any]) -> str:
    """Return the recorded reasoning, under the names that servers have for it."""
    found = row.get("reasoning") or row.get("reasoning_content")
    return found if isinstance(found, str) else ""


def _tokens(row: dict[str, Any]) -> TokenLogprobs | None:
    """Return the recorded log-probabilities of the tokens; what is none does no harm to the text."""
    with suppress(ValueError):
        return token_logprobs_from_json(row.get("token_logprobs"))
    return None


def _asked_forms(request: Request) -> Iterator[Request]:
    """Yield a request, and then as it would be with or without the log-probabilities of tokens.

    The answers are the same: what was not asked for is left out, and what was not recorded is not known.
    """
    yield request
    if isinstance(request, Generate | Loglik):
        yield replace(request, token_logprobs=not request.token_logprobs)


def _recorded_forms(prompt: Prompt) -> Iterator[Any]:
    """Yield the forms in which a file may have a prompt: messages, then text."""
    if prompt.messages:
        yield [{"role": message.role, "content": content_json(message.content)} for message in prompt.messages]
    yield prompt.text


def _prompt_key(prompt: Any) -> int:
    body = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True)
    return int.from_bytes(hashlib.blake2b(body.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
