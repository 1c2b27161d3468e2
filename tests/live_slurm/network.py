"""A node's way to the controller: a relay that can hold what is said on it, delay it, or be cut."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

__all__ = ["Way"]

_CHUNK = 65536


class Way:
    """One node's way; whoever connects to `port` of 127.0.0.1 is carried on to the controller.

    What is held is not lost: it arrives when the way is healed, as it does on a network that comes back. So
    is the end of a connection: the other side does not hear of it before.

    Parameters
    ----------
    controller
        Returns where the controller listens, ``None`` if that is not known yet.

    Attributes
    ----------
    up, down
        Open while anything gets to the controller, or from it.
    late_s
        Everything takes so much longer.
    """

    def __init__(self, controller: Callable[[], tuple[str, int] | None]) -> None:
        self._controller = controller
        self.up, self.down, self.late_s = threading.Event(), threading.Event(), 0.0
        self.heal()
        self._ends: set[socket.socket] = set()
        self._over = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._begin(self._listen)

    def hold(self, up: bool = True, down: bool = True) -> None:
        """Let nothing more through, in one direction or in both."""
        if up:
            self.up.clear()
        if down:
            self.down.clear()

    def heal(self) -> None:
        """Let everything through at once, also what was held."""
        self.late_s = 0.0
        self.up.set()
        self.down.set()

    def cut(self) -> None:
        """End every connection; new ones may be made."""
        for end in list(self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End everything for good."""
        self._over = True
        self.heal()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _begin(self, task: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=task, args=arguments, daemon=True)
        thread.start()
        return thread

    def _listen(self) -> None:
        with suppress(OSError):
            while not self._over:
                self._begin(self._carry, self._listener.accept()[0])

    def _carry(self, agent: socket.socket) -> None:
        self.up.wait()
        self.down.wait()
        with agent, suppress(OSError):
            at = self._controller()
            if at is None or self._over:
                return
            with socket.create_connection(at, timeout=5.0) as controller:
                ends = {agent, controller}
                for end in ends:
                    end.settimeout(None)
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._ends |= ends
                answers = self._begin(self._pump, controller, agent, self.down)
                self._pump(agent, controller, self.up)
                answers.join()
                self._ends -= ends

    def _pump(self, source: socket.socket, sink: socket.socket, gate: threading.Event) -> None:
        with suppress(OSError):
            while True:
                data = source.recv(_CHUNK)
                time.sleep(self.late_s)
                gate.wait()
                if not data:
                    break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
