"""The whole loop with real agents and trainers, and four small programs in the place of Slurm's."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apportion.cli.main import main
from apportion.live.controller.controller import Controller, Stepped
from apportion.live.controller.core import Limits
from apportion.live.controller.harvest import Settings, harvest
from apportion.live.record.store import in_use
from tests.cli.calling import call
from tests.patience import patience, slowdown, wait_until

PROGRAM = """#!{python} -SE
import json, os, pathlib, signal, subprocess, sys
here = pathlib.Path({here!r})
name = pathlib.Path(sys.argv[0]).name
words = sys.argv[1:]
option = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
jobs = [json.loads(path.read_text()) for path in sorted(here.glob("*.job"))]


def lives(job):
    try:
        return pathlib.Path("/proc", str(job["pid"]), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if name == "sinfo":
    if "--json" in words:
        sys.exit("sinfo: unrecognized option '--json'")
    held = {{job["node"] for job in jobs if lives(job)}}
    for node in ("n1", "n2", "n3"):
        print(node + "|" + ("allocated" if node in held else "idle"))
elif name == "squeue":
    if "--json" in words:
        sys.exit("squeue: unrecognized option '--json'")
    for job in jobs:
        state = "RUNNING" if lives(job) else "COMPLETED"
        print("|".join((str(job["id"]), state, job["node"], job["node"], job["name"])))
elif name == "sbatch":
    script = next(index for index, word in enumerate(words) if not word.startswith("-"))
    assert option["export"] == "ALL"
    child = subprocess.Popen(
        words[script:],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    job = dict(id=len(jobs) + 1, pid=child.pid, node=option["nodelist"], name=option["job-name"])
    (here / f"{{job['id']:05d}}.job").write_text(json.dumps(job))
    print(job["id"])
elif name == "scancel":
    for job in jobs:
        if str(job["id"]) == words[-1] and lives(job):
            os.kill(job["pid"], signal.SIGTERM)
"""


class Little:
    """A scheduler of three nodes whose pilots are processes of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.programs = folder, folder / "bin"
        self.programs.mkdir()
        for name in ("sinfo", "squeue", "sbatch", "scancel", "scontrol"):
            program = self.programs / name
            program.write_text(PROGRAM.format(python=sys.executable, here=str(folder)))
            program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def pilots(self) -> list[int]:
        """Return the processes of pilots that live."""
        listed = [json.loads(path.read_text())["pid"] for path in sorted(self.folder.glob("*.job"))]
        found = []
        for pid in listed:
            try:
                fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                found.append(pid)
        return found


@pytest.fixture
def little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: Path) -> Iterator[Little]:
    if not Path("/proc/self/stat").exists():
        pytest.skip("no /proc: these programs tell by it which pilots live")
    scheduler = Little(tmp_path)
    monkeypatch.setenv("PATH", f"{scheduler.programs}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(root / "src"))
    yield scheduler
    for pid in scheduler.pilots():
        os.kill(pid, signal.SIGKILL)


LIMITS = Limits(interval_s=0.2, warm_up_s=0.3, measure_s=0.7, lease_s=10.0, linger_s=2.0, gap_s=0.2)


def submit(folder: Path, directory: Path, samples: int) -> str:
    called = call(
        main,
        *("submit", "--state", folder, "--max", 3, "--samples", samples, "--directory", directory, "--"),
        *(sys.executable, "-m", "apportion.live.trainers.numpy_mlp", "--rates", "1:800,2:1500,3:2000"),
    )
    assert called.code == 0, called.err
    return called.out.strip()


def jobs(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(call(main, "queue", "--state", folder, "--json").out)["jobs"]
    return found


def drain_when_done(folder: Path, limit_s: float = 60.0) -> threading.Thread:
    def watch() -> None:
        wait_until(lambda: all(job["ended_s"] for job in read_jobs(folder)), limit_s)
        from apportion.live.record.requests import Drain, leave

        leave(folder, Drain())

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def read_jobs(folder: Path) -> list[dict[str, Any]]:
    from apportion.live.record.requests import listing
    from apportion.live.record.store import read_state

    state = read_state(folder)
    return [{"ended_s": None}] if state is None or not state.jobs else listing(state)


def test_jobs_are_harvested_profiled_and_drained(little: Little, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    # trainers keep to their curve by the clock: on a busy one they would be over before a rate is measured
    goal = round(9000 * slowdown())
    ids = [submit(folder, tmp_path, goal), submit(folder, tmp_path, 2000)]
    told: list[dict[str, object]] = []

    def on_step(controller: Controller, stepped: Stepped) -> None:
        told.extend(stepped.events)

    watch = drain_when_done(folder)
    harvest(Settings(folder, "harvest", limits=LIMITS), on_step=on_step)
    watch.join()
    done = jobs(folder)
    assert [(job["id"], job["state"], job["samples"]) for job in done] == [
        (ids[0], "done", goal),
        (ids[1], "done", 2000),
    ], told[-20:]
    assert all(job["failures"] == 0 and job["trusted"] for job in done)
    assert done[0]["curve"], "it was measured"
    assert max(job["restarts"] for job in done) > 1, "and resized"
    assert not little.pilots()
    assert not in_use(folder)


HARVEST = """
import os, signal, sys
from pathlib import Path
from apportion.live.controller.harvest import Settings, harvest
from apportion.live.controller.core import Limits
calls = 0
def at(point):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
limits = Limits(interval_s=0.2, warm_up_s=0.3, measure_s=0.7, lease_s=10.0, linger_s=2.0, gap_s=0.2)
harvest(Settings(Path(sys.argv[1]), "harvest", limits=limits), at=at)
"""


@pytest.mark.slow
def test_a_controller_that_is_killed_again_and_again(little: Little, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    submit(folder, tmp_path, 3000)
    for calls in (5, 14, 40):
        done = subprocess.run([sys.executable, "-c", HARVEST, str(folder), str(calls)], check=False)
        assert done.returncode == -signal.SIGKILL
    watch = drain_when_done(folder)
    harvest(Settings(folder, "harvest", limits=LIMITS))
    watch.join()
    (job,) = jobs(folder)
    assert (job["state"], job["samples"], job["durable"], job["failures"]) == ("done", 3000, 3000, 0)
    assert not little.pilots()


@pytest.mark.slow
def test_what_a_dead_controller_held_is_drained(little: Little, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    submit(folder, tmp_path, 10**9)
    subprocess.run([sys.executable, "-c", HARVEST, str(folder), "90"], check=False)
    assert little.pilots()
    called = call(main, "drain", "--state", folder)
    assert called.code == 0
    assert "3 pilots" in called.out
    assert wait_until(lambda: not little.pilots())


def test_sigterm_drains(little: Little, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    submit(folder, tmp_path, 10**9)
    with subprocess.Popen([sys.executable, "-c", HARVEST, str(folder), "-1"]) as controller:
        assert wait_until(lambda: any(job.get("samples") for job in read_jobs(folder)), 20.0)
        controller.terminate()
        assert controller.wait(patience(20.0)) == 0
    (job,) = jobs(folder)
    assert job["state"] == "queued"
    assert job["samples"] == job["durable"] > 0
    assert not little.pilots()


def test_what_was_harvested_is_kept_told_to_prometheus_and_drawn(little: Little, tmp_path: Path) -> None:
    folder, metrics = tmp_path / "state", tmp_path / "apportion.prom"
    first = submit(folder, tmp_path / "a", 3000)
    watch = drain_when_done(folder)
    settings = Settings(folder, "harvest", limits=LIMITS, metrics=metrics, account_s=0.5)
    harvest(settings)
    watch.join()
    trained = next(job["samples"] for job in read_jobs(folder) if job["id"] == first)
    told = json.loads(call(main, "harvested", "--state", str(folder), "--json").out)
    assert told["samples"][first] - told["undone"].get(first, 0) == trained
    assert 0 < told["used"][first] <= told["total"]["held"] * (1 + 1e-9)
    assert told["watched_h"] > 0
    page = tmp_path / "week.html"
    assert call(main, "harvested", "--state", str(folder), "-o", str(page)).code == 0
    text = page.read_text()
    assert first in text and "node hours harvested" in text and "http" not in text
    lines = [line.rsplit(" ", 1) for line in metrics.read_text().splitlines() if not line.startswith("#")]
    values = {name: float(value) for name, value in lines}
    assert values["apportion_harvest_samples_total"] == told["samples"][first]
    assert values['apportion_harvest_node_seconds_total{state="used"}'] == pytest.approx(
        told["used"][first] * 3600, abs=0.1
    )
    assert values['apportion_harvest_jobs{state="done"}'] == 1
    assert values['apportion_harvest_nodes{state="held"}'] == 0  # drained
    assert values["apportion_harvest_decisions_total"] >= 1
    assert values['apportion_harvest_slurm_seconds_count{asked="look"}'] >= 3
    assert values['apportion_harvest_events_total{event="take"}'] >= 1
