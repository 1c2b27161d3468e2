"""A service in a process of its own, and a caller of it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.patience import patience


class Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout: float = 120.0) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(os.fspath(self._path))


class Service:
    """A running service."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.socket = folder / "s.sock"
        words = ["serve", "--record", str(folder / "record"), *options]
        if "--port" not in options:
            words += ["--socket", str(self.socket)]
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "apportion", *words], stdout=subprocess.PIPE, stderr=log
            )
        assert self.process.stdout is not None
        self.told = self.process.stdout.readline().decode()
        if not self.told.startswith("listening"):
            self._ended()
            raise AssertionError((folder / "log").read_text())

        self.port = int(self.told.partition("127.0.0.1:")[2].partition(",")[0] or 0)
        self.token = (folder / "record" / "token").read_text().strip() if self.port else ""

    def connection(self, timeout: float = 120.0) -> http.client.HTTPConnection:
        if self.port:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        return Connection(self.socket, timeout)

    def raw(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = self.connection()
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        shown = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        connection.request(method, path, content, {**shown, **(headers or {})})
        response = connection.getresponse()
        told = response.status, dict(response.getheaders()), response.read()
        connection.close()
        return told

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        status, _, content = self.raw(method, path, body)
        return status, json.loads(content)

    def ok(self, method: str, path: str, body: Any = None) -> Any:
        status, told = self.ask(method, path, body)
        assert status in (200, 201), (status, told)
        return told

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self._ended()

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(patience(30))
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@contextmanager
def service(folder: Path, *options: str) -> Iterator[Service]:
    running = Service(folder, *options)
    try:
        yield running
    finally:
        running.end()


def until(condition: Any, seconds: float = 20.0) -> bool:
    """Return whether something becomes true."""
    end = time.monotonic() + patience(seconds)
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
