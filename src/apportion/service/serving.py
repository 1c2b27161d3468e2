"""The service as a process: started, served until it is told to end, and ended in order."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import pwd
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from apportion.record.errors import RecordInUse
from apportion.service.app import application
from apportion.service.hub import Hub
from apportion.service.ledger import Ledger
from apportion.service.limits import Limits
from apportion.service.metrics import Metrics
from apportion.service.pool import Pool

__all__ = ["serve"]

_CREDENTIALS = struct.Struct("3i")


class _Peers(HttpToolsProtocol):
    """HTTP whose caller on a Unix socket is the user of the machine that the kernel names."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection: socket.socket = transport.get_extra_info("socket")
        if connection.family == socket.AF_UNIX:
            told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            self.client = (_user(_CREDENTIALS.unpack(told)[1]), 0)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


async def serve(
    listening: socket.socket,
    record: Path,
    *,
    token: str | None = None,
    workers: int = 2,
    waiting: int = 32,
    limits: Limits | None = None,
    max_body: int = 64 * 2**20,
    max_record: int | None = None,
    durable: bool = True,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until the process is told to end (SIGTERM, SIGINT).

    Parameters
    ----------
    listening
        The socket to listen on.
    record
        The file of the record; one service at a time writes it.
    token
        What callers must show; ``None`` where the socket's permissions decide.
    workers, waiting
        How many worker processes, and how many requests may wait for one.
    limits
        What is allowed.
    max_body, max_record
        Bytes of a request, and of the record.
    durable
        Whether a decision that was answered outlives a power failure.
    ready
        Called when requests are taken.
    """
    metrics = Metrics()
    ledger = Ledger(record, max_bytes=max_record, durable=durable)
    lock = _locked(record)
    pool = Pool(workers, waiting)
    hub = Hub(ledger, pool, metrics, limits or Limits())
    try:
        await asyncio.gather(pool.start(), hub.recover())
        config = uvicorn.Config(
            application(hub, token=token, max_body=max_body),
            http=_Peers,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=10,
            timeout_keep_alive=75,
        )
        server = _Server(config, ready)
        await server.serve(sockets=[listening])
    finally:
        await pool.close()
        ledger.close()
        os.close(lock)
        logging.getLogger("apportion.service").info("ended")


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def _locked(record: Path) -> int:
    """Return the right to serve a record; two services on one would not know of each other's sessions."""
    file = os.open(record.with_name(f"{record.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise RecordInUse(f"another service writes {record}; give this one a record of its own") from None
    return file
