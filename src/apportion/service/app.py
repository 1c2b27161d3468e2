"""The service as a Litestar application: what can be asked of it, route by route.

Work is given up when its caller goes away. Every request and event is one line of JSON on standard error.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import sys
import time
from collections.abc import AsyncIterator, Coroutine
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from litestar import Litestar, Request, Response, delete, get, post
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.enums import ScopeType
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.params import Parameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from apportion import __version__
from apportion.core.errors import InvalidInstance
from apportion.instances import edits
from apportion.io.text import has_repeated_keys
from apportion.service.answering import failed, json_answer, refused_by_framework
from apportion.service.applying import DecideSession
from apportion.service.deltas import Delta
from apportion.service.messages import (
    ChangedSession,
    ChangeSession,
    Gone,
    Made,
    NotAllowed,
    OpenSession,
    Round,
    SessionSummary,
    WhatIf,
    body_digest,
)
from apportion.service.sessions import SessionManager

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["ROUTES", "application", "log_to_stderr", "logged", "while_there"]


_LOGGER = logging.getLogger("apportion.service")


class _Lines(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        message = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            message["traceback"] = self.formatException(record.exc_info)
        return json.dumps(message)


def log_to_stderr(level: str) -> None:
    """Write what the service and its server log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    for name in ("apportion.service", "uvicorn", "litestar"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level.upper() if name == "apportion.service" else logging.WARNING)


def logged(app: ASGIApp) -> ASGIApp:
    """Return an application whose requests are logged: who asked what, and how it ended."""

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or not _LOGGER.isEnabledFor(logging.INFO):
            await app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await app(scope, receive, watch)
        finally:
            client = scope.get("client")
            fields = {
                "method": scope.get("method"),
                "path": scope["path"],
                "status": status,
                "seconds": round(time.perf_counter() - began, 4),
                "asked_by": client[0] if client else "unknown",
            }
            _LOGGER.info("request", extra={"fields": fields})

    return asked


_T = TypeVar("_T")


async def while_there(request: Request[Any, Any, Any], work: Coroutine[Any, Any, _T]) -> _T:
    """Return what work returns; it is cancelled when the caller of a request closes the connection.

    Raises
    ------
    Gone
        If the caller did.
    """
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Gone("the caller has gone away")
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _disconnected(request: Request[Any, Any, Any]) -> None:
    await request.body()
    while (await request.receive())["type"] != "http.disconnect":
        pass


_Request = Request[Any, Any, Any]
_Number = Annotated[int, Parameter(ge=1, le=2**62)]
_Last = Annotated[int, Parameter(ge=1, le=10_000)]
_Word = Annotated[str, Parameter(max_length=1000)]
_EVENTS = "text/event-stream"


def _hub(state: State) -> SessionManager:
    manager: SessionManager = state.manager
    return manager


def _by(request: _Request) -> str:
    """Return who asks: a user of the machine, on a Unix socket, or the holder of the token."""
    client = request.scope.get("client")
    return client[0] if client else "unknown"


async def _strict(request: _Request) -> None:
    """Refuse a body that says one thing twice, which decoding does not notice."""
    if has_repeated_keys(await request.body()):
        raise InvalidInstance.at("$", "a key stands twice in one object; each must be unique")


def _document(kind: Any) -> dict[int, ResponseSpec]:
    return {200: ResponseSpec(data_container=kind, generate_examples=False, description="answered")}


@get("/health", opt={"open": True}, sync_to_thread=False)
def health(state: State) -> dict[str, Any]:
    """Say that the service is there, and how busy it is."""
    manager = _hub(state)
    return {
        "status": "ok",
        "sessions": len(manager),
        "busy": manager.pool.busy,
        "waiting": manager.pool.waiting,
    }


@get("/metrics", sync_to_thread=False)
def metrics(state: State) -> Response[bytes]:
    """Return counters in Prometheus's text format."""
    manager = _hub(state)
    return Response(manager.metrics.page(manager.pool), media_type="text/plain; version=0.0.4; charset=utf-8")


@get("/sessions")
async def list_sessions(state: State) -> list[SessionSummary]:
    """List the open sessions."""
    return await _hub(state).sessions()


@post("/sessions")
async def open_session(state: State, request: _Request, data: OpenSession) -> SessionSummary:
    """Open a session with an instance, once; asked again by the same id, the same is answered."""
    await _strict(request)
    return await _hub(state).open(data, _by(request))


@get("/sessions/{name:str}")
async def show_session(state: State, name: str) -> SessionSummary:
    """Return an open session."""
    return await _hub(state).session(name)


@get("/sessions/{name:str}/instance")
async def session_instance(state: State, name: str) -> Response[bytes]:
    """Return the instance of a session as it is now."""
    return json_answer(msgspec.json.encode(await _hub(state).instance(name)))


@delete("/sessions/{name:str}", status_code=200)
async def close_session(state: State, name: str) -> dict[str, str]:
    """Close a session; its decisions stay on record. One that is closed already stays closed."""
    await _hub(state).close(name)
    return {"closed": name}


@post("/sessions/{name:str}/deltas", status_code=200)
async def change_session(state: State, request: _Request, name: str, data: ChangeSession) -> ChangedSession:
    """Change the instance of a session: all deltas, or none."""
    await _strict(request)
    revision = await _hub(state).change(name, data.deltas, data.request, body_digest(data), _by(request))
    return ChangedSession(session=name, revision=revision)


@post("/sessions/{name:str}/decisions", status_code=200, responses=_document(Made))
async def decide_session(
    state: State, request: _Request, name: str, data: DecideSession
) -> Response[bytes] | ServerSentEvent:
    """Change a session's instance and decide it.

    With ``Accept: text/event-stream`` plans on the way come as events ``incumbent``, then ``decision``.
    """
    await _strict(request)
    manager, by = _hub(state), _by(request)
    if _EVENTS in request.headers.get("accept", ""):
        manager.check_open(name)
        return ServerSentEvent(_events(request, manager, name, data, by))
    made = await while_there(request, manager.decide(name, data, by))
    return json_answer(msgspec.json.encode(made))


async def _events(
    request: _Request, manager: SessionManager, name: str, data: DecideSession, by: str
) -> AsyncIterator[ServerSentEventMessage]:
    found: asyncio.Queue[bytes | None] = asyncio.Queue()
    task = asyncio.create_task(manager.decide(name, data, by, found.put_nowait))
    task.add_done_callback(lambda _: found.put_nowait(None))
    try:
        while (document := await found.get()) is not None:
            yield ServerSentEventMessage(event="incumbent", data=document.decode())
        try:
            yield ServerSentEventMessage(event="decision", data=msgspec.json.encode(task.result()).decode())
        except Exception as error:
            yield ServerSentEventMessage(event="error", data=failed(request, error).content.decode())
    finally:
        task.cancel()


@get("/sessions/{name:str}/rounds")
async def session_rounds(state: State, name: str, last: _Last = 200) -> list[Round]:
    """Return the last decisions of a session as points in time, the oldest first; it may be closed."""
    return await _hub(state).past.rounds(name, last)


@get("/decisions/{number:int}", responses=_document(Made))
async def show_decision(state: State, number: _Number) -> Response[bytes]:
    """Return a decision from the record."""
    return json_answer(msgspec.json.encode(await _hub(state).past.made(number)))


@get("/decisions/{number:int}/instance")
async def decision_instance(state: State, number: _Number) -> Response[bytes]:
    """Return the instance that a decision was about."""
    return json_answer(msgspec.json.encode(await _hub(state).past.instance(number)))


@get("/decisions/{number:int}/about")
async def about_decision(state: State, number: _Number) -> dict[str, Any]:
    """Return how much there was of every capacity, and in which folder the record is."""
    manager = _hub(state)
    capacities = edits.capacities(await manager.past.instance(number))
    return {"capacities": capacities, "record": str(manager.writer.path.parent)}


@get("/decisions/{number:int}/explanation")
async def explain_decision(
    state: State,
    request: _Request,
    number: _Number,
    job: _Word | None = None,
    option: _Word | None = None,
    time_limit: Annotated[float, Parameter(gt=0, le=86_400)] = 10.0,
) -> Response[bytes]:
    """Say why the plan of a decision was as it was, of one job or of all."""
    return json_answer(await while_there(request, _hub(state).past.explain(number, job, option, time_limit)))


@post("/decisions/{number:int}/what-if", status_code=200)
async def what_if(state: State, request: _Request, number: _Number, data: WhatIf) -> Response[bytes]:
    """Say what the plan of a decision would have been with some changes; nothing is changed."""
    await _strict(request)
    return json_answer(await while_there(request, _hub(state).past.compare(number, data)))


ROUTES = (
    health,
    metrics,
    list_sessions,
    open_session,
    show_session,
    session_instance,
    close_session,
    change_session,
    decide_session,
    session_rounds,
    show_decision,
    decision_instance,
    about_decision,
    explain_decision,
    what_if,
)


_ASSETS = {"page.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
_SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def application(manager: SessionManager, *, token: str | None = None, max_body: int = 64 * 2**20) -> Litestar:
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
        state=State({"manager": manager, "max_body": max_body}),
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
