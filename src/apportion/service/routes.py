"""What can be asked of the service, route by route."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import Parameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from apportion.errors import InvalidInstance
from apportion.instances import edits
from apportion.reading.json_text import has_repeated_keys
from apportion.service.answering import failed, json_answer
from apportion.service.hub import Hub
from apportion.service.messages import (
    ChangedSession,
    ChangeSession,
    Made,
    OpenSession,
    Round,
    SessionSummary,
    WhatIf,
    body_digest,
)
from apportion.service.watching import while_there
from apportion.session.asking import DecideSession

__all__ = ["ROUTES"]

_Request = Request[Any, Any, Any]
_Number = Annotated[int, Parameter(ge=1, le=2**62)]
_Last = Annotated[int, Parameter(ge=1, le=10_000)]
_Word = Annotated[str, Parameter(max_length=1000)]
_EVENTS = "text/event-stream"


def _hub(state: State) -> Hub:
    hub: Hub = state.hub
    return hub


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
    hub = _hub(state)
    return {
        "status": "ok",
        "sessions": len(hub),
        "busy": hub.pool.busy,
        "waiting": hub.pool.waiting,
    }


@get("/metrics", sync_to_thread=False)
def metrics(state: State) -> Response[bytes]:
    """Return counters in Prometheus's text format."""
    hub = _hub(state)
    return Response(hub.metrics.page(hub.pool), media_type="text/plain; version=0.0.4; charset=utf-8")


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
    hub, by = _hub(state), _by(request)
    if _EVENTS in request.headers.get("accept", ""):
        hub.check_open(name)
        return ServerSentEvent(_events(request, hub, name, data, by))
    made = await while_there(request, hub.decide(name, data, by))
    return json_answer(msgspec.json.encode(made))


async def _events(
    request: _Request, hub: Hub, name: str, data: DecideSession, by: str
) -> AsyncIterator[ServerSentEventMessage]:
    found: asyncio.Queue[bytes | None] = asyncio.Queue()
    task = asyncio.create_task(hub.decide(name, data, by, found.put_nowait))
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
    hub = _hub(state)
    capacities = edits.capacities(await hub.past.instance(number))
    return {"capacities": capacities, "record": str(hub.ledger.path.parent)}


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
