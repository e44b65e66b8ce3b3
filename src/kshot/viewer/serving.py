"""Serving a viewer: a socket that only this machine reaches, the app that answers there, and a browser."""

from __future__ import annotations

import errno
import os
import socket
import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kshot.core.errors import KshotError, UsageError
from kshot.core.visible import one_line
from kshot.report.page.document import SCRIPTS, STYLES, web_file
from kshot.viewer.catalog import Catalog, UnknownRun
from kshot.viewer.routes import JsonAnswer, Routes
from kshot.viewer.security import HEADERS, LOOPBACK, Access, Asked, RefusedRequest, cookie_name, refusal, way_in
from kshot.viewer.web_page import web_page

NOT_FOUND = 404
_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}


def viewer_app(routes: Routes, access: Access, port: int, tell: Callable[[str], None]) -> ASGIApp:
    """Return the app; ``tell`` says in the terminal what nobody has foreseen."""

    def page(_: Request) -> Response:
        return Response(web_page("server"), media_type="text/html; charset=utf-8")

    def script_or_style(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in {*SCRIPTS, *STYLES}:
            raise HTTPException(NOT_FOUND)
        return Response(web_file(name), media_type=_TYPES[name.rpartition(".")[2]])

    def unforeseen(request: Request, exc: Exception) -> Response:
        tell(f"{one_line(request.url.path)}: {type(exc).__name__}: {one_line(exc)}")
        what = f"kshot view has a fault ({type(exc).__name__})"
        return JsonAnswer({"error": what, "hint": "Its terminal says more."}, 500)

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/web/{name}", script_or_style, middleware=[Middleware(GZipMiddleware)]),
            *routes.listed(),
        ],
        exception_handlers={KshotError: _told, HTTPException: _http_error, Exception: unforeseen},
    )
    return _Guard(app, access, port)


def _told(_: Request, exc: Exception) -> Response:
    """Say what is wrong with a run, or with what was asked."""
    told = {name: one_line(getattr(exc, name)) for name in ("what", "where", "hint")}
    status = NOT_FOUND if isinstance(exc, UnknownRun) else 400 if isinstance(exc, UsageError) else 422
    return JsonAnswer({"error": told["what"], "where": told["where"], "hint": told["hint"]}, status)


def _http_error(request: Request, exc: Exception) -> Response:
    status = getattr(exc, "status_code", 500)
    what = "there is nothing at this address" if status == NOT_FOUND else str(exc)
    if request.url.path.startswith("/api/"):
        return JsonAnswer({"error": what}, status)
    return PlainTextResponse(f"kshot view: {what}\n", status)


class _Guard:
    """Lets nobody in but the browser with the link; every answer gets the headers that keep pages safe."""

    def __init__(self, app: ASGIApp, access: Access, port: int) -> None:
        self._app, self._access, self._cookie = app, access, cookie_name(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # neither a lifespan nor a websocket
            return
        asked = _asked(scope)
        way = refusal(asked) or way_in(asked, self._access, self._cookie)
        if isinstance(way, RefusedRequest):
            await _refused(asked, way)(scope, receive, _with(send, {}))
            return
        if way == "cookie":
            await self._app(scope, receive, _with(send, {}))
            return
        cookie = {"Set-Cookie": f"{self._cookie}={self._access.token}; HttpOnly; SameSite=Strict; Path=/"}
        if asked.headers.get("sec-fetch-site", "none") in {"none", "same-origin"}:
            await RedirectResponse("/", 303)(scope, receive, _with(send, cookie))
            return
        # After a link on another page, a browser would not send the cookie to where it is redirected.
        await self._app(scope, receive, _with(send, cookie))


def _asked(scope: Scope) -> Asked:
    names = [name.decode("latin-1").lower() for name, _ in scope["headers"]]
    values = [value.decode("latin-1") for _, value in scope["headers"]]
    headers = dict(zip(names, values, strict=True))
    if names.count("host") != 1:
        headers["host"] = ""  # two proxies could read two different ones
    return Asked(scope["method"], scope["path"], scope["query_string"].decode("latin-1"), headers)


def _refused(asked: Asked, why: RefusedRequest) -> Response:
    if asked.path.startswith("/api/"):
        return JsonAnswer({"error": why.why}, why.status)
    return PlainTextResponse(f"kshot view: {why.why}\n", why.status)


def _with(send: Send, more: dict[str, str]) -> Send:
    """Return what sends an answer with the headers of all answers, and with others."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update({**HEADERS, **more})
        await send(message)

    return sending


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
