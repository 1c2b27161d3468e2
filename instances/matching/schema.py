"""The matching instance: every job goes to one pool of identical machines, at a time, a cost or a value.

What tenants share of a matching: the room of its pools, and what their jobs may get of it.

A pool with a capacity has as much room as all its machines together; what a job takes of it is its use of
each machine it holds. A pool without a capacity takes any number of jobs: there is nothing of it to share.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator, Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, Struct

from apportion.core.errors import Problem, did_you_mean
from apportion.core.extension_points import loaded
from apportion.instances.fields import (
    LARGEST_CAPACITY,
    Amount,
    AtLeastOne,
    Capacity,
    Name,
    Number,
    Rule,
    Use,
    check_distinct,
    refuse,
)
from apportion.instances.options import DerivedCapacity, Option, OptionSet, Place, Pool
from apportion.instances.tenants.rules import check_tenants
from apportion.instances.tenants.schema import Tenanted, TenantedJob

__all__ = [
    "OPTION_SET",
    "MatchingEntry",
    "MatchingInstance",
    "MatchingJob",
    "MatchingMachine",
    "check_job",
    "check_machines",
    "check_quotas",
    "machines_by",
    "total_capacities",
]


def total_capacities(instance: MatchingInstance) -> dict[str, int]:
    """Return the room of every pool that has a capacity, on all its machines together."""
    return {pool.id: pool.count * pool.capacity for pool in instance.machines if pool.capacity is not None}


def machines_by(pool: str, size: int) -> str:
    """Return what the machines of a pool are called where jobs that use so much of one are counted."""
    return f"machines of {pool} by {size}"


def check_quotas(
    instance: MatchingInstance, problems: list[Problem], touched: Container[str] | None = None
) -> None:
    """Note what is wrong with tenants, and with what belongs to the tenants of all jobs or those touched."""
    before, room = len(problems), total_capacities(instance)
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
    share = None if instance.fairness is UNSET else instance.fairness.share
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
    for field in ("preemptible", "running_s", "stop_cost"):
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


def _options(instance: MatchingInstance, job: MatchingJob) -> Iterator[Option]:
    """Yield the pools that a job fits on; its rate there is 1 / time_s."""
    limit = {pool.id: pool.capacity for pool in instance.machines if pool.capacity is not None}
    for name, entry in job.on.items():
        room = limit.get(name)
        if room is None or entry.uses <= room:
            value = 0.0 if instance.objective == "makespan" else getattr(entry, instance.field)
            uses = {} if room is None else {name: entry.uses * entry.gpus}
            rate = 1.0 / entry.time_s if entry.time_s else 0.0
            yield Option(name, uses, value, rate, place=_place(name, entry))
    if not job.required:
        yield Option(None, {}, 0.0, 0.0, idle=True)


def _taken(_: MatchingInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    assignment: Mapping[str, str | None] = plan["assignment"]
    return assignment


def _derived(instance: MatchingInstance, name: str) -> DerivedCapacity | None:
    """Return the machines of a pool, counted by the jobs that use much of one."""
    match = re.fullmatch(r"machines of (.+) by ([1-9][0-9]{0,12})", name, re.DOTALL)
    pool = None if match is None else next((one for one in instance.machines if one.id == match[1]), None)
    if match is None or pool is None or pool.capacity is None:
        return None
    size = int(match[2])

    def amounts(given: Any) -> Any:
        held, number = given.pool_use, [one.name for one in given.pool_use.pools].index(match[1])
        return held.gang * ((held.pool == number) & (held.use >= size))

    return DerivedCapacity(pool.count * (pool.capacity // size), amounts, (pool.id, (size,)))


def _pools(instance: MatchingInstance) -> list[Pool]:
    """Return the machines; of each so much as jobs can use whose uses are multiples of a number."""
    found = []
    for pool in instance.machines:
        room = pool.capacity
        if room is not None:
            step = math.gcd(*(job.on[pool.id].uses for job in instance.jobs if pool.id in job.on))
            room -= room % step if step else 0
        found.append(Pool(pool.id, pool.count, room))
    return found


def _place(name: str, entry: MatchingEntry) -> Place:
    return Place(name, entry.gpus, entry.uses, entry.time_s or 0.0)


def _barred(_: MatchingInstance, job: MatchingJob, offered: Set[str | None]) -> list[Place]:
    return [_place(name, entry) for name, entry in job.on.items() if name not in offered]


def _goal(instance: MatchingInstance) -> str:
    if instance.divisible:
        return "shares"
    return {"value": "maximize", "cost": "minimize"}.get(instance.objective, instance.objective)


OPTION_SET = OptionSet(
    _options,
    _taken,
    derived=_derived,
    capacities=total_capacities,
    sums=lambda instance: bool(instance.objective != "makespan"),
    goal=_goal,
    pools=_pools,
    barred=_barred,
    columns=lambda instance: loaded("apportion.instances.matching.kind:columns")(instance),
)


_FIELD = {"makespan": "time_s", "cost": "cost", "value": "value"}


class MatchingEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """What one job means to one pool; only the objective's own field must be given.

    Attributes
    ----------
    time_s
        Seconds the job takes there.
    cost
        What it costs there, when costs are minimised.
    value
        What it is worth there, when values are maximised.
    uses
        What it takes of the capacity of each machine it runs on.
    gpus
        How many machines of the pool it holds at the same time.
    """

    time_s: Amount | None = None
    cost: Number | None = None
    value: Number | None = None
    uses: Use = 1
    gpus: AtLeastOne = 1


class MatchingMachine(Struct, frozen=True, forbid_unknown_fields=True):
    """A pool of identical machines.

    Attributes
    ----------
    id
        Unique name, for instance the GPU architecture.
    count
        How many identical machines there are.
    capacity
        Bound on the sum of uses on each of them; null for none.
    """

    id: Name
    count: AtLeastOne = 1
    capacity: Capacity | None = None


class MatchingJob(TenantedJob, frozen=True, forbid_unknown_fields=True):
    """A job and where it can run.

    Attributes
    ----------
    id
        Unique name.
    on
        Its entry by pool; a pool that is not named is forbidden.
    required
        Whether it must run; otherwise it may be left out at no cost and no value.
    tenant, preemptible, running_s, stop_cost, submitted_s, priority, finish, best_rate
        What belongs to its tenant; see `apportion.instances.tenants.schema.TenantedJob`. No job of a matching
        runs already: `preemptible`, `running_s` and `stop_cost` must be left out.
    """

    id: Name
    on: dict[Name, MatchingEntry]
    required: bool = True


class MatchingInstance(Tenanted, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="matching"):
    """Jobs, pools of machines, and what is to be optimised; every semantic rule is checked on construction.

    Attributes
    ----------
    schema_version
        ``"1"``.
    objective
        ``"makespan"`` (minimise the time when the last job ends), ``"cost"`` (minimise) or ``"value"``.
    machines
        The pools.
    jobs
        The jobs.
    divisible
        Whether jobs share machines by fractions of time (makespan only).
    name
        A name for reports.
    tenants, fairness
        Whose jobs they are and what is shared out fairly; see `apportion.instances.tenants.schema.Tenanted`.

    Raises
    ------
    InvalidInstance
        If any rule is broken; all problems are listed with their JSON paths.
    """

    schema_version: Literal["1"]
    objective: Literal["makespan", "cost", "value"]
    machines: tuple[MatchingMachine, ...]
    jobs: tuple[MatchingJob, ...]
    divisible: bool = False
    name: str = ""

    if TYPE_CHECKING:

        @property
        def _planned(self) -> Mapping[str, Mapping[str, Any]]: ...

    def __repr__(self) -> str:
        machines = sum(machine.count for machine in self.machines)
        size = f"{len(self.jobs)} jobs on {machines} machines in {len(self.machines)} pools"
        return f"<MatchingInstance {self.name!r}: {size}, {self.objective}>"

    def __post_init__(self) -> None:
        refuse(self, _rules(self))

    @property
    def field(self) -> str:
        """The entry's field that the objective reads."""
        return _FIELD[self.objective]


def _rules(instance: MatchingInstance) -> Iterator[Rule]:
    """Yield what every instance keeps."""
    yield partial(check_machines, instance)
    yield lambda problems: check_distinct("$.jobs", [job.id for job in instance.jobs], "job id", problems)
    yield partial(check_quotas, instance)
    pools = {pool.id: pool.count for pool in instance.machines}
    for index, job in enumerate(instance.jobs):
        yield partial(_check_entries, f"$.jobs[{index}]", job, instance, pools)


def check_machines(instance: MatchingInstance, problems: list[Problem]) -> None:
    """Note what is wrong with the pools and with what jobs do on them."""
    if instance.divisible and instance.objective != "makespan":
        problems.append(Problem("$.divisible", "applies to the objective makespan only"))
    for index, machine in enumerate(instance.machines):
        if machine.capacity is not None and instance.divisible:
            said = "must be null where jobs are divisible"
            problems.append(Problem(f"$.machines[{index}].capacity", said))
    check_distinct("$.machines", [machine.id for machine in instance.machines], "machine id", problems)


def check_job(path: str, job: MatchingJob, instance: MatchingInstance, problems: list[Problem]) -> None:
    """Note what is wrong with one job of an instance."""
    _check_entries(path, job, instance, {pool.id: pool.count for pool in instance.machines}, problems)


def _check_entries(
    path: str, job: MatchingJob, instance: MatchingInstance, pools: dict[str, int], problems: list[Problem]
) -> None:
    if not job.required and instance.objective == "makespan":
        problems.append(Problem(f"{path}.required", "must be true: leaving a job out always ends earlier"))
    for name, entry in job.on.items():
        where = f"{path}.on.{name}"
        if name not in pools:
            said = f"is not one of the instance's machines{did_you_mean(name, pools)}"
            problems.append(Problem(where, said))
            continue
        if getattr(entry, instance.field) is None:
            said = f"is needed for the objective {instance.objective}"
            problems.append(Problem(f"{where}.{instance.field}", said))
        if instance.divisible and entry.time_s == 0:
            problems.append(Problem(f"{where}.time_s", "must be positive where jobs are divisible"))
        if entry.gpus > pools[name]:
            problems.append(Problem(f"{where}.gpus", f"is {entry.gpus}, the pool has {pools[name]}"))
