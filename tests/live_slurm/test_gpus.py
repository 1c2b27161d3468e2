"""Nodes with several GPUs on a real Slurm: taken one by one, shared with the main queue, never used twice."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from paper_repro.malletrain.harvesting import Harvest, numpy_trainer
from paper_repro.malletrain.one_machine import OneMachineSlurm, SlurmFailed, missing_programs
from paper_repro.malletrain.slurm_files import Hardware

from apportion.live.slurm.cluster import SlurmCluster
from tests.patience import slower

NODES = (
    Hardware(cpus=8, memory_mib=4000, gpus=4, features=("fast",)),
    Hardware(cpus=4, memory_mib=4000, gpus=2, features=("rack2", "slow")),
    Hardware(cpus=2, memory_mib=500),
)
NOTES_ITS_DEVICE = """
import os, pathlib, runpy, sys
at = pathlib.Path(os.environ["SEEN"])
names = "APPORTION_GENERATION", "APPORTION_RANK", "CUDA_VISIBLE_DEVICES"
told = [os.environ.get(name, "") for name in names]
node = os.environ["APPORTION_NODES"].split(",")[int(told[1])]
(at / ".".join([os.environ["APPORTION_JOB"], *told, node])).touch()
sys.argv = sys.argv[1:]
runpy.run_module("apportion.live.trainers.numpy_mlp", run_name="__main__")
"""


@pytest.fixture(scope="module")
def gpus() -> Iterator[OneMachineSlurm]:
    """Two nodes with four and two GPUs, and one without any."""
    if missing := missing_programs():
        pytest.skip(f"no Slurm on this machine ({', '.join(missing)} missing): bash .ci/slurm installs it")
    if os.getuid() != 0:
        pytest.skip("only root can make the devices that stand for GPUs")
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as folder,
        OneMachineSlurm(Path(folder) / "c", hardware=NODES, slowness=slower) as started,
    ):
        yield started


@pytest.fixture
def harvest(gpus: OneMachineSlurm, tmp_path: Path) -> Iterator[Harvest]:
    with Harvest(gpus, tmp_path, "--gres", "gpu", "--policy", "equal-share") as made:
        yield made
    gpus.reset()


def devices(seen: Path) -> list[tuple[str, str, str, str, str]]:
    """Return job, generation, rank, GPU and node of every rank that was started."""
    found = []
    for path in seen.iterdir():
        job, generation, rank, gpu, node = path.name.split(".")
        found.append((job, generation, rank, gpu, node))
    return found


def trainer(folder: Path) -> tuple[list[str], list[str], Path]:
    """Return a trainer that notes its device, the options of `submit` that go with it, and where it notes."""
    (seen := folder / "seen").mkdir()
    (script := folder / "train.py").write_text(NOTES_ITS_DEVICE)
    own = numpy_trainer("1:400,2:760,4:1400,6:1900")[3:]
    more = ["--env", f"SEEN={seen}", "--env", "CUDA_VISIBLE_DEVICES=7"]
    return [sys.executable, str(script), "numpy_mlp", *own], more, seen


@pytest.mark.slow
def test_a_job_trains_on_the_gpus_of_two_nodes_and_the_main_queue_takes_one_back(
    harvest: Harvest, gpus: OneMachineSlurm, tmp_path: Path
) -> None:
    command, more, seen = trainer(tmp_path)
    job = harvest.submit(None, command, most=6, more=[*more, "--curve", "1:400,2:760,4:1400,6:1900"])
    harvest.start()
    harvest.until(lambda jobs: len(jobs[job]["nodes"]) == 6, "it trains on all six GPUs")
    assert sorted(harvest.jobs()[job]["nodes"]) == ["n1"] * 4 + ["n2"] * 2
    ours = gpus.run(["squeue", "-h", "-p", "harvest", "-o", "%b %C %m"]).splitlines()
    assert sorted(ours) == ["gres:gpu:1 2 1000M"] * 4 + ["gres:gpu:1 2 2000M"] * 2
    main = ["srun", "-u", "-p", "main", "--nodelist=n1", "--gres=gpu:1", "--cpus-per-task=1", "--mem=100"]
    main += ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 1200"]
    with subprocess.Popen(main, env=gpus.environment(), stdout=subprocess.PIPE, text=True) as taking:
        assert taking.stdout is not None
        used = taking.stdout.readline().strip()
        assert used in {"0", "1", "2", "3"}

        def of_five() -> list[tuple[str, str, str, str, str]]:
            shrunk = {
                str(event["generation"]) for event in harvest.events("started") if len(event["nodes"]) == 5
            }
            return [row for row in devices(seen) if row[1] in shrunk]

        gpus.wait_until(lambda: len(of_five()) >= 5, "it goes on with the GPUs that are left", 60.0)
        taking.terminate()
    generations = {generation for _, generation, *_ in devices(seen)}
    assert used not in {gpu for *_, gpu, node in of_five() if node == "n1"}
    for generation in generations:
        ranks = [(gpu, node) for _, number, _, gpu, node in devices(seen) if number == generation]
        assert len(set(ranks)) == len(ranks), f"a GPU has two ranks in generation {generation}: {ranks}"
    harvest.until(lambda jobs: len(jobs[job]["nodes"]) == 6, "it has all six again")
    assert not {gpu for *_, gpu, _ in devices(seen)} & {"", "7"}, (
        "each rank has the GPU that Slurm gave its pilot"
    )
    harvest.drain()
    gpus.wait_until(lambda: not harvest.pilots(), "all GPUs are given back", 60.0)


@pytest.mark.slow
def test_what_a_job_needs_is_asked_for_and_what_fits_no_node_is_refused(
    harvest: Harvest, gpus: OneMachineSlurm
) -> None:
    harvest.start()
    small = harvest.submit(None, numpy_trainer(), most=2)
    harvest.until(lambda jobs: len(jobs[small]["nodes"]) == 2, "a job of modest needs runs")
    large = harvest.submit(None, numpy_trainer(), most=2, more=["--cpus-per-rank", "3"])
    jobs = harvest.until(lambda jobs: len(jobs[large]["nodes"]) > 0, "so does one of larger needs")
    assert jobs[large]["cpus_per_rank"] == 3
    asked = gpus.run(["squeue", "-h", "-p", "harvest", "-t", "R", "-o", "%C"]).split()
    assert asked.count("3") >= len(jobs[large]["nodes"])
    with pytest.raises(SlurmFailed, match=r"exit code 3.*\$\.cpus_per_rank.*largest node has 8") as refused:
        harvest.submit(None, numpy_trainer(), more=["--cpus-per-rank", "9"])
    assert "Traceback" not in str(refused.value)
    harvest.drain()
    gpus.wait_until(lambda: not harvest.pilots(), "all GPUs are given back", 60.0)


@pytest.mark.slow
def test_nodes_of_two_types_run_jobs_that_name_them(harvest: Harvest, gpus: OneMachineSlurm) -> None:
    harvest.start("--types", "fast,slow")
    fast = ["--curve", "fast=1:400,2:760,4:1400", "--curve", "slow=1:100,2:190"]
    first = harvest.submit(None, numpy_trainer(), most=4, more=fast)
    second = harvest.submit(None, numpy_trainer(), most=4, more=["--curve", "slow="])
    jobs = harvest.until(
        lambda jobs: len(jobs[first]["nodes"]) == 4 and len(jobs[second]["nodes"]) == 2,
        "all six GPUs are used",
    )
    assert (set(jobs[first]["nodes"]), jobs[first]["type"]) == ({"n1"}, "fast")
    assert (set(jobs[second]["nodes"]), jobs[second]["type"]) == ({"n2"}, "slow")
    with pytest.raises(SlurmFailed, match=r"exit code 3.*\$\.curves.*fast, slow"):
        harvest.submit(None, numpy_trainer(), more=["--curve", "h100=1:900"])
    harvest.drain()
    gpus.wait_until(lambda: not harvest.pilots(), "all GPUs are given back", 60.0)


@pytest.mark.slow
def test_reservations_and_planned_jobs_say_when_nodes_are_wanted(
    gpus: OneMachineSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", gpus.environment()["SLURM_CONF"])
    (script := tmp_path / "main").write_text("#!/bin/sh\nexec sleep 100\n")
    whole = [
        "sbatch",
        "-p",
        "main",
        "--time=3",
        "--nodelist=n1",
        "--exclusive",
        "-o",
        "/dev/null",
        str(script),
    ]
    later = "ReservationName=later StartTime=now+600 Duration=10 Users=nobody Nodes=n2"
    gpus.run(["scontrol", "create", "reservation", *later.split()])
    try:
        gpus.run(whole)
        gpus.wait_until(lambda: "n1" in gpus.run(["squeue", "-h", "-t", "R", "-o", "%N"]), "it runs", 60.0)
        gpus.run(whole)
        start = ["squeue", "-h", "--start", "-o", "%Y"]
        gpus.wait_until(lambda: "n1" in gpus.run(start), "the second one is planned", 60.0)
        cluster = SlurmCluster("harvest", "0a0b0c0d", tmp_path, "h:1", "", gres="gpu")
        seen = cluster.look()
        assert set(seen.wanted_in_s) == {"n1", "n2"}
        assert 0 < seen.wanted_in_s["n1"] <= 180
        assert 180 < seen.wanted_in_s["n2"] <= 600
        assert "n1" not in seen.idle
    finally:
        gpus.run(["scontrol", "delete", "ReservationName=later"])
        gpus.reset()
