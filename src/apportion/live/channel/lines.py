"""Lines over non-blocking sockets, with a bound on everything."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator

__all__ = ["LineBuffer", "LineTooLong", "OutBuffer"]


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
