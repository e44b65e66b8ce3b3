"""Asking the viewer's app as uvicorn does, without a socket."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import unquote

PORT = 8765
_LONGEST_SECONDS = 120.0
"""No answer takes so long, however busy the machine is: something is wrong."""


Given: TypeAlias = "str | tuple[str, ...] | None"


def _each(value: Given) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else value


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Asking:
    """A browser that asks an app; with ``cookie`` it has the cookie that the link gave it."""

    def __init__(self, app: Any, token: str) -> None:
        self.app, self.token = app, token
        self.cookie = f"kshot-{PORT}={token}"

    def __call__(self, path: str, *, cookie: bool = True, method: str = "GET", **headers: Given) -> Answer:
        """Ask for a path with its query.

        An underscore in the name of a header is a hyphen; None leaves it out, and a tuple sends it several times.
        """
        given: dict[str, Given] = {"host": f"127.0.0.1:{PORT}", "cookie": self.cookie if cookie else None}
        given |= {name.replace("_", "-").lower(): value for name, value in headers.items()}
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (name.encode(), each.encode("latin-1")) for name, value in given.items() for each in _each(value)
            ],
            "server": ("127.0.0.1", PORT),
            "client": ("127.0.0.1", 50_000),
        }
        return asyncio.run(self._ask(scope))

    async def _ask(self, scope: dict[str, Any]) -> Answer:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start, *rest = sent
        headers = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
        return Answer(start["status"], headers, b"".join(each.get("body", b"") for each in rest))

    def ready(self, path: str) -> Any:
        """Ask again until the state is "ready", as a page does: a thread or a process makes the answer."""
        end = time.monotonic() + _LONGEST_SECONDS
        while True:
            found = self(path)
            assert found.status == 200, found.body
            if found.json()["state"] == "ready":
                return found.json()
            assert time.monotonic() < end, f"{path} is not ready: {found.body[:1000]!r}"
            time.sleep(0.02)
