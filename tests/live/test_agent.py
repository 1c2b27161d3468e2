"""What an agent does with its node: one rank at a time, ended for good, told exactly once it matters."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from apportion.live.channel.messages import (
    STOPPED,
    Acknowledge,
    ControllerMessage,
    Exited,
    Hello,
    Leave,
    Leaving,
    Progress,
    Pulse,
    RankRefused,
    Running,
)
from apportion.live.channel.reports import ReportServer
from apportion.live.trainer_protocol import claim
from tests.live.agents import Site, python
from tests.patience import patience, wait_until

REPORT = """
import json, os, socket, sys, time
host, port = os.environ["APPORTION_REPORT"].split(":")
line = socket.create_connection((host, int(port)))
def say(**fields):
    line.sendall(json.dumps({"token": os.environ["APPORTION_REPORT_TOKEN"], **fields}).encode() + b"\\n")
"""
SLEEP = "import time; time.sleep(60)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); "


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait_for(path: Path) -> str:
    assert wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
    return path.read_text()


def test_a_rank_finds_the_protocol_in_its_environment_and_nothing_of_the_scheduler(site: Site) -> None:
    site.start("a-1")
    program = (
        "import os, json\n"
        "told = {k: v for k, v in os.environ.items() if k.startswith(('APPORTION', 'SLURM', 'OWN'))}\n"
        "open('told', 'w').write(json.dumps(told))"
    )
    site.run(["a-1"], python(program), samples=7, environment={"OWN": "$(echo no shell)"})
    [ended] = site.exits(["a-1"])
    assert ended.code == 0 and not ended.asked
    seen = json.loads((site.folder / "told").read_text())
    assert {
        name: seen[f"APPORTION_{name}"] for name in ("JOB", "RANK", "WORLD_SIZE", "NODES", "SAMPLES")
    } == {
        "JOB": "j1",
        "RANK": "0",
        "WORLD_SIZE": "1",
        "NODES": "node-a-1",
        "SAMPLES": "7",
    }
    assert seen["OWN"] == "$(echo no shell)"
    assert "APPORTION_PILOT_TOKEN" not in seen and not [name for name in seen if name.startswith("SLURM")]
    assert (site.folder / "j1").stat().st_mode & 0o777 == 0o700


def test_arguments_reach_the_command_as_they_are(site: Site) -> None:
    site.start("a-1")
    strange = ["; touch x", "$HOME", "`id`", "a b", "", "'\"", "\n"]
    site.run(["a-1"], [sys.executable, "-c", "import sys; print(repr(sys.argv[1:]))", *strange])
    [ended] = site.exits(["a-1"])
    assert ended.tail.strip() == repr(strange)
    assert not (site.folder / "x").exists()


def test_a_run_said_again_starts_nothing(site: Site) -> None:
    site.start("a-1")
    program = python("import sys; open('runs', 'a').write('x'); sys.exit(5)")
    for _ in range(3):
        site.run(["a-1"], program)
    assert site.exits(["a-1"])[0].code == 5
    site.run(["a-1"], program)  # it has ended and been acknowledged: its end is said again
    site.until(lambda: len(site.of(Exited)) >= 2)
    assert (site.folder / "runs").read_text() == "x"


def test_another_rank_is_refused_while_one_runs(site: Site) -> None:
    site.start("a-1")
    site.run(["a-1"], python(SLEEP))
    site.run(["a-1"], python(SLEEP), generation=2)
    site.until(lambda: bool(site.of(RankRefused, "a-1", 2)))
    site.stop(["a-1"])
    [ended] = site.exits(["a-1"])
    assert ended.asked and ended.code == -signal.SIGTERM


def test_what_was_stopped_before_it_began_never_begins(site: Site) -> None:
    site.start("a-1")
    site.stop(["a-1"], generation=4)
    site.until(lambda: len(site.of(RankRefused, "a-1", 4)) == 1)
    site.run(["a-1"], python("open('begun', 'w')"), generation=4)
    site.until(lambda: len(site.of(RankRefused, "a-1", 4)) == 2)
    assert not (site.folder / "begun").exists()


def test_a_command_that_cannot_be_started_is_an_end_without_a_code(site: Site) -> None:
    site.start("a-1")
    site.run(["a-1"], ["no-such-command-anywhere"])
    [ended] = site.exits(["a-1"])
    assert ended.code is None and "no-such-command-anywhere" in ended.tail


def test_a_trainer_deaf_to_sigterm_is_killed_after_its_grace(site: Site) -> None:
    site.start("a-1")
    site.run(["a-1"], python(DEAF + "open('up', 'w').write('\\n'); time.sleep(60)"))
    _wait_for(site.folder / "up")
    begun = time.monotonic()
    site.stop(["a-1"], grace_s=0.3)
    [ended] = site.exits(["a-1"])
    assert ended.code == -signal.SIGKILL and ended.asked
    assert 0.3 <= time.monotonic() - begun < patience(3.0)


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")
def test_no_child_of_a_rank_outlives_it_not_even_one_in_a_session_of_its_own(site: Site) -> None:
    site.start("a-1")
    child = f"{DEAF} open('child', 'w').write(str(__import__('os').getpid()) + chr(10)); time.sleep(60)"
    program = (
        "import subprocess, sys, os, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
        "while not os.path.exists('child') or not open('child').read().endswith(chr(10)): time.sleep(0.02)\n"
    )
    site.run(["a-1"], python(program))
    pid = int(_wait_for(site.folder / "child"))
    [ended] = site.exits(["a-1"])
    assert ended.code == 0
    assert not _alive(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent death signal is Linux's")
def test_a_killed_agent_takes_its_rank_along(site: Site) -> None:
    site.start("a-1")
    site.run(
        ["a-1"], python(DEAF + "open('pid', 'w').write(f'{__import__(\"os\").getpid()}\\n'); time.sleep(60)")
    )
    pid = int(_wait_for(site.folder / "pid"))
    assert _alive(pid) and "a-1" in site.server.agents()
    site.processes["a-1"].kill()
    site.until(lambda: "a-1" not in site.server.agents() and not _alive(pid), 5.0)
    assert site.processes["a-1"].wait(patience(5.0)) == -signal.SIGKILL
    assert not site.of(Exited) and not site.of(Leaving), "the kernel ended the rank: nobody could say so"


def test_sigterm_frees_the_node_within_a_fraction_of_a_second(site: Site) -> None:
    site.start("a-1")
    site.run(["a-1"], python(DEAF + "open('up', 'w').write('\\n'); time.sleep(60)"))
    _wait_for(site.folder / "up")
    begun = time.monotonic()
    site.processes["a-1"].terminate()
    assert site.processes["a-1"].wait(patience(5.0)) == 0
    assert time.monotonic() - begun < patience(1.5)  # 0.3 s on an idle machine
    assert site.exits(["a-1"])[0].code == -signal.SIGKILL
    assert site.of(Leaving, "a-1")


def test_told_to_leave_it_stops_what_runs_and_ends(site: Site) -> None:
    site.start("a-1")
    site.run(
        ["a-1"], python("import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(75))\n" + SLEEP)
    )
    time.sleep(0.3)
    site.server.send("a-1", Leave(5.0))
    assert site.exits(["a-1"])[0].code in (STOPPED, -signal.SIGTERM)
    assert site.processes["a-1"].wait(patience(5.0)) == 0


def test_an_end_is_said_until_it_is_acknowledged_also_to_the_next_controller(tmp_path: Path) -> None:
    site = Site(tmp_path, pulse_s=0.2)
    site.acknowledges = False
    try:
        site.start("a-1")
        site.run(["a-1"], python("print('once')"))
        site.until(lambda: len(site.of(Exited)) >= 3)
        host, _, port = site.server.address.rpartition(":")
        site.server.close()
        time.sleep(0.3)
        site.server = ReportServer(site.certificate, host, int(port), lease_s=60.0, pulse_s=0.2)
        site.server.expect(site.tokens)
        site.heard.clear()
        site.until(lambda: len(site.of(Exited)) >= 2)
        assert site.of(Hello, "a-1")[0].running is None  # type: ignore[attr-defined]
        site.server.send("a-1", Acknowledge("j1", 1))
        site.pump(0.3)
        site.heard.clear()
        for _ in range(8):
            site.pump(0.1)
        assert not site.of(Exited)
    finally:
        site.close()


def test_a_rank_goes_on_while_the_controller_is_away(tmp_path: Path) -> None:
    site = Site(tmp_path, pulse_s=0.2)
    try:
        site.start("a-1")
        program = REPORT + "for n in range(1, 400):\n    say(samples=n, durable=0)\n    time.sleep(0.05)\n"
        site.run(["a-1"], python(program))
        before = site.progress(1).samples
        host, _, port = site.server.address.rpartition(":")
        site.server.close()
        time.sleep(1.0)
        site.server = ReportServer(site.certificate, host, int(port), lease_s=60.0, pulse_s=0.2)
        site.server.expect(site.tokens)
        site.heard.clear()
        assert site.progress(before + 5).generation == 1
        assert site.of(Hello, "a-1")[0].running == Running("j1", 1, 0)  # type: ignore[attr-defined]
    finally:
        site.close()


def test_without_a_controller_the_lease_ends_rank_and_agent(tmp_path: Path) -> None:
    site = Site(tmp_path, lease_s=1.0, pulse_s=0.2)
    try:
        site.start("a-1")
        site.run(["a-1"], python("open('up', 'w').write('\\n'); " + SLEEP))
        _wait_for(tmp_path / "up")
        site.server.close()
        assert site.processes["a-1"].wait(patience(8.0)) == 0
    finally:
        site.close()


def test_the_rank_of_a_frozen_agent_ends_with_its_lease(tmp_path: Path) -> None:
    """An agent that is stopped cannot look at its clock: the rank's watchdog does."""
    site = Site(tmp_path, lease_s=2.0, pulse_s=0.2)
    try:
        site.start("a-1")
        program = (
            "import os, subprocess, sys\n"
            "sleep = [sys.executable, '-c', 'import time; time.sleep(300)']\n"
            "own = subprocess.Popen(sleep, start_new_session=True)\n"
            "open('pids', 'w').write(f'{os.getpid()} {own.pid}\\n')\n"
        )
        site.run(["a-1"], python(DEAF + program + "time.sleep(300)"))
        leader, apart = (int(pid) for pid in _wait_for(tmp_path / "pids").split())
        assert _alive(leader) and _alive(apart)
        site.processes["a-1"].send_signal(signal.SIGSTOP)
        try:
            site.until(lambda: not _alive(leader), 60.0)
            assert site.processes["a-1"].poll() is None, "the agent is stopped: its watchdog ended the rank"
        finally:
            site.processes["a-1"].send_signal(signal.SIGCONT)
        site.until(lambda: not _alive(apart), 60.0)
        assert site.processes["a-1"].wait(patience(20.0)) == 0, "woken, the agent sees that its lease is over"
    finally:
        site.close()


def test_a_watched_rank_outlives_many_leases_while_its_controller_is_there(tmp_path: Path) -> None:
    site = Site(tmp_path, lease_s=1.0, pulse_s=0.1)
    try:
        site.start("a-1")
        program = REPORT + "for n in range(1, 60):\n    say(samples=n)\n    time.sleep(0.1)\n"
        site.run(["a-1"], python(program))
        assert site.exits(["a-1"], timeout_s=60.0)[0].code == 0
    finally:
        site.close()


def test_lines_held_up_on_their_way_do_not_lengthen_a_lease(tmp_path: Path) -> None:
    """A controller that is heard but has heard nothing itself may have given the node to others."""

    class Deaf(ReportServer):
        def send(self, pilot: str, message: ControllerMessage) -> bool:
            return super().send(pilot, Pulse() if isinstance(message, Pulse) else message)

    site = Site(tmp_path, pulse_s=0.2)
    host, _, _ = site.server.address.rpartition(":")
    site.server.close()
    site.server = Deaf(site.certificate, host, lease_s=1.5, pulse_s=0.2)
    try:
        site.start("a-1")
        assert site.processes["a-1"].wait(patience(60.0)) == 0
        site.pump(0.5)
        assert any("nothing heard" in said.reason for said in site.of(Leaving, "a-1"))  # type: ignore[attr-defined]
    finally:
        site.close()


def test_a_rank_of_a_generation_that_has_a_successor_is_not_started(site: Site) -> None:
    site.start("a-1")
    (site.folder / "j1").mkdir()
    assert claim(site.folder / "j1", 5) == 5
    site.run(["a-1"], python("open('ran', 'w')"), generation=4)
    [ended] = site.exits(["a-1"], generation=4)
    assert ended.code is None and "generation 5 of j1 has begun" in ended.tail
    assert not (site.folder / "ran").exists()


# -- what trainers say -------------------------------------------------------------------------------------


def test_the_last_line_before_the_end_is_never_lost(site: Site) -> None:
    site.start("a-1")
    for generation in range(1, 6):
        site.run(
            ["a-1"],
            python(REPORT + "say(samples=41, durable=41)\nsay(samples=42, durable=42, done=True)"),
            generation,
        )
        [ended] = site.exits(["a-1"], generation)
        assert ended.last is not None
        assert (ended.last.samples, ended.last.durable, ended.last.done) == (42, 42, True)


def test_lines_without_the_token_or_not_valid_count_as_nothing(site: Site) -> None:
    site.start("a-1")
    program = REPORT + (
        "say(samples=1)\n"
        "say(samples=-1)\nsay(samples=2, token='y' * 32)\nsay(samples=1e999)\nsay(samples=3, more=1)\n"
        "line.sendall(b'nonsense\\n\\xff\\xfe\\n' + b'[' * 5000 + b'\\n')\n"
        "time.sleep(0.2)\n"
    )
    site.run(["a-1"], python(program))
    [ended] = site.exits(["a-1"])
    assert ended.code == 0
    assert ended.last is not None and ended.last.samples == 1 and ended.last.dropped == 7


def test_a_line_without_end_closes_the_connection_and_a_new_one_is_heard(site: Site) -> None:
    site.start("a-1")
    program = REPORT + (
        "try:\n    line.sendall(b'x' * 1000000)\n    line.recv(1)\nexcept OSError: pass\n"
        "line = socket.create_connection((host, int(port)))\nsay(samples=9)\ntime.sleep(0.2)\n"
    )
    site.run(["a-1"], python(program))
    [ended] = site.exits(["a-1"])
    assert ended.last is not None and ended.last.samples == 9


def test_a_flood_of_reports_reaches_the_controller_as_a_trickle(site: Site) -> None:
    site.start("a-1", "a-2")
    flood = REPORT + "n = 0\nwhile True:\n    n += 1\n    say(samples=n)\n"
    calm = REPORT + "for n in range(1, 1000):\n    say(samples=n)\n    time.sleep(0.1)\n"
    site.run(["a-1"], python(flood), job="flood")
    site.run(["a-2"], python(calm), job="calm")
    begun = time.monotonic()
    site.until(lambda: time.monotonic() - begun > 3.0)
    said = site.of(Progress, "a-1")
    assert 3 <= len(said) <= 25
    assert max(message.dropped for message in said) > 50  # type: ignore[attr-defined]
    assert len(site.of(Progress, "a-2")) >= 8
    begun = time.monotonic()
    site.stop(["a-1"], job="flood", grace_s=2.0)
    site.exits(["a-1"])
    assert time.monotonic() - begun < patience(2.0)


def test_strangers_on_the_nodes_port_do_not_keep_the_trainer_out(site: Site) -> None:
    site.start("a-1")
    program = (
        (
            "import os, socket, time\n"
            "host, port = os.environ['APPORTION_REPORT'].split(':')\n"
            "strangers = [socket.create_connection((host, int(port))) for _ in range(50)]\n"
        )
        + REPORT
        + "say(samples=5)\ntime.sleep(0.3)\n"
    )
    site.run(["a-1"], python(program))
    [ended] = site.exits(["a-1"])
    assert ended.last is not None and ended.last.samples == 5


def test_output_is_kept_to_its_end_and_free_of_control_characters(site: Site) -> None:
    site.start("a-1")
    site.run(["a-1"], python("print('x' * 3000000); print('\\x1b[2Jend')"))
    [ended] = site.exits(["a-1"])
    assert ended.tail.endswith("xxx\n [2Jend\n") and len(ended.tail) <= 4000


def test_threads_of_tests_are_over(site: Site) -> None:
    site.start("a-1")
    site.close()
    assert not [one for one in threading.enumerate() if one.name == "apportion-reports"]
