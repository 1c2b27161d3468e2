"""What if: the instance edited, solved before and after, and the two plans compared."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from apportion.core.errors import InvalidInstance, InvalidOption, Problem
from apportion.core.solution import Solution
from apportion.explanation.comparison import Comparison, compare
from apportion.explanation.resolver import Resolver
from apportion.instances import edits
from apportion.instances.edits import Job, add_tenant, change_tenant, job_type
from apportion.instances.kinds import Instance, kind_of
from apportion.instances.tenants.schema import Tenant
from apportion.solving.call import kind_of_any
from apportion.solving.registry import Backend

__all__ = ["job_from", "what_if"]


def job_from(instance: Instance, decoded: Any, source: str) -> Job:
    """Return a job of an instance's kind from a JSON object.

    Parameters
    ----------
    instance
        The instance it is meant for.
    decoded
        The decoded JSON.
    source
        Where it comes from, for the message.

    Raises
    ------
    InvalidInstance
        If it is no job of that kind; rules across its fields are checked when it joins an instance.
    """
    wanted: Any = job_type(instance)
    try:
        job: Job = msgspec.convert(decoded, type=wanted)
    except (msgspec.ValidationError, TypeError, RecursionError) as error:
        raise InvalidInstance(Problem(f"job {source} $", str(error))) from None
    return job


def what_if(
    instance: Instance,
    *,
    add_jobs: Iterable[Job] = (),
    remove_jobs: Iterable[str] = (),
    remove_nodes: Iterable[str] = (),
    capacity: Mapping[str, int] | None = None,
    pin: Mapping[str, int | str] | None = None,
    unpin: Iterable[str] = (),
    budget: Mapping[str, float] | None = None,
    tenant: Mapping[str, Mapping[str, float | int | None]] | None = None,
    add_tenants: Iterable[Tenant] = (),
    solution: Solution | None = None,
    backend: str | Backend = "auto",
    time_limit: float | None = 20.0,
    threads: int = 1,
    seed: int = 0,
) -> Comparison:
    """Solve an instance as it is and with some changes, and say who wins, who loses and by how much.

    The changes apply in this order: lift pins, remove jobs and nodes, change capacities and budgets, add
    jobs, pin.

    Parameters
    ----------
    instance
        An instance.
    add_jobs
        New jobs.
    remove_jobs, unpin
        Job ids.
    remove_nodes
        Node names; of a matching ``v100[3]`` for one machine of a pool, ``v100`` for all of it.
    capacity
        Capacity name to units more (positive) or fewer; for gap filling ``idle_nodes``, for a matching the
        pool, for freezing a GPU type or ``frozen_penalty``.
    pin
        Job id to the option it must get: an option id, a node count, a pool, or ``2xv100, 29 layers frozen``.
    budget
        Of layer freezing: job id to frozen seconds more or fewer of its accuracy budget.
    tenant
        Tenant to its new ``weight``, ``priority``, or ``CAPACITY.guarantee``, ``.borrowing_limit`` and
        ``.lending_limit``; applied after new tenants, before anything else.
    add_tenants
        New tenants.
    solution
        The solution before, if it is known.
    backend, threads, seed
        As in `apportion.solve`, for both solves.
    time_limit
        Seconds for both solves together.

    Raises
    ------
    InvalidInstance
        If something that is named does not exist, or the changed instance is not valid.
    InvalidOption
        If the instance is a bare knapsack, whose jobs have no names.

    Examples
    --------
    >>> import apportion
    >>> from apportion.explanation import what_if
    >>> instance = apportion.MultipleChoiceKnapsackInstance(
    ...     "1", "maximize", {"gpu": 2},
    ...     tuple(
    ...         apportion.KnapsackJob(name, (apportion.KnapsackOption("2gpu", value, {"gpu": 2}),), False)
    ...         for name, value in (("a", 3.0), ("b", 2.0))
    ...     ),
    ... )
    >>> comparison = what_if(instance, capacity={"gpu": 2})
    >>> comparison.change, [job.job for job in comparison.winners]
    (2.0, ['b'])
    """
    if kind_of_any(instance).bare:
        raise InvalidOption(
            f"what-if needs an instance with named jobs, not a bare {type(instance).__name__}"
        )
    resolver, began = Resolver(backend, time_limit, threads, seed), time.perf_counter()
    shared, shared_changes = _tenants_edited(instance, tuple(add_tenants), dict(tenant or {}))
    changed, changes = _edited(
        shared,
        tuple(add_jobs),
        tuple(remove_jobs),
        tuple(remove_nodes),
        dict(capacity or {}),
        dict(pin or {}),
        tuple(unpin),
        dict(budget or {}),
    )
    resolver.set_aside(time.perf_counter() - began)  # reading it takes as long, beside the solve
    before = solution or resolver.first(instance)
    after = resolver.ensured(changed, warm_start=before)
    return compare(before, after, (*shared_changes, *changes))


def _tenants_edited(
    instance: Any,
    new: tuple[Tenant, ...],
    changes: dict[str, Mapping[str, float | int | None]],
) -> tuple[Any, tuple[str, ...]]:
    said = []
    for one in new:
        instance = add_tenant(instance, one)
        said.append(f"tenant {one.id} is added")
    for name, fields in changes.items():
        instance = change_tenant(instance, name, fields)
        said += [
            f"{field} of tenant {name} is {'no limit' if value is None else f'{value:g}'}"
            for field, value in fields.items()
        ]
    return instance, tuple(said)


def _edited(
    instance: Instance,
    new_jobs: tuple[Job, ...],
    old_jobs: tuple[str, ...],
    old_nodes: tuple[str, ...],
    capacity: dict[str, int],
    pins: dict[str, int | str],
    loose: tuple[str, ...],
    budgets: dict[str, float],
) -> tuple[Any, tuple[str, ...]]:
    changes = []
    if loose:
        instance = edits.unpin(instance, loose)
        changes += [f"{job} is not pinned" for job in loose]
    if old_jobs:
        instance = edits.remove_jobs(instance, old_jobs)
        changes += [f"{job} is removed" for job in old_jobs]
    if old_nodes:
        instance = edits.remove_nodes(instance, old_nodes)
        what = kind_of(instance).wording.node
        changes += [f"{what} {node} is removed" for node in old_nodes]
    for pool, delta in capacity.items():
        instance = edits.change_capacity(instance, pool, delta)
        changes.append(f"{pool} {delta:+d}")
    if budgets:
        instance = edits.change_budgets(instance, budgets)
        changes += [f"accuracy budget of {job} {delta:+g} s" for job, delta in budgets.items()]
    if new_jobs:
        instance = edits.add_jobs(instance, new_jobs)
        changes += [f"{job.id} is added" for job in new_jobs]
    if pins:
        instance = edits.pin(instance, pins)
        changes += [f"{job} is pinned to {option}" for job, option in pins.items()]
    return instance, tuple(changes)
