"""The controller's end of the channel: agents connect here, prove who they are, and report.

One thread, the kernel's selector, no blocking call: a peer that says nothing, one byte a minute, too much or
nonsense costs a bounded amount of memory and time and delays nobody else. It listens on the address it was
given and on no other, and speaks TLS only: see `apportion.live.channel.peer`.

The controller's certificate: made at its start, kept while pilots that know its fingerprint still run.

Agents do not ask who signed it or until when it holds, so that no clock and no authority matters: they
compare its SHA-256 with the fingerprint that they were started with. Python's standard library cannot make
one; the ``openssl`` command does.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import selectors
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from apportion.core.errors import EncryptionMissing, StateUnwritable
from apportion.live.channel.messages import (
    VERSION,
    AgentMessage,
    ControllerMessage,
    Exited,
    Hello,
    Progress,
    Pulse,
    RankRefused,
    Ready,
    Welcome,
)
from apportion.live.channel.peer import LineTooLong, Peer, TunnelBroken, controller_side, listen
from apportion.live.cluster import AgentSeen

__all__ = ["Certificate", "ReportServer", "controllers_certificate"]


_FILE = "channel.pem"
_BEGIN = "-----BEGIN CERTIFICATE-----"
_TIMEOUT_S = 60.0
_CONFIGURATION = "[req]\ndistinguished_name = name\n[name]\n"
"""All that is asked of ``openssl``'s configuration, so that a site's own, or none, changes nothing."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its key.

    Attributes
    ----------
    path
        The file that holds both, readable by its user only.
    fingerprint
        SHA-256 of the certificate in hexadecimal digits: what agents know it by.
    """

    path: Path
    fingerprint: str


def controllers_certificate(folder: Path, keep: bool) -> Certificate:
    """Return the certificate of a state folder whose lock the caller holds.

    Parameters
    ----------
    folder
        The state folder.
    keep
        Whether pilots may run that know the one that is there. If not, or if it is missing or damaged, a new
        one is made; pilots that know another then never come back and end after their lease.

    Raises
    ------
    EncryptionMissing
        If a new one is needed and there is no ``openssl`` command, or it fails.
    StateUnwritable
        If the folder cannot be written.
    """
    path = folder / _FILE
    kept = _read(path) if keep else None
    if kept is None:
        try:
            _make(path)
        except OSError as error:
            raise StateUnwritable(f"the certificate {path} cannot be written: {error}") from None
        kept = _read(path)
    if kept is None:
        raise EncryptionMissing(f"openssl made a certificate that Python cannot read: {path}")
    return kept


def _read(path: Path) -> Certificate | None:
    """Return what a file holds, ``None`` if that is not a key with its certificate."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
        text = path.read_text("ascii")
        encoded = ssl.PEM_cert_to_DER_cert(text[text.index(_BEGIN) :].strip())
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        return None
    return Certificate(path, hashlib.sha256(encoded).hexdigest())


def _make(path: Path) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise EncryptionMissing(
            "no openssl command here, and the channel to the nodes is always encrypted: install it "
            "(Debian: apt install openssl) or put it on PATH"
        )
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".channel-") as made:
        key, certificate, both = (Path(made) / name for name in ("key", "certificate", "both"))
        (Path(made) / "configuration").write_text(_CONFIGURATION)
        command = [
            *(program, "req", "-x509", "-batch", "-nodes", "-sha256", "-days", "36500"),
            *("-config", str(Path(made) / "configuration"), "-subj", "/CN=apportion"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise EncryptionMissing(f"openssl made no certificate in {_TIMEOUT_S:g} s") from None
        if done.returncode != 0:
            said = " ".join(done.stderr.decode(errors="replace").split())[-500:]
            raise EncryptionMissing(f"openssl made no certificate: {said or done.returncode}")
        file = os.open(both, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as written:
            written.write(key.read_bytes() + certificate.read_bytes())
            written.flush()
            os.fsync(written.fileno())
        both.replace(path)


HANDSHAKE_S = 5.0
STRANGERS = 64
"""Connections that have not proved who they are; one more, and the oldest is closed."""
WAITING_LINES = 256
"""Different messages of one agent that wait for the controller; one more, and it is cut off."""
SILENT_PULSES = 4
"""An agent not heard of for so many pulses is taken to be gone."""
CHUNK = 64 * 1024

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[AgentMessage] = msgspec.json.Decoder(AgentMessage)


class ReportServer:
    """Agents' connections; a `Channel`.

    Parameters
    ----------
    certificate
        What agents know this end by.
    host
        The address to listen on, a name or number of this machine; not empty, not the unspecified address.
    port
        0: any free one.
    lease_s
        Told to agents: one that has not heard from here for so long ends its ranks and itself.
    pulse_s
        How often either side says at least something; pulses are sent even if nobody calls this object.

    Raises
    ------
    InvalidOption
        If the host is empty or stands for every address.
    OSError
        If the address cannot be listened on.
    """

    def __init__(
        self, certificate: Certificate, host: str, port: int = 0, lease_s: float = 120.0, pulse_s: float = 5.0
    ) -> None:
        self.certificate, self._context = certificate, controller_side(certificate.path)
        self._listener = listen(host, port)
        self.lease_s, self.pulse_s = lease_s, pulse_s
        bound = self._listener.getsockname()
        self._address = f"[{bound[0]}]:{bound[1]}" if ":" in bound[0] else f"{bound[0]}:{bound[1]}"
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._tokens: dict[str, str] = {}
        self._known: dict[str, Peer] = {}
        self._peers: dict[int, Peer] = {}
        self._inbox: dict[tuple[object, ...], tuple[str, AgentMessage]] = {}
        self._waiting: dict[str, int] = {}
        self._numbers = 0
        self._closing = False
        self._dirty: set[int] = set()
        self._next_pulse = time.monotonic() + pulse_s
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        for end in (self._wake_in, self._wake_out, self._listener):
            end.setblocking(False)
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="apportion-reports", daemon=True)
        self._thread.start()

    # -- what the controller calls -------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """``HOST:PORT`` that agents connect to."""
        return self._address

    def expect(self, tokens: Mapping[str, str]) -> None:
        """Set which pilots may connect, with their tokens; connections of others are closed."""
        with self._lock:
            self._tokens = dict(tokens)
        self._wake()

    def agents(self) -> Mapping[str, AgentSeen]:
        """Return the agents connected now, by pilot."""
        with self._lock:
            return {pilot: peer.seen() for pilot, peer in self._known.items() if pilot in self._tokens}

    def send(self, pilot: str, message: ControllerMessage) -> bool:
        """Queue a message without waiting; return whether the agent is connected."""
        with self._lock:
            peer = self._known.get(pilot)
            if peer is None:
                return False
            peer.say(_ENCODER.encode(message))
            self._dirty.add(peer.socket.fileno())
        self._wake()
        return True

    def receive(self, timeout_s: float) -> Sequence[tuple[str, AgentMessage]]:
        """Return what came in since the last call, with its pilot; wait at most so long for the first.

        Of several reports of one rank only the newest is kept. A new connection shows as its `Hello`, a lost
        one as a `Pulse`.
        """
        with self._arrived:
            if not self._inbox and timeout_s > 0:
                self._arrived.wait_for(lambda: bool(self._inbox) or self._closing, timeout_s)
            messages = list(self._inbox.values())
            self._inbox.clear()
            self._waiting.clear()
        return messages

    def close(self) -> None:
        """Send what is queued as far as it goes at once; close every connection and the listening socket."""
        self._closing = True
        self._wake()
        self._thread.join(timeout=5.0)

    # -- the thread ----------------------------------------------------------------------------------------

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            self._wake_out.send(b"x")

    def _serve(self) -> None:
        try:
            while not self._closing:
                for key, events in self._selector.select(self._wait_s()):
                    self._handle(key, events)
                self._flush_dirty()
                self._look_at_the_clock()
            self._flush_dirty()
        finally:
            with self._arrived:
                self._closing = True
                self._arrived.notify_all()
            for peer in list(self._peers.values()):
                self._drop(peer)
            for end in (self._listener, self._wake_in, self._wake_out):
                end.close()
            self._selector.close()

    def _wait_s(self) -> float:
        now = time.monotonic()
        soonest = self._next_pulse
        for peer in self._peers.values():
            if peer.pilot is None:
                soonest = min(soonest, peer.opened_s + HANDSHAKE_S)
        return max(0.0, soonest - now) + 0.001

    def _handle(self, key: selectors.SelectorKey, events: int) -> None:
        if key.fileobj is self._listener:
            self._accept()
        elif key.fileobj is self._wake_in:
            with contextlib.suppress(BlockingIOError):
                while self._wake_in.recv(4096):
                    pass
        else:
            peer = self._peers.get(key.fd)
            if peer is not None and events & selectors.EVENT_READ:
                self._read(peer)
            if peer is not None and key.fd in self._peers and events & selectors.EVENT_WRITE:
                self._write(peer)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # gone again, or no descriptor left: make room among strangers, go on
            self._drop_oldest_stranger(at_least=1)
            time.sleep(0.01)
            return
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._drop_oldest_stranger(at_least=STRANGERS)
        peer = Peer(connection, self._context, time.monotonic())
        self._peers[connection.fileno()] = peer
        self._selector.register(connection, selectors.EVENT_READ)

    def _drop_oldest_stranger(self, at_least: int) -> None:
        strangers = [peer for peer in self._peers.values() if peer.pilot is None]
        if len(strangers) >= at_least:
            self._drop(min(strangers, key=lambda peer: peer.opened_s))

    def _read(self, peer: Peer) -> None:
        try:
            data = peer.socket.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(peer)
            return
        try:
            with self._lock:  # one TLS connection is not to be read and written by two threads at once
                plain = peer.tunnel.hear(data)
                answer = peer.tunnel.answer()
                peer.out.add(answer)
            if answer:
                self._write(peer)
            for line in peer.lines.feed(plain):
                if not self._hear(peer, line):
                    self._drop(peer)
                    return
        except (LineTooLong, TunnelBroken, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._drop(peer)

    def _hear(self, peer: Peer, line: bytes) -> bool:
        """Take one line; return whether the connection may stay."""
        now = time.monotonic()
        if peer.too_fast(now):
            return False
        message = _DECODER.decode(line)
        if peer.pilot is None:
            return isinstance(message, Hello) and self._greet(peer, message)
        peer.heard_s = now
        if isinstance(message, Hello):
            return False
        if isinstance(message, Ready):
            peer.port = message.port
        if isinstance(message, Pulse):
            peer.echo = message.number
        return self._deliver(peer, message)

    def _greet(self, peer: Peer, hello: Hello) -> bool:
        with self._lock:
            token = self._tokens.get(hello.pilot, "")
            known = hmac.compare_digest(token.encode(), hello.token.encode())
            if not known or hello.version != VERSION:
                return False
            before = self._known.pop(hello.pilot, None)
            self._numbers += 1
            peer.pilot, peer.number, peer.heard_s = hello.pilot, self._numbers, time.monotonic()
            peer.host, peer.port, peer.running = hello.host, hello.port, hello.running
            peer.say(_ENCODER.encode(Welcome(lease_s=self.lease_s, pulse_s=self.pulse_s)))
            self._known[hello.pilot] = peer
        if before is not None:
            self._drop(before)
        self._write(peer)
        return self._deliver(peer, hello)

    def _deliver(self, peer: Peer, message: AgentMessage) -> bool:
        """Put a message where `receive` finds it; the newest of a kind replaces the older in its place."""
        pilot = peer.pilot or ""
        about: tuple[object, ...] = ()
        if isinstance(message, Progress | Exited | RankRefused):
            about = (message.job, message.generation)
        key = (pilot, type(message).__name__, *about)
        with self._arrived:
            if key not in self._inbox:
                waiting = self._waiting.get(pilot, 0) + 1
                if waiting > WAITING_LINES:
                    return False
                self._waiting[pilot] = waiting
            self._inbox[key] = (pilot, message)
            if not isinstance(message, Pulse):
                self._arrived.notify_all()
        return True

    def _write(self, peer: Peer) -> None:
        with self._lock:
            try:
                done = peer.out.send_to(peer.socket)
            except OSError:
                done = None
        if done is None or peer.out.overflown:
            self._drop(peer)
        elif peer.writing == done:  # what is left decides whether to be told of room
            peer.writing = not done
            events = selectors.EVENT_READ | (0 if done else selectors.EVENT_WRITE)
            self._selector.modify(peer.socket, events)

    def _flush_dirty(self) -> None:
        with self._lock:
            dirty, self._dirty = self._dirty, set()
        for number in dirty:
            if (peer := self._peers.get(number)) is not None:
                self._write(peer)

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        with self._lock:
            expected = set(self._tokens)
        for peer in list(self._peers.values()):
            late = now - peer.opened_s > HANDSHAKE_S if peer.pilot is None else peer.pilot not in expected
            silent = peer.pilot is not None and now - peer.heard_s > SILENT_PULSES * self.pulse_s + 1.0
            if late or silent:
                self._drop(peer)
        if now >= self._next_pulse:
            self._next_pulse = now + self.pulse_s
            with self._lock:
                echoes = {pilot: peer.echo for pilot, peer in self._known.items()}
            for pilot, echo in echoes.items():
                self.send(pilot, Pulse(echo=echo))

    def _drop(self, peer: Peer) -> None:
        number = peer.socket.fileno()
        if number < 0 or self._peers.get(number) is not peer:
            return
        del self._peers[number]
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(peer.socket)
        with self._arrived:
            if peer.pilot is not None and self._known.get(peer.pilot) is peer:
                del self._known[peer.pilot]
                self._inbox.setdefault((peer.pilot, "Pulse"), (peer.pilot, Pulse()))
                self._arrived.notify_all()
        peer.socket.close()  # last: whoever sees it closed finds the agent gone from `agents`
