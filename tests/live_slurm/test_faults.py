"""What may go wrong on a real Slurm, made to go wrong; afterwards every sample is where the record says."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from paper_repro.malletrain.harvesting import Harvest, numpy_trainer
from paper_repro.malletrain.main_queue_delay import main_job
from paper_repro.malletrain.one_machine import OneMachineSlurm

from apportion.live.controller.controller import POINTS
from tests.live_slurm.test_harvest import assert_nothing_is_left, assert_trained, slowness
from tests.live_slurm.watching import Witness
from tests.patience import patience

ODD = Path(__file__).parent / "odd_trainers.py"


def odd(mode: str, rates: str = "1:400,2:760,4:1400,8:2400") -> list[str]:
    return [sys.executable, str(ODD), mode, "--rates", rates, "--save-every-s", "1"]


# -- the controller ----------------------------------------------------------------------------------------

KILLED_AT = """
import os, signal, sys
from apportion.live.controller.harvest import Settings, harvest
from apportion.live.controller.core import Limits
from pathlib import Path
state, point, count, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), 0
times = dict(interval_s=0.5, gap_s=1.0, grace_s=5.0, lease_s=30.0, linger_s=2.0, warm_up_s=0.5, measure_s=1.5)
limits = Limits(**times, horizon_s=30.0)
def at(name):
    global count, steps
    steps += name == "heard"
    if steps > 60:  # this point is not passed often enough: die anywhere
        os._exit(3)
    if name == point:
        count -= 1
        if count == 0:
            os.kill(os.getpid(), signal.SIGKILL)
harvest(Settings(state, "harvest", limits=limits), at=at)
"""


def _start_to_be_killed(harvest: Harvest, point: str, count: int) -> None:
    program = [sys.executable, "-c", KILLED_AT, str(harvest.state), point, str(count)]
    harvest.start(program=program)


def test_a_controller_killed_in_the_middle_is_continued_by_the_next(
    harvest: Harvest, slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    harvest.start()
    job = harvest.submit(8_000, numpy_trainer())
    with Witness(tmp_path) as witness:
        harvest.until(lambda jobs: jobs[job]["samples"] > 500, "it trains")
        harvest.kill()
        before = set(witness.ranks())
        main_job(slurm, 1)  # a node goes while nobody looks
        time.sleep(1.0)
        harvest.start()
        jobs = harvest.until_over()
    assert before
    assert_trained(jobs[job])
    harvest.drain()
    assert_nothing_is_left(harvest)


@pytest.mark.slow
def test_killed_at_every_named_point_of_a_step_nothing_is_lost_or_used_twice(
    harvest: Harvest, slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    first = harvest.submit(25_000, numpy_trainer())
    second = harvest.submit(20_000, numpy_trainer("1:300,2:550,4:900,8:1000"))
    died, chance = {}, random.Random(1)
    with Witness(tmp_path) as witness:
        for round_, point in enumerate([*POINTS, *chance.sample(POINTS, len(POINTS))]):
            _start_to_be_killed(harvest, point, 1 + round_ % 3)
            if point in ("releasing", "released", "taking", "taken", "commanding", "commanded"):
                time.sleep(1.0)
                main_job(slurm, 2, "sleep 0.2")  # stirs it: nodes go and come
            assert harvest.process is not None
            died[point] = harvest.process.wait(patience(60.0)) == -signal.SIGKILL or died.get(point, False)
        harvest.start()
        jobs = harvest.until_over(180.0)
    assert died.keys() == set(POINTS)
    print(f"\nkilled at {sorted(point for point, dead in died.items() if dead)}")
    assert sum(died.values()) >= len(POINTS) - 2
    assert_trained(jobs[first])
    assert_trained(jobs[second])
    assert witness.looks > 100
    harvest.drain()
    assert_nothing_is_left(harvest)


@pytest.mark.slow
def test_killed_at_random_moments(harvest: Harvest, slurm: OneMachineSlurm, tmp_path: Path) -> None:
    job = harvest.submit(60_000, numpy_trainer())
    chance = random.Random(2)
    with Witness(tmp_path):
        for _ in range(12):
            harvest.start()
            time.sleep(chance.uniform(0.5, 3.0))
            harvest.kill()
        harvest.start()
        jobs = harvest.until_over(120.0)
    assert_trained(jobs[job])
    harvest.drain()
    assert_nothing_is_left(harvest)


@pytest.mark.slow
def test_without_a_controller_the_nodes_come_back_by_themselves(
    harvest: Harvest, slurm: OneMachineSlurm
) -> None:
    harvest.start("--lease", "4")
    job = harvest.submit(20_000, numpy_trainer())
    harvest.until(lambda jobs: jobs[job]["samples"] > 500, "it trains")
    harvest.kill()
    slurm.wait_until_idle(30.0)
    assert not harvest.agents()
    harvest.start()
    assert_trained(harvest.until_over()[job])


def test_drain_gives_back_what_a_dead_controller_held(harvest: Harvest, slurm: OneMachineSlurm) -> None:
    harvest.start()
    job = harvest.submit(20_000, numpy_trainer())
    harvest.until(lambda jobs: jobs[job]["samples"] > 500, "it trains")
    harvest.kill()
    harvest.command("drain")
    slurm.wait_until_idle(20.0)
    assert harvest.pilots() == []


# -- Slurm -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("how", ["ended", "killed"])
def test_slurmctld_restarted(harvest: Harvest, slurm: OneMachineSlurm, tmp_path: Path, how: str) -> None:
    harvest.start()
    job = harvest.submit(50_000, numpy_trainer())
    with Witness(tmp_path):
        harvest.until(lambda jobs: jobs[job]["samples"] > 500, "it trains")
        if how == "killed":
            time.sleep(
                7.0
            )  # slurmctld writes its state every few seconds: what it has not written it forgets
        (slurm.end if how == "ended" else slurm.kill)("slurmctld")
        before = harvest.jobs()[job]["samples"]
        harvest.until(lambda jobs: jobs[job]["samples"] > before + 500, "training goes on without slurmctld")
        # Slurm's commands try for ten seconds before they give up
        slurm.wait_until(lambda: bool(harvest.events("trouble")), "the controller says so", 40.0)
        slurm.start_slurmctld()
        jobs = harvest.until_over(120.0)
    assert_trained(jobs[job])
    harvest.drain()
    assert_nothing_is_left(harvest)


@pytest.mark.slow
def test_a_slurmd_killed(harvest: Harvest, slurm: OneMachineSlurm, tmp_path: Path) -> None:
    harvest.start("--lease", "8")
    job = harvest.submit(40_000, numpy_trainer())
    with Witness(tmp_path):
        jobs = harvest.until(lambda jobs: jobs[job]["samples"] > 500, "it trains")
        lost = jobs[job]["nodes"][-1]
        slurm.kill(lost)
        for pid in harvest.agents():  # the whole node fails, its agent with it
            if f"SLURMD_NODENAME={lost}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
        harvest.until(lambda jobs: lost not in jobs[job]["nodes"] and jobs[job]["nodes"], "it goes on", 60.0)
        slurm.start_slurmd(lost)
        jobs = harvest.until_over(150.0)
    assert_trained(jobs[job])
    harvest.drain()
    assert_nothing_is_left(harvest)


@pytest.mark.slow
def test_a_slurmd_killed_whose_agent_lives_on(
    harvest: Harvest, slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    """Slurm gives the node up while the rank still runs there: it may not be used twice."""
    harvest.start("--lease", "8")
    job = harvest.submit(40_000, numpy_trainer())
    with Witness(tmp_path):
        jobs = harvest.until(lambda jobs: jobs[job]["samples"] > 500, "it trains")
        lost = jobs[job]["nodes"][-1]
        slurm.kill(lost)
        slurm.wait_until(lambda: slurm.node_states()[lost].startswith("down"), "Slurm sees it", 60.0)
        time.sleep(3.0)
        slurm.start_slurmd(lost)
        jobs = harvest.until_over(150.0)
    assert_trained(jobs[job])
    harvest.drain()
    assert_nothing_is_left(harvest)


@pytest.mark.slow
def test_a_node_taken_back_in_the_middle_of_a_resize(
    harvest: Harvest, slurm: OneMachineSlurm, tmp_path: Path
) -> None:
    harvest.start()
    job = harvest.submit(round(12_000 * slowness(harvest)), odd("slow-stop"))
    taken = 0
    with Witness(tmp_path):
        harvest.until(lambda jobs: jobs[job]["samples"] > 300, "it trains")
        harvest.submit(2_000, numpy_trainer(), most=4)  # the first job has to shrink for it
        for _ in range(3):
            before = len(harvest.events("stopping"))
            try:
                slurm.wait_until(lambda n=before: len(harvest.events("stopping")) > n, "a resize", 25.0, 0.02)
            except Exception:
                break
            nodes = harvest.jobs()[job]["nodes"]
            if nodes:
                slurm.run(["srun", "-p", "main", "-w", nodes[0], "true"])
                taken += 1
        jobs = harvest.until_over(120.0)
    assert taken > 0
    for record in jobs.values():
        assert_trained(record)
    harvest.drain()
    assert_nothing_is_left(harvest)


# -- trainers ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_trainer_that_hangs_is_started_anew(harvest: Harvest, tmp_path: Path) -> None:
    # a trainer that only starts makes no progress either
    harvest.start("--hang", str(max(4.0 * slowness(harvest), patience(4.0))), "--grace", "2")
    job = harvest.submit(4_000, odd("hang-once"))
    with Witness(tmp_path):
        jobs = harvest.until_over(90.0)
    assert_trained(jobs[job])
    assert any("no progress" in event["why"] for event in harvest.events("stopping"))


@pytest.mark.slow
def test_a_trainer_that_lies_wins_nothing_by_it(harvest: Harvest) -> None:
    harvest.start()
    goal = round(6_000 * slowness(harvest))  # that it has time to lie: trainers keep to the clock
    honest = harvest.submit(goal, numpy_trainer())
    liar = harvest.submit(goal, odd("liar"))
    jobs = harvest.until_over(120.0)
    assert_trained(jobs[honest])
    assert not jobs[liar]["trusted"] and jobs[liar]["inconsistent"] > 0
    assert not jobs[liar]["curve"] or max(jobs[liar]["curve"].values()) < 1e6


@pytest.mark.slow
def test_a_trainer_that_floods_reports_delays_nobody(harvest: Harvest) -> None:
    harvest.start()
    honest = harvest.submit(6_000, numpy_trainer())
    flooder = harvest.submit(3_000, odd("flood"))
    jobs = harvest.until(lambda jobs: jobs[flooder]["dropped"] > 100, "the flood is seen", 90.0)
    assert harvest.process is not None
    pages = int(Path(f"/proc/{harvest.process.pid}/statm").read_text().split()[1])
    assert pages * resource.getpagesize() < 400e6
    jobs = harvest.until_over(120.0)
    assert_trained(jobs[honest])
    assert jobs[flooder]["state"] == "done"


# -- the state file ----------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can only be mounted as root")
    yield folder
    for _ in range(50):
        if subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode == 0:
            break
        time.sleep(0.1)


def test_a_full_disk_for_the_state_stops_nothing_that_runs(
    slurm: OneMachineSlurm, tmp_path: Path, small_disk: Path
) -> None:
    with Harvest(slurm, tmp_path) as harvest:
        harvest.state = small_disk / "state"
        harvest.start()
        job = harvest.submit(8_000, numpy_trainer())
        harvest.until(lambda jobs: jobs[job]["samples"] > 500, "it trains")
        full = small_disk / "full"
        descriptor = os.open(full, os.O_WRONLY | os.O_CREAT)
        with pytest.raises(OSError, match="No space left"):
            while True:
                os.write(descriptor, b"x" * 4096)
        os.close(descriptor)
        agents = len(harvest.agents())
        slurm.wait_until(lambda: bool(harvest.events("trouble")), "it says that the disk is full", 20.0)
        time.sleep(3.0)
        assert harvest.process is not None and harvest.process.poll() is None
        assert len(harvest.agents()) == agents > 0
        full.unlink()
        assert_trained(harvest.until_over(90.0)[job])
        harvest.drain()
        assert_nothing_is_left(harvest)


def test_of_controllers_started_together_one_works(harvest: Harvest, slurm: OneMachineSlurm) -> None:
    others = [Harvest(slurm, harvest.folder) for _ in range(3)]
    threads = [threading.Thread(target=other.start) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    try:
        slurm.wait_until(
            lambda: sum(one.process is not None and one.process.poll() is None for one in others) == 1,
            "all but one refuse",
            30.0,
        )
        time.sleep(0.5)
        codes = sorted(one.process.poll() or 0 for one in others if one.process is not None)
        assert codes == [0, 6, 6]
    finally:
        for one in others:
            one.kill()
