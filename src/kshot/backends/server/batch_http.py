"""HTTP for batch APIs: few calls, large bodies, and replies that are files."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kshot.backends.server import reading
from kshot.backends.server.address import Address
from kshot.backends.server.connection import load_aiohttp, request_arguments
from kshot.backends.server.event_loop import EventLoopHandle
from kshot.backends.server.http_errors import (
    HttpReply,
    HttpStatusError,
    RequestFailedError,
    RetryableError,
    UnreachableError,
    error_from,
    shortened,
)
from kshot.backends.server.redaction import redacted_json
from kshot.core.errors import BackendError
from kshot.core.kill_points import reach

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
        body, _ = reading.parsed(raw)
        return redacted_json(body, account.redacted) if account.has_secret else body

    def _object(self, raw: bytes) -> dict[str, Any]:
        """Read a JSON object; anything else is no answer of a batch API, and another try may bring one."""
        try:
            body = self.json(raw)
        except (ValueError, reading.UnreadableError, reading.TooLargeError):
            body = None
        if not isinstance(body, dict):
            text = self.address.account.redacted(raw[: reading.MAX_ERROR_BYTES].decode("utf-8", "replace"))
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
        except (http.ClientConnectorError, http.InvalidURL) as exc:
            hint = "Check --base-url, and whether the server runs."
            said = shortened(address.redacted(str(exc)))
            return UnreachableError(f"the server cannot be reached: {said}", where=address.where, hint=hint)
        except asyncio.TimeoutError:
            return RetryableError(f"no reply within {address.timeout:.0f} s")
        except (http.ClientError, OSError, ValueError) as exc:
            said = shortened(address.redacted(str(exc) or type(exc).__name__))
            return RetryableError(f"the connection broke: {said}")

    async def _received(self, reply: Any) -> bytes | Exception:
        address, status = self.address, int(reply.status)
        limit = _MAX_FILE_BYTES if status in _OK else reading.MAX_ERROR_BYTES
        raw, more = await reading.read_limited(reply.content.iter_any(), limit)
        try:
            whole, too_long = reading.unpacked(raw, reply.headers.get("Content-Encoding", ""), limit)
        except reading.BrokenError as exc:
            return RetryableError(f"the server's reply is broken: {exc}")
        except (reading.UnreadableError, reading.TooLargeError) as exc:
            return BackendError(f"the server's reply cannot be read: {exc}", where=address.where)
        if status in _OK:
            if more or too_long:
                return BackendError(f"a file of results is larger than {limit:,} bytes", where=address.where)
            return whole
        try:
            body = self.json(whole)
        except (ValueError, reading.UnreadableError, reading.TooLargeError):
            body = None
        text = address.account.redacted(whole[:2000].decode("utf-8", "replace"))
        used = {name: reply.headers[name] for name in ("Retry-After", "retry-after-ms") if name in reply.headers}
        hint = address.account.hint
        return error_from(HttpReply(status, body, used, text), where=address.where, key_hint=hint, answered=False)
