"""The service as a process on a Unix socket or a port: started, served until told to end, ended in order."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import pwd
import secrets
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from apportion.core.errors import InvalidOption
from apportion.core.files import private_folder, write_whole
from apportion.service.answering import Metrics
from apportion.service.app import application
from apportion.service.messages import Limits
from apportion.service.pool import Pool
from apportion.service.record.entries import RecordInUse
from apportion.service.record.writing import RecordWriter
from apportion.service.sessions import SessionManager

__all__ = ["default_socket", "local_port", "serve", "token_of", "unix_socket"]


_BACKLOG = 512


def default_socket() -> Path:
    """Return the socket used where none is named: in the user's runtime folder, else beside the record."""
    from apportion.service.record import default_folder

    base = os.environ.get("XDG_RUNTIME_DIR")
    return (Path(base) / "apportion" if base else default_folder()) / "serve.sock"


def unix_socket(path: Path, mode: int = 0o600) -> socket.socket:
    """Return a listening Unix socket that only those may connect to whom its mode names.

    Parameters
    ----------
    path
        Where; a socket that nobody listens on any more is replaced. A folder that is missing is made private.
        One that is there stays as it is; with mode 0600 nobody else may put another socket into its place.
    mode
        ``0o600``, its user alone, or ``0o660``, the group of its folder too.

    Raises
    ------
    InvalidOption
        If the path is too long, is no socket, somebody listens on it, or its folder is open to others.
    """
    if len(os.fsencode(path)) > 107:
        raise InvalidOption(f"a socket's path has at most 107 bytes; {path} is longer")
    if not path.parent.exists():
        private_folder(path.parent)
    elif mode == 0o600 and not _is_safe(path.parent):
        raise InvalidOption(f"{path.parent} lets others replace the socket; name a folder of your own")
    if path.exists():
        _replaceable(path)
        path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o777 & ~mode)
    try:
        listening.bind(os.fspath(path))
    finally:
        os.umask(mask)
    path.chmod(mode)
    listening.listen(_BACKLOG)
    return listening


def _is_safe(folder: Path) -> bool:
    """Return whether nobody else can remove a file of ours from a folder."""
    status = folder.stat()
    if status.st_mode & stat.S_ISVTX:  # as /tmp: everybody removes his own alone
        return True
    others = 0o002 if status.st_gid == os.getgid() else 0o022
    return status.st_uid in (os.getuid(), 0) and not status.st_mode & others


def local_port(port: int) -> socket.socket:
    """Return a listening socket on a port of 127.0.0.1; 0 for any that is free."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise InvalidOption(f"port {port} cannot be listened on: {error}") from None
    listening.listen(_BACKLOG)
    return listening


def token_of(path: Path) -> str:
    """Return the token in a file, which is made, for its user alone, where it is missing.

    Raises
    ------
    InvalidOption
        If others may read the file, or it holds less than 16 characters.
    """
    if not path.exists():
        mask = os.umask(0o077)
        try:
            write_whole(path, secrets.token_urlsafe(32).encode() + b"\n")
        finally:
            os.umask(mask)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidOption(f"{path} may be read by others; chmod 600 it")
    token = path.read_text().strip()
    if len(token) < 16:
        raise InvalidOption(f"{path} holds no token of at least 16 characters")
    return token


def _replaceable(path: Path) -> None:
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise InvalidOption(f"{path} is no socket; it is left alone")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            return
    raise InvalidOption(f"a service listens on {path} already")


_CREDENTIALS = struct.Struct("3i")


class _Peers(HttpToolsProtocol):
    """HTTP whose caller on a Unix socket is the user of the machine that the kernel names."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection: socket.socket = transport.get_extra_info("socket")
        if connection.family == socket.AF_UNIX:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            self.client = (_user(_CREDENTIALS.unpack(credentials)[1]), 0)


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
    ledger = RecordWriter(record, max_bytes=max_record, durable=durable)
    lock = _locked(record)
    pool = Pool(workers, waiting)
    manager = SessionManager(ledger, pool, metrics, limits or Limits())
    try:
        await asyncio.gather(pool.start(), manager.recover())
        config = uvicorn.Config(
            application(manager, token=token, max_body=max_body),
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
