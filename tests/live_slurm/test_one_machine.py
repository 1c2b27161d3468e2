"""The cluster that all other tests of this folder stand on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from paper_repro.malletrain.one_machine import OneMachineSlurm, SlurmFailed

from tests.patience import patience


def test_every_node_runs_a_main_queue_job(slurm: OneMachineSlurm) -> None:
    names = slurm.run(["srun", "-p", "main", "-N8", "sh", "-c", "echo $SLURMD_NODENAME"]).split()
    assert sorted(names) == slurm.names


def test_the_main_queue_takes_nodes_from_the_harvest_partition(
    slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    script = tmp_path / "pilot"
    script.write_text("#!/bin/sh\nexec sleep 100\n")
    for _ in slurm.names:
        slurm.run(["sbatch", "-p", "harvest", "-N1", "-o", "/dev/null", str(script)])
    slurm.wait_until(lambda: set(slurm.node_states().values()) == {"allocated"}, "pilots run", 60.0)
    begun = time.monotonic()
    slurm.run(["srun", "-p", "main", "-N2", "true"])
    assert time.monotonic() - begun < patience(5.0)
    assert len(slurm.run(["squeue", "-h", "-p", "harvest", "-t", "R"]).splitlines()) == 6


def test_slurmctld_and_a_killed_node_come_back(slurm: OneMachineSlurm) -> None:
    slurm.end("slurmctld")
    assert not slurm.answers()
    slurm.start_slurmctld()
    slurm.wait_until_idle()
    slurm.kill("n3")
    slurm.start_slurmd("n3")
    slurm.wait_until_idle()
    slurm.run(["srun", "-p", "main", "-w", "n3", "true"])


def test_a_command_that_fails_says_why(slurm: OneMachineSlurm) -> None:
    with pytest.raises(SlurmFailed, match="invalid partition"):
        slurm.run(["srun", "-p", "nowhere", "true"])


def test_a_node_that_slurm_drained_because_it_lost_a_number_is_resumed_and_no_other(
    slurm: OneMachineSlurm,
) -> None:
    for node, reason in (("n2", "Duplicate jobid"), ("n3", "disk")):
        slurm.run(["scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}"])
    slurm.resume_drained()
    slurm.wait_until(lambda: slurm.node_states()["n2"] == "idle", "n2 is idle", 30.0)
    assert slurm.node_states()["n3"] == "drained"
    slurm.run(["scontrol", "update", "nodename=n3", "state=resume"])
