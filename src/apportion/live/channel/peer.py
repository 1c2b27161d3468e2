"""One connection of an agent to its controller, and the address that agents connect to."""

from __future__ import annotations

import ipaddress
import socket
import ssl

from apportion.errors import InvalidOption
from apportion.live.channel.lines import LineBuffer, OutBuffer
from apportion.live.channel.messages import AGENT_LINE_LIMIT, Running
from apportion.live.channel.tunnel import Tunnel
from apportion.live.cluster import AgentSeen

__all__ = ["Peer", "listen"]

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
