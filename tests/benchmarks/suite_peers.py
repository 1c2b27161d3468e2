"""Solvers that misbehave, for the tests of the benchmark suite."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
from benchmarks.peers.task import Answer, CannotTake, Limits, Task

from apportion.core.outcome import Termination

_TINY = 6
"""Instances with fewer jobs are the suite's warm-up: there everybody behaves."""


def _nothing() -> Answer:
    return Answer(termination=Termination.TIME_LIMIT, raw_status="nothing")


def crash(task: Task, limits: Limits) -> Answer:
    if task.model.num_jobs < _TINY:
        return _nothing()
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("unreachable")


def hang(task: Task, limits: Limits) -> Answer:
    if task.model.num_jobs >= _TINY:
        time.sleep(60)
    return _nothing()


def overrun(task: Task, limits: Limits) -> Answer:
    """Come back long after the limit, as on a busy machine, but come back."""
    if task.model.num_jobs >= _TINY:
        time.sleep(1.2)
    return _nothing()


def fail(task: Task, limits: Limits) -> Answer:
    raise ValueError("no good")


def refuse(task: Task, limits: Limits) -> Answer:
    raise CannotTake("not mine")


def devour(task: Task, limits: Limits) -> Answer:
    if task.model.num_jobs >= _TINY:
        np.ones(2**33)
    return _nothing()


def lie(task: Task, limits: Limits) -> Answer:
    """Take everything and claim a wonder."""
    return Answer(
        termination=Termination.OPTIMAL,
        raw_status="trust me",
        x=np.ones(task.model.values.size),
        objective=1e12,
        bound=1e12,
    )
