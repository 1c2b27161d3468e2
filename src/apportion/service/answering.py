"""How errors become answers: a status, and the error object that commands print too."""

from __future__ import annotations

import logging
import math
from typing import Any

import msgspec
from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException

from apportion.errors import (
    ApportionError,
    BackendUnavailable,
    InvalidInstance,
    InvalidOption,
    Problem,
    error_object,
)
from apportion.record import NotOnRecord, RecordFull
from apportion.record.errors import RecordInUse
from apportion.service.errors import Busy, Conflict, Gone, Late, NotAllowed, Refused

__all__ = ["STATUSES", "failed", "json_answer", "refused_by_framework"]

STATUSES: dict[type[ApportionError], int] = {
    InvalidInstance: 422,
    InvalidOption: 422,
    BackendUnavailable: 422,
    NotOnRecord: 404,
    Conflict: 409,
    NotAllowed: 401,
    Busy: 429,
    Gone: 499,
    Late: 504,
    RecordFull: 507,
    RecordInUse: 503,
}
_BY_NAME = {kind.__name__: status for kind, status in STATUSES.items()}


def json_answer(content: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response[bytes]:
    """Return JSON that is encoded already."""
    return Response(content, media_type=MediaType.JSON, status_code=status, headers=headers)


def failed(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Return what a caller is told of an error; one that nobody foresaw is logged with its place."""
    told = error.error if isinstance(error, Refused) else error_object(error)
    name = (
        told["type"]
        if isinstance(error, Refused)
        else next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _BY_NAME), "")
    )
    status = _BY_NAME.get(name, 500)
    headers = {}
    if isinstance(error, Busy):
        headers["Retry-After"] = str(math.ceil(error.again_s))
    if isinstance(error, NotAllowed):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, RecursionError):
        status, told = 400, {**told, "type": "InvalidRequest", "message": "is nested too deeply"}
    if status == 500:
        logging.getLogger("apportion.service").error("internal error", exc_info=error)
    if status >= 400:
        request.app.state.hub.metrics.refused.labels(told["type"]).inc()
    return json_answer(msgspec.json.encode({"error": told}), status, headers)


def _problem(told: dict[str, Any]) -> Problem:
    """Return what Litestar says of a parameter, or of the body, which it calls ``data``."""
    key, message = told.get("key"), str(told.get("message", ""))
    if key != "data":
        return Problem(f"$.{key or ''}".rstrip("."), message)
    if message == "'data'":
        return Problem("$", "the body is empty: send one JSON object, {} where nothing is to be said")
    return Problem.of_decoding(ValueError(message))


def refused_by_framework(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Return the same error object for what Litestar refuses: no such route, a body it cannot read."""
    if error.status_code >= 500:
        return failed(request, error)
    extra = error.extra if isinstance(error.extra, list) else []
    problems = [_problem(each) for each in extra if isinstance(each, dict)]
    detail = error.detail
    if error.status_code == 413:
        most = request.app.state.max_body
        detail = (
            f"the body has more than the {most:,} bytes that are read (apportion serve --max-body, in MiB)"
        )
    told = {
        "type": "InvalidRequest",
        "message": "; ".join(map(str, problems)) or detail,
        "exit_code": InvalidOption.exit_code,
        "problems": [problem.as_json() for problem in problems],
    }
    request.app.state.hub.metrics.refused.labels(f"http_{error.status_code}").inc()
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
    return json_answer(msgspec.json.encode({"error": told}), error.status_code, headers)
