"""What makes tenants valid: each broken rule with its JSON path, unreachable guarantees with a reason."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from apportion.core.errors import Problem, did_you_mean
from apportion.instances.fields import check_distinct
from apportion.instances.tenants.ledger import check_floors
from apportion.instances.tenants.schema import JobOfTenant, Tenant
from apportion.instances.tenants.tree import Tree, tree_of

__all__ = ["check_tenants"]

_Listed = Sequence[tuple[int, JobOfTenant]]
"""Jobs with their places in the instance."""


def check_tenants(
    instance: Any,
    capacities: Mapping[str, int],
    problems: list[Problem],
    *,
    rates: bool = True,
    touched: Container[str] | None = None,
) -> None:
    """Note every problem of the fields of `Tenanted` and `TenantedJob`.

    Parameters
    ----------
    instance
        An instance whose other fields have been checked.
    capacities
        How much there is of every capacity that quotas may name.
    problems
        Where problems are noted.
    rates
        Whether its options have rates, so that throughputs can be shared out.
    touched
        The ids of the jobs to go through, where the others are known to be right; all by default.
    """
    jobs = [(index, job) for index, job in enumerate(instance.jobs) if touched is None or job.id in touched]
    if instance.tenants is UNSET:
        if instance.fairness is not UNSET and instance.fairness.over != "jobs":
            problems.append(Problem("$.fairness", 'needs tenants, or over: "jobs"'))
        for index, job in jobs:
            if job.tenant is not UNSET:
                problems.append(Problem(f"$.jobs[{index}].tenant", "the instance has no tenants"))
    else:
        _check_tree(instance, jobs, capacities, problems)
    if instance.fairness is not UNSET:
        _check_fairness(instance, jobs, problems, rates)


def _check_tree(instance: Any, jobs: _Listed, capacities: Mapping[str, int], problems: list[Problem]) -> None:
    tenants = instance.tenants
    before = len(problems)
    for index, tenant in enumerate(tenants):
        for name in tenant.quotas:
            if name not in capacities:
                said = f"is not one of the instance's capacities{did_you_mean(name, capacities)}"
                problems.append(Problem(f"$.tenants[{index}].quotas.{name}", said))
    check_distinct("$.tenants", [tenant.id for tenant in tenants], "tenant id", problems)
    if len(problems) == before:
        _check_parents(tenants, problems)
    if len(problems) == before:
        tree = tree_of(tenants)
        _check_guarantees(tenants, tree, capacities, problems)
        _check_members(jobs, tree, problems)


def _check_parents(tenants: Sequence[Tenant], problems: list[Problem]) -> None:
    parents = {tenant.id: tenant.parent for tenant in tenants}
    for index, tenant in enumerate(tenants):
        if tenant.parent is not None and tenant.parent not in parents:
            meant = did_you_mean(tenant.parent, parents)
            problems.append(
                Problem(f"$.tenants[{index}].parent", f"there is no tenant {tenant.parent!r}{meant}")
            )
    if any(tenant.parent not in parents for tenant in tenants if tenant.parent is not None):
        return
    for index, tenant in enumerate(tenants):
        at, steps = tenant.parent, 0
        while at is not None and at != tenant.id and steps <= len(parents):
            at, steps = parents[at], steps + 1
        if at == tenant.id:
            problems.append(Problem(f"$.tenants[{index}].parent", f"{tenant.id!r} is above itself"))


def _check_guarantees(
    tenants: Sequence[Tenant], tree: Tree, capacities: Mapping[str, int], problems: list[Problem]
) -> None:
    """Note guarantees that cannot be kept together, and by whom."""
    for capacity, total in capacities.items():
        guaranteed = tree.guarantees(capacity)
        for index, tenant in enumerate(tenants):
            quota = tenant.quotas.get(capacity)
            theirs = sum(guaranteed[child] for child in tree.nodes[tenant.id].children)
            if quota is not None and theirs > quota.guarantee:
                message = f"is {quota.guarantee}, but what its children are guaranteed adds up to {theirs}"
                where = f"$.tenants[{index}].quotas.{capacity}.guarantee"
                problems.append(Problem(where, f"{message}: their guarantees cannot all be kept"))
        asked = {root: guaranteed[root] for root in tree.roots if guaranteed[root]}
        if sum(asked.values()) > total:
            who = " + ".join(f"{amount} of {root}" for root, amount in asked.items())
            message = f"guarantees add up to {sum(asked.values())} ({who}), there are {total}"
            problems.append(Problem("$.tenants", f"{capacity}: {message}: they cannot all be kept"))


def _check_members(jobs: _Listed, tree: Tree, problems: list[Problem]) -> None:
    for index, job in jobs:
        where = f"$.jobs[{index}].tenant"
        if job.tenant is UNSET:
            problems.append(Problem(where, "is missing: every job of an instance with tenants names its own"))
        elif job.tenant not in tree.nodes:
            meant = did_you_mean(job.tenant, tree.nodes)
            problems.append(Problem(where, f"there is no tenant {job.tenant!r}{meant}"))
        elif tree.nodes[job.tenant].children:
            below = ", ".join(tree.nodes[job.tenant].children[:3])
            message = f"{job.tenant!r} has children; name one without, below it: {below}"
            problems.append(Problem(where, message))


def _check_fairness(instance: Any, jobs: _Listed, problems: list[Problem], rates: bool) -> None:
    fairness = instance.fairness
    if not rates and fairness.share != "dominant_share":
        message = "the options of this instance have costs and no rates; share out dominant_share"
        problems.append(Problem("$.fairness.share", message))
    if fairness.share == "finish_time_ratio":
        for index, job in jobs:
            if job.finish is UNSET:
                problems.append(Problem(f"$.jobs[{index}].finish", "is missing: finish_time_ratio needs it"))
    check_floors(instance, problems)
