"""The interface's own test, rounds beside enumeration, and what must never stop a workflow."""

from __future__ import annotations

import itertools
import logging
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from snakemake_interface_scheduler_plugins.tests import TestSchedulerBase
from snakemake_scheduler_plugin_apportion import Scheduler, SchedulerSettings

import apportion
from apportion.solvers.strict_order import InOrder


class TestConformance(TestSchedulerBase):
    """What the interface asks of every scheduler."""

    __test__ = True

    def get_scheduler_cls(self) -> type[Scheduler]:
        return Scheduler

    def get_scheduler_settings(self) -> SchedulerSettings:
        return SchedulerSettings(time_limit=10.0)


class File(str):
    def is_flagged(self, flag: str) -> bool:
        return flag == "temp" and self.startswith("temp")


class Job:
    def __init__(self, priority: int, resources: dict[str, Any], files: tuple[str, ...] = ()) -> None:
        self.priority, self.scheduler_resources = priority, resources
        self.input = [File(file) for file in files]


def scheduler(**settings: Any) -> Scheduler:
    return Scheduler(None, SchedulerSettings(**settings), logging.getLogger("apportion.tests"))


def drawn(seed: int, files: bool) -> tuple[list[Job], dict[str, Any], dict[str, int]]:
    rng = random.Random(seed)
    jobs, sizes = [], {}
    for index in range(rng.randint(1, 9)):
        resources = {"_cores": rng.choice([1, 1, 2, 4]), "mem_mb": rng.randint(0, 8) * 100}
        own = (f"temp{index}",) if files and rng.random() < 0.6 else ()
        sizes |= {File(name): rng.randint(0, 5) * 10**9 for name in own}
        jobs.append(Job(rng.choice([0, 0, 1, 5]), resources, own))
    room = {"_cores": rng.randint(1, 8), "mem_mb": rng.randint(2, 16) * 100, "_nodes": sys.maxsize}
    return jobs, room, sizes


def worth(chosen: tuple[Job, ...], sizes: dict[str, int]) -> tuple[int, int, int]:
    freed = sum(sizes[file] for job in chosen for file in job.input)
    return (
        sum(job.priority for job in chosen),
        sum(job.scheduler_resources["_cores"] for job in chosen),
        freed,
    )


@pytest.mark.parametrize("files", [False, True])
def test_the_choice_is_the_best_of_all_by_priorities_then_cores_then_files(files: bool) -> None:
    for seed in range(300):
        jobs, room, sizes = drawn(seed, files)
        chosen = tuple(scheduler(time_limit=10.0).select_jobs(jobs, jobs, room, sizes) or ())
        fitting = [
            some
            for count in range(len(jobs) + 1)
            for some in itertools.combinations(jobs, count)
            if all(
                sum(job.scheduler_resources.get(name, 0) for job in some) <= free
                for name, free in room.items()
            )
        ]
        assert chosen in fitting, seed
        assert worth(chosen, sizes) == max(worth(some, sizes) for some in fitting), seed


def test_what_the_command_line_prioritises_comes_before_any_sum() -> None:
    ordinary = [Job(10**6, {"_cores": 1}) for _ in range(4)]
    first = Job(sys.maxsize, {"_cores": 4})
    assert scheduler().select_jobs([*ordinary, first], [], {"_cores": 4}, {}) == [first]


def test_text_and_unlimited_resources_and_jobs_that_are_too_large() -> None:
    large, fits = Job(9, {"_cores": 9}), Job(0, {"_cores": 1, "gpu_model": "a100", "mem_mb": 5.5})
    room = {"_cores": 4, "gpu_model": "a100", "_nodes": sys.maxsize, "mem_mb": 6}
    assert scheduler().select_jobs([large, fits], [], room, {}) == [fits]
    assert scheduler().select_jobs([large], [], room, {}) == []
    assert scheduler().select_jobs([], [], room, {}) == []


def test_a_failure_is_one_warning_and_no_end_of_the_workflow(caplog: pytest.LogCaptureFixture) -> None:
    ours, broken = scheduler(), Job("no number", {"_cores": 1})  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "apportion.tests"):
        assert ours.select_jobs([broken], [], {"_cores": 1}, {}) is None
        assert ours.select_jobs([broken], [], {"_cores": 1}, {}) is None
    assert [record.getMessage()[:24] for record in caplog.records] == ["apportion chose no jobs,"]


def test_ctrl_c_is_the_workflows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package ends a choice with what it found by then; the workflow has to hear of it too."""
    monkeypatch.setattr(apportion, "solve_in_order", lambda *_, **__: INTERRUPTED)
    with pytest.raises(KeyboardInterrupt):
        scheduler().select_jobs([Job(1, {"_cores": 1})], [], {"_cores": 1}, {})


INTERRUPTED = InOrder(None, (), apportion.Termination.INTERRUPTED)
SNAKEFILE = """
rule all:
    input: expand("done/{k}.txt", k=range(150)), "grouped.txt"
rule make:
    output: temp("made/{k}.txt")
    resources: mem_mb=50
    shell: "echo {wildcards.k} > {output}"
rule use:
    input: "made/{k}.txt"
    output: "done/{k}.txt"
    priority: 5
    threads: 2
    resources: mem_mb=100
    shell: "cp {input} {output}"
rule first:
    output: "first.txt"
    group: "together"
    shell: "echo 1 > {output}"
rule second:
    input: "first.txt"
    output: "grouped.txt"
    group: "together"
    shell: "cp {input} {output}"
"""
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
RUN = [sys.executable, "-m", "snakemake", "--scheduler", "apportion", "--cores", "4"]
RUN += ["--resources", "mem_mb=400", "--rerun-incomplete"]


def test_a_workflow_of_300_jobs_is_interrupted_and_resumes(tmp_path: Path) -> None:
    """Priorities, memory, temporary files and a group; Ctrl-C in the midst of it; then the rest."""
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    done = tmp_path / "done"
    with subprocess.Popen(RUN, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as first:
        end = time.monotonic() + 300
        while (not done.exists() or len(list(done.iterdir())) < 20) and first.poll() is None:
            assert time.monotonic() < end, "no twenty jobs in five minutes"
            time.sleep(0.05)
        first.send_signal(signal.SIGINT)
        said = first.communicate(timeout=120)[1]
    assert first.returncode != 0 and 20 <= len(list(done.iterdir())) < 150, said[-3000:]
    rest = subprocess.run(RUN, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False)
    assert rest.returncode == 0, rest.stderr[-3000:]
    assert "apportion chose no jobs" not in said + rest.stderr
    assert len(list(done.iterdir())) == 150 and (tmp_path / "grouped.txt").exists()
    assert not list((tmp_path / "made").glob("*.txt"))
    again = subprocess.run(RUN, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert again.returncode == 0 and "Nothing to be done" in again.stderr, again.stderr[-3000:]
