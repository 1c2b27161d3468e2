"""The service as a Litestar application."""

from __future__ import annotations

import hmac
from importlib.resources import files
from typing import Any

import msgspec
from litestar import Litestar, Request, Response, get
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin

from apportion import __version__
from apportion.service.answering import failed, json_answer, refused_by_framework
from apportion.service.errors import NotAllowed
from apportion.service.hub import Hub
from apportion.service.logs import logged
from apportion.service.routes import ROUTES
from apportion.session.deltas import Delta

__all__ = ["application"]

_ASSETS = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
_SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def application(hub: Hub, *, token: str | None = None, max_body: int = 64 * 2**20) -> Litestar:
    """Return the application.

    Parameters
    ----------
    hub
        Sessions, workers and record, which whoever serves the application has started.
    token
        What callers show as ``Authorization: Bearer TOKEN``; ``None`` where the socket's permissions decide.
    max_body
        Bytes a request may have.
    """

    async def allowed(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        # a coroutine, because Litestar calls a plain function in a thread, which takes longer than a look
        if token is None or handler.opt.get("open"):
            return
        shown = connection.headers.get("authorization", "")
        if not hmac.compare_digest(shown.encode(), f"Bearer {token}".encode()):
            raise NotAllowed("show the token: Authorization: Bearer TOKEN")

    return Litestar(
        [*ROUTES, page, asset, openapi],
        guards=[allowed],
        exception_handlers={HTTPException: refused_by_framework, Exception: failed},
        middleware=[logged],
        state=State({"hub": hub, "max_body": max_body}),
        request_max_body_size=max_body,
        openapi_config=OpenAPIConfig(
            title="apportion", version=__version__, path="/schema", render_plugins=[JsonRenderPlugin()]
        ),
        logging_config=None,
    )


@get("/openapi.json", opt={"open": True}, include_in_schema=False, sync_to_thread=False)
def openapi(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return the OpenAPI document, every delta included."""
    document = request.app.openapi_schema.to_schema()
    (one,), parts = msgspec.json.schema_components([Delta], ref_template="#/components/schemas/{name}")
    document["components"]["schemas"].update(parts)
    made = document["components"]["schemas"]["Made"]["properties"]
    made["result"] = {"type": "object", "description": "as `solve-instance --json` prints it"}
    for schema in document["components"]["schemas"].values():
        deltas = schema.get("properties", {}).get("deltas")
        if deltas is not None:
            deltas["items"] = one
    return json_answer(msgspec.json.encode(document))


@get("/", opt={"open": True}, include_in_schema=False, sync_to_thread=False)
def page() -> Response[bytes]:
    """Return the page to look at."""
    return _asset("page.html")


@get("/assets/{name:str}", opt={"open": True}, include_in_schema=False, sync_to_thread=False)
def asset(name: str) -> Response[bytes]:
    """Return what the page consists of."""
    if name not in _ASSETS:
        raise HTTPException(status_code=404, detail="Not Found")
    return _asset(name)


def _asset(name: str) -> Response[bytes]:
    content = files("apportion.service").joinpath("page", name).read_bytes()
    return Response(content, media_type=f"{_ASSETS[name]}; charset=utf-8", headers=_SAFE)
