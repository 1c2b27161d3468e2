"""What may go wrong on a cluster of one machine, each a thing to do to a site at a moment of chance."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from paper_repro.malletrain.harvesting import Harvest
from paper_repro.malletrain.one_machine import OneMachineSlurm

from tests.live_slurm.machines import Machines
from tests.live_slurm.network import Way
from tests.live_slurm.watching import Witness
from tests.patience import patience

__all__ = ["CLOCKS", "FAULTS", "Site"]

_HOUR_S = 3600
_LONGEST_S = 25.0
"""Partitions last from half a second to this: from far below the lease to about lease, grace and margin."""
_MAIN_JOB_S = 60.0


class Site:
    """The cluster, its machines, the controller under test, and what was begun on the way."""

    def __init__(
        self, slurm: OneMachineSlurm, harvest: Harvest, machines: Machines, chance: random.Random
    ) -> None:
        self.slurm, self.harvest, self.machines, self.chance = slurm, harvest, machines, chance
        self.main_jobs: list[subprocess.Popen[bytes]] = []
        self.mending: list[tuple[threading.Timer, Callable[[], None]]] = []

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
            time.sleep(self.chance.uniform(0.5, 4.0))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def kill_rank(self) -> None:
        self._signal(Witness(self.harvest.folder).leaders(), signal.SIGKILL)

    def partition(self) -> None:
        for way in self._some_ways():
            way.hold()
            self._later(way.heal)

    def partition_one_way(self) -> None:
        up = self.chance.random() < 0.5
        for way in self._some_ways():
            way.hold(up=up, down=not up)
            self._later(way.heal)

    def late_messages(self) -> None:
        for way in self._some_ways():
            way.late_s = self.chance.uniform(0.1, 3.0)
            self._later(way.heal)

    def cut_connections(self) -> None:
        for way in self._some_ways():
            way.cut()

    def split_node(self) -> None:
        """Cut a node off from everything: Slurm marks it down, its rank goes on until its lease is over."""
        node = self.chance.choice(self.slurm.names)
        way, slurmd = self.machines.ways[node], self.slurm.daemons[node]
        way.hold()
        slurmd.send_signal(signal.SIGSTOP)

        def heal() -> None:
            way.heal()
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
        for timer, mend in self.mending:
            timer.cancel()
            mend()

    def end(self) -> None:
        """Mend everything, half the time when every partition has lasted its time; clocks stay as they are.

        A slurmctld that is killed as a job of the main queue ends takes it for running when it is back, for
        ever if the job has no time limit. A launch that met a slurmd cut off may never come to an end.
        """
        if self.chance.random() < 0.5:
            for timer, _ in self.mending:
                timer.join()
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
        if left := self.slurm.run(["squeue", "-h", "-p", "main", "-o", "%i"]).split():
            self.slurm.run(["scancel", *left])

    def _some_ways(self) -> list[Way]:
        ways = list(self.machines.ways.values())
        return self.chance.sample(ways, self.chance.randint(1, len(ways)))

    def _later(self, mend: Callable[[], None]) -> None:
        timer = threading.Timer(self.chance.uniform(0.5, _LONGEST_S), mend)
        timer.daemon = True
        self.mending.append((timer, mend))
        timer.start()

    def _signal(self, pids: Sequence[int], number: signal.Signals) -> int | None:
        if not pids:
            return None
        pid = self.chance.choice(sorted(pids))
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        return pid


FAULTS: Mapping[str, Callable[[Site], None]] = MappingProxyType(
    {
        "kill_controller": Site.kill_controller,
        "restart_slurmctld": Site.restart_slurmctld,
        "kill_slurmd": Site.kill_slurmd,
        "main_job": Site.main_job,
        "kill_agent": Site.kill_agent,
        "freeze_agent": Site.freeze_agent,
        "kill_rank": Site.kill_rank,
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
CLOCKS = frozenset({"jump_controllers_clock", "jump_nodes_clocks"})
"""Those that need `tests.live_slurm.machines.wall_clock`."""
