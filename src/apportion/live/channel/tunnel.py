"""TLS over sockets that are never waited for: bytes of the wire in, plain bytes out, and the other way.

The agent knows the certificate's fingerprint, so that it talks to its controller and to nobody else; the
controller knows the agent by the secret that it says inside of the tunnel. TLS 1.3 keeps both ways secret,
whole and in order; there is no session to be resumed and no older version to fall back to.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
from pathlib import Path

__all__ = ["Tunnel", "TunnelBroken", "agent_side", "controller_side"]

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
