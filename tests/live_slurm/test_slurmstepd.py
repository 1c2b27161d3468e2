"""Slurm's process on a node is killed: what Slurm says of the pilot is then not what is so."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from paper_repro.malletrain.harvesting import Harvest, numpy_trainer
from paper_repro.malletrain.one_machine import OneMachineSlurm

from apportion.live.agent.watching import parent_of
from tests.live_slurm.test_harvest import assert_nothing_is_left, assert_trained
from tests.live_slurm.watching import Witness


@pytest.mark.slow
def test_a_pilot_whose_slurmstepd_was_killed_runs_nothing_beside_the_next(
    harvest: Harvest, slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    """The main queue takes its node, Slurm says that it has ended, and the job goes on elsewhere at once."""
    harvest.start("--lease", "60")
    job = harvest.submit(10_000, numpy_trainer(), most=1)
    with Witness(tmp_path):
        jobs = harvest.until(lambda jobs: jobs[job]["samples"] > 500, "it trains")
        [node] = jobs[job]["nodes"]
        for agent in harvest.agents():
            told = Path(f"/proc/{agent}/environ").read_bytes().split(b"\0")
            stepd = parent_of(agent)
            if f"SLURMD_NODENAME={node}".encode() in told and stepd is not None:
                os.kill(stepd, signal.SIGKILL)
        slurm.run(["srun", "-p", "main", f"--nodelist={node}", "sleep", "5"])
        harvest.until(lambda jobs: node not in jobs[job]["nodes"] and jobs[job]["nodes"], "it goes on", 60.0)
        assert_trained(harvest.until_over()[job])
    harvest.drain()
    assert_nothing_is_left(harvest)
