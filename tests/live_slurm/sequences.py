"""Random faults on a real Slurm: ``python -m tests.live_slurm.sequences --count 1000 --seed 1``.

Every sequence starts a controller and two jobs on the cluster of eight nodes, lets a few faults happen at
random moments, one of them always a death of the controller, mends everything, and waits for the end: both
jobs must be done with exactly their samples, nothing may be left behind, and a witness that looks again and
again must never have seen two ranks on a node or two generations of a job. Clocks cannot be set for a part of
a machine, and no node is cut off from its network here; `tests.live.sequences` plays that on the model.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from paper_repro.malletrain.harvesting import Harvest, numpy_trainer
from paper_repro.malletrain.one_machine import OneMachineSlurm, missing_programs

from tests.live_slurm.test_harvest import assert_nothing_is_left, assert_trained
from tests.live_slurm.watching import Witness

__all__ = ["FAULTS", "main", "play"]

_OVER_S = 400.0


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
        words = ["srun", "-p", "main", f"-N{self.chance.randint(1, 6)}", "sleep", str(self.chance.random())]
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
        """Mend everything."""
        for job in self.main_jobs:
            job.wait()
        for name in ("slurmctld", *self.slurm.names):
            if name not in self.slurm.daemons:
                (self.slurm.start_slurmctld() if name == "slurmctld" else self.slurm.start_slurmd(name))

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


def play(slurm: OneMachineSlurm, folder: Path, faults: Sequence[str], chance: random.Random) -> None:
    """Play a sequence to its end.

    Raises
    ------
    AssertionError, SlurmFailed
        If something happened that must never happen, or jobs do not end.
    """
    with Harvest(slurm, folder) as harvest, Witness(folder):
        harvest.start()
        jobs = [harvest.submit(6_000, numpy_trainer()), harvest.submit(5_000, numpy_trainer("1:300,4:700"))]
        harvest.until(lambda held: any(held[job]["samples"] for job in jobs), "they train")
        site = Site(slurm, harvest, chance)
        for fault in faults:
            FAULTS[fault](site)
            time.sleep(chance.uniform(0.0, 2.0))
        site.end()
        ended = harvest.until_over(_OVER_S)
        for job in jobs:
            assert_trained(ended[job])
        harvest.drain()
        assert_nothing_is_left(harvest)


def drawn(chance: random.Random) -> list[str]:
    """Return the faults of a sequence."""
    faults = [*chance.choices(sorted(FAULTS), k=chance.randint(2, 5)), "kill_controller"]
    chance.shuffle(faults)
    return faults


def main(arguments: Sequence[str] | None = None) -> int:
    """Play sequences; return 1 if any broke, 2 where there is no Slurm."""
    parser = argparse.ArgumentParser(prog="python -m tests.live_slurm.sequences", description=__doc__)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    if missing := missing_programs():
        told = f"no Slurm on this machine ({', '.join(missing)} missing): bash .ci/slurm installs it"
        print(told, file=sys.stderr)
        return 2
    counts, broken, played, began = Counter[str](), 0, 0, time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as base,
        OneMachineSlurm(Path(base) / "c") as slurm,
    ):
        for number in range(given.count):
            chance = random.Random(f"{given.seed} {number}")
            faults = drawn(chance)
            counts.update(faults)
            played += 1
            (folder := Path(base) / f"s{number}").mkdir()
            try:
                play(slurm, folder, faults, chance)
            except Exception as error:
                broken += 1
                told = f"sequence {number}, {faults}: {type(error).__name__}: {error}"
                print(told, file=sys.stderr, flush=True)
            slurm.reset()
            if broken >= 5:
                break
    seconds = time.monotonic() - began
    told = f"{counts.total()} faults, {broken} broken, {seconds:.0f} s"
    print(f"{played} sequences from seed {given.seed}, {told}")
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
