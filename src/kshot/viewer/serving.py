"""Serving a viewer: a socket that only this machine reaches, the app that answers there with JSON, and a browser."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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

from kshot import __version__
from kshot.core.errors import KshotError, UsageError
from kshot.core.visible import one_line
from kshot.report.page.report_page import SCRIPTS, STYLES, web_file
from kshot.report.page.sample_card import sample_card
from kshot.report.sample_look import SampleLooks
from kshot.runs.run_state import RUNNING
from kshot.runs.sample_filters import HEADLINE, SampleFilter
from kshot.viewer.background import Jobs
from kshot.viewer.catalog import Catalog, ListedRun, UnknownRun
from kshot.viewer.live import Comparisons, RunPages, json_bytes, live_line, web_page
from kshot.viewer.opened_index import sample_query, whole_number
from kshot.viewer.sample_index import NotReadyError, SampleIndex
from kshot.viewer.security import HEADERS, LOOPBACK, Access, Asked, RefusedRequest, refusal, way_in

_MAX_ROWS = 1000
_MAX_OFFSET = 10**12
_KEPT_INDEXES = 16


class JsonAnswer(Response):
    """A value as JSON: what is no number becomes null, and half of a character its escape."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the bytes of the value."""
        return json_bytes(content)


class Routes:
    """Answers requests from the runs of a catalog. Each works in a thread: reading a folder may take its time."""

    def __init__(self, catalog: Catalog, tell: Callable[[str], None]) -> None:
        """Take the runs; ``tell`` says in the terminal what nobody has foreseen."""
        self._catalog, self._jobs, self._indexes = catalog, Jobs(tell), Indexes()
        self._pages, self._comparisons = RunPages(self._jobs), Comparisons(self._jobs)

    def listed(self) -> list[Route]:
        """Return the routes."""
        paths: Mapping[str, Callable[[Request], Response]] = {
            "/api/runs": self.runs,
            "/api/runs/{key}": self.run,
            "/api/runs/{key}/facets": self.facets,
            "/api/runs/{key}/samples": self.samples,
            "/api/runs/{key}/samples/{n}": self.sample,
            "/api/compare": self.compare,
        }
        return [Route(path, endpoint) for path, endpoint in paths.items()]

    def close(self) -> None:
        """End what works in the background."""
        self._jobs.close()
        self._indexes.close()

    def runs(self, request: Request) -> Response:
        """Return the list of runs."""
        lines = [
            live_line(run, self._catalog.progress(run)) if run.record["state"] in RUNNING else run.line
            for run in self._catalog.runs()
        ]
        folders = [one_line(folder) for folder in self._catalog.folders]
        return _unless_known(request, {"runs": lines, "folders": folders, "version": __version__})

    def run(self, request: Request) -> Response:
        """Return one run, with its sections or its progress."""
        run = self._run(request)
        return _unless_known(request, self._pages.of(run, self._catalog.progress(run)))

    def facets(self, request: Request) -> Response:
        """Return the names and counts by which the samples of a run can be filtered."""
        run = self._run(request)
        if waits := self._waits(run):
            return JsonAnswer(waits.facets())
        return JsonAnswer(self._indexes.of(run).facets(_metric(request)))

    def samples(self, request: Request) -> Response:
        """Return a part of the list of samples."""
        given = request.query_params
        query = sample_query(dict(given))
        offset = whole_number("offset", given.get("offset", ""), default=0, most=_MAX_OFFSET)
        limit = whole_number("limit", given.get("limit", ""), default=50, most=_MAX_ROWS)
        run = self._run(request)
        if waits := self._waits(run):
            return JsonAnswer(waits.page())
        return JsonAnswer(self._indexes.of(run).page(query, offset, limit, self._other(request)))

    def sample(self, request: Request) -> Response:
        """Return one sample, and the same one in another run."""
        run, other, metric = self._run(request), self._other(request), _metric(request)
        n = whole_number("the sample", request.path_params["n"], default=0, most=_MAX_OFFSET)
        index = self._indexes.of(run)
        others = [] if other is None else index.counterparts(n, other)
        cards = [] if other is None else [_card(other, each, metric) for each in others]
        return JsonAnswer({"sample": _card(index, n, metric), "others": cards})

    def compare(self, request: Request) -> Response:
        """Return the comparison of two runs; the first is the baseline."""
        keys = [request.query_params.get(name, "") for name in ("a", "b")]
        if not all(keys):
            raise UsageError("a comparison needs two runs, a and b")
        baseline, other = map(self._catalog.run, keys)
        return JsonAnswer(self._comparisons.of(baseline, other))

    def _waits(self, run: ListedRun) -> NotReadyError | None:
        """Return how far a run is that writes its samples when it ends; None: it has some."""
        if run.line["samples"] or run.record["state"] not in RUNNING:
            return None
        progress = run.record["progress"] or {}
        done, total = progress.get("done"), progress.get("total")
        return NotReadyError("running", min(1.0, done / total) if done and total else 0.0)

    def _run(self, request: Request) -> ListedRun:
        return self._catalog.run(request.path_params["key"])

    def _other(self, request: Request) -> SampleIndex | None:
        key = request.query_params.get("other")
        return self._indexes.of(self._catalog.run(key)) if key else None


class Indexes:
    """The indexes of the runs whose samples were asked for last."""

    def __init__(self) -> None:
        """Start with none."""
        self._known: dict[str, SampleIndex] = {}
        self._lock = threading.Lock()

    def of(self, run: ListedRun) -> SampleIndex:
        """Return the index of a run; one that was not used for long is put to rest, and wakes when it is asked."""
        with self._lock:
            found = self._known.pop(run.key, None) or SampleIndex(run.folder)
            self._known[run.key] = found
            if len(self._known) > _KEPT_INDEXES:
                self._known.pop(next(iter(self._known))).rest()
        return found

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            for each in self._known.values():
                each.close()
            self._known.clear()


def _metric(request: Request) -> str | None:
    metric = request.query_params.get("metric") or HEADLINE
    return None if metric == HEADLINE else metric


def _card(index: SampleIndex, n: int, metric: str | None) -> dict[str, Any]:
    row = index.row(n)
    looks = SampleLooks(index.folder, SampleFilter({}), full=True)
    return sample_card(looks.of(row, index.scale(n, metric)), n, index.passages.of(row))


def _unless_known(request: Request, value: Any) -> Response:
    """Return a value, or that it is the one that the page has."""
    body = json_bytes(value)
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(body, media_type="application/json", headers={"ETag": tag})


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


_ERROR_PARTS = {"error": "what", "where": "where", "hint": "hint"}


def _told(_: Request, exc: Exception) -> Response:
    """Say what is wrong with a run, or with what was asked."""
    told = {name: one_line(getattr(exc, part)) for name, part in _ERROR_PARTS.items()}
    status = NOT_FOUND if isinstance(exc, UnknownRun) else 400 if isinstance(exc, UsageError) else 422
    return JsonAnswer(told, status)


def _http_error(request: Request, exc: Exception) -> Response:
    status = getattr(exc, "status_code", 500)
    return _refused(request.url.path, status, "there is nothing at this address" if status == NOT_FOUND else str(exc))


class _Guard:
    """Lets nobody in but the browser with the link; every answer gets the headers that keep pages safe."""

    def __init__(self, app: ASGIApp, access: Access, port: int) -> None:
        self._app, self._access = app, access
        self._cookie = f"kshot-{port}"  # several viewers of one machine do not overwrite each other's

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # neither a lifespan nor a websocket
            return
        asked = _asked(scope)
        way = refusal(asked) or way_in(asked, self._access, self._cookie)
        if isinstance(way, RefusedRequest):
            await _refused(asked.path, *way)(scope, receive, _with(send, {}))
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


def _refused(path: str, status: int, why: str) -> Response:
    if path.startswith("/api/"):
        return JsonAnswer({"error": why}, status)
    return PlainTextResponse(f"kshot view: {why}\n", status)


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
