"""A server of which every fifth request meets a fault, of more than twenty kinds. The same content always meets the same.

Most faults pass: the first or the first two tries fail. Some last until the server is mended (``healthy``).
"""

import asyncio
import gzip
import json
import re
import socket
import struct
from collections import Counter
from functools import cache
from hashlib import blake2b

from tests.chaos.scenarios import content_of
from tests.fake_server import FakeServer, Reply, completion, with_logprobs

SHARE = 0.2
CITIES = ("Paris", "Rome", "Oslo", "Lima", "Havana")
HTML = "<html><body><h1>It works!</h1></body></html>"
_BOMB_BYTES = 200 << 20
_DRIPS = 3600
_likelihoods = with_logprobs(apis=("echo",))


def _head(length, *more, status=200):
    lines = (f"HTTP/1.1 {status} X", "content-type: application/json", f"content-length: {length}", *more, "", "")
    return "\r\n".join(lines).encode()


@cache
def _bomb():
    return gzip.compress(b" " * _BOMB_BYTES)


def _status(status, body, **headers):
    return lambda _: (status, body if isinstance(body, str) else json.dumps(body), headers)


def _error(status, message, code=None, **headers):
    return _status(status, {"error": {"message": message, "code": code}}, **headers)


def _changed(change):
    """Return a fault that changes the right reply."""

    def reply(right):
        body = json.loads(json.dumps(right))
        change(body)
        return 200, json.dumps(body), {}

    return reply


def _not_a_number(body):
    body["choices"][0]["logprobs"] = {"tokens": ["a"], "token_logprobs": [float("nan")]}
    body["choices"][0]["text"] = None


REPLIES = {
    "429": _error(429, "slow down"),
    "429 with Retry-After": _error(429, "slow down", **{"retry-after-ms": "20"}),
    "500": _error(500, "oops"),
    "502 with HTML": _status(502, HTML),
    "503": _error(503, "starting"),
    "empty body": _status(200, ""),
    "HTML with 200": _status(200, HTML),
    "half of the JSON": lambda right: (200, json.dumps(right)[:40], {}),
    "JSON of another shape": _status(200, {"choices": {"text": ["Paris"]}}),
    "a list": _status(200, [1, 2, 3]),
    "empty choices": _status(200, {"choices": []}),
    "NaN for log-probabilities": _changed(_not_a_number),
    "an error with 200": _error(200, "overloaded", 503),
    "deep JSON": _status(200, "[" * 100_000),
    "redirect": _status(302, "", location="http://127.0.0.1:9/v1"),
    "401": _error(401, "bad key"),
}
"""Faults that are complete HTTP replies: of the right reply they make a status, a body, and headers."""

BROKEN = {
    "reset before the headers": lambda _: b"",
    "reset after the headers": lambda data: _head(len(data)),
    "half a body": lambda data: _head(len(data)) + data[: len(data) // 2],
    "content-length too long": lambda data: _head(len(data) + 7) + data,
    "no HTTP": lambda _: b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "no reply in time": lambda _: b"",
    "slow drip": lambda _: _head(_DRIPS),
    "damaged gzip": lambda data: _head(len(gzip.compress(data)), "content-encoding: gzip") + gzip.compress(data)[:-9] + b"123456789",
    "gzip bomb": lambda _: _head(len(_bomb()), "content-encoding: gzip") + _bomb(),
    "broken chunks": lambda _: b'HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"cho\r\nzz\r\n',
}  # fmt: skip
"""Faults of the connection, or of how the body is sent: what is sent before the connection ends."""

HARMLESS = ("other model name", "sent twice", "lone surrogate")
"""Oddities that change no figure: the reply is used."""

REFUSALS = {
    "content filter": _changed(lambda body: body["choices"][0].update(text="", finish_reason="content_filter")),
    "content policy": _error(400, "this violates the policy", "content_policy_violation"),
    "422": _error(422, "this prompt cannot be answered"),
}
"""Faults that last: the server refuses these requests whenever they are asked."""

KINDS = (*REPLIES, *BROKEN, *HARMLESS, *REFUSALS)
_SLOWING = ("429", "429 with Retry-After", "500", "502 with HTML", "503", "an error with 200")
_DRAWN = [kind for kind in KINDS for _ in range(1 if kind in _SLOWING else 5)]
"""Kinds as often as they are drawn: after each of the slowing ones, kshot asks less for a while."""

LASTING = (
    "half a body",
    "500",
    "empty choices",
    "HTML with 200",
    "reset before the headers",
    "damaged gzip",
    "a list",
    "401",
)
"""Passing kinds of which one request each fails until the server is mended."""


class FaultyServer(FakeServer):
    """Counts the faults that it makes, by kind. ``healthy``: it makes none any more."""

    def __init__(self, lasting=LASTING):
        super().__init__(self._right)
        self.healthy = False
        self.made = Counter()
        self._lasting = lasting
        self._first_of = {}
        self._tries = Counter()

    # ---- what a request meets ----

    def kind_of(self, call):
        """Return the kind of fault that this content meets, or None."""
        drawn = int(blake2b(f"fault {content_of(call.path, call.body)}".encode(), digest_size=8).hexdigest(), 16)
        if drawn % 10_000 >= SHARE * 10_000:
            return None
        return _DRAWN[drawn // 10_000 % len(_DRAWN)]

    def _fault(self, call):
        """Return the kind of fault that this try meets now."""
        kind, content = self.kind_of(call), content_of(call.path, call.body)
        if kind is None or kind in HARMLESS:
            return kind
        self._tries[content] += 1
        lasts = kind in REFUSALS or (kind in self._lasting and self._first_of.setdefault(kind, content) == content)
        fails = not self.healthy and (lasts or self._tries[content] <= 1 + content % 2)
        return kind if fails else None

    def _right(self, call):
        """Answer as this content is always answered."""
        if call.body.get("echo"):
            body = _likelihoods(call)
        else:
            content = content_of(call.path, call.body)
            text = CITIES[content % 5] + (" \ud83d" if self.kind_of(call) == "lone surrogate" else "")
            body = completion(text, usage=(content % 1000, 2))
        reply = Reply(body | {"model": call.body["model"]})
        reply.call = call
        return reply

    # ---- sending it ----

    async def _send(self, reply, writer):
        kind = self._fault(reply.call) if sample_of(reply.call) else None
        if kind is None:
            return await super()._send(reply, writer)
        self.made[kind] += 1
        if kind in REPLIES or kind in REFUSALS:
            status, body, headers = (REPLIES | REFUSALS)[kind](reply.body)
            return await self._write(writer, body.encode(), status, headers)
        if kind == "other model name":
            return await self._write(writer, json.dumps(reply.body | {"model": "another"}).encode())
        data = json.dumps(reply.body).encode()
        if kind in HARMLESS:
            await self._write(writer, data)
            return kind != "sent twice" or await self._write(writer, data)
        return await self._break(kind, data, writer)

    async def _write(self, writer, data, status=200, headers=None):
        lines = (f"{name}: {value}" for name, value in (headers or {}).items())
        writer.write(_head(len(data), *lines, status=status) + data)
        await writer.drain()
        return True

    async def _break(self, kind, data, writer):
        """Send a reply that cannot be read; then the connection ends."""
        if kind.startswith("reset"):
            _reset_on_close(writer)
        writer.write(BROKEN[kind](data))
        await writer.drain()
        if kind in ("no reply in time", "slow drip"):
            for _ in range(_DRIPS):  # the client hangs up before that
                await asyncio.sleep(0.5)
                writer.write(b" " if kind == "slow drip" else b"")
                await writer.drain()
        return False


def _reset_on_close(writer):
    """Have the socket send a reset when it is closed."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def sample_of(call):
    """Return the sample that a request is for, by its task and its number; None if it only tries the server out."""
    found = re.search(r"country (\d+)", call.prompt)
    return (("choices" if call.body.get("echo") else "cities"), found[1]) if found else None
