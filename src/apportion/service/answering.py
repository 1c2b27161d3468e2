"""How errors become answers, the error object that commands print too; and what Prometheus is told."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import MediaType, Request, Response
from litestar.exceptions import HTTPException
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from apportion.core.errors import (
    ApportionError,
    BackendUnavailable,
    InvalidInstance,
    InvalidOption,
    Problem,
    error_object,
)
from apportion.service.messages import Busy, Conflict, Gone, Late, NotAllowed, Refused
from apportion.service.record import NotOnRecord, RecordFull
from apportion.service.record.entries import RecordInUse

if TYPE_CHECKING:
    from apportion.service.pool import Pool
    from apportion.service.record import Decided

__all__ = ["STATUSES", "Metrics", "failed", "json_answer", "refused_by_framework"]


_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
_GAPS = (1e-9, 1e-6, 1e-4, 1e-3, 1e-2, 0.1, 1)


class Metrics:
    """Counters of one service.

    Attributes
    ----------
    decisions, seconds, gap
        Decisions by policy, termination and status; seconds that callers waited; gaps of plans with a bound.
    refused, late, killed
        Requests refused, by why; decisions past their deadline; workers killed, by why.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.decisions = Counter(
            "apportion_decisions_total",
            "Decisions answered.",
            ("policy", "termination", "status"),
            registry=registry,
        )
        self.seconds = Histogram(
            "apportion_decision_seconds",
            "Seconds from asked to answered.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.gap = Histogram("apportion_gap", "Relative gap of plans.", buckets=_GAPS, registry=registry)
        self.refused = Counter("apportion_refused_total", "Requests refused.", ("why",), registry=registry)
        self.late = Counter("apportion_late_total", "Decisions past their deadline.", registry=registry)
        self.killed = Gauge("apportion_workers_killed", "Workers killed.", ("why",), registry=registry)
        self.busy = Gauge("apportion_workers_busy", "Workers at work.", registry=registry)
        self.waiting = Gauge("apportion_waiting", "Requests that wait for a worker.", registry=registry)

    def decided(self, decided: Decided, termination: str, gap: float | None) -> None:
        """Count a decision."""
        self.decisions.labels(decided.policy, termination, decided.status).inc()
        self.seconds.observe(decided.seconds)
        if gap is not None:
            self.gap.observe(gap)

    def page(self, pool: Pool) -> bytes:
        """Return everything in Prometheus's text format."""
        self.busy.set(pool.busy)
        self.waiting.set(pool.waiting)
        for why, count in pool.killed.items():
            self.killed.labels(why).set(count)
        return generate_latest(self._registry)


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
    reply = error.error if isinstance(error, Refused) else error_object(error)
    name = (
        reply["type"]
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
        status, reply = 400, {**reply, "type": "InvalidRequest", "message": "is nested too deeply"}
    if status == 500:
        logging.getLogger("apportion.service").error("internal error", exc_info=error)
    if status >= 400:
        request.app.state.manager.metrics.refused.labels(reply["type"]).inc()
    return json_answer(msgspec.json.encode({"error": reply}), status, headers)


def _problem(said: dict[str, Any]) -> Problem:
    """Return what Litestar says of a parameter, or of the body, which it calls ``data``."""
    key, message = said.get("key"), str(said.get("message", ""))
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
    message = {
        "type": "InvalidRequest",
        "message": "; ".join(map(str, problems)) or detail,
        "exit_code": InvalidOption.exit_code,
        "problems": [problem.as_json() for problem in problems],
    }
    request.app.state.manager.metrics.refused.labels(f"http_{error.status_code}").inc()
    headers = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
    return json_answer(msgspec.json.encode({"error": message}), error.status_code, headers)
