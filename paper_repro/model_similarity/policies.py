"""The policies compared: each turns believed times into a schedule, which then runs with the true ones."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import apportion
from apportion.core.interruption import uninterrupted
from apportion.core.solution import Solution
from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine

_GAP = 0.005
"""Relative gap at which a plan is good enough: what times are believed differs by more."""

__all__ = ["POLICIES", "Work", "earliest_finish", "first_come", "greedy", "makespan_lp", "planned"]

Times = NDArray[np.float64]
Gangs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Work:
    """Limits of a plan in what its search does, so that no clock decides.

    Attributes
    ----------
    nodes
        Units of work where every job takes one GPU: nodes, or thousands of steps of the local search.
    steps
        Thousands of steps of the local search, where some job takes several: each changes the lists of one
        or two pools.
    """

    nodes: int = 10
    steps: int = 100


def first_come(believed: Times, true: Times, gangs: Gangs, pools: Gangs, work: Work) -> float:
    """Run jobs in order of arrival on whatever pool can start them first, all architectures alike."""
    return _in_order(np.zeros_like(believed), true, gangs, pools)


def greedy(believed: Times, true: Times, gangs: Gangs, pools: Gangs, work: Work) -> float:
    """Run jobs in order of arrival, each on the free architecture believed to be quickest for it."""
    return _in_order(believed, true, gangs, pools)


def _in_order(preference: Times, true: Times, gangs: Gangs, pools: Gangs) -> float:
    free = pools.copy()
    running: list[tuple[float, int, int]] = []
    now = last = 0.0
    for job in range(true.shape[0]):
        while not (free >= gangs[job]).any():
            now, pool, held = heapq.heappop(running)
            free[pool] += held
        fits = np.flatnonzero(free >= gangs[job])
        chosen = int(fits[np.argmin(preference[job, fits])])
        end = now + float(true[job, chosen])
        free[chosen] -= gangs[job]
        heapq.heappush(running, (end, chosen, int(gangs[job])))
        last = max(last, end)
    return last


def earliest_finish(believed: Times, true: Times, gangs: Gangs, pools: Gangs, work: Work) -> float:
    """Send each job in order of arrival, waiting if need be, where it is believed to end first."""
    free = [np.zeros(int(count)) for count in pools]
    on = np.zeros(true.shape[0], dtype=np.int64)
    for job, gang in enumerate(gangs.tolist()):
        ends = [
            float(np.partition(pool, gang - 1)[gang - 1] + believed[job, k]) if gang <= pool.size else np.inf
            for k, pool in enumerate(free)
        ]
        on[job] = k = int(np.argmin(ends))
        free[k][np.argsort(free[k], kind="stable")[:gang]] = ends[k]
    return max(
        _in_turn(np.flatnonzero(on == pool), true[:, pool], gangs, int(pools[pool]))
        for pool in range(pools.size)
    )


def planned(believed: Times, true: Times, gangs: Gangs, pools: Gangs, work: Work) -> float:
    """Give the believed times to the makespan solver and run its assignment, pool by pool."""
    units = work.steps if (gangs > 1).any() else work.nodes
    solution = _solved(_instance(believed, gangs, pools), units, _GAP)
    plan = solution.require()
    names = [f"j{job}" for job in range(true.shape[0])]
    on = np.array([int(plan["assignment"][name]) for name in names])
    starts = np.array([plan["start_s"][name] for name in names])
    assert solution.objective is not None
    ends = []
    for pool in range(pools.size):
        own = on == pool
        longest, count = np.argsort(-believed[own, pool], kind="stable"), int(pools[pool])
        # longest first errs least where times are believed wrongly; gangs may need the order of the plan
        late = _in_turn(longest, believed[own, pool], gangs[own], count) > (1.0 + _GAP) * solution.objective
        order = np.lexsort((-believed[own, pool], starts[own])) if late else longest
        ends.append(_in_turn(order, true[own, pool], gangs[own], count))
    return max(ends)


def _in_turn(order: Gangs, true: Times, gangs: Gangs, count: int) -> float:
    free = [0.0] * count
    last = 0.0
    for job in order.tolist():
        held = [heapq.heappop(free) for _ in range(int(gangs[job]))]
        end = held[-1] + float(true[job])
        for _ in held:
            heapq.heappush(free, end)
        last = max(last, end)
    return last


def makespan_lp(believed: Times, true: Times, gangs: Gangs, pools: Gangs, work: Work) -> float:
    """Return the makespan of Gavel's linear program: true times, jobs moved between architectures at will."""
    solution = _solved(_instance(true, gangs, pools, divisible=True))
    assert solution.objective is not None
    return solution.objective


def _solved(
    instance: MatchingInstance, units: int | None = None, gap: float = 0.0
) -> Solution[dict[str, Any]]:
    return uninterrupted(
        apportion.solve(instance, time_limit=None, work_limit=units, gap=gap, deterministic=True)
    )


def _instance(times: Times, gangs: Gangs, pools: Gangs, divisible: bool = False) -> MatchingInstance:
    jobs = tuple(
        MatchingJob(
            f"j{job}",
            {
                str(pool): MatchingEntry(time_s=float(times[job, pool]), gpus=int(gangs[job]))
                for pool in range(pools.size)
                if gangs[job] <= pools[pool]
            },
        )
        for job in range(times.shape[0])
    )
    machines = tuple(MatchingMachine(str(pool), count=int(count)) for pool, count in enumerate(pools))
    return MatchingInstance("1", "makespan", machines, jobs, divisible=divisible)


POLICIES: tuple[tuple[str, Callable[[Times, Times, Gangs, Gangs, Work], float], str], ...] = (
    ("first come, first served", first_come, "none"),
    ("architecture-agnostic plan", planned, "agnostic"),
    ("greedy by predicted speed", greedy, "profiled"),
    ("greedy by true speed", greedy, "true"),
    ("earliest predicted finish", earliest_finish, "profiled"),
    ("similarity plan, unknown jobs", planned, "unknown"),
    ("similarity plan, one profile", planned, "profiled"),
    ("the same, cautious", planned, "cautious"),
    ("oracle plan", planned, "true"),
    ("Gavel's makespan program", makespan_lp, "true"),
)
"""Name, policy, and which times it believes."""
