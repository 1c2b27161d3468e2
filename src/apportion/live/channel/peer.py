"""One connection of an agent to its controller, and the address that agents connect to.

Lines go over sockets that are never waited for, with a bound on everything, inside of TLS where it is on. The
agent knows the certificate's fingerprint, so that it talks to its controller and to nobody else; the
controller knows the agent by the secret that it says inside of the tunnel. TLS 1.3 keeps both ways secret,
whole and in order; there is no session to be resumed and no older version to fall back to.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
import ssl
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from apportion.core.errors import InvalidOption
from apportion.live.channel.messages import AGENT_LINE_LIMIT, Running
from apportion.live.cluster import AgentSeen

__all__ = [
    "LineBuffer",
    "LineTooLong",
    "OutBuffer",
    "Peer",
    "Tunnel",
    "TunnelBroken",
    "agent_side",
    "controller_side",
    "listen",
]


_RECORD = 16 * 1024


class TunnelBroken(Exception):
    """What the peer sent is no TLS, was altered on its way, or comes from who has another certificate."""


def controller_side(certificate: Path) -> ssl.SSLContext:
    """Return the settings of the controller's end, which shows a certificate and asks for none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    context.load_cert_chain(certificate)
    return context


def agent_side() -> ssl.SSLContext:
    """Return the settings of an agent's end, where the fingerprint alone decides who is believed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Tunnel:
    """One end of a connection; it holds no socket.

    Parameters
    ----------
    context
        Of `controller_side` or `agent_side`.
    fingerprint
        The agent's end: SHA-256 of the only certificate that is believed. The controller's end: ``None``.

    Attributes
    ----------
    open
        Whether the handshake is over, and the peer's certificate the one that is believed.
    """

    def __init__(self, context: ssl.SSLContext, fingerprint: str | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=fingerprint is None)
        self._fingerprint = fingerprint
        self.open = False

    def hear(self, data: bytes) -> bytes:
        """Take bytes from the wire and return the plain bytes that they complete; `answer` may have more.

        Raises
        ------
        TunnelBroken
            If the connection cannot go on.
        """
        self._incoming.write(data)
        plain = bytearray()
        try:
            if not self.open:
                self._tls.do_handshake()
                self._compare()
                self.open = True
            while part := self._tls.read(_RECORD):
                plain += part
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise TunnelBroken(error.reason or str(error)) from None
        return bytes(plain)

    def answer(self) -> bytes:
        """Return what TLS itself has to say on the wire now: the handshake's next part, often nothing."""
        return self._outgoing.read()

    def seal(self, plain: bytes) -> bytes:
        """Return the bytes for the wire that carry some plain ones; the tunnel must be open."""
        self._tls.write(plain)
        return self._outgoing.read()

    def _compare(self) -> None:
        if self._fingerprint is None:
            return
        shown = self._tls.getpeercert(binary_form=True) or b""
        if not hmac.compare_digest(hashlib.sha256(shown).hexdigest(), self._fingerprint):
            raise TunnelBroken("the certificate is not the controller's")


class LineTooLong(ValueError):
    """A peer sent more bytes without a line break than a line may have."""


class LineBuffer:
    """Bytes come in as they come; whole lines come out.

    Parameters
    ----------
    limit
        Bytes a line may have, its line break not counted.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._begun = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that `data` completes, without their line breaks.

        Raises
        ------
        LineTooLong
            If a line, complete or not, is longer than the limit.
        """
        *whole, rest = data.split(b"\n")
        for part in whole:
            if len(self._begun) + len(part) > self.limit:
                raise LineTooLong
            line = bytes(self._begun) + part
            self._begun.clear()
            yield line
        if len(self._begun) + len(rest) > self.limit:
            raise LineTooLong
        self._begun += rest


class OutBuffer:
    """Bytes to be sent when the peer takes them.

    Parameters
    ----------
    limit
        Bytes that may wait; beyond it `overflown` is set and nothing more is taken.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.overflown = False
        self._parts: deque[bytes] = deque()
        self._size = 0

    def add(self, data: bytes) -> None:
        """Append bytes."""
        if self._size + len(data) > self.limit:
            self.overflown = True
            return
        self._parts.append(data)
        self._size += len(data)

    def send_to(self, peer: socket.socket) -> bool:
        """Send what the peer takes at once; return whether nothing is left.

        Raises
        ------
        OSError
            If the connection is broken.
        """
        while self._parts:
            data = self._parts[0]
            try:
                sent = peer.send(data)
            except BlockingIOError:
                return False
            self._size -= sent
            if sent < len(data):
                self._parts[0] = data[sent:]
                return False
            self._parts.popleft()
        return True


LINES_PER_S = 500
"""An agent that says more in any second is cut off; it may come back."""
WAITING_BYTES = 4 * 1024 * 1024
"""Bytes that wait to be taken by one agent; more, and it is cut off."""


class Peer:
    """One connection; a stranger's until `pilot` is set.

    Parameters
    ----------
    connection
        Its socket.
    context
        The controller's end of TLS.
    now
        When it was opened, by `time.monotonic`.
    """

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, now: float) -> None:
        self.socket, self.tunnel = connection, Tunnel(context)
        self.lines, self.out = LineBuffer(AGENT_LINE_LIMIT), OutBuffer(WAITING_BYTES)
        self.pilot: str | None = None
        self.host, self.port = "", 0
        self.running: Running | None = None
        self.opened_s = self.heard_s = now
        self.number = 0
        self.echo = 0
        self.second, self.in_second = now, 0
        self.writing = False

    def seen(self) -> AgentSeen:
        """Return what the controller is shown."""
        return AgentSeen(self.host, self.port, self.running, self.number, self.heard_s)

    def say(self, line: bytes) -> None:
        """Queue a line; the tunnel must be open, and whoever calls must hold the server's lock."""
        self.out.add(self.tunnel.seal(line + b"\n"))

    def too_fast(self, now: float) -> bool:
        """Count a line; return whether there were too many in this second."""
        if now - self.second >= 1.0:
            self.second, self.in_second = now, 0
        self.in_second += 1
        return self.in_second > LINES_PER_S


def listen(host: str, port: int) -> socket.socket:
    """Return a socket listening on one given address.

    Raises
    ------
    InvalidOption
        If the host is empty or stands for every address.
    OSError
        If the address cannot be listened on.
    """
    if not host:
        raise InvalidOption("address: name the address to listen on, for instance 127.0.0.1")
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    if ipaddress.ip_address(str(address[0]).split("%")[0]).is_unspecified:
        raise InvalidOption(f"address: {host} stands for every address; name the one that agents reach")
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener
