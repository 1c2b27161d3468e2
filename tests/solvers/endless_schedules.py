"""Searches for schedules of gangs that end badly: one never comes back, one takes its process with it."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.models.assignment import Assignment
from apportion.solvers.makespan import by_pools
from apportion.solvers.makespan.by_pools import preload, solve

__all__ = ["crashing", "endless", "preload", "solve"]


def endless(
    model: Assignment, options: SolveOptions, start: NDArray[np.int64], least: float, observe: Any = None
) -> None:
    found = by_pools.solve(model, SolveOptions(), start, least)
    observe(found.point, found.objective, least, 0.0)
    while True:
        pass


def crashing(
    model: Assignment, options: SolveOptions, start: NDArray[np.int64], least: float, observe: Any = None
) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)
