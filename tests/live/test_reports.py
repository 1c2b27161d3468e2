"""The controller's listening end under peers that lie, dawdle, flood and pretend."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest

from apportion.errors import InvalidOption
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
from apportion.live.channel.reports import ReportServer
from apportion.live.channel.sealing import LineSealer, agent_proof, controller_proof, session_key
from tests.patience import patience

TOKEN = "secret-of-pilot-1-abcdefgh"
NONCE = "n" * 32


class Agent:
    """A hand-made agent."""

    def __init__(self, address: str, pilot: str = "a-1", token: str = TOKEN, greet: bool = True) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=5.0)
        self.file = self.socket.makefile("rb")
        self.wire = b""
        self.challenge = json.loads(self._line())
        self.sealer: LineSealer | None = None
        if greet:
            nonce = self.challenge["nonce"]
            self.send_plain(Hello(pilot, NONCE, agent_proof(token, nonce, NONCE), "127.0.0.1", 4000, "n1"))
            welcome = json.loads(self._line())
            assert welcome["proof"] == controller_proof(token, nonce, NONCE)
            self.sealer = LineSealer(session_key(token, nonce, NONCE), "agent")

    def _line(self) -> bytes:
        try:
            line = self.file.readline()
        except ConnectionError:  # closed with something unread
            line = b""
        self.wire += line
        if not line:
            self.close()
            raise ConnectionError("closed")
        return line

    def send_plain(self, message: AgentMessage) -> None:
        data = msgspec.json.encode(message) + b"\n"
        self.wire += data
        self.socket.sendall(data)

    def say(self, message: AgentMessage) -> None:
        assert self.sealer is not None
        self.socket.sendall(self.sealer.seal(msgspec.json.encode(message)))

    def hear(self) -> dict[str, object]:
        assert self.sealer is not None
        heard: dict[str, object] = json.loads(self.sealer.open(self._line().rstrip(b"\n")))
        return heard

    def is_closed(self, within_s: float = 5.0) -> bool:
        end = time.monotonic() + patience(within_s)
        self.socket.settimeout(0.1)
        while time.monotonic() < end:
            try:
                if not self.socket.recv(65536):
                    return True
            except TimeoutError:
                continue
            except OSError:
                return True
        return False

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture
def server() -> Iterator[ReportServer]:
    made = ReportServer("127.0.0.1", lease_s=60.0, pulse_s=30.0)
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
    agent = Agent(server.address)
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
        Agent(server.address, pilot, token)
    assert server.agents() == {} and list(server.receive(0.0)) == []


def test_a_proof_cannot_be_used_again(server: ReportServer) -> None:
    first = Agent(server.address)
    again = Agent(server.address, greet=False)
    again.send_plain(
        Hello("a-1", NONCE, agent_proof(TOKEN, first.challenge["nonce"], NONCE), "127.0.0.1", 4000, "n1")
    )
    assert again.is_closed()
    first.close(), again.close()


@pytest.mark.parametrize("how", ["forged", "replayed", "left out", "garbage", "not sealed", "too long"])
def test_a_line_that_is_not_the_agents_next_ends_the_connection(server: ReportServer, how: str) -> None:
    agent = Agent(server.address)
    assert agent.sealer is not None
    line = agent.sealer.seal(msgspec.json.encode(_progress(1)))
    if how == "forged":
        agent.socket.sendall(line.replace(b'"samples":1', b'"samples":9'))
    elif how == "replayed":
        agent.socket.sendall(line + line)
    elif how == "left out":
        agent.socket.sendall(agent.sealer.seal(msgspec.json.encode(_progress(2))))
    elif how == "garbage":
        agent.socket.sendall(agent.sealer.seal(b'{"type":"progress"}').replace(b"\n", b"") + b"\n")
    elif how == "not sealed":
        agent.send_plain(_progress(1))
    else:
        agent.socket.sendall(b"x" * 20000)
    assert agent.is_closed()
    heard = [message for _, message in server.receive(0.2) if isinstance(message, Progress)]
    assert heard == ([_progress(1)] if how == "replayed" else [])
    agent.close()


def test_strangers_that_dawdle_keep_nobody_out(server: ReportServer) -> None:
    with ExitStack() as stack:
        for _ in range(300):
            slow = Agent(server.address, greet=False)
            stack.callback(slow.close)
            slow.socket.sendall(b"{")  # the beginning of a hello, and never more
        begun = time.monotonic()
        agent = Agent(server.address)
        stack.callback(agent.close)
        agent.say(_progress(1))
        assert any(message == _progress(1) for _, message in _collect(server, 2))
        assert time.monotonic() - begun < patience(2.0)
        assert slow.is_closed(within_s=8.0)


def test_an_agent_that_floods_is_cut_off_and_others_are_served(server: ReportServer) -> None:
    flooder, calm = Agent(server.address), Agent(server.address, "a-2", TOKEN + "2")
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
    agent = Agent(server.address)
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
    agent = Agent(server.address)
    for number in range(300):
        agent.say(_progress(1, f"job-{number}"))
    assert agent.is_closed()
    assert len(server.receive(0.0)) <= 258
    agent.close()


def test_a_second_connection_of_a_pilot_takes_the_place_of_the_first(server: ReportServer) -> None:
    first = Agent(server.address)
    number = server.agents()["a-1"].connection
    second = Agent(server.address)
    assert first.is_closed()
    assert server.agents()["a-1"].connection > number
    second.say(_progress(1))
    assert any(message == _progress(1) for _, message in _collect(server, 3, 1.0))
    first.close(), second.close()


def test_a_pilot_that_is_no_longer_expected_is_cut_off(server: ReportServer) -> None:
    agent = Agent(server.address)
    server.expect({})
    assert server.agents() == {}
    assert agent.is_closed()
    agent.close()


def test_an_agent_that_reads_nothing_is_cut_off_and_sending_never_waits(server: ReportServer) -> None:
    agent = Agent(server.address)
    big = Run("j1", 1, 0, ("n",), "h:1", ("x" * 100_000,), ".", ".", "x" * 32)
    begun, queued = time.monotonic(), 0
    while server.send("a-1", big):
        queued += 1
        assert queued < 1000
    assert time.monotonic() - begun < patience(5.0)
    agent.close()


def test_pulses_come_though_nobody_calls(server: ReportServer) -> None:
    lively = ReportServer("127.0.0.1", pulse_s=0.2)
    lively.expect({"a-1": TOKEN})
    agent = Agent(lively.address)
    assert [agent.hear()["type"] for _ in range(3)] == ["pulse"] * 3
    lively.close()
    agent.close()


def test_an_agent_that_is_silent_is_taken_to_be_gone() -> None:
    lively = ReportServer("127.0.0.1", pulse_s=0.2)
    lively.expect({"a-1": TOKEN})
    agent = Agent(lively.address)
    assert "a-1" in lively.agents()
    assert agent.is_closed(within_s=6.0)
    assert lively.agents() == {}
    lively.close()
    agent.close()


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_it_listens_on_one_given_address_never_on_all(host: str) -> None:
    with pytest.raises(InvalidOption):
        ReportServer(host)


def test_other_addresses_of_the_machine_do_not_answer(server: ReportServer) -> None:
    port = int(server.address.rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=2.0)


def test_a_restarted_server_gets_its_port_back_at_once(server: ReportServer) -> None:
    agent = Agent(server.address)
    host, _, port = server.address.rpartition(":")
    server.close()
    again = ReportServer(host, int(port))
    assert again.address == server.address
    again.close()
    agent.close()
