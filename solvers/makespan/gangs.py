"""Pools with gangs as cumulative resources: CP-SAT's bound on few jobs, and the pools it would use.

An optional interval for every entry, one per job, pools as cumulative constraints (Baptiste, Le Pape, Nuijten
2001). Its starts are not kept, for a choice is packed by list schedules; its bound holds for any schedule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.options import SolveOptions
from apportion.solvers.general.cp_sat_call import Limits, call, new_model, weighted_sum

__all__ = ["Gangs", "scheduled", "small_enough"]

_JOBS, _ENTRIES = 40, 200
_GRAIN = 2**20
_WORK = 4.0
"""Deterministic seconds of a search without a clock."""


@dataclass(frozen=True, slots=True, eq=False)
class Gangs:
    """Where CP-SAT's best schedule runs the jobs, and a bound on every schedule.

    Attributes
    ----------
    choice
        Where the jobs of its best schedule run, or ``None``.
    bound
        A lower bound on the makespan of any schedule.
    interrupted
        Whether Ctrl-C ended it.
    """

    choice: NDArray[np.int64] | None
    bound: float
    interrupted: bool


def small_enough(model: Assignment) -> bool:
    """Return whether the search is worth its time: few jobs, some of several GPUs, and no capacities."""
    gangs = bool(((model.gpus > 1) & (model.counts[model.machine] > 1)).any())
    return gangs and model.num_jobs <= _JOBS and model.num_options <= _ENTRIES and not model.limited.any()


def scheduled(
    model: Assignment,
    incumbent: NDArray[np.int64],
    least: float,
    options: SolveOptions,
    seconds: float | None,
) -> Gangs:
    """Search all schedules that end no later than the incumbent.

    Parameters
    ----------
    model
        A makespan on pools.
    incumbent
        A choice.
    least
        A known lower bound.
    options
        Seed and gap.
    seconds
        Time limit, ``None`` to bound the work instead.
    """
    native = new_model()
    largest = float(model.values.max(initial=0.0))
    whole = bool((model.values == np.rint(model.values)).all()) and largest < _GRAIN
    # rounded down, no schedule is longer than it was: the bound holds for the true times
    scale = 1.0 if whole or largest == 0 else 2.0 ** math.floor(math.log2(_GRAIN / largest))
    times = np.floor(model.values * scale).astype(np.int64)
    top = math.floor(model.objective(incumbent) * scale)
    low = math.ceil(least - 1e-6) if whole else math.floor(least * scale)
    end = native.new_int_var(min(low, top), top, "")
    taken = [native.new_bool_var("") for _ in range(model.num_options)]
    for first, last in zip(model.offsets[:-1].tolist(), model.offsets[1:].tolist(), strict=True):
        native.add_exactly_one(taken[first:last])
    for pool in range(model.num_machines):
        rows = np.flatnonzero(model.machine == pool).tolist()
        count = int(model.counts[pool])
        busy = [int(times[row] * model.gpus[row]) for row in rows]
        native.add(weighted_sum([taken[row] for row in rows], busy) <= count * end)
        if count > 1:
            spans = [_interval(native, taken[row], int(times[row]), top, end) for row in rows]
            native.add_cumulative(spans, model.gpus[rows].tolist(), count)
    for row, (chosen, job) in enumerate(zip(taken, model.job_of_option().tolist(), strict=True)):
        native.add_hint(chosen, bool(incumbent[job] == row))
    native.minimize(end)
    work = _WORK if seconds is None else None
    said = call(native, Limits(seconds=seconds, work=work, gap=options.gap, seed=options.seed))
    if said.value is None or said.bound is None:
        return Gangs(None, least, said.interrupted)
    held = np.array([bool(said.value(chosen)) for chosen in taken])
    choice = np.full(model.num_jobs, -1, dtype=np.int64)
    choice[model.job_of_option()[held]] = np.flatnonzero(held)
    return Gangs(choice, max(least, said.bound / scale), said.interrupted)


def _interval(native: Any, present: Any, time: int, top: int, end: Any) -> Any:
    start = native.new_int_var(0, max(top - time, 0), "")
    if time > top:
        native.add(present == 0)
    native.add(start + time <= end).only_enforce_if(present)
    return native.new_optional_fixed_size_interval_var(start, time, present, "")
