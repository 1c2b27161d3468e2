"""The machines of a site: clocks that jump for some processes alone, ways that hold, delay and break."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live_slurm.machines import Clock, Machines, wall_clock
from tests.live_slurm.network import Way
from tests.patience import patience

TOLD = """
import time
for line in iter(input, "end"):
    booted = time.clock_gettime(time.CLOCK_BOOTTIME)
    print(time.time(), time.time_ns() / 1e9, time.monotonic(), booted, flush=True)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = wall_clock(tmp_path_factory.mktemp("library"))
    if made is None:
        pytest.skip("no C compiler on this machine")
    return made


def test_a_clock_jumps_for_the_processes_of_its_machine_and_steady_clocks_do_not(
    library: Path, tmp_path: Path
) -> None:
    clock = Clock(tmp_path / "clock", library)
    environment = {**os.environ, **clock.environment()}
    with subprocess.Popen(
        [sys.executable, "-c", TOLD], env=environment, stdin=-1, stdout=-1, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for ahead_s in (0, 3600, 0, -3600):
            clock.jump(ahead_s - clock._ahead_s)
            print("say", file=process.stdin, flush=True)
            wall, wall_ns, steady, booted = (float(word) for word in process.stdout.readline().split())
            assert abs(wall - time.time() - ahead_s) < patience(5.0)
            assert abs(wall_ns - wall) < patience(5.0)
            assert abs(steady - time.monotonic()) < patience(5.0)
            assert abs(booted - time.clock_gettime(time.CLOCK_BOOTTIME)) < patience(5.0)
        print("end", file=process.stdin, flush=True)
    assert process.returncode == 0


def test_pythons_of_a_node_have_its_clock_and_its_way(library: Path, tmp_path: Path) -> None:
    machines = Machines(tmp_path / "machines", ["n1", "n2"], library)
    machines.clocks[1].jump(3600)
    program = "import sys, time; print(time.time(), *sys.argv[1:], sep='|')"
    told = {}
    for node in machines.ways:
        words = ["-c", program, "--controller", "10.0.0.9:77", "--pilot", "a b"]
        environment = {**os.environ, "SLURMD_NODENAME": node}
        done = subprocess.run(
            [machines.python, *words], env=environment, capture_output=True, text=True, check=True
        )
        told[node] = done.stdout.strip().split("|")
        assert told[node][1:] == [
            "--controller",
            f"127.0.0.1:{machines.ways[node].port}",
            "--pilot",
            "a b",
        ]
        assert (tmp_path / "machines" / node / "controller").read_text() == "10.0.0.9:77\n"
    assert abs(float(told["n2"][0]) - float(told["n1"][0]) - 3600) < patience(60.0)
    machines.close()


@pytest.fixture
def ends() -> Iterator[tuple[Way, socket.socket, socket.socket]]:
    """A way, and both ends of a connection on it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        way = Way(lambda: listener.getsockname())
        with socket.create_connection(("127.0.0.1", way.port)) as agent:
            controller, _ = listener.accept()
            with controller:
                for end in (agent, controller):
                    end.settimeout(patience(10.0))
                yield way, agent, controller
        way.close()


def _nothing_comes(end: socket.socket) -> bool:
    before = end.gettimeout()
    end.settimeout(0.2)
    try:
        end.recv(100)
    except TimeoutError:
        return True
    finally:
        end.settimeout(before)
    return False


def test_what_is_held_arrives_when_the_way_is_healed(ends: tuple[Way, socket.socket, socket.socket]) -> None:
    way, agent, controller = ends
    agent.sendall(b"hello")
    assert controller.recv(100) == b"hello"
    way.hold()
    agent.sendall(b"there")
    controller.sendall(b"here")
    assert _nothing_comes(controller) and _nothing_comes(agent)
    way.heal()
    assert controller.recv(100) == b"there" and agent.recv(100) == b"here"


def test_a_way_may_be_held_in_one_direction(ends: tuple[Way, socket.socket, socket.socket]) -> None:
    way, agent, controller = ends
    way.hold(down=False)
    controller.sendall(b"here")
    assert agent.recv(100) == b"here"
    agent.sendall(b"there")
    agent.close()
    assert _nothing_comes(controller)  # not even that the agent is gone
    way.heal()
    assert controller.recv(100) == b"there" and controller.recv(100) == b""


def test_a_way_may_be_late_and_be_cut(ends: tuple[Way, socket.socket, socket.socket]) -> None:
    way, agent, controller = ends
    way.late_s = 0.5
    began = time.monotonic()
    agent.sendall(b"late")
    assert controller.recv(100) == b"late" and time.monotonic() - began >= 0.5
    way.heal()
    way.cut()
    assert agent.recv(100) == b"" == controller.recv(100)


def test_nobody_is_carried_where_no_controller_is_known() -> None:
    way = Way(lambda: None)
    with socket.create_connection(("127.0.0.1", way.port)) as agent:
        assert agent.recv(100) == b""
    way.close()
