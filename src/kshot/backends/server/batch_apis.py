"""The batch APIs of OpenAI and of Anthropic: how batches are submitted, found again, followed and read."""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from itertools import chain
from typing import Any, TypeVar

from kshot.backends.server.connection import load_aiohttp, request_arguments, transport_error
from kshot.backends.server.event_loop import EventLoopHandle
from kshot.backends.server.http_errors import (
    MAX_ERROR_BYTES,
    BrokenError,
    HttpReply,
    HttpStatusError,
    RequestFailedError,
    RetryableError,
    TooLargeError,
    UnreadableError,
    error_from,
    parsed,
    read_limited,
    shortened,
    unpacked,
)
from kshot.backends.server.keys import Address
from kshot.core.errors import BackendError
from kshot.core.kill_points import reach
from kshot.core.records import Failed

# ---- HTTP: few calls, large bodies, and replies that are files ----

_MAX_FILE_BYTES = 4 * 10**9
"""The most that is read of a file of results; each line is then limited by ``--max-reply``."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
_OK = range(200, 300)
_JSON = "application/json"

T = TypeVar("T")


class BatchHttp:
    """Calls the batch API of one server; what may be repeated is, as long as the patience lasts."""

    def __init__(self, address: Address, loop: EventLoopHandle, patience: float) -> None:
        """Take the address and its key, the event loop, and how long to go on after errors, in seconds."""
        self.address, self._loop, self._patience = address, loop, patience
        self._http = load_aiohttp()

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON object at a path."""
        return self._read(path, self._object)

    def file(self, path: str) -> bytes:
        """Return the file at a path."""
        return self._read(path, bytes)

    def post(self, path: str, data: bytes) -> dict[str, Any]:
        """Post JSON once: a server may have done what it did not confirm."""
        return self._loop.run(self._once("POST", path, self._object, data))

    def upload(self, path: str, lines: Sequence[bytes], name: str, purpose: str) -> dict[str, Any]:
        """Upload a file of lines; one that arrives twice does no harm."""
        mark = f"kshot-{uuid.uuid4().hex}"
        part = f'--{mark}\r\nContent-Disposition: form-data; name="'
        head = f'{part}purpose"\r\n\r\n{purpose}\r\n{part}file"; filename="{name}"\r\n'
        head = f"{head}Content-Type: application/jsonl\r\n\r\n"
        # Joined once: the lines may have hundreds of megabytes.
        body = b"\n".join((head.encode() + lines[0], *lines[1:], f"\r\n--{mark}--\r\n".encode()))
        kind = f"multipart/form-data; boundary={mark}"
        return self._loop.run(self._repeated("POST", path, self._object, body, kind))

    def json(self, raw: bytes) -> Any:
        """Read JSON, without the key."""
        account = self.address.account
        body, _ = parsed(raw)
        return account.redacted_json(body) if account.secrets else body

    def _json_or_none(self, raw: bytes) -> Any:
        try:
            return self.json(raw)
        except (ValueError, UnreadableError, TooLargeError):
            return None

    def _object(self, raw: bytes) -> dict[str, Any]:
        """Read a JSON object; anything else is no answer of a batch API, and another try may bring one."""
        body = self._json_or_none(raw)
        if not isinstance(body, dict):
            text = self.address.account.redacted(raw[:MAX_ERROR_BYTES].decode("utf-8", "replace"))
            raise RetryableError(f"the server's reply is not a JSON object: {shortened(text[:100]) or 'it is empty'}")
        return body

    def _read(self, path: str, read: Callable[[bytes], T]) -> T:
        """Return what is at a path; any refusal stops the run, with its status."""
        try:
            return self._loop.run(self._repeated("GET", path, read))
        except RequestFailedError as exc:
            raise HttpStatusError(exc.status or 0, exc.failed.message, where=self.address.where, hint="") from None

    async def _repeated(
        self, method: str, path: str, read: Callable[[bytes], T], data: bytes | None = None, kind: str = _JSON
    ) -> T:
        until, pause = time.monotonic() + self._patience, _FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._once(method, path, read, data, kind)
            except RetryableError as exc:  # noqa: PERF203 - a few calls in an hour
                wait = max(pause, exc.retry_after or 0.0)
                if time.monotonic() + wait > until:
                    hint = "The same command goes on from here."
                    raise BackendError(str(exc), where=self.address.where, hint=hint) from None
                await asyncio.sleep(wait)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _once(
        self, method: str, path: str, read: Callable[[bytes], T], data: bytes | None = None, kind: str = _JSON
    ) -> T:
        reach("server.before_request")
        found = await self._exchanged(method, path, data, kind)
        reach("server.reply_read")
        if isinstance(found, Exception):
            raise found  # here, where no frame of the HTTP library holds the key
        return read(found)

    async def _exchanged(self, method: str, path: str, data: bytes | None, kind: str) -> bytes | Exception:
        http, address = self._http, self.address
        timeout = http.ClientTimeout(total=address.timeout)
        settings = {"timeout": timeout, "auto_decompress": False, "trust_env": False}
        try:
            async with (
                http.ClientSession(cookie_jar=http.DummyCookieJar(), **settings) as session,
                session.request(method, address.url + path, data=data, **request_arguments(address, kind)) as reply,
            ):
                return await self._received(reply)
        except (http.ClientError, asyncio.TimeoutError, OSError, ValueError) as exc:
            return transport_error(exc, http, address, was_there=False)

    async def _received(self, reply: Any) -> bytes | Exception:
        address, status = self.address, int(reply.status)
        limit = _MAX_FILE_BYTES if status in _OK else MAX_ERROR_BYTES
        raw, more = await read_limited(reply.content.iter_any(), limit)
        try:
            whole, too_long = unpacked(raw, reply.headers.get("Content-Encoding", ""), limit)
        except BrokenError as exc:
            return RetryableError(f"the server's reply is broken: {exc}")
        except (UnreadableError, TooLargeError) as exc:
            return BackendError(f"the server's reply cannot be read: {exc}", where=address.where)
        if status in _OK:
            if more or too_long:
                return BackendError(f"a file of results is larger than {limit:,} bytes", where=address.where)
            return whole
        body = self._json_or_none(whole)
        text = address.account.redacted(whole[:2000].decode("utf-8", "replace"))
        used = {name: reply.headers[name] for name in ("Retry-After", "retry-after-ms") if name in reply.headers}
        hint = address.account.hint
        return error_from(HttpReply(status, body, used, text), where=address.where, key_hint=hint, answered=False)


# ---- the APIs ----

_ID = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_ID_OF_LINE = re.compile(rb'"custom_id"\s*:\s*"([A-Za-z0-9_.-]{1,200})"')
_PAGE = 100
_MAX_PAGES = 20
"""Batches that are looked through for one that was submitted and not noted: the latest 2,000 of the account."""
_CLOCK_SECONDS = 600
"""How far the clocks of this machine and of the server may differ."""


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One request of a batch: its id, the path of the API that answers it, and its body."""

    id: str
    path: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of one request: the status of its reply (None: it was not processed), and the reply or the error.

    ``body`` may be a failure of kshot's own: the reply is there, and cannot be read.
    """

    id: str
    status: int | None
    body: Any


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """How far a batch is. ``files`` hold the results of one that has ended.

    ``refused``: by number of the line (None: all lines), why the server took nothing. ``later``: another time it may.
    """

    ended: bool
    files: tuple[str, ...] = ()
    refused: Mapping[int | None, str] = field(default_factory=dict)
    later: bool = False


class BatchApi(ABC):
    """The batch API of one provider."""

    most_requests: int
    most_bytes: int
    results_path: str
    """Where the results of a file (or of a batch) are."""

    @abstractmethod
    def encoded(self, line: BatchLine) -> bytes:
        """Return a request as it is sent."""

    @abstractmethod
    def create(self, http: BatchHttp, path: str, lines: Sequence[bytes], mark: str) -> str:
        """Submit a batch of requests to one path; return its id. ``RetryableError``: it may have arrived, or not."""

    @abstractmethod
    def find(self, http: BatchHttp, mark: str, count: int, since: float, known: frozenset[str]) -> str | None:
        """Return the id of a batch that was submitted with this mark and never noted; None if there is none."""

    @abstractmethod
    def status(self, http: BatchHttp, batch: str) -> BatchStatus:
        """Return how far a batch is."""

    @abstractmethod
    def result(self, identifier: str, line: Mapping[str, Any]) -> BatchResult:
        """Read a line of the results."""

    def results(self, http: BatchHttp, status: BatchStatus) -> Iterator[BatchResult]:
        """Yield the results of a batch that has ended; a line that names no request is left out."""
        for raw in chain.from_iterable(BytesIO(http.file(self.results_path.format(name))) for name in status.files):
            try:
                if len(raw) > http.address.max_reply:
                    raise TooLargeError(f"it is larger than {http.address.max_reply:,} bytes (--max-reply)")  # noqa: TRY301
                line = http.json(raw)
            except (ValueError, UnreadableError):
                continue
            except TooLargeError as exc:
                if (named := _ID_OF_LINE.search(raw)) is not None:
                    failed = Failed("reply_too_large", f"the server's reply is too large: {exc}")
                    yield BatchResult(named[1].decode(), None, failed)
                continue
            if isinstance(line, dict) and isinstance(line.get("custom_id"), str):
                yield self.result(line["custom_id"], line)


def _id_of(found: Any, http: BatchHttp) -> str:
    """Return the id of what a server has made. It becomes part of an address, so it must be a plain word."""
    identifier = found.get("id") if isinstance(found, dict) else None
    if not isinstance(identifier, str) or not _ID.fullmatch(identifier):
        raise BackendError("the batch API answered without an id", where=http.address.where)
    return identifier


def checked_id(text: Any) -> str | None:
    """Return an id that a file has, if it can be one."""
    return text if isinstance(text, str) and _ID.fullmatch(text) else None


class OpenAIBatches(BatchApi):
    """``/v1/files`` and ``/v1/batches``."""

    most_requests, most_bytes = 50_000, 200 * 10**6
    results_path = "/files/{}/content"
    _ENDED = frozenset({"completed", "failed", "expired", "cancelled", "canceled"})
    _LATER = frozenset({"token_limit_exceeded", "request_limit_exceeded", "rate_limit_exceeded", "server_error"})
    """What a batch is refused for that may not hold another time."""

    def encoded(self, line: BatchLine) -> bytes:
        """Return a line of the uploaded file."""
        body = {"custom_id": line.id, "method": "POST", "url": f"/v1{line.path}", "body": line.body}
        return json.dumps(body, separators=(",", ":")).encode()

    def create(self, http: BatchHttp, path: str, lines: Sequence[bytes], mark: str) -> str:
        """Upload the requests, and make a batch of the file; the mark is in its metadata."""
        file = _id_of(http.upload("/files", lines, f"{mark}.jsonl", "batch"), http)
        body = {
            "input_file_id": file,
            "endpoint": f"/v1{path}",
            "completion_window": "24h",
            "metadata": {"kshot": mark},
        }
        return _id_of(http.post("/batches", json.dumps(body).encode()), http)

    def find(self, http: BatchHttp, mark: str, count: int, since: float, known: frozenset[str]) -> str | None:
        """Look for the mark in the metadata of the latest batches."""
        del count, known
        for found in _listed(http, "/batches", "after"):
            metadata = found.get("metadata")
            if isinstance(metadata, dict) and metadata.get("kshot") == mark:
                return _id_of(found, http)
            if _is_number(found.get("created_at")) and found["created_at"] < since - _CLOCK_SECONDS:
                return None
        return None

    def status(self, http: BatchHttp, batch: str) -> BatchStatus:
        """Return how far a batch is; one that was cancelled or has expired may have answered a part."""
        found = http.get(f"/batches/{batch}")
        state, counts = _state(found, "status", http), found.get("request_counts")
        if state not in self._ENDED:
            return BatchStatus(ended=False)
        files = tuple(filter(None, (checked_id(found.get(name)) for name in ("output_file_id", "error_file_id"))))
        done = counts.get("completed") if isinstance(counts, dict) else None
        if done and not checked_id(found.get("output_file_id")):
            what = f"batch {batch} has ended with {done} answers, and the server names no file that holds them"
            raise BackendError(what, where=http.address.where, hint="The same command looks again.")
        errors = found.get("errors")
        listed = errors.get("data") if isinstance(errors, dict) else ()
        listed = listed if isinstance(listed, list) else ()
        given = [each for each in listed if isinstance(each, dict)] if state == "failed" else []
        if state == "failed" and not given:
            given = [{"message": "the batch failed, and the server does not say why"}]
        numbers = [each.get("line") if type(each.get("line")) is int else None for each in given]
        reasons = [str(each.get("message") or each.get("code")) for each in given]
        refused = dict(zip(numbers, reasons, strict=True))
        return BatchStatus(
            ended=True, files=files, refused=refused, later=any(each.get("code") in self._LATER for each in given)
        )

    def result(self, identifier: str, line: Mapping[str, Any]) -> BatchResult:
        """Read a line of the file of replies, or of that of errors."""
        reply = line.get("response")
        if isinstance(reply, dict) and type(reply.get("status_code")) is int:
            return BatchResult(identifier, reply["status_code"], reply.get("body"))
        return BatchResult(identifier, None, line.get("error"))  # it has expired, or was cancelled


class AnthropicBatches(BatchApi):
    """``/v1/messages/batches``."""

    most_requests, most_bytes = 100_000, 256 * 10**6
    results_path = "/messages/batches/{}/results"
    _STATUSES: Mapping[str, int] = {
        "invalid_request_error": 400,
        "authentication_error": 401,
        "permission_error": 403,
        "not_found_error": 404,
        "request_too_large": 413,
        "rate_limit_error": 429,
        "api_error": 500,
        "timeout_error": 504,
        "overloaded_error": 529,
    }

    def encoded(self, line: BatchLine) -> bytes:
        """Return an element of the list of requests."""
        return json.dumps({"custom_id": line.id, "params": line.body}, separators=(",", ":")).encode()

    def create(self, http: BatchHttp, path: str, lines: Sequence[bytes], mark: str) -> str:
        """Post all requests in one body."""
        del path, mark  # all go to one path; the mark is part of each id
        return _id_of(http.post("/messages/batches", b'{"requests":[' + b",".join(lines) + b"]}"), http)

    def find(self, http: BatchHttp, mark: str, count: int, since: float, known: frozenset[str]) -> str | None:
        """Look for a batch of as many requests, made since then, that this run does not know.

        The API tells no more of a batch before it has ended. The ids of its results show whether it is this one.
        """
        del mark
        for found in _listed(http, "/messages/batches", "after_id"):
            made = _seconds(found.get("created_at"))
            if made is not None and made < since - _CLOCK_SECONDS:
                return None
            counts = found.get("request_counts")
            total = sum(n for n in counts.values() if type(n) is int) if isinstance(counts, dict) else None
            if total == count and found.get("id") not in known:
                return _id_of(found, http)
        return None

    def status(self, http: BatchHttp, batch: str) -> BatchStatus:
        """Return how far a batch is. The results are read from this server, whatever address it names."""
        found = http.get(f"/messages/batches/{batch}")
        ended = _state(found, "processing_status", http) == "ended"
        return BatchStatus(ended=ended, files=(batch,) if ended else ())

    def result(self, identifier: str, line: Mapping[str, Any]) -> BatchResult:
        """Read a line of the results."""
        found = line.get("result")
        result: dict[str, Any] = found if isinstance(found, dict) else {}
        kind = result.get("type")
        if kind == "succeeded":
            return BatchResult(identifier, 200, result.get("message"))
        if kind == "errored":
            error = result.get("error")
            inner = error.get("error", error) if isinstance(error, dict) else None
            named = inner.get("type") if isinstance(inner, dict) else None
            return BatchResult(identifier, self._STATUSES.get(str(named), 500), {"error": inner})
        return BatchResult(identifier, None, {"message": str(kind)})  # canceled or expired


def _state(found: Mapping[str, Any], name: str, http: BatchHttp) -> str:
    """Return what a server says of a batch. A word that kshot does not know means that it has not ended."""
    state = found.get(name)
    if not isinstance(state, str):
        raise BackendError(f"the batch API does not tell the {name} of a batch", where=http.address.where)
    return state.lower()


def _listed(http: BatchHttp, path: str, after: str) -> Iterator[dict[str, Any]]:
    """Yield the batches of an account, the latest first."""
    place = f"{path}?limit={_PAGE}"
    for _ in range(_MAX_PAGES):
        page = http.get(place)
        found = page.get("data")
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise BackendError("the batch API does not list its batches", where=http.address.where)
        yield from found
        if not found or not page.get("has_more"):
            return
        place = f"{path}?limit={_PAGE}&{after}={_id_of(found[-1], http)}"


def _seconds(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
