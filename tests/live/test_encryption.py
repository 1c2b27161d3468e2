"""The channel on the wire: nothing in clear, nobody but the controller believed, nobody waited for."""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from apportion.core.errors import EncryptionMissing
from apportion.live.channel.messages import Hello, Progress, Run, Running, Welcome
from apportion.live.channel.peer import controller_side
from apportion.live.channel.reports import ReportServer, controllers_certificate
from tests.live.agents import JOB_TOKEN, Site, python, start_agent
from tests.live.test_agent import REPORT
from tests.patience import patience


class Relay:
    """Stands between an agent and its controller, passes everything on, and keeps it."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._to = (host, int(port))
        self.wire = bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._pass, daemon=True)
        self._thread.start()

    def _pass(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._over.is_set():
                for key, _ in selector.select(0.05):
                    if key.fileobj is self._listener:
                        near, far = self._listener.accept()[0], socket.create_connection(self._to)
                        selector.register(near, selectors.EVENT_READ, far)
                        selector.register(far, selectors.EVENT_READ, near)
                        continue
                    data = b""
                    with contextlib.suppress(OSError):
                        data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                        key.data.sendall(data)
                    self.wire += data
                    if not data:
                        for end in (key.fileobj, key.data):
                            with contextlib.suppress(KeyError, ValueError):
                                selector.unregister(end)
                            end.close()
            for key in list(selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]

    def close(self) -> None:
        self._over.set()
        self._thread.join()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path, pulse_s=0.2)
    yield made
    made.close()


def test_nothing_of_secrets_commands_or_reports_is_on_the_wire_in_clear(site: Site) -> None:
    relay = Relay(site.server.address)
    site.tokens = {"a-1": "token-of-the-pilot-abcdef"}
    site.server.expect(site.tokens)
    fingerprint = site.certificate.fingerprint
    site.processes["a-1"] = start_agent(relay.address, "a-1", site.tokens["a-1"], fingerprint)
    site.until(lambda: "a-1" in site.server.agents())
    program = python(REPORT + "say(samples=8191)\nprint('printed-words')\ntime.sleep(0.3)")
    site.run(["a-1"], program, job="job-of-the-day", environment={"OWN": "value-of-own"})
    [ended] = site.exits(["a-1"])
    assert ended.last is not None and ended.last.samples == 8191 and "printed-words" in ended.tail
    relay.close()
    wire = bytes(relay.wire)
    said = (site.tokens["a-1"], JOB_TOKEN, "job-of-the-day", "value-of-own", "8191", "printed-words")
    assert len(wire) > 2000
    assert [word for word in (*said, "samples", '"type"', "token") if word.encode() in wire] == []


@pytest.mark.parametrize("encrypted", [True, False])
def test_an_impostor_on_the_controllers_port_learns_nothing_and_is_not_obeyed(
    tmp_path: Path, encrypted: bool
) -> None:
    other = controllers_certificate(tmp_path, keep=False)
    context, heard = controller_side(other.path), b""
    command = ("touch", str(tmp_path / "x"))
    run = Run("j1", 1, 0, ("n",), "127.0.0.1:1", command, ".", ".", "x" * 32)
    lines = b"\n".join(msgspec.json.encode(message) for message in (Welcome(60.0, 1.0), run)) + b"\n"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        agent = start_agent(f"127.0.0.1:{listener.getsockname()[1]}", "a-1", "t" * 32, "0" * 64)
        listener.settimeout(patience(20.0))
        try:
            for _ in range(2):  # it comes again, and is as careful
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(patience(10.0))
                    with contextlib.suppress(OSError):
                        talk = context.wrap_socket(connection, server_side=True) if encrypted else connection
                        talk.sendall(lines)
                        while part := talk.recv(65536):
                            heard += part
        finally:
            agent.kill()
            agent.wait()
    assert b"t" * 32 not in heard
    assert not (tmp_path / "x").exists()


def test_an_agent_leaves_a_listener_that_says_nothing_and_comes_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        agent = start_agent(f"127.0.0.1:{listener.getsockname()[1]}", "a-1", "t" * 32, "0" * 64)
        listener.settimeout(60.0)
        silent = []
        try:
            for _ in range(2):
                silent.append(listener.accept()[0])
            assert agent.poll() is None
            assert len({connection.getpeername() for connection in silent}) == 2
        finally:
            agent.kill()
            agent.wait()
            for connection in silent:
                connection.close()


def test_strangers_that_say_nothing_cost_an_agent_nothing(site: Site) -> None:
    host, _, port = site.server.address.rpartition(":")
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(100)]
        site.start("a-1")
        site.run(["a-1"], python("print('through')"))
        [ended] = site.exits(["a-1"])
        assert ended.tail == "through\n"
        for stranger in strangers:  # and none of them stays
            stranger.settimeout(60.0)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""


@pytest.mark.parametrize("kept", [True, False])
def test_after_a_restart_pilots_come_back_to_the_certificate_they_know_and_to_no_other(
    site: Site, kept: bool
) -> None:
    site.start("a-1")
    site.run(["a-1"], python(REPORT + "for n in range(1, 2000):\n    say(samples=n)\n    time.sleep(0.05)\n"))
    site.progress(1)
    host, _, port = site.server.address.rpartition(":")
    site.server.close()
    again = controllers_certificate(site.folder, keep=kept)
    assert (again == site.certificate) is kept
    site.server = ReportServer(again, host, int(port), lease_s=60.0, pulse_s=0.2)
    site.server.expect(site.tokens)
    site.heard.clear()
    if kept:
        site.until(lambda: bool(site.of(Hello, "a-1")))
        assert site.of(Hello, "a-1")[0].running == Running("j1", 1, 0)  # type: ignore[attr-defined]
        site.until(lambda: bool(site.of(Progress, "a-1")))
        return
    end = time.monotonic() + 4.0
    while time.monotonic() < end:
        site.pump(0.2)
    assert not site.heard and site.server.agents() == {}
    assert site.processes["a-1"].poll() is None  # it goes on until its lease is over


def test_a_certificate_is_its_users_own_and_kept_only_if_asked(tmp_path: Path) -> None:
    first = controllers_certificate(tmp_path, keep=True)  # there is none to keep
    assert stat.S_IMODE(first.path.stat().st_mode) == 0o600
    assert controllers_certificate(tmp_path, keep=True) == first
    second = controllers_certificate(tmp_path, keep=False)
    assert second.fingerprint != first.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == [first.path.name]  # nothing is left of the making
    whole = second.path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole.replace(b"A", b"B")):
        second.path.write_bytes(damaged)
        assert controllers_certificate(tmp_path, keep=True).fingerprint not in (
            first.fingerprint,
            second.fingerprint,
        )


def test_the_fingerprint_is_that_of_what_the_server_shows(tmp_path: Path) -> None:
    """By another road: the certificate as a client of the standard library gets it, hashed by openssl."""
    made = controllers_certificate(tmp_path, keep=False)
    server = ReportServer(made, "127.0.0.1")
    host, _, port = server.address.rpartition(":")
    shown = ssl.get_server_certificate((host, int(port)))
    server.close()
    assert _printed_fingerprint(shown, tmp_path) == made.fingerprint


def _printed_fingerprint(certificate: str, folder: Path) -> str:
    (folder / "shown").write_text(certificate)
    command = ["openssl", "x509", "-in", str(folder / "shown"), "-noout", "-fingerprint", "-sha256"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return printed.partition("=")[2].strip().replace(":", "").lower()


def test_without_openssl_there_is_a_clear_error_and_nothing_in_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = controllers_certificate(tmp_path, keep=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert controllers_certificate(tmp_path, keep=True) == before  # none is made, none is needed
    with pytest.raises(EncryptionMissing, match="apt install openssl") as caught:
        controllers_certificate(tmp_path, keep=False)
    assert caught.value.exit_code == 7
    broken = tmp_path / "openssl"
    broken.write_text("#!/bin/sh\necho 'no such curve' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(EncryptionMissing, match="no such curve"):
        controllers_certificate(tmp_path, keep=False)
