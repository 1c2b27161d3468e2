"""What tenants share of a matching: the room of its pools, and what their jobs may get of it.

A pool with a capacity has as much room as all its machines together; what a job takes of it is its use of
each machine it holds. A pool without a capacity takes any number of jobs: there is nothing of it to share.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from apportion.errors import Problem
from apportion.instances.fields import LARGEST_CAPACITY
from apportion.instances.tenants.offers import Further, Offer, Offering
from apportion.instances.tenants.rules import check_tenants
from apportion.instances.tenants.schema import Fairness

if TYPE_CHECKING:
    from apportion.instances.matching.schema import MatchingInstance, MatchingJob

__all__ = ["OFFERING", "check_quotas", "machines_by", "rooms"]


def rooms(instance: MatchingInstance) -> dict[str, int]:
    """Return the room of every pool that has a capacity, on all its machines together."""
    return {pool.id: pool.count * pool.capacity for pool in instance.machines if pool.capacity is not None}


def machines_by(pool: str, size: int) -> str:
    """Return what the machines of a pool are called where jobs that use so much of one are counted."""
    return f"machines of {pool} by {size}"


def check_quotas(
    instance: MatchingInstance, problems: list[Problem], touched: Container[str] | None = None
) -> None:
    """Note what is wrong with tenants, and with what belongs to the tenants of all jobs or those touched."""
    before, room = len(problems), rooms(instance)
    check_tenants(instance, room, problems, touched=touched)
    unlimited = {pool.id for pool in instance.machines if pool.capacity is None}
    for place in range(before, len(problems)):
        path = problems[place].path
        if path.rpartition(".quotas.")[2] in unlimited:
            said = "has no capacity, so that there is nothing to guarantee or to limit; give the pool one"
            problems[place] = Problem(path, said)
    if len(problems) > before or (instance.tenants is UNSET and instance.fairness is UNSET):
        return
    if instance.divisible:
        said = "must be false where jobs belong to tenants: levels are found for whole choices"
        problems.append(Problem("$.divisible", said))
    for index, pool in enumerate(instance.machines):
        if room.get(pool.id, 0) > LARGEST_CAPACITY:
            said = f"times its machines must be at most {LARGEST_CAPACITY} where jobs belong to tenants"
            problems.append(Problem(f"$.machines[{index}].capacity", said))
    share = instance.fairness.share if isinstance(instance.fairness, Fairness) else None
    if share == "dominant_share" and not room:
        said = "no pool has a capacity, so nobody has a dominant share; give one, or share out another share"
        problems.append(Problem("$.machines", said))
    if share == "finish_time_ratio" and instance.objective == "makespan":
        said = (
            "cannot be finish_time_ratio of a makespan: a job's end depends on the jobs before it; share out "
            "dominant_share or normalised_throughput"
        )
        problems.append(Problem("$.fairness.share", said))
    for index, job in enumerate(instance.jobs):
        if touched is None or job.id in touched:
            _check_job(f"$.jobs[{index}]", job, instance, share, problems)


def _check_job(
    path: str, job: MatchingJob, instance: MatchingInstance, share: str | None, problems: list[Problem]
) -> None:
    for field in ("preemptible", "stop_cost"):
        if getattr(job, field) is not UNSET:
            problems.append(Problem(f"{path}.{field}", "must be left out: no job of a matching runs already"))
    for name, entry in job.on.items():
        if share in ("normalised_throughput", "finish_time_ratio") and not entry.time_s:
            said = f"is needed, above 0: {share} counts 1 / time_s as the rate"
            problems.append(Problem(f"{path}.on.{name}.time_s", said))
        if instance.objective == "makespan" and entry.gpus > 1:
            said = (
                f"is {entry.gpus}, but jobs of tenants hold one machine at a time where a makespan is asked"
            )
            problems.append(Problem(f"{path}.on.{name}.gpus", said))


def _offers(instance: MatchingInstance, job: MatchingJob) -> Iterator[Offer]:
    """Yield the pools that a job fits on; its rate there is 1 / time_s."""
    limit = {pool.id: pool.capacity for pool in instance.machines}
    for name, entry in job.on.items():
        room = limit[name]
        if room is None or entry.uses <= room:
            value = 0.0 if instance.objective == "makespan" else getattr(entry, instance.field)
            uses = {} if room is None else {name: entry.uses * entry.gpus}
            yield Offer(name, uses, value, 1.0 / entry.time_s if entry.time_s else 0.0)
    if not job.required:
        yield Offer(None, {}, 0.0, 0.0, nothing=True)


def _taken(_: MatchingInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    assignment: Mapping[str, str | None] = plan["assignment"]
    return assignment


def _further(instance: MatchingInstance, name: str) -> Further | None:
    """Return the machines of a pool, counted by the jobs that use much of one."""
    match = re.fullmatch(r"machines of (.+) by ([1-9][0-9]{0,12})", name, re.DOTALL)
    pool = None if match is None else next((one for one in instance.machines if one.id == match[1]), None)
    if match is None or pool is None or pool.capacity is None:
        return None
    size, on = int(match[2]), {job.id: job.on for job in instance.jobs}

    def use(job: str, offer: Offer) -> int:
        entry = on[job][pool.id] if offer.name == pool.id else None
        return entry.gpus if entry is not None and entry.uses >= size else 0

    return Further(pool.count * (pool.capacity // size), use, (pool.id, (size,)))


OFFERING = Offering(
    _offers,
    _taken,
    _further,
    capacities=rooms,
    sums=lambda instance: bool(instance.objective != "makespan"),
)
