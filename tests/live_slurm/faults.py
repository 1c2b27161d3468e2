"""What may go wrong on a cluster of one machine, each a thing to do to a site at a moment of chance."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from paper_repro.malletrain.harvesting import Harvest
from paper_repro.malletrain.one_machine import OneMachineSlurm

from tests.live_slurm.watching import Witness

__all__ = ["FAULTS", "Site"]


class Site:
    """The cluster, the controller under test, and what was begun on the way."""

    def __init__(self, slurm: OneMachineSlurm, harvest: Harvest, chance: random.Random) -> None:
        self.slurm, self.harvest, self.chance = slurm, harvest, chance
        self.main_jobs: list[subprocess.Popen[bytes]] = []

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

    def end(self) -> None:
        """Mend everything.

        A slurmctld that is killed as a job of the main queue ends takes it for running when it is back, for
        ever if the job has no time limit.
        """
        for job in self.main_jobs:
            job.wait()
        for name in ("slurmctld", *self.slurm.names):
            if name not in self.slurm.daemons:
                (self.slurm.start_slurmctld() if name == "slurmctld" else self.slurm.start_slurmd(name))
        if left := self.slurm.run(["squeue", "-h", "-p", "main", "-o", "%i"]).split():
            self.slurm.run(["scancel", *left])

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
    }
)
"""The names by which `tests.live_slurm.sequences` draws and counts them."""
