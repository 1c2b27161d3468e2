"""How a controller and its agents prove who they are and seal every line they say.

Both know the pilot's token; it never crosses the network. Each side sends a fresh nonce and a proof over
both, so that neither a stranger nor whoever binds the port of a dead controller is believed. After that every
line is ``MAC SPACE JSON``: the code covers the direction, the line's number and its text under a key of this
connection alone, so that no line can be forged, altered, replayed, reordered or left out unnoticed. Nothing
is encrypted: who can read the network can read progress and commands.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Literal

__all__ = ["Forged", "LineSealer", "agent_proof", "controller_proof", "fresh_nonce", "session_key"]

Side = Literal["agent", "controller"]


class Forged(ValueError):
    """A line's code is missing or wrong."""


def fresh_nonce() -> str:
    """Return 32 random hexadecimal digits."""
    return secrets.token_hex(16)


def agent_proof(token: str, controller_nonce: str, agent_nonce: str) -> str:
    """Return what an agent says to show that it knows the token."""
    return _code(token, "agent", controller_nonce, agent_nonce).hex()


def controller_proof(token: str, controller_nonce: str, agent_nonce: str) -> str:
    """Return what a controller says to show that it knows the token."""
    return _code(token, "controller", controller_nonce, agent_nonce).hex()


def session_key(token: str, controller_nonce: str, agent_nonce: str) -> bytes:
    """Return the key of this connection's lines."""
    return _code(token, "session", controller_nonce, agent_nonce)


def _code(token: str, *parts: str) -> bytes:
    text = "\n".join(parts)  # nonces hold no line break: the parts cannot be shifted into one another
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).digest()


class LineSealer:
    """One side of a connection: seals what it says, opens what it hears, in order.

    Parameters
    ----------
    key
        The connection's key, of `session_key`.
    side
        Whose end this is.
    """

    def __init__(self, key: bytes, side: Side) -> None:
        self._key = key
        self._says, self._hears = (b"a", b"c") if side == "agent" else (b"c", b"a")
        self._said = self._heard = 0

    def seal(self, text: bytes) -> bytes:
        """Return the next line to send, its line break included."""
        code = self._mac(self._says, self._said, text)
        self._said += 1
        return code + b" " + text + b"\n"

    def open(self, line: bytes) -> bytes:
        """Return the text of the next line heard (without its line break).

        Raises
        ------
        Forged
            If its code is not that of this text, at this place, from the other side.
        """
        code, _, text = line.partition(b" ")
        if not hmac.compare_digest(code, self._mac(self._hears, self._heard, text)):
            raise Forged("the code of a line is wrong")
        self._heard += 1
        return text

    def _mac(self, direction: bytes, number: int, text: bytes) -> bytes:
        message = direction + number.to_bytes(8, "big") + text
        return hmac.new(self._key, message, hashlib.sha256).hexdigest().encode()
