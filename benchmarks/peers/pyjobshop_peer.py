"""PyJobShop: unrelated machines as tasks with one mode per machine; gangs as modes of renewable resources."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.core.outcome import Termination
from apportion.instances.matching import MatchingInstance
from benchmarks.peers.task import Answer, CannotTake, Limits, Task, Watch

__all__ = ["solve"]

_STATUS = {
    "Optimal": Termination.OPTIMAL,
    "Feasible": Termination.TIME_LIMIT,
    "Time-limit": Termination.TIME_LIMIT,
    "Unknown": Termination.TIME_LIMIT,
    "Infeasible": Termination.INFEASIBLE,
}
_TENTHS = 10
"""Times are in tenths of a second at the finest; PyJobShop takes whole durations."""


def solve(task: Task, limits: Limits) -> Answer:
    """Write tasks and modes, and let its CP-SAT model minimise the makespan."""
    from pyjobshop import Model

    instance = task.instance
    if not isinstance(instance, MatchingInstance) or instance.objective != "makespan" or instance.divisible:
        raise CannotTake("schedules whole jobs for makespan here")
    watch = Watch()
    scale = _scale(instance)
    m = Model()
    pools: dict[str, Any] = {}
    for machine in instance.machines:
        if machine.capacity is not None:
            raise CannotTake("knows no capacity over a whole schedule")
        pools[machine.id] = m.add_machine() if machine.count == 1 else m.add_renewable(machine.count)
    modes: list[tuple[str, str]] = []
    tasks: dict[str, Any] = {}
    for job in instance.jobs:
        tasks[job.id] = m.add_task()
        for name, entry in job.on.items():
            pool = pools[name]
            duration = round((entry.time_s or 0.0) * scale)
            if type(pool).__name__ == "Machine":
                m.add_mode(tasks[job.id], pool, duration)
            else:
                m.add_mode(tasks[job.id], pool, duration, demands=[entry.gpus])
            modes.append((job.id, name))
    watch.lap("build")
    result = m.solve(
        solver="ortools",
        time_limit=watch.left(limits.seconds),
        display=False,
        num_workers=limits.threads,
        random_seed=limits.seed,
        relative_gap_limit=limits.gap,
    )
    watch.lap("solve")
    status = result.status.value
    bound = None if result.lower_bound is None else float(result.lower_bound) / scale
    if not np.isfinite(result.objective):
        return Answer(termination=_STATUS.get(status, Termination.ERROR), raw_status=status, watch=watch)
    scheduled = result.best.tasks
    plan: dict[str, Any] = {"assignment": {}}
    starts, gangs = {}, {}
    for job, done in zip(instance.jobs, scheduled, strict=True):
        _, pool = modes[done.mode]
        plan["assignment"][job.id] = pool
        starts[job.id] = done.start / scale
        gangs[job.id] = (pool, job.on[pool].gpus, done.start, done.end)
    if any(machine.count > 1 for machine in instance.machines):
        plan["start_s"] = starts
        plan["machine_index"] = _places({machine.id: machine.count for machine in instance.machines}, gangs)
    objective = float(result.objective) / scale
    watch.lap("read_back")
    watch.saw(objective, bound)
    return Answer(
        termination=_STATUS.get(status, Termination.ERROR),
        raw_status=status,
        plan=plan,
        objective=objective,
        bound=bound,
        watch=watch,
    )


def _scale(instance: MatchingInstance) -> int:
    times = np.array([entry.time_s or 0.0 for job in instance.jobs for entry in job.on.values()])
    for scale in (1, _TENTHS):
        if np.allclose(times * scale, np.rint(times * scale), rtol=0, atol=1e-6):
            return scale
    raise CannotTake("takes whole durations, or tenths here")


def _places(counts: dict[str, int], gangs: dict[str, tuple[str, int, int, int]]) -> dict[str, Any]:
    """Name machines for intervals that never need more than there are, by their starts."""
    free_at = {pool: np.zeros(count, dtype=np.int64) for pool, count in counts.items()}
    places: dict[str, Any] = {}
    for job, (pool, gpus, start, end) in sorted(gangs.items(), key=lambda item: item[1][2]):
        held = np.flatnonzero(free_at[pool] <= start)[:gpus]
        free_at[pool][held] = end
        places[job] = int(held[0]) if gpus == 1 and held.size else held.tolist()
    return places
