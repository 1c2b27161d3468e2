"""The controller's listening end under peers that lie, dawdle, flood and pretend."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest

from apportion.core.errors import InvalidOption
from apportion.live.channel.messages import (
    AgentMessage,
    Exited,
    Hello,
    Leaving,
    Progress,
    Pulse,
    RankRefused,
    Ready,
    Run,
)
from apportion.live.channel.peer import Tunnel, TunnelBroken, agent_side
from apportion.live.channel.reports import Certificate, ReportServer, controllers_certificate
from tests.patience import patience

TOKEN = "secret-of-pilot-1-abcdefgh"


class Agent:
    """A hand-made agent; `wire` holds every byte that it saw or sent."""

    def __init__(
        self,
        server: ReportServer,
        pilot: str = "a-1",
        token: str = TOKEN,
        greet: bool = True,
        fingerprint: str | None = None,
        version: int = 2,
    ) -> None:
        host, _, port = server.address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=patience(5.0))
        self.tunnel = Tunnel(agent_side(), fingerprint or server.certificate.fingerprint)
        self.wire, self._plain = b"", b""
        if not greet:
            return
        try:
            self._feed(b"")
            while not self.tunnel.open:
                self._feed(self._received())
            self.say(Hello(pilot, token, "127.0.0.1", 4000, "n1", version=version))
            assert self.hear()["type"] == "welcome"
        except BaseException:
            self.close()
            raise

    def _received(self) -> bytes:
        try:
            data = self.socket.recv(65536)
        except ConnectionError:  # closed with something unread
            data = b""
        if not data:
            raise ConnectionError("closed")
        return data

    def _feed(self, data: bytes) -> None:
        self.wire += data
        self._plain += self.tunnel.hear(data)
        self.send(self.tunnel.answer())

    def send(self, data: bytes) -> None:
        self.wire += data
        self.socket.sendall(data)

    def line(self, message: AgentMessage) -> bytes:
        return self.tunnel.seal(msgspec.json.encode(message) + b"\n")

    def say(self, message: AgentMessage) -> None:
        self.send(self.line(message))

    def hear(self) -> dict[str, object]:
        while b"\n" not in self._plain:
            self._feed(self._received())
        line, _, self._plain = self._plain.partition(b"\n")
        heard: dict[str, object] = json.loads(line)
        return heard

    def is_closed(self) -> bool:
        return is_closed(self.socket)

    def close(self) -> None:
        self.socket.close()


def is_closed(connection: socket.socket, within_s: float = 5.0) -> bool:
    """Return whether the other end closes a connection within the time."""
    end = time.monotonic() + patience(within_s)
    connection.settimeout(0.1)
    while time.monotonic() < end:
        try:
            if not connection.recv(65536):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return controllers_certificate(tmp_path_factory.mktemp("state"), keep=False)


@pytest.fixture
def server(certificate: Certificate) -> Iterator[ReportServer]:
    made = ReportServer(certificate, "127.0.0.1", lease_s=60.0, pulse_s=30.0)
    made.expect({"a-1": TOKEN, "a-2": TOKEN + "2"})
    yield made
    made.close()


def _progress(samples: int, job: str = "j1") -> Progress:
    return Progress(job, 1, 0, "x" * 32, 1.0, samples)


def _collect(server: ReportServer, count: int, timeout_s: float = 5.0) -> list[tuple[str, AgentMessage]]:
    found: list[tuple[str, AgentMessage]] = []
    end = time.monotonic() + patience(timeout_s)
    while len(found) < count and time.monotonic() < end:
        found += server.receive(0.1)
    return found


def test_an_agent_with_the_token_is_known_and_heard(server: ReportServer) -> None:
    agent = Agent(server)
    assert isinstance(_collect(server, 1)[0][1], Hello)
    assert server.agents()["a-1"].port == 4000
    agent.say(Ready(port=5000))
    agent.say(_progress(3))
    assert [message for _, message in _collect(server, 2)] == [Ready(port=5000), _progress(3)]
    assert server.agents()["a-1"].port == 5000
    assert server.send("a-1", Pulse())
    assert agent.hear() == {"type": "pulse"}
    assert not server.send("a-2", Pulse())
    assert TOKEN.encode() not in agent.wire
    agent.close()
    assert isinstance(_collect(server, 1)[0][1], Pulse)  # whoever waits learns that somebody is gone
    assert server.agents() == {}


@pytest.mark.parametrize(("pilot", "token"), [("a-1", "wrong" * 4), ("a-3", TOKEN), ("a-2", TOKEN)])
def test_who_does_not_know_the_pilots_token_is_turned_away(
    server: ReportServer, pilot: str, token: str
) -> None:
    with pytest.raises(ConnectionError):
        Agent(server, pilot, token)
    assert server.agents() == {} and list(server.receive(0.0)) == []


def test_an_agent_of_another_version_is_turned_away(server: ReportServer) -> None:
    with pytest.raises(ConnectionError):
        Agent(server, version=1)


def test_an_agent_talks_to_no_other_certificate(server: ReportServer) -> None:
    with pytest.raises(TunnelBroken, match="not the controller's"):
        Agent(server, fingerprint="0" * 64)
    assert server.agents() == {} and list(server.receive(0.0)) == []


@pytest.mark.parametrize("how", ["altered", "replayed", "left out", "garbage", "in clear", "too long"])
def test_a_line_that_is_not_the_agents_next_ends_the_connection(server: ReportServer, how: str) -> None:
    agent = Agent(server)
    line = agent.line(_progress(1))
    if how == "altered":
        agent.send(line[:-1] + bytes([line[-1] ^ 1]))
    elif how == "replayed":
        agent.send(line)
        _collect(server, 2)  # the hello, then this line: whole before it comes again
        agent.send(line)
    elif how == "left out":
        agent.send(agent.line(_progress(2)))
    elif how == "garbage":
        agent.send(agent.tunnel.seal(b'{"type":"progress"}\n'))
    elif how == "in clear":
        agent.send(msgspec.json.encode(_progress(1)) + b"\n")
    else:
        agent.send(agent.tunnel.seal(b"x" * 20000))
    assert agent.is_closed()
    assert not [message for _, message in server.receive(0.2) if isinstance(message, Progress)]
    agent.close()


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\n\r\n", msgspec.json.encode(Hello("a-1", TOKEN, "h", 1, "n")) + b"\n"]
)
def test_plain_text_is_refused_with_the_right_secret_too(server: ReportServer, said: bytes) -> None:
    stranger = Agent(server, greet=False)
    stranger.send(said)
    assert stranger.is_closed()
    assert server.agents() == {} and list(server.receive(0.0)) == []
    stranger.close()


def test_an_older_tls_is_refused(server: ReportServer) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=patience(5.0)) as plain, pytest.raises(OSError):
        context.wrap_socket(plain)


def test_strangers_that_dawdle_keep_nobody_out(server: ReportServer) -> None:
    with ExitStack() as stack:
        host, _, port = server.address.rpartition(":")
        limit = patience(5.0)
        for _ in range(300):
            slow = socket.create_connection((host, int(port)), timeout=limit)
            stack.callback(slow.close)
            slow.sendall(b"\x16\x03\x01")  # the beginning of a handshake, and never more
        begun = time.monotonic()
        agent = Agent(server)
        stack.callback(agent.close)
        agent.say(_progress(1))
        assert any(message == _progress(1) for _, message in _collect(server, 2))
        assert time.monotonic() - begun < patience(2.0)
        assert is_closed(slow, within_s=8.0)


def test_an_agent_that_floods_is_cut_off_and_others_are_served(server: ReportServer) -> None:
    flooder, calm = Agent(server), Agent(server, "a-2", TOKEN + "2")
    with pytest.raises(OSError):
        for number in range(1_000_000):
            flooder.say(_progress(number))
    begun = time.monotonic()
    calm.say(_progress(7, "calm"))
    end = time.monotonic() + patience(5.0)
    found: list[tuple[str, AgentMessage]] = []
    while ("a-2", _progress(7, "calm")) not in found and time.monotonic() < end:
        found += server.receive(0.1)
    assert time.monotonic() - begun < patience(2.0)
    assert len(found) < 10  # of one rank only the newest report waits
    assert "a-1" not in server.agents() and "a-2" in server.agents()
    flooder.close(), calm.close()


def test_reports_are_coalesced_ends_are_not(server: ReportServer) -> None:
    agent = Agent(server)
    for number in range(20):
        agent.say(_progress(number))
    for generation in (1, 2):
        agent.say(Exited("j1", generation, 0, "x" * 32, 75, True))
        agent.say(Exited("j1", generation, 0, "x" * 32, 75, True))
    agent.say(RankRefused("j1", 3, "busy"))
    agent.say(Leaving("why not"))
    time.sleep(0.3)
    kinds = [type(message).__name__ for _, message in server.receive(1.0)]
    assert kinds == ["Hello", "Progress", "Exited", "Exited", "RankRefused", "Leaving"]
    agent.close()


def test_an_agent_that_invents_jobs_without_end_is_cut_off(server: ReportServer) -> None:
    agent = Agent(server)
    for number in range(300):
        agent.say(_progress(1, f"job-{number}"))
    assert agent.is_closed()
    assert len(server.receive(0.0)) <= 258
    agent.close()


def test_a_second_connection_of_a_pilot_takes_the_place_of_the_first(server: ReportServer) -> None:
    first = Agent(server)
    number = server.agents()["a-1"].connection
    second = Agent(server)
    assert first.is_closed()
    assert server.agents()["a-1"].connection > number
    second.say(_progress(1))
    assert any(message == _progress(1) for _, message in _collect(server, 3, 1.0))
    first.close(), second.close()


def test_a_pilot_that_is_no_longer_expected_is_cut_off(server: ReportServer) -> None:
    agent = Agent(server)
    server.expect({})
    assert server.agents() == {}
    assert agent.is_closed()
    agent.close()


def test_an_agent_that_reads_nothing_is_cut_off_and_sending_never_waits(server: ReportServer) -> None:
    agent = Agent(server)
    big = Run("j1", 1, 0, ("n",), "h:1", ("x" * 100_000,), ".", ".", "x" * 32)
    begun, queued = time.monotonic(), 0
    while server.send("a-1", big):
        queued += 1
        assert queued < 1000
        time.sleep(0.002)  # the thread that sends has its turn, on a busy machine too
    assert time.monotonic() - begun < patience(5.0)
    agent.close()


def test_pulses_come_though_nobody_calls(certificate: Certificate) -> None:
    lively = ReportServer(certificate, "127.0.0.1", pulse_s=0.2)
    lively.expect({"a-1": TOKEN})
    agent = Agent(lively)
    assert [agent.hear()["type"] for _ in range(3)] == ["pulse"] * 3
    lively.close()
    agent.close()


def test_an_agent_that_is_silent_is_taken_to_be_gone(certificate: Certificate) -> None:
    lively = ReportServer(certificate, "127.0.0.1", pulse_s=0.2)
    lively.expect({"a-1": TOKEN})
    agent = Agent(lively)
    assert "a-1" in lively.agents()
    assert is_closed(agent.socket, within_s=6.0)
    assert lively.agents() == {}
    lively.close()
    agent.close()


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_it_listens_on_one_given_address_never_on_all(host: str, certificate: Certificate) -> None:
    with pytest.raises(InvalidOption):
        ReportServer(certificate, host)


def test_other_addresses_of_the_machine_do_not_answer(server: ReportServer) -> None:
    port = int(server.address.rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=2.0)


def test_a_restarted_server_gets_its_port_back_at_once(server: ReportServer) -> None:
    agent = Agent(server)
    host, _, port = server.address.rpartition(":")
    server.close()
    again = ReportServer(server.certificate, host, int(port))
    assert again.address == server.address
    again.close()
    agent.close()
