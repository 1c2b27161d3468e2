"""Programs, ports and processes of this machine, as a cluster in a folder of its own needs them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import socket
from pathlib import Path

__all__ = ["end_with_parent", "free_ports", "processes_with", "program_of"]

_LIBC = ctypes.CDLL(None)


def program_of(name: str) -> str | None:
    """Find a program, also where daemons live and users' search paths do not reach."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now, none that an outgoing connection may be given meanwhile."""
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            one = stack.enter_context(socket.socket())
            port = 15000 + secrets.randbelow(15000)
            with contextlib.suppress(OSError):
                one.bind(("127.0.0.1", port))
                found.append(port)
    return found


def end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies, so that a killed test leaves no daemon (Linux)."""
    _LIBC.prctl(1, signal.SIGTERM)


def processes_with(variable: str) -> list[int]:
    """Return processes of this machine, other than this one, whose environment holds a variable's start."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            pid = int(path.parent.name)
            if pid != os.getpid() and any(
                entry.startswith(variable.encode()) for entry in path.read_bytes().split(b"\0")
            ):
                found.append(pid)
    return found
