"""What may go wrong on a cluster of one machine, each a thing to do to a site at a moment of chance."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from paper_repro.malletrain.harvesting import Harvest
from paper_repro.malletrain.one_machine import OneMachineSlurm

from apportion.live.agent import watching
from apportion.live.agent.watching import children_of, parent_of
from tests.live_slurm.machines import Machines
from tests.live_slurm.network import Way
from tests.live_slurm.watching import Witness
from tests.patience import patience

__all__ = ["CLOCKS", "FAULTS", "LASTING", "SHORT_S", "Site"]

_HOUR_S = 3600
SHORT_S = (0.5, 25.0)
"""Partitions last from far below the lease to about lease, grace and margin."""
_MAIN_JOB_S = 60.0


@dataclass(slots=True)
class _Lasting:
    """Something that lasts until it is mended, and whether it cuts agents off from their controller."""

    mend: Callable[[], None]
    timer: threading.Timer
    began_s: float
    cuts: bool
    ended_s: float | None = None

    def lasted_s(self) -> float:
        return (time.monotonic() if self.ended_s is None else self.ended_s) - self.began_s

    def end(self) -> None:
        self.timer.cancel()
        if self.ended_s is None:
            self.ended_s = time.monotonic()
        self.mend()


class Site:
    """The cluster, its machines, the controller under test, and what was begun on the way.

    Parameters
    ----------
    slurm, harvest, machines
        What faults are done to.
    chance
        Draws moments and places.
    lasting_s
        The shortest and the longest time that partitions, splits and frozen processes last.
    """

    def __init__(
        self,
        slurm: OneMachineSlurm,
        harvest: Harvest,
        machines: Machines,
        chance: random.Random,
        lasting_s: tuple[float, float] = SHORT_S,
    ) -> None:
        self.slurm, self.harvest, self.machines, self.chance = slurm, harvest, machines, chance
        self.lasting_s = lasting_s
        self.main_jobs: list[subprocess.Popen[bytes]] = []
        self.lasting: list[_Lasting] = []
        self._befell = Counter[Way]()

    def kill_controller(self) -> None:
        self.harvest.kill()
        time.sleep(self.chance.uniform(0.0, 2.0))
        self.harvest.start()

    def restart_slurmctld(self) -> None:
        (self.slurm.kill if self.chance.random() < 0.5 else self.slurm.end)("slurmctld")
        time.sleep(self.chance.uniform(0.0, 2.0))
        self.slurm.start_slurmctld()

    def kill_slurmd(self) -> None:
        node = self.chance.choice(self.slurm.names)
        self.slurm.kill(node)
        time.sleep(self.chance.uniform(0.0, 3.0))
        self.slurm.start_slurmd(node)

    def main_job(self) -> None:
        nodes = self.chance.randint(1, len(self.slurm.names) * 3 // 4)
        words = ["srun", "-p", "main", f"-N{nodes}", "sleep", str(self.chance.random())]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.main_jobs.append(subprocess.Popen(words, env=self.slurm.environment(), **quiet))  # type: ignore[call-overload]

    def kill_agent(self) -> None:
        self._signal(self.harvest.agents(), signal.SIGKILL)

    def freeze_agent(self) -> None:
        if (pid := self._signal(self.harvest.agents(), signal.SIGSTOP)) is not None:
            self._later(lambda: _go_on(pid))

    def freeze_controller(self) -> None:
        if (controller := self.harvest.process) is not None:
            controller.send_signal(signal.SIGSTOP)
            self._later(lambda: controller.send_signal(signal.SIGCONT))

    def kill_rank(self) -> None:
        self._signal(Witness(self.harvest.folder).leaders(), signal.SIGKILL)

    def kill_watchdog(self) -> None:
        children = [child for agent in self.harvest.agents() for child in children_of(agent)]
        self._signal([pid for pid in children if _runs(pid, watching.__file__)], signal.SIGKILL)

    def kill_slurmstepd(self) -> None:
        """Kill Slurm's process between slurmd and an agent: nothing that Slurm knows of ends the agent."""
        parents = [parent_of(agent) for agent in self.harvest.agents()]
        self._signal([pid for pid in parents if pid and _runs(pid, "slurmstepd")], signal.SIGKILL)

    def partition(self) -> None:
        for way in self._some_ways():
            way.hold()
            self._later(self._healing(way))

    def partition_one_way(self) -> None:
        up = self.chance.random() < 0.5
        for way in self._some_ways():
            way.hold(up=up, down=not up)
            self._later(self._healing(way))

    def late_messages(self) -> None:
        for way in self._some_ways():
            way.late_s = self.chance.uniform(0.1, 3.0)
            self._later(self._healing(way), cuts=False)

    def cut_connections(self) -> None:
        for way in self._some_ways():
            way.cut()

    def split_node(self) -> None:
        """Cut a node off from everything: Slurm marks it down, its rank goes on until its lease is over."""
        node = self.chance.choice(self.slurm.names)
        way, slurmd = self.machines.ways[node], self.slurm.daemons[node]
        way.hold()
        slurmd.send_signal(signal.SIGSTOP)
        mend = self._healing(way)

        def heal() -> None:
            mend()
            slurmd.send_signal(signal.SIGCONT)

        self._later(heal)

    def jump_controllers_clock(self) -> None:
        if self.machines.controller is not None:
            self.machines.controller.jump(self.chance.choice([-_HOUR_S, _HOUR_S]))

    def jump_nodes_clocks(self) -> None:
        for clock in self.machines.clocks:
            if self.chance.random() < 0.5:
                clock.jump(self.chance.choice([-_HOUR_S, _HOUR_S]))

    def heal(self) -> None:
        """End every partition now."""
        for one in self.lasting:
            one.end()

    def end(self, wait: bool) -> None:
        """Mend everything, if told so when every partition has lasted its time; clocks stay as they are.

        A slurmctld that is killed as a job of the main queue ends takes it for running when it is back, for
        ever if the job has no time limit. A launch that met a slurmd cut off may never come to an end.
        """
        if wait:
            for one in self.lasting:
                one.timer.join()
        self.heal()
        for job in self.main_jobs:
            try:
                job.wait(patience(_MAIN_JOB_S))
            except subprocess.TimeoutExpired:
                job.kill()
                job.wait()
        for name in ("slurmctld", *self.slurm.names):
            if name not in self.slurm.daemons:
                (self.slurm.start_slurmctld() if name == "slurmctld" else self.slurm.start_slurmd(name))
        self.slurm.resume_drained()
        if left := self.slurm.run(["squeue", "-h", "-p", "main", "-o", "%i"]).split():
            self.slurm.run(["scancel", *left])

    def _some_ways(self) -> list[Way]:
        ways = list(self.machines.ways.values())
        return self.chance.sample(ways, self.chance.randint(1, len(ways)))

    def _healing(self, way: Way) -> Callable[[], None]:
        """Return what heals a way, unless something else has befallen it since."""
        number = self._befell[way] = self._befell[way] + 1

        def mend() -> None:
            if self._befell[way] == number:
                way.heal()

        return mend

    def outlasted(self, seconds: float) -> int:
        """Return how many partitions, splits and frozen processes lasted longer than this."""
        return sum(one.cuts and one.lasted_s() > seconds for one in self.lasting)

    def _later(self, mend: Callable[[], None], cuts: bool = True) -> None:
        timer = threading.Timer(self.chance.uniform(*self.lasting_s), lambda: one.end())
        one = _Lasting(mend, timer, time.monotonic(), cuts)
        timer.daemon = True
        self.lasting.append(one)
        timer.start()

    def _signal(self, pids: Sequence[int], number: signal.Signals) -> int | None:
        if not pids:
            return None
        pid = self.chance.choice(sorted(pids))
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        return pid


def _go_on(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def _runs(pid: int, program: str) -> bool:
    """Return whether a process's command line begins with a program, or says it."""
    try:
        return program.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


FAULTS: Mapping[str, Callable[[Site], None]] = MappingProxyType(
    {
        "kill_controller": Site.kill_controller,
        "restart_slurmctld": Site.restart_slurmctld,
        "kill_slurmd": Site.kill_slurmd,
        "main_job": Site.main_job,
        "kill_agent": Site.kill_agent,
        "freeze_agent": Site.freeze_agent,
        "freeze_controller": Site.freeze_controller,
        "kill_rank": Site.kill_rank,
        "kill_watchdog": Site.kill_watchdog,
        "kill_slurmstepd": Site.kill_slurmstepd,
        "partition": Site.partition,
        "partition_one_way": Site.partition_one_way,
        "late_messages": Site.late_messages,
        "cut_connections": Site.cut_connections,
        "split_node": Site.split_node,
        "jump_controllers_clock": Site.jump_controllers_clock,
        "jump_nodes_clocks": Site.jump_nodes_clocks,
    }
)
"""The names by which `tests.live_slurm.sequences` draws and counts them."""
LASTING = ("freeze_agent", "freeze_controller", "partition", "partition_one_way", "split_node")
"""Those that can keep agents from hearing of their controller for longer than a lease."""
CLOCKS = frozenset({"jump_controllers_clock", "jump_nodes_clocks"})
"""Those that need `tests.live_slurm.machines.wall_clock`."""
