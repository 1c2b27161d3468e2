"""Jobs harvested on a real Slurm: finished, counted, and no burden to the main queue."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paper_repro.malletrain.harvesting import SRC, Harvest, numpy_trainer
from paper_repro.malletrain.main_queue_delay import main_job, measure
from paper_repro.malletrain.one_machine import OneMachineSlurm, SlurmFailed

from apportion.live.trainers.checkpoints import restore
from apportion.live.trainers.numpy_mlp import State
from tests.live_slurm.watching import Witness
from tests.patience import patience, slowdown_apart

_COMMAND_S = 0.4
"""Seconds that a command takes on an idle machine."""
_SRUN_S = 0.1
"""Seconds that a job of the main queue waits at most on idle nodes of an idle machine (median)."""


def assert_trained(job: dict[str, Any]) -> None:
    """The job is done, and its checkpoint holds the samples that its record says, each trained on once."""
    assert job["state"] == "done", job
    assert job["samples"] == job["durable"] == job["goal"]
    held = restore(Path(job["checkpoint"]), State.read)
    assert held is not None
    assert (held.samples, held.ledger) == (job["goal"], job["goal"] * (job["goal"] - 1) // 2)


def assert_nothing_is_left(harvest: Harvest) -> None:
    """No pilot, no agent, every node idle, and the controller has ended well."""
    assert harvest.process is not None and harvest.process.wait(120.0) == 0
    harvest.slurm.wait_until_idle()
    assert harvest.pilots() == []
    harvest.slurm.wait_until(lambda: not harvest.agents(), "agents are gone", 60.0)


def slowness(harvest: Harvest) -> float:
    """Return how much longer a command takes here and now than on an idle machine, at least 1."""
    begun = time.monotonic()
    harvest.jobs()
    return max(1.0, (time.monotonic() - begun) / _COMMAND_S)


def test_jobs_are_trained_while_the_main_queue_takes_nodes_back(
    harvest: Harvest, slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    harvest.start()
    slower = slowness(harvest)
    # the trainer keeps to its curve by the clock: on a busy one it would be over before a rate is measured
    goal = round(18_000 * slower)
    first = harvest.submit(goal, numpy_trainer())
    second = harvest.submit(3_001, numpy_trainer("1:300,2:400,4:500,8:520"), most=4)
    with Witness(tmp_path) as witness:
        harvest.until(lambda jobs: jobs[first]["samples"] > 1000, "the first job trains")
        taken = main_job(slurm, 6, "sleep 1")
        assert taken - 1.0 < 3.0 * slower  # 0.1 to 0.3 s on an idle machine
        with pytest.raises(SlurmFailed, match="in use by a controller"):
            harvest.command("harvest", "--partition", "harvest", "--json")  # a second one by mistake
        jobs = harvest.until_over(90.0 * slower)
    assert_trained(jobs[first])
    assert_trained(jobs[second])
    assert jobs[first]["restarts"] > 1 and jobs[first]["curve"]
    assert len({job for job, *_ in witness.seen}) == 2
    assert (harvest.state / "state.sqlite3").stat().st_mode & 0o077 == 0
    harvest.drain()
    assert_nothing_is_left(harvest)


def test_a_dry_run_tells_and_takes_nothing(harvest: Harvest, slurm: OneMachineSlurm) -> None:
    job = harvest.submit(1000, numpy_trainer())
    told = json.loads(harvest.command("harvest", "--partition", "harvest", "--dry-run", "--json"))
    assert sorted(told["idle"]) == slurm.names
    assert [one["job"] for one in told["jobs"]] == [job] and told["jobs"][0]["gets"] == 8
    assert harvest.pilots() == []
    with pytest.raises(SlurmFailed, match="no partition 'nowhere'"):
        harvest.command("harvest", "--partition", "nowhere", "--json")


def test_cancel_frees_the_nodes_and_keeps_the_checkpoint(harvest: Harvest, slurm: OneMachineSlurm) -> None:
    # a rank that is killed after it has published its checkpoint, and before it says so, is not believed
    harvest.start("--grace", str(patience(5.0)))
    job = harvest.submit(None, numpy_trainer())
    harvest.until(lambda jobs: jobs[job]["durable"] > 0, "a checkpoint is there")
    harvest.command("cancel", job)
    record = harvest.until_over()[job]
    assert record["state"] == "cancelled", record
    held = restore(Path(record["checkpoint"]), State.read)
    assert held is not None
    assert held.samples == record["durable"], (record, harvest.events("exited"))
    slurm.wait_until_idle()


def _added(slurm: OneMachineSlurm, folder: Path, count: int) -> tuple[float, float, float]:
    """Return the 95th percentile and the median of the added delay, seconds, and how slow nodes are.

    Idle nodes start a job as fast as Slurm's daemons can. What is added is the end of a rank and of its
    agent, one after the other and each in a session of its own, so every hold-up there counts twice.
    """
    (delays,) = measure(slurm, folder, count, 1)
    idle = float(np.median(delays.without))
    added = np.array(delays.harvested) - idle
    slower = max(idle / _SRUN_S, 2.0 * slowdown_apart() - 1.0)
    return float(np.quantile(added, 0.95)), float(np.median(added)), slower


def test_the_main_queue_hardly_waits(harvest: Harvest, slurm: OneMachineSlurm, tmp_path: Path) -> None:
    _, median, slower = _added(slurm, tmp_path, 8)
    assert median < 0.5 * max(slower, slowness(harvest))


@pytest.mark.slow
def test_the_main_queue_waits_less_than_half_a_second_more_in_95_of_100_cases(
    harvest: Harvest, slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    late, _, slower = _added(slurm, tmp_path, 100)
    assert late < 0.5 * max(slower, slowness(harvest))


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed (the extra `torch`)"
)
@pytest.mark.parametrize("how", ["gloo", "torchrun"])
def test_pytorch_jobs_are_harvested(harvest: Harvest, slurm: OneMachineSlurm, how: str) -> None:
    import torch

    trainer = ["-m", "apportion.live.trainers.torch_gloo", "--save-every-s", "1"]
    adapter = ["-m", "apportion.live.trainers.torchrun", "--nnodes", "1:2", "--"]
    command = [sys.executable, *([] if how == "gloo" else adapter), *trainer]
    harvest.start("--grace", "20")
    goal = 150_000
    job = harvest.submit(goal, command, most=2)
    harvest.until(lambda jobs: jobs[job]["samples"] > 1000, "it trains", 90.0)
    main_job(slurm, 7)
    record = harvest.until_over(240.0)[job]
    assert (record["state"], record["samples"]) == ("done", goal), record
    held = restore(Path(record["checkpoint"]), lambda file: torch.load(file, weights_only=True))
    assert held is not None and held["counts"]["ledger"] == goal * (goal - 1) // 2
    assert record["restarts"] >= 2


def _run_python(program: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_controller_imports_no_solver_package_to_submit(harvest: Harvest) -> None:
    program = (
        "import sys\nfrom apportion.cli.main import main\n"
        f"sys.argv = ['apportion', 'submit', '--state', {str(harvest.state)!r}, '--max', '2', '--', 'true']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([name for name in ('ortools', 'highspy', 'scipy', 'pandas') if name in sys.modules])"
    )
    assert _run_python(program, {**os.environ, "PYTHONPATH": str(SRC)}).splitlines()[-1] == "[]"
