"""The web app: each request passes the guard, then a route answers it."""

from __future__ import annotations

from collections.abc import Callable

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
from kshot.report.page.web_files import SCRIPTS, STYLES, web_file
from kshot.viewer.catalog import UnknownRun
from kshot.viewer.routes import JsonAnswer, Routes
from kshot.viewer.security import HEADERS, Access, Asked, RefusedRequest, cookie_name, refusal, way_in
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


__all__ = ["viewer_app"]
