"""An agent whose pilot's process is killed, and a rank whose watchdog is: neither goes on unguarded."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from apportion.live.agent import watching
from apportion.live.agent.watching import children_of, parent_of
from tests.live.agents import SRC, Site, python
from tests.patience import patience, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kinship is read from /proc")

WAITS = "open('pid', 'w').write(f'{__import__(\"os\").getpid()}\\n'); import time; time.sleep(300)"
STEPD = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"
"""What Slurm's process on a node is to an agent: its parent."""


class Pilots(Site):
    """A site where a process stands between the scheduler and every agent, as slurmstepd does."""

    def start_one(self, pilot: str) -> tuple[subprocess.Popen[bytes], int]:
        self.tokens[pilot] = f"token-of-{pilot}-{'t' * 16}"
        self.server.expect(self.tokens)
        variables = {"PYTHONPATH": str(SRC), "APPORTION_PILOT_TOKEN": self.tokens[pilot]}
        agent = [sys.executable, "-m", "apportion.live.agent.agent", "--controller", self.server.address]
        agent += ["--certificate", self.certificate.fingerprint, "--pilot", pilot]
        stepd = subprocess.Popen(
            [sys.executable, "-c", STEPD, *agent], env={**os.environ, **variables, "SLURMD_NODENAME": pilot}
        )
        self.processes[pilot] = stepd
        self.until(lambda: pilot in self.server.agents(), 10.0)
        [found] = children_of(stepd.pid)
        return stepd, found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Pilots]:
    made = Pilots(tmp_path)
    yield made
    made.close()


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _rank(site: Site) -> int:
    path = site.folder / "pid"
    assert wait_until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def _watchdogs(agent: int) -> list[int]:
    """Return the children that run the watchdog; one between fork and exec is none yet."""
    name = watching.__file__.encode()
    found = []
    for pid in children_of(agent):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may end meanwhile
            if name in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def _watchdog(agent: int) -> int:
    [found] = _watchdogs(agent)
    return found


def test_an_agent_whose_pilots_process_was_killed_ends_at_once(site: Pilots) -> None:
    """Slurm says that such a pilot has ended, and gives its node to others: a lease would be too late."""
    stepd, agent = site.start_one("a-1")
    site.run(["a-1"], python(WAITS))
    rank = _rank(site)
    stepd.kill()
    stepd.wait()
    assert wait_until(lambda: not _alive(rank) and not _alive(agent), 3.0)


def test_its_rank_ends_also_if_the_agent_is_stopped(site: Pilots) -> None:
    stepd, agent = site.start_one("a-1")
    site.run(["a-1"], python(WAITS))
    rank = _rank(site)
    os.kill(agent, signal.SIGSTOP)
    try:
        stepd.kill()
        stepd.wait()
        assert wait_until(lambda: not _alive(rank), 5.0)
    finally:
        os.kill(agent, signal.SIGCONT)
    assert wait_until(lambda: not _alive(agent), 3.0)


def test_a_watchdog_that_was_killed_is_followed_by_another(tmp_path: Path) -> None:
    site = Site(tmp_path, lease_s=2.0, pulse_s=0.2)
    try:
        site.start("a-1")
        agent = site.processes["a-1"]
        site.run(["a-1"], python(WAITS))
        rank = _rank(site)
        before = _watchdog(agent.pid)
        os.kill(before, signal.SIGKILL)
        site.until(lambda: [pid for pid in _watchdogs(agent.pid) if pid != before] != [])
        assert _alive(rank) and _watchdog(agent.pid) != before
        agent.send_signal(signal.SIGSTOP)
        try:
            site.until(lambda: not _alive(rank), 60.0)
        finally:
            agent.send_signal(signal.SIGCONT)
        assert agent.wait(patience(20.0)) == 0
    finally:
        site.close()


def test_whose_child_a_process_is() -> None:
    assert parent_of(os.getpid()) == os.getppid()
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert parent_of(child.pid) is None
