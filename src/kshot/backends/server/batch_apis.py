"""The batch APIs of OpenAI and of Anthropic: how batches are submitted, found again, followed and read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from kshot.backends.server.batch_http import BatchHttp
from kshot.core.errors import BackendError

_ID = re.compile(r"[A-Za-z0-9_.-]{1,200}")
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
    """What became of one request: the status of its reply (None: it was not processed), and the reply or the error."""

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
    done: int = 0


class BatchApi(Protocol):
    """The batch API of one provider."""

    most_requests: int
    most_bytes: int

    def encoded(self, line: BatchLine) -> bytes:
        """Return a request as it is sent."""
        ...

    def create(self, http: BatchHttp, path: str, lines: Sequence[bytes], mark: str) -> str:
        """Submit a batch of requests to one path; return its id. ``RetryableError``: it may have arrived, or not."""
        ...

    def find(self, http: BatchHttp, mark: str, count: int, since: float, known: frozenset[str]) -> str | None:
        """Return the id of a batch that was submitted with this mark and never noted; None if there is none."""
        ...

    def status(self, http: BatchHttp, batch: str) -> BatchStatus:
        """Return how far a batch is."""
        ...

    def results(self, http: BatchHttp, status: BatchStatus) -> Iterator[BatchResult]:
        """Yield the results of a batch that has ended."""
        ...


def _lines(http: BatchHttp, path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the lines of a file of results; a line that cannot be read is left out, and its request is open."""
    for raw in http.file(path).split(b"\n"):
        if not raw.strip() or len(raw) > http.address.max_reply:
            continue
        try:
            line = http.json(raw)
        except Exception:  # noqa: BLE001, S112 - whatever a server writes
            continue
        if isinstance(line, dict) and isinstance(line.get("custom_id"), str):
            yield line


def _id_of(found: Any, http: BatchHttp) -> str:
    """Return the id of what a server has made. It becomes part of an address, so it must be a plain word."""
    identifier = found.get("id") if isinstance(found, dict) else None
    if not isinstance(identifier, str) or not _ID.fullmatch(identifier):
        raise BackendError("the batch API answered without an id", where=http.address.where)
    return identifier


def checked_id(text: Any) -> str | None:
    """Return an id that a file has, if it can be one."""
    return text if isinstance(text, str) and _ID.fullmatch(text) else None


class OpenAIBatches:
    """``/v1/files`` and ``/v1/batches``."""

    most_requests, most_bytes = 50_000, 200 * 10**6
    _RUNNING = frozenset({"validating", "in_progress", "finalizing", "cancelling"})
    _LATER = frozenset({"token_limit_exceeded", "request_limit_exceeded", "rate_limit_exceeded", "server_error"})
    """What a batch is refused for that may not hold another time."""

    def encoded(self, line: BatchLine) -> bytes:
        """Return a line of the uploaded file."""
        body = {"custom_id": line.id, "method": "POST", "url": f"/v1{line.path}", "body": line.body}
        return json.dumps(body, separators=(",", ":")).encode()

    def create(self, http: BatchHttp, path: str, lines: Sequence[bytes], mark: str) -> str:
        """Upload the requests, and make a batch of the file; the mark is in its metadata."""
        file = _id_of(http.upload("/files", b"\n".join(lines) + b"\n", f"{mark}.jsonl", "batch"), http)
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
        state = found.get("status")
        counts = found.get("request_counts")
        done = counts.get("completed") if isinstance(counts, dict) else 0
        if state in self._RUNNING:
            return BatchStatus(ended=False, done=done if type(done) is int else 0)
        files = tuple(filter(None, (checked_id(found.get(name)) for name in ("output_file_id", "error_file_id"))))
        errors = found.get("errors")
        listed = errors.get("data") if isinstance(errors, dict) else None
        given = [each for each in listed or () if isinstance(each, dict)] if state == "failed" else []
        if state == "failed" and not given:
            given = [{"message": "the batch failed, and the server does not say why"}]
        refused = {_line_of(each): str(each.get("message") or each.get("code")) for each in given}
        return BatchStatus(
            ended=True, files=files, refused=refused, later=any(each.get("code") in self._LATER for each in given)
        )

    def results(self, http: BatchHttp, status: BatchStatus) -> Iterator[BatchResult]:
        """Read the file of replies and that of errors."""
        for file in status.files:
            for line in _lines(http, f"/files/{file}/content"):
                reply = line.get("response")
                if isinstance(reply, dict) and type(reply.get("status_code")) is int:
                    yield BatchResult(line["custom_id"], reply["status_code"], reply.get("body"))
                else:  # it has expired, or was cancelled
                    yield BatchResult(line["custom_id"], None, line.get("error"))


def _line_of(error: Mapping[str, Any]) -> int | None:
    number = error.get("line")
    return number if type(number) is int else None


class AnthropicBatches:
    """``/v1/messages/batches``."""

    most_requests, most_bytes = 100_000, 256 * 10**6
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
        counts = found.get("request_counts")
        done = counts.get("succeeded") if isinstance(counts, dict) else 0
        ended = found.get("processing_status") == "ended"
        return BatchStatus(ended=ended, files=(batch,) if ended else (), done=done if type(done) is int else 0)

    def results(self, http: BatchHttp, status: BatchStatus) -> Iterator[BatchResult]:
        """Read the results."""
        for batch in status.files:
            for line in _lines(http, f"/messages/batches/{batch}/results"):
                found = line.get("result")
                result: dict[str, Any] = found if isinstance(found, dict) else {}
                kind = result.get("type")
                if kind == "succeeded":
                    yield BatchResult(line["custom_id"], 200, result.get("message"))
                elif kind == "errored":
                    error = result.get("error")
                    inner = error.get("error", error) if isinstance(error, dict) else None
                    named = inner.get("type") if isinstance(inner, dict) else None
                    yield BatchResult(line["custom_id"], self._STATUSES.get(str(named), 500), {"error": inner})
                else:  # canceled or expired
                    yield BatchResult(line["custom_id"], None, {"message": str(kind)})


def _listed(http: BatchHttp, path: str, after: str) -> Iterator[dict[str, Any]]:
    """Yield the batches of an account, the latest first."""
    place = f"{path}?limit={_PAGE}"
    for _ in range(_MAX_PAGES):
        page = http.get(place)
        found = page.get("data") if isinstance(page, dict) else None
        batches = [each for each in found or () if isinstance(each, dict)]
        yield from batches
        last = checked_id(batches[-1].get("id")) if batches else None
        if not page.get("has_more") or last is None:
            return
        place = f"{path}?limit={_PAGE}&{after}={last}"


def _seconds(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
