"""Which machines every job of a matching plan holds, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from apportion.instances.matching.schema import MatchingInstance

__all__ = ["Placed", "machine_name", "schedule"]


class Placed(NamedTuple):
    """Where and when a job runs.

    Attributes
    ----------
    pool
        The pool.
    machines
        Indices of the machines it holds, from 0.
    begin, end
        Seconds; where costs or values are weighed, what is used of a machine before it and with it.
    """

    pool: str
    machines: tuple[int, ...]
    begin: float
    end: float


def schedule(instance: MatchingInstance, plan: Mapping[str, Any]) -> dict[str, Placed]:
    """Return where the jobs of a feasible plan run; those that are left out are not there.

    Jobs whose start the plan does not say run one after another, in the order of the instance.
    """
    counts = {machine.id: machine.count for machine in instance.machines}
    timed = instance.objective == "makespan"
    starts, indices = plan.get("start_s", {}), plan.get("machine_index", {})
    filled: dict[tuple[str, int], float] = {}
    placed: dict[str, Placed] = {}
    for job in instance.jobs:
        pool = plan["assignment"].get(job.id)
        if pool is None:
            continue
        entry = job.on[pool]
        index = indices.get(job.id, list(range(entry.gpus)) if entry.gpus == counts[pool] else 0)
        machines = tuple(index) if isinstance(index, list | tuple) else (index,)
        timed_start = timed and job.id in starts
        begin = float(starts[job.id]) if timed_start else max(filled.get((pool, k), 0.0) for k in machines)
        end = begin + (float(entry.time_s or 0.0) if timed else float(entry.uses))
        filled.update(((pool, k), end) for k in machines)
        placed[job.id] = Placed(pool, machines, begin, end)
    return placed


def machine_name(pool: str, index: int, count: int) -> str:
    """Return ``v100[3]``, or ``v100`` of a pool with one machine."""
    return pool if count == 1 else f"{pool}[{index}]"
