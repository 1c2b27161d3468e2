"""Pollux' workloads are drawn again as its authors drew them."""

from __future__ import annotations

from pathlib import Path

import pytest
from paper_repro.pollux.drawn_workloads import PhillyJob, drawn, read_philly

from apportion.cluster.estimation.training import read_applications
from apportion.cluster.simulation.rounds.scenario import read_workload


@pytest.mark.parametrize("number", [1, 6])
def test_a_workload_is_drawn_as_it_was_published(data: Path, number: int) -> None:
    profiles = read_applications(data / "pollux")
    published = read_workload(data / "pollux" / "workloads" / f"workload-{number}.csv", profiles)
    assert drawn(read_philly(data / "philly" / "philly_jobs.csv.gz"), number) == published


def test_gpu_time_decides_the_application() -> None:
    hours = {0.99: {"cifar10", "ncf"}, 1.0: {"bert", "deepspeech2"}, 10.0: {"yolov3"}, 100.0: {"imagenet"}}
    for gpu_hours, applications in hours.items():
        jobs = drawn([PhillyJob(second, 3600.0 * gpu_hours) for second in range(500)], 3)
        assert {job.application for job in jobs} == applications and len(jobs) == 160
        assert [job.submitted_s for job in jobs] == sorted(job.submitted_s for job in jobs)
