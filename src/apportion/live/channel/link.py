"""The agent's connection to its controller: made again and again, encrypted, never waited for."""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import time
from collections.abc import Callable, Iterator

import msgspec

from apportion.live.channel.messages import (
    CONTROLLER_LINE_LIMIT,
    AgentMessage,
    ControllerMessage,
    Hello,
    Pulse,
    Welcome,
)
from apportion.live.channel.peer import LineBuffer, LineTooLong, OutBuffer, Tunnel, TunnelBroken, agent_side
from apportion.live.cluster import steady_s

__all__ = ["ControllerLink"]

HANDSHAKE_S = 5.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0
WAITING_BYTES = 1024 * 1024
REMEMBERED_PULSES = 256
CHUNK = 64 * 1024
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[ControllerMessage] = msgspec.json.Decoder(ControllerMessage)


class ControllerLink:
    """The agent's connection to its controller, made again whenever it is lost.

    Parameters
    ----------
    selector
        Its socket is registered here, with this object as data.
    host, port
        The controller.
    fingerprint
        Of the controller's certificate: whoever shows another one is told nothing.
    hello
        Called with the local address for what to say of oneself, the pilot's secret included.

    Attributes
    ----------
    heard_s
        When the controller was last heard, by `time.monotonic`: a connection that is silent is made anew.
    leased_s
        When the last thing was said that the controller is known to have heard, by
        `apportion.live.cluster.steady_s`: the lease runs from here.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        host: str,
        port: int,
        fingerprint: str,
        hello: Callable[[str], Hello],
    ) -> None:
        self._selector, self._at, self._hello = selector, (host, port), hello
        self._context, self._fingerprint = agent_side(), fingerprint
        self._socket: socket.socket | None = None
        self._tunnel: Tunnel | None = None
        self._entered = False
        self._lines, self._out = LineBuffer(CONTROLLER_LINE_LIMIT), OutBuffer(WAITING_BYTES)
        self._wait_s = FIRST_WAIT_S
        self._due_s = time.monotonic()
        self._begun_s = 0.0
        self._greeted_s = 0.0
        self._pulses = 0
        self._pulsed_s: dict[int, float] = {}
        self.welcome: Welcome | None = None
        self.heard_s = time.monotonic()
        self.leased_s = steady_s()

    @property
    def open(self) -> bool:
        """Whether both sides know who the other is."""
        return self._entered

    def due_s(self) -> float:
        """Return when `tend` has something to do, by `time.monotonic`."""
        if self._socket is None:
            return self._due_s
        if not self.open:
            return self._begun_s + HANDSHAKE_S
        return self.heard_s + self._silence_s()

    def tend(self) -> None:
        """Connect if it is time to; give up a handshake, or a connection, that is silent too long."""
        now = time.monotonic()
        if self._socket is None:
            if now >= self._due_s:
                self._connect()
        elif now >= self.due_s():
            self.lose()

    def send(self, message: AgentMessage) -> bool:
        """Queue a message; return whether there is a connection."""
        if self._tunnel is None or not self._entered:
            return False
        self._out.add(self._tunnel.seal(_ENCODER.encode(message) + b"\n"))
        self._write()
        return self._socket is not None

    def pulse(self) -> None:
        """Say that this agent is there, and remember when that was said."""
        self._pulses += 1
        self._pulsed_s[self._pulses] = steady_s()
        self._pulsed_s.pop(self._pulses - REMEMBERED_PULSES, None)
        self.send(Pulse(number=self._pulses))

    def handle(self, events: int) -> Iterator[ControllerMessage]:
        """Yield what the socket brought once the controller has let this agent in."""
        if events & selectors.EVENT_WRITE:
            self._write()
        if self._socket is None or self._tunnel is None or not events & selectors.EVENT_READ:
            return
        try:
            data = self._socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.lose()
            return
        try:
            plain = self._through(self._tunnel, data)
            for line in self._lines.feed(plain):
                yield self._hear(line)
                if self._socket is None:
                    return
        except (LineTooLong, TunnelBroken, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self.lose()

    def flush(self, timeout_s: float) -> None:
        """Wait until what is queued has been taken, at most so long."""
        end = time.monotonic() + timeout_s
        while self._socket is not None and time.monotonic() < end:
            try:
                if self._out.send_to(self._socket):
                    return
            except OSError:
                return
            time.sleep(0.005)

    def lose(self) -> None:
        """Close the connection; it is made again a little later."""
        if self._socket is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(self._socket)
            self._socket.close()
        self._socket = self._tunnel = None
        self._entered = False
        self._due_s = time.monotonic() + self._wait_s * random.uniform(0.7, 1.3)
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)

    def _silence_s(self) -> float:
        return 4 * self.welcome.pulse_s + 1.0 if self.welcome is not None else HANDSHAKE_S

    def _connect(self) -> None:
        self._lines, self._out = LineBuffer(CONTROLLER_LINE_LIMIT), OutBuffer(WAITING_BYTES)
        self._begun_s = time.monotonic()
        try:
            found = socket.getaddrinfo(*self._at, type=socket.SOCK_STREAM)
            family, kind, protocol, _, address = found[0]
            self._socket = socket.socket(family, kind, protocol)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(BlockingIOError):
                self._socket.connect(address)
        except OSError:
            self.lose()
            return
        self._tunnel = Tunnel(self._context, self._fingerprint)
        self._tunnel.hear(b"")
        self._out.add(self._tunnel.answer())
        # room to write is the news that the connection stands
        self._selector.register(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)

    def _through(self, tunnel: Tunnel, data: bytes) -> bytes:
        """Return the plain text of what came; say hello as soon as the tunnel is open."""
        assert self._socket is not None
        opened, plain = tunnel.open, tunnel.hear(data)
        self._out.add(tunnel.answer())
        if tunnel.open and not opened:
            self._greeted_s = steady_s()
            hello = self._hello(self._socket.getsockname()[0])
            self._out.add(tunnel.seal(_ENCODER.encode(hello) + b"\n"))
        self._write()
        return plain

    def _hear(self, line: bytes) -> ControllerMessage:
        message = _DECODER.decode(line)
        self.heard_s = time.monotonic()
        if isinstance(message, Pulse):
            self.leased_s = max(self.leased_s, self._pulsed_s.get(message.echo, self.leased_s))
        elif isinstance(message, Welcome):
            self.welcome, self._entered, self._wait_s = message, True, FIRST_WAIT_S
            self.leased_s = max(self.leased_s, self._greeted_s)
        return message

    def _write(self) -> None:
        if self._socket is None:
            return
        try:
            done = self._out.send_to(self._socket)
        except OSError:
            self.lose()
            return
        if self._out.overflown:
            self.lose()
            return
        events = selectors.EVENT_READ | (0 if done else selectors.EVENT_WRITE)
        self._selector.modify(self._socket, events, self)
