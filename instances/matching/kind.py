"""Matching in the table of kinds.

Small changes to a matching instance: machines come and go, capacities change, jobs are held to a pool.

A capacity is named ``POOL``: the room on each of its machines where costs or values are weighed under a
capacity, else its number of machines. ``POOL.count`` and ``POOL.capacity`` say which one is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from apportion.core.errors import InvalidInstance, Problem, did_you_mean, quoted_names
from apportion.instances.fields import LARGEST_CAPACITY, remade
from apportion.instances.kind import Edits, JobRules, ProblemType, Wording
from apportion.instances.matching import check
from apportion.instances.matching.bounds import parts
from apportion.instances.matching.schema import (
    OPTION_SET,
    MatchingEntry,
    MatchingInstance,
    MatchingJob,
    MatchingMachine,
    check_job,
    check_machines,
    check_quotas,
)
from apportion.instances.options import Place

if TYPE_CHECKING:
    from apportion.instances.columns import Columns

__all__ = ["EDITS", "LEFT_OUT", "MATCHING", "columns"]


LEFT_OUT = "-"
"""What leaving a job out is called."""


def _capacities(instance: MatchingInstance) -> dict[str, int]:
    """Return how much there is of every capacity, by the names that change it."""
    amounts: dict[str, int] = {}
    for pool in instance.machines:
        amounts[pool.id] = _amount(instance, pool)
    for pool in instance.machines:
        amounts.setdefault(f"{pool.id}.count", pool.count)
        if pool.capacity is not None:
            amounts.setdefault(f"{pool.id}.capacity", pool.capacity)
    return amounts


def _change_capacity(instance: MatchingInstance, name: str, present: int, delta: int) -> MatchingInstance:
    """Return the instance with a capacity changed; a pool without machines is gone.

    A job that needs more machines of a pool than are left can no longer run there.
    """
    wanted = present + delta
    pool, of_count = _meant(instance, name)
    if wanted > LARGEST_CAPACITY:
        raise InvalidInstance.at(
            f"$.machines.{pool.id}", f"at most {LARGEST_CAPACITY} can be had, not {wanted}"
        )
    if of_count:
        return _with_count(instance, pool, wanted)
    return remade(
        instance,
        machines=tuple(
            replace(machine, capacity=wanted) if machine is pool else machine for machine in instance.machines
        ),
    )


def _remove_machines(instance: MatchingInstance, names: Iterable[str]) -> MatchingInstance:
    """Return the instance without some machines: ``v100[3]`` is one of a pool, ``v100`` all of it.

    Raises
    ------
    InvalidInstance
        If there is no such machine.
    """
    for pool in instance.machines:
        asked = [name for name in names if name == pool.id]
        single = {
            int(found[1])
            for name in names
            if (found := re.fullmatch(re.escape(pool.id) + r"\[(\d{1,10})\]", name)) is not None
        }
        if any(index >= pool.count for index in single):
            raise InvalidInstance.at("$.machines", f"{pool.id!r} has {pool.count} machines, counted from 0")
        names = [name for name in names if name not in asked and not _is_machine(name, pool)]
        gone = pool.count if asked else len(single)
        if gone:
            instance = _with_count(instance, _pool(instance, pool.id), pool.count - gone)
    left = sorted(names)
    if left:
        there = ", ".join(repr(pool.id) for pool in instance.machines[:10]) or "none"
        meant = did_you_mean(left[0], [pool.id for pool in instance.machines])
        reason = f"there is no machine {left[0]!r}; the pools are {there}{meant}"
        raise InvalidInstance.at("$.machines", reason)
    return instance


def _pin(instance: MatchingInstance, choices: Mapping[str, int | str]) -> MatchingInstance:
    """Return the instance with jobs held to one pool each (``"-"``: left out).

    Raises
    ------
    InvalidInstance
        If a job cannot run on its pool, or must not be left out.
    """
    return remade(
        instance,
        jobs=tuple(_held(job, choices[job.id]) if job.id in choices else job for job in instance.jobs),
    )


def _held(job: MatchingJob, wanted: int | str) -> MatchingJob:
    if wanted == LEFT_OUT and not job.required and LEFT_OUT not in job.on:
        return replace(job, on={})
    if wanted not in job.on:
        there = quoted_names([*job.on, *([] if job.required else [LEFT_OUT])]) or "none"
        raise InvalidInstance.at("$.jobs", f"job {job.id!r} cannot run on {wanted!r}; it can run on {there}")
    return replace(job, on={str(wanted): job.on[str(wanted)]}, required=True)


def _amount(instance: MatchingInstance, pool: MatchingMachine) -> int:
    return pool.count if instance.objective == "makespan" or pool.capacity is None else pool.capacity


def _meant(instance: MatchingInstance, name: str) -> tuple[MatchingMachine, bool]:
    """Return the pool of a capacity's name and whether its number of machines is meant."""
    for pool in instance.machines:
        if pool.id == name:
            return pool, instance.objective == "makespan" or pool.capacity is None
    pool_name, _, what = name.rpartition(".")
    return _pool(instance, pool_name), what == "count"


def _pool(instance: MatchingInstance, name: str) -> MatchingMachine:
    return next(pool for pool in instance.machines if pool.id == name)


def _is_machine(name: str, pool: MatchingMachine) -> bool:
    return re.fullmatch(re.escape(pool.id) + r"\[\d{1,10}\]", name) is not None


def _with_count(instance: MatchingInstance, pool: MatchingMachine, count: int) -> MatchingInstance:
    machines = tuple(
        replace(machine, count=count) if machine is pool else machine
        for machine in instance.machines
        if machine is not pool or count
    )
    jobs = instance.jobs
    if count < pool.count:
        jobs = tuple(
            replace(
                job,
                on={
                    name: entry
                    for name, entry in job.on.items()
                    if name != pool.id or 0 < entry.gpus <= count
                },
            )
            if pool.id in job.on
            else job
            for job in jobs
        )
    return remade(instance, machines=machines, jobs=jobs)


def _set_machine(instance: MatchingInstance, machine: MatchingMachine) -> MatchingInstance:
    if all(pool.id != machine.id for pool in instance.machines):
        return remade(instance, machines=(*instance.machines, machine))
    put = tuple(machine if pool.id == machine.id else pool for pool in instance.machines)
    return remade(instance, machines=put)


def _check_machines(
    old: MatchingInstance, new: MatchingInstance, problems: list[Problem]
) -> Callable[[MatchingJob], bool] | None:
    """Note what is wrong with the pools; jobs that name one with fewer machines are to be checked again."""
    check_machines(new, problems)
    counts = {pool.id: pool.count for pool in new.machines}
    if (old.objective, old.divisible) != (new.objective, new.divisible):
        return lambda _: True
    fewer = {pool.id for pool in old.machines if counts.get(pool.id, 0) < pool.count}
    return (lambda job: not fewer.isdisjoint(job.on)) if fewer else None


EDITS = Edits(
    job_type=MatchingJob,
    capacities=_capacities,
    change_capacity=_change_capacity,
    pin=_pin,
    remove_nodes=_remove_machines,
    rules=JobRules(
        check=check_job,
        keep=lambda old, new: (
            (old.machines, old.objective, old.divisible) == (new.machines, new.objective, new.divisible)
        ),
        around=_check_machines,
        tenants=check_quotas,
    ),
    machine_type=MatchingMachine,
    set_machine=_set_machine,
)


def _in_id_order(instance: MatchingInstance) -> MatchingInstance:
    """Sort the jobs, the machines, and the machines that each job names."""
    jobs = tuple(sorted(map(_machines_in_order, instance.jobs), key=lambda job: job.id))
    machines = tuple(sorted(instance.machines, key=lambda machine: machine.id))
    same = all(old is new for old, new in zip(instance.jobs, jobs, strict=True))
    if same and machines == instance.machines:
        return instance
    return replace(instance, machines=machines, jobs=jobs)


def _machines_in_order(job: MatchingJob) -> MatchingJob:
    names = sorted(job.on)
    return job if names == list(job.on) else replace(job, on={name: job.on[name] for name in names})


def _menu(job: MatchingJob) -> Iterator[dict[str, Any]]:
    for machine, entry in job.on.items():
        fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
        yield {"machine": machine, **{name: value for name, value in fields.items() if value is not None}}


MATCHING = ProblemType(
    "matching",
    MatchingInstance,
    lambda instance: bool(instance.objective == "value"),
    check.check,
    check.exact_objective,
    check.exact_bound,
    in_id_order=_in_id_order,
    measure=lambda instance: str(instance.objective),
    edits=EDITS,
    option_set=OPTION_SET,
    parts=parts,
    menu=_menu,
    menu_field="on",
    wording=Wording(units={"makespan": " s"}, node="machine", runs=True),
)


def columns(instance: MatchingInstance) -> Columns:
    """Return the pools that jobs fit on in vectors; those that may be left out are told apart."""
    import numpy as np

    from apportion.instances.columns import Columns, PoolUse

    assert OPTION_SET.goal is not None
    number = {machine.id: at for at, machine in enumerate(instance.machines)}
    room = {machine.id: machine.capacity for machine in instance.machines if machine.capacity is not None}
    jobs = [
        [(name, entry) for name, entry in job.on.items() if name not in room or entry.uses <= room[name]]
        for job in instance.jobs
    ]
    entries = [one for own in jobs for one in own]
    barred = {
        at: [_place(name, entry) for name, entry in job.on.items() if (name, entry) not in own]
        for at, (job, own) in enumerate(zip(instance.jobs, jobs, strict=True))
        if len(own) < len(job.on)
    }
    timed, field = instance.objective == "makespan", instance.field
    count = len(entries)
    return Columns(
        OPTION_SET.goal(instance),
        [job.id for job in instance.jobs],
        np.concatenate(([0], np.cumsum([len(own) for own in jobs]))).astype(np.int64),
        np.zeros(count)
        if timed
        else np.array([getattr(entry, field) for _, entry in entries], dtype=np.float64),
        np.zeros((count, 0), dtype=np.int64),
        (),
        (),
        np.array([not job.required for job in instance.jobs], dtype=np.bool_),
        PoolUse(
            OPTION_SET.pools(instance),
            np.fromiter((number[name] for name, _ in entries), np.int64, count),
            np.fromiter((entry.gpus for _, entry in entries), np.int64, count),
            np.fromiter((entry.uses for _, entry in entries), np.int64, count),
            np.fromiter((entry.time_s or 0.0 for _, entry in entries), np.float64, count),
        ),
        sections=("pools", "cuts", "capacities"),
        names=lambda: [name for name, _ in entries],
        barred=barred,
    )


def _place(name: str, entry: MatchingEntry) -> Place:
    return Place(name, entry.gpus, entry.uses, entry.time_s or 0.0)
