"""Small changes to an instance, as pure functions: what a what-if question is made of.

Every function returns a new instance and leaves the given one as it is. What an edit names must exist:
otherwise `InvalidInstance` says what does not, and what does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.errors import InvalidInstance, did_you_mean, quoted_names
from apportion.instances.draft import Draft, edits_of
from apportion.instances.freezing import FreezingJob
from apportion.instances.gap_filling import GapFillingJob
from apportion.instances.kinds import Instance, kind_of
from apportion.instances.matching import MatchingJob
from apportion.instances.multiple_choice_knapsack import KnapsackJob
from apportion.instances.tenants.schema import JobOfTenant, Quota, Tenant
from apportion.instances.tenants.tree import RELATIVE

if TYPE_CHECKING:
    from apportion.instances.tenants.ledger import TenantLedger

__all__ = [
    "Job",
    "add_jobs",
    "add_tenant",
    "capacities",
    "change_budgets",
    "change_capacity",
    "change_tenant",
    "job_type",
    "pin",
    "pin_of",
    "remove_jobs",
    "remove_nodes",
    "unpin",
    "wider",
]

_QUOTA = ("guarantee", "borrowing_limit", "lending_limit")
Job = GapFillingJob | KnapsackJob | MatchingJob | FreezingJob


def capacities(instance: Instance) -> dict[str, int]:
    """Return how much there is of every capacity, by the names that change it.

    For gap filling ``{"idle_nodes": number of nodes}``; for a matching ``POOL``, ``POOL.count`` and
    ``POOL.capacity``; for freezing the GPU types and ``frozen_penalty``.
    """
    return edits_of(instance).capacities(instance)


def add_jobs(instance: Instance, jobs: Iterable[Job]) -> Instance:
    """Return the instance with more jobs at its end.

    Raises
    ------
    InvalidInstance
        If a job is of another kind, its id is taken, or it breaks a rule of the instance.
    """
    draft = Draft(instance)
    for job in jobs:
        draft.add(job)
    return draft.instance()


def remove_jobs(instance: Instance, ids: Iterable[str]) -> Instance:
    """Return the instance without some jobs; the nodes a removed job holds stay idle nodes.

    Raises
    ------
    InvalidInstance
        If there is no such job.
    """
    draft = Draft(instance)
    for name in dict.fromkeys(ids):
        draft.remove(name)
    return draft.instance()


def remove_nodes(instance: Instance, nodes: Iterable[str]) -> Instance:
    """Return a gap-filling instance without some nodes, or a matching without some machines.

    Jobs that hold such a node lose it. Of a matching, ``v100[3]`` is one machine of a pool, ``v100`` all.

    Raises
    ------
    InvalidInstance
        If there is no such node, or the instance is of a kind without nodes.
    """
    draft = Draft(instance)
    remove_nodes_of(draft, nodes)
    return draft.instance()


def remove_nodes_of(draft: Draft, nodes: Iterable[str]) -> None:
    """Take nodes or machines away from a draft; see `remove_nodes`."""
    remove = draft.edits.remove_nodes
    if remove is None:
        raise InvalidInstance.at("$", "this kind of instance has no nodes; change a capacity instead")
    names = list(dict.fromkeys(nodes))
    draft.change(lambda instance: remove(instance, names))


def change_capacity(instance: Instance, pool: str, delta: int) -> Instance:
    """Return the instance with more or less of one capacity.

    The capacity of gap filling is ``idle_nodes``: new nodes are named ``extra-1``, ``extra-2``, ...; fewer
    means first the nodes nobody holds, from the end of the node list, then held ones from its end. A pool
    of a matching that is left without machines is gone.

    Raises
    ------
    InvalidInstance
        If there is no such capacity, or less than 0 of it would be left.
    """
    draft = Draft(instance)
    change_capacity_of(draft, pool, delta)
    return draft.instance()


def change_capacity_of(draft: Draft, pool: str, delta: int) -> None:
    """Change a capacity of a draft; see `change_capacity`."""
    edits = draft.edits
    present = edits.capacities(draft.base)
    if isinstance(delta, bool) or not isinstance(delta, int):
        raise InvalidInstance.at(f"$.capacities.{pool}", f"a change must be an integer, not {delta!r}")
    if pool not in present:
        there = quoted_names(present) or "none at all"
        meant = did_you_mean(pool, present)
        raise InvalidInstance.at("$.capacities", f"there is no capacity {pool!r}; there is {there}{meant}")
    if present[pool] + delta < 0:
        raise InvalidInstance.at(f"$.capacities.{pool}", f"is {present[pool]}, {-delta} fewer is below 0")
    draft.change_capacity(lambda instance: edits.change_capacity(instance, pool, present[pool], delta))


def change_budgets(instance: Instance, deltas: Mapping[str, float]) -> Instance:
    """Return a layer-freezing round with accuracy budgets changed, by job, in frozen fraction times seconds.

    Raises
    ------
    InvalidInstance
        If there is no such job, it has no budget, less than 0 would be left, or the kind has no budgets.
    """
    draft = Draft(instance)
    draft.require(list(deltas))
    change = draft.edits.change_budgets
    if change is None:
        raise InvalidInstance.at("$", "this kind of instance has no accuracy budgets")
    draft.change_jobs(list(deltas), lambda part: change(part, deltas))
    return draft.instance()


def pin(instance: Instance, choices: Mapping[str, int | str]) -> Instance:
    """Return the instance with jobs pinned to one option each.

    Parameters
    ----------
    instance
        The instance.
    choices
        Job id to its option: an option id; for gap filling a node count (as a number or in digits), for a
        matching a pool, for freezing ``2xv100`` or ``2xv100, 29 layers frozen``.

    Raises
    ------
    InvalidInstance
        If there is no such job, or it has no such option.
    """
    draft = Draft(instance)
    pin_of(draft, choices)
    return draft.instance()


def pin_of(draft: Draft, choices: Mapping[str, int | str]) -> None:
    """Pin some jobs of a draft; see `pin`. Throughputs stay divided by the best rate there was before."""

    def pinned(part: Any) -> Any:
        found = draft.edits.pin(part, choices)
        option_set = kind_of(part).option_set
        fairness = getattr(part, "fairness", UNSET)
        if option_set is None or fairness is UNSET or fairness.share not in RELATIVE:
            return found
        best = {
            job.id: max((option.rate for option in option_set.options(part, job)), default=0.0)
            for job in part.jobs
            if job.id in choices
        }
        for name, job in {job.id: job for job in part.jobs if job.best_rate is not UNSET}.items():
            best[name] = max(best.get(name, 0.0), job.best_rate)
        jobs = [replace(job, best_rate=best[job.id]) if job.id in best else job for job in found.jobs]
        return replace(found, jobs=tuple(jobs))

    draft.change_jobs(list(choices), pinned)


def unpin(instance: Instance, ids: Iterable[str]) -> Instance:
    """Return the instance with the pins of some jobs lifted.

    Raises
    ------
    InvalidInstance
        If there is no such job, or it is not pinned.
    """
    draft = Draft(instance)
    unpin_of(draft, sorted(set(ids)))
    return draft.instance()


def unpin_of(draft: Draft, ids: list[str]) -> None:
    """Lift the pins of some jobs of a draft; see `unpin`."""
    draft.require(ids)
    field = draft.edits.pin_field
    if field is None:
        if ids:
            raise InvalidInstance.at(
                "$.jobs", f"job {quoted_names(ids)} is not pinned: this kind keeps no pins"
            )
        return
    free = [name for name in ids if getattr(draft.job(name), field) is None]
    if free:
        raise InvalidInstance.at("$.jobs", f"job {quoted_names(free)} is not pinned")
    lifted: Any = {field: None}
    for name in ids:
        job = draft.job(name)
        if isinstance(job, JobOfTenant):
            job = replace(job, best_rate=UNSET)
        draft.replace(replace(job, **lifted))


def job_type(instance: Instance) -> type[Job]:
    """Return the type of the jobs of an instance."""
    return edits_of(instance).job_type


def add_tenant(instance: Any, tenant: Tenant) -> Any:
    """Return the instance with one more tenant.

    Raises
    ------
    InvalidInstance
        If its id is taken, its parent is not there, or its guarantee cannot be kept beside the others.
    """
    known = () if instance.tenants is UNSET else instance.tenants
    return replace(instance, tenants=(*known, tenant))


def change_tenant(instance: Any, tenant: str, changes: Mapping[str, float | int | None]) -> Any:
    """Return the instance with a tenant changed.

    Parameters
    ----------
    instance
        The instance.
    tenant
        The tenant's id.
    changes
        ``weight``, ``priority``, or ``CAPACITY.guarantee``, ``CAPACITY.borrowing_limit`` and
        ``CAPACITY.lending_limit``, to their new values; ``None`` for no limit.

    Raises
    ------
    InvalidInstance
        If there is no such tenant or field, or the instance is not valid afterwards.
    """
    known = {} if instance.tenants is UNSET else {one.id: one for one in instance.tenants}
    if tenant not in known:
        said = f"there is no tenant {tenant!r}{did_you_mean(tenant, known)}"
        raise InvalidInstance.at("$.tenants", said)
    changed = known[tenant]
    for name, value in changes.items():
        capacity, _, field = name.rpartition(".")
        fields: Any = {field: value}
        if not capacity and field in ("weight", "priority"):
            changed = replace(changed, **fields)
        elif capacity and field in _QUOTA:
            quota = replace(changed.quotas.get(capacity, Quota()), **fields)
            changed = replace(changed, quotas={**changed.quotas, capacity: quota})
        else:
            said = (
                f"weight, priority and CAPACITY.guarantee, .borrowing_limit or .lending_limit, not {name!r}"
            )
            raise InvalidInstance.at("$.tenants", f"what can be changed of a tenant is {said}")
    return replace(instance, tenants=tuple(changed if one.id == tenant else one for one in instance.tenants))


def wider(instance: Any, ledger: TenantLedger, limit: str, amount: int) -> Any | None:
    """Return the instance with one limit of the ledger wider; ``None`` for one that is no single field."""
    for row in ledger.rows:
        if row.name == limit and (tenant := row.borrower) is not None:
            quota = ledger.tree.nodes[tenant].tenant.quotas[row.capacity]
            more = (quota.borrowing_limit or 0) + amount
            return change_tenant(instance, tenant, {f"{row.capacity}.borrowing_limit": more})
    for name, floor in ledger.fairness.floors.items():
        if ledger.floor_names.get(name) == limit:
            floors = {**ledger.fairness.floors, name: max(0, floor - amount)}
            return replace(instance, fairness=replace(instance.fairness, floors=floors))
    return None
