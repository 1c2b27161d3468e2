"""The agent's ear for the trainer beside it: JSON lines on a port of 127.0.0.1, a token in every line.

Other users of the node reach that port too. They know no token, so their lines count as nothing, and
connections are few: a new one takes the place of the oldest that has not said a valid line.
"""

from __future__ import annotations

import contextlib
import hmac
import selectors
import socket
import time

import msgspec

from apportion.live.channel.messages import AGENT_LINE_LIMIT, TrainerLine
from apportion.live.channel.peer import LineBuffer, LineTooLong

__all__ = ["LocalReports"]

CONNECTIONS = 8
KEPT_PER_S = 20
"""Valid lines a second beyond which lines count as dropped; the newest is the one that is kept."""
LINES_PER_S = 200
"""Lines a second beyond which a connection is not read until the second is over."""
CHUNK = 64 * 1024
_DECODER = msgspec.json.Decoder(TrainerLine)


class _Trainer:
    def __init__(self, connection: socket.socket, now: float) -> None:
        self.socket = connection
        self.lines = LineBuffer(AGENT_LINE_LIMIT)
        self.opened_s, self.second, self.in_second = now, now, 0
        self.believed = False
        self.paused = False


class LocalReports:
    """A listening port and the newest valid report.

    Parameters
    ----------
    selector
        Its sockets are registered here, with this object as data.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, self)
        self._trainers: dict[int, _Trainer] = {}
        self._token = b""
        self.port: int = self._listener.getsockname()[1]
        self.newest: TrainerLine | None = None
        self.at_s = 0.0
        self.dropped = 0
        self._second, self._kept = 0.0, 0

    def expect(self, token: str) -> None:
        """Forget what was heard and believe lines with this token from now on."""
        for trainer in list(self._trainers.values()):
            self._drop(trainer)
        self._token = token.encode()
        self.newest, self.dropped = None, 0

    def handle(self, key: selectors.SelectorKey) -> None:
        """Take what a socket of this object has to say."""
        if key.fileobj is self._listener:
            self._accept()
        elif (trainer := self._trainers.get(key.fd)) is not None:
            self._read(trainer)

    def resume_at_s(self) -> float | None:
        """Return when a paused connection is due to be read again, by `time.monotonic`."""
        paused = [trainer.second + 1.0 for trainer in self._trainers.values() if trainer.paused]
        return min(paused, default=None)

    def resume(self) -> None:
        """Read paused connections again whose second is over."""
        now = time.monotonic()
        for trainer in list(self._trainers.values()):
            if trainer.paused and now >= trainer.second + 1.0:
                trainer.paused = False
                self._selector.register(trainer.socket, selectors.EVENT_READ, self)

    def drain(self) -> None:
        """Take what has arrived already, within bounds: the sender has ended."""
        for _ in range(CONNECTIONS):
            self._accept()
        for trainer in list(self._trainers.values()):
            trainer.second, trainer.in_second = time.monotonic(), 0
            for _ in range(16):
                if trainer.socket.fileno() < 0 or not self._read(trainer):
                    break

    def close(self) -> None:
        """Close the port and every connection."""
        for trainer in list(self._trainers.values()):
            self._drop(trainer)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        connection.setblocking(False)
        if len(self._trainers) >= CONNECTIONS:
            self._drop(min(self._trainers.values(), key=lambda one: (one.believed, one.opened_s)))
        trainer = _Trainer(connection, time.monotonic())
        self._trainers[connection.fileno()] = trainer
        self._selector.register(connection, selectors.EVENT_READ, self)

    def _read(self, trainer: _Trainer) -> bool:
        try:
            data = trainer.socket.recv(CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._drop(trainer)
            return False
        now = time.monotonic()
        if now - trainer.second >= 1.0:
            trainer.second, trainer.in_second = now, 0
        try:
            for line in trainer.lines.feed(data):
                trainer.in_second += 1
                self._hear(trainer, line, now)
        except LineTooLong:
            self.dropped += 1
            self._drop(trainer)
            return False
        if trainer.in_second > LINES_PER_S and not trainer.paused:
            trainer.paused = True
            self._selector.unregister(trainer.socket)
        return True

    def _hear(self, trainer: _Trainer, line: bytes, now: float) -> None:
        try:
            report = _DECODER.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.dropped += 1
            return
        if not self._token or not hmac.compare_digest(report.token.encode(), self._token):
            self.dropped += 1
            return
        trainer.believed = True
        if now - self._second >= 1.0:
            self._second, self._kept = now, 0
        self._kept += 1
        if self._kept > KEPT_PER_S:
            self.dropped += 1
        self.newest, self.at_s = report, now

    def _drop(self, trainer: _Trainer) -> None:
        self._trainers.pop(trainer.socket.fileno(), None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(trainer.socket)
        trainer.socket.close()
