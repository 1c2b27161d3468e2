"""Rounds on several types of GPU repeat: no clock, and no other process, decides what a job gets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, thread_time

import numpy as np
import pytest
from paper_repro.joint.speed_table import SpeedTable

from apportion.cluster.policies.rounds.matching import Matching, longest_first
from apportion.cluster.simulation.rounds.job_states import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import parse_nodes
from apportion.cluster.simulation.rounds.simulator import run_cluster

_FASTER = 200.0
"""So many times faster clocks run: a solve that asks them finds its time gone after a few milliseconds."""


def _rounds() -> list[list[float]]:
    """Simulate longest first, whose weights make the hardest knapsacks, for some rounds; when jobs ended."""
    random = np.random.default_rng(5)
    jobs, types = 30, ("a", "b", "c")
    gpus = random.choice([1, 2, 4, 8], jobs, p=[0.5, 0.2, 0.2, 0.1]).astype(np.int64)
    speeds = random.uniform(1.0, 4.0, (jobs, len(types)))
    table = SpeedTable(types, speeds, random.uniform(2_000.0, 9_000.0, jobs), gpus, np.zeros(jobs))
    run = run_cluster(
        Matching(longest_first, gap=0.01),
        parse_nodes("a:1x8,b:1x8,c:1x8"),
        SimulatedJobs(table, table.submitted_s, table.requested_slots, table.believed(speeds)),
        RoundRules(round_s=720.0, restart_s=10.0),
    )
    return [run.completed_s.tolist(), run.restarts.tolist()]


@contextmanager
def _scarce_processor() -> Iterator[None]:
    """Keep three processes at work on the processor that this one may use."""
    allowed = os.sched_getaffinity(0)
    one = {min(allowed)}
    busy = "import os; os.sched_setaffinity(0, {}); print(flush=True)\nwhile os.getppid() == {}: pass"
    others = [
        subprocess.Popen([sys.executable, "-c", busy.format(one, os.getpid())], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    os.sched_setaffinity(0, one)
    try:
        for other in others:
            assert other.stdout is not None
            other.stdout.readline()
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        for other in others:
            other.kill()
            other.communicate()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes are bound to a processor")
def test_a_scarce_processor_simulates_the_same_rounds() -> None:
    alone = _rounds()
    with _scarce_processor():
        assert _rounds() == alone


def test_a_fast_clock_simulates_the_same_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = _rounds()
    monkeypatch.setattr("apportion.solvers.clock.perf_counter", lambda: _FASTER * perf_counter())
    monkeypatch.setattr("apportion.solvers.clock.thread_time", lambda: _FASTER * thread_time())
    assert _rounds() == alone
