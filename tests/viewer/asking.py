"""Asking the viewer's app as uvicorn does, without a socket."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

PORT = 8765


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

    def __call__(self, path: str, *, cookie: bool = True, method: str = "GET", **headers: str | None) -> Answer:
        """Ask for a path with its query; an underscore in the name of a header is a hyphen, None leaves it out."""
        given: dict[str, str | None] = {"host": f"127.0.0.1:{PORT}", "cookie": self.cookie if cookie else None}
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
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in given.items() if v is not None],
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
        """Ask again until the state is "ready"; the answer comes from a thread or a process, however busy it is here."""
        import time

        while True:
            found = self(path)
            assert found.status == 200, found.body
            if found.json()["state"] == "ready":
                return found.json()
            time.sleep(0.02)
