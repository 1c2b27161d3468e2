"""Sums over ranks by way of rank 0, over TCP: small vectors, few ranks, and nobody waits in vain.

Ranks recognise one another by the job's token before a number is taken. A peer that is lost shows at once as
`PeerLost`, SIGTERM as `Stopped`; neither leaves a sum half applied.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import socket
import struct
import time

import numpy as np
from numpy.typing import NDArray

from apportion.live.trainer_protocol import Assignment, StopSignal

__all__ = ["PeerLost", "Star"]

Vector = NDArray[np.float64]
_CLAIM = struct.Struct("!qq32s")


class PeerLost(ConnectionError):
    """A rank is gone, or says nothing any more."""


class Star:
    """The connections of one generation.

    Parameters
    ----------
    assignment
        Ranks and rendezvous.
    stop
        What ends every wait.
    timeout_s
        Longest wait for a peer.

    Raises
    ------
    PeerLost
        If not every rank came together in time.
    Stopped
        If SIGTERM came first.
    """

    def __init__(self, assignment: Assignment, stop: StopSignal, timeout_s: float = 60.0) -> None:
        self._assignment, self._stop, self._timeout_s = assignment, stop, timeout_s
        self._peers: list[socket.socket] = []
        end = time.monotonic() + timeout_s
        if assignment.world_size == 1:
            return
        if assignment.rank == 0:
            self._gather(end)
        else:
            self._join(end)

    def sum(self, own: Vector, not_before_s: float = 0.0) -> Vector:
        """Return the sum of every rank's vector, the same to the bit on all of them.

        Parameters
        ----------
        own
            float64 of the same length on every rank.
        not_before_s
            Rank 0 lets nobody go on before this time of `time.monotonic`; others' is not looked at.
        """
        if self._assignment.rank:
            self._send(self._peers[0], own.tobytes())
            return np.frombuffer(self._receive(self._peers[0], own.nbytes))
        total = own.copy()
        for peer in self._peers:
            total += np.frombuffer(self._receive(peer, own.nbytes))
        while (left := not_before_s - time.monotonic()) > 0:
            if self._stop.wait(self._peers, left):
                raise PeerLost("a peer left in the middle of a step")  # nobody speaks out of turn
        data = total.tobytes()
        for peer in self._peers:
            self._send(peer, data)
        return total

    def close(self) -> None:
        """Close every connection."""
        for peer in self._peers:
            peer.close()

    def _gather(self, end: float) -> None:
        host, port = self._assignment.rendezvous
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        by_rank: dict[int, socket.socket] = {}
        with socket.create_server((host, port), family=family) as listener:
            while len(by_rank) < self._assignment.world_size - 1:
                if not self._stop.wait([listener], end - time.monotonic()):
                    missing = self._assignment.world_size - 1 - len(by_rank)
                    raise PeerLost(f"{missing} ranks did not come")
                connection, _ = listener.accept()
                rank = self._recognise(connection)
                if rank is None or rank in by_rank:
                    connection.close()
                else:
                    by_rank[rank] = connection
        self._peers = [by_rank[rank] for rank in sorted(by_rank)]

    def _recognise(self, connection: socket.socket) -> int | None:
        """Return the rank of whoever connected, if it knows the job's token."""
        try:
            connection.settimeout(2.0)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            nonce = secrets.token_bytes(32)
            connection.sendall(nonce)
            rank, generation, proof = _CLAIM.unpack(_exactly(connection, _CLAIM.size))
            right = self._proof(nonce, rank, b"rank")
            known = 0 < rank < self._assignment.world_size and generation == self._assignment.generation
            if not hmac.compare_digest(proof, right) or not known:
                return None
            connection.sendall(self._proof(nonce, rank, b"hub"))
        except (OSError, struct.error):
            return None
        return int(rank)

    def _join(self, end: float) -> None:
        rank = self._assignment.rank
        while True:
            connection: socket.socket | None = None
            try:
                connection = socket.create_connection(self._assignment.rendezvous, timeout=2.0)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                nonce = _exactly(connection, 32)
                claim = (rank, self._assignment.generation, self._proof(nonce, rank, b"rank"))
                connection.sendall(_CLAIM.pack(*claim))
                if hmac.compare_digest(_exactly(connection, 32), self._proof(nonce, rank, b"hub")):
                    self._peers = [connection]
                    return
            except OSError:
                pass
            if connection is not None:
                connection.close()
            if time.monotonic() > end:
                raise PeerLost("rank 0 does not answer")
            self._stop.wait([], 0.05)

    def _proof(self, nonce: bytes, rank: int, who: bytes) -> bytes:
        message = nonce + struct.pack("!qq", rank, self._assignment.generation) + who
        return hmac.new(self._assignment.token.encode(), message, hashlib.sha256).digest()

    def _send(self, peer: socket.socket, data: bytes) -> None:
        try:
            peer.settimeout(self._timeout_s)
            peer.sendall(data)
        except OSError as error:
            raise PeerLost(str(error)) from error

    def _receive(self, peer: socket.socket, size: int) -> bytes:
        data = bytearray()
        end = time.monotonic() + self._timeout_s
        while len(data) < size:
            if not self._stop.wait([peer], end - time.monotonic()):
                raise PeerLost("a peer says nothing")
            try:
                part = peer.recv(size - len(data))
            except OSError as error:
                raise PeerLost(str(error)) from error
            if not part:
                raise PeerLost("a peer is gone")
            data += part
        return bytes(data)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    with contextlib.suppress(TimeoutError):
        while len(data) < size and (part := connection.recv(size - len(data))):
            data += part
    if len(data) < size:
        raise ConnectionError("too little was said")
    return data
