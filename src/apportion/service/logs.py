"""One line of JSON per request and per event, on standard error."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TYPE_CHECKING

from litestar.enums import ScopeType

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["log_to_stderr", "logged"]

_LOGGER = logging.getLogger("apportion.service")


class _Lines(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        told = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told)


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
