"""Serving a viewer: a socket that only this machine reaches, and a browser."""

from __future__ import annotations

import errno
import os
import socket
import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from kshot.core.errors import UsageError
from kshot.viewer.app import viewer_app
from kshot.viewer.catalog import Catalog
from kshot.viewer.routes import Routes
from kshot.viewer.security import LOOPBACK, Access

USUAL_PORT = 8765
_TRIED_PORTS = 20
_LAST_PORT = 65_535
_SHUTDOWN_SECONDS = 1
_MAX_HEADERS = 1 << 16


class Viewer:
    """A viewer that listens, and answers once it serves."""

    def __init__(self, folders: Sequence[Path], port: int | None, tell: Callable[[str], None]) -> None:
        """Listen at a port (None: one that is free); ``tell`` says in the terminal what nobody has foreseen."""
        self.catalog, self._access = Catalog(folders), Access()
        self._socket = listening(port)
        self.port = int(self._socket.getsockname()[1])
        self._routes = Routes(self.catalog, tell)
        self._app: ASGIApp = viewer_app(self._routes, self._access, self.port, tell)

    @property
    def link(self) -> str:
        """The link that opens the page."""
        return self._link(self._access.token)

    def browser_link(self) -> str:
        """Return a link that works once."""
        return self._link(self._access.one_use())

    def serve(self) -> None:
        """Answer requests until a signal comes."""
        config = uvicorn.Config(
            self._app,
            log_config=None,
            log_level="critical",  # what goes wrong is told by the app, on one line
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            http="h11",  # it limits headers, which anybody on this machine may send
            h11_max_incomplete_event_size=_MAX_HEADERS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        try:
            uvicorn.Server(config).run(sockets=[self._socket])
        finally:
            self.close()

    def close(self) -> None:
        """Stop listening, and end what works in the background."""
        self._socket.close()
        self._routes.close()

    def _link(self, token: str) -> str:
        return f"http://{LOOPBACK[0]}:{self.port}/?token={token}"


def listening(port: int | None) -> socket.socket:
    """Return a socket at a port of this machine; None: the first free one of a few, or any."""
    ports = [*range(USUAL_PORT, USUAL_PORT + _TRIED_PORTS), 0] if port is None else [port]
    for each in ports:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if os.name != "nt":  # there it would let two programs listen at one port
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((LOOPBACK[0], each))
            found.listen(128)
        except OSError as exc:
            found.close()
            if port is not None or exc.errno != errno.EADDRINUSE:
                raise _cannot_listen(each, exc) from exc
            continue
        return found
    raise UsageError("no port is free")  # pragma: no cover - port 0 is any


def _cannot_listen(port: int, exc: OSError) -> UsageError:
    if exc.errno == errno.EADDRINUSE:
        hint = "Another viewer may be there: name another port, or leave --port out."
        return UsageError(f"port {port} is in use", hint=hint)
    return UsageError(f"it cannot listen at port {port}: {exc.strerror or exc}", hint="Name another port with --port.")


def checked_port(port: int | None) -> int | None:
    """Return a port that can be asked for."""
    if port is not None and not 0 <= port <= _LAST_PORT:
        raise UsageError(f"--port is {port}; it must be between 0 (any) and {_LAST_PORT}")
    return port


def why_no_browser(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return why no browser can be opened here; None: one may be."""
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return "this is an SSH session"
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform.startswith("linux") and not any(environment.get(name) for name in screens):
        return "there is no screen"  # a browser of the terminal would take its place
    return None


def open_browser(link: str) -> bool:
    """Open a page in the user's browser; return whether there is one."""
    try:
        return webbrowser.open(link)
    except (webbrowser.Error, OSError):
        return False
