"""What makes tenants valid: each broken rule with its JSON path, unreachable guarantees with a reason."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from numbers import Integral
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import force_setattr

from apportion.core.errors import Problem, did_you_mean
from apportion.instances.fields import (
    LARGEST_CAPACITY,
    check_amount,
    check_count,
    check_distinct,
    check_name,
    check_number,
    settle_numbers,
)
from apportion.instances.tenants.ledger import check_floors
from apportion.instances.tenants.schema import (
    LARGEST_PRIORITY,
    SHARES,
    Fairness,
    FinishTime,
    JobOfTenant,
    Quota,
    Tenant,
    TenantedJob,
)
from apportion.instances.tenants.tree import Tree, tree_of

__all__ = ["check_tenants", "settle_tenants"]

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
    jobs = [
        (index, job)
        for index, job in enumerate(instance.jobs)
        if isinstance(job, JobOfTenant) and (touched is None or getattr(job, "id", None) in touched)
    ]
    if instance.tenants is UNSET:
        if instance.fairness is not UNSET and getattr(instance.fairness, "over", None) != "jobs":
            problems.append(Problem("$.fairness", 'needs tenants, or over: "jobs"'))
        for index, job in jobs:
            if job.tenant is not UNSET:
                problems.append(Problem(f"$.jobs[{index}].tenant", "the instance has no tenants"))
            _check_job_fields(f"$.jobs[{index}]", job, problems)
    else:
        _check_tree(instance, jobs, capacities, problems)
    if instance.fairness is not UNSET:
        _check_fairness(instance, jobs, problems, rates)


def settle_tenants(instance: Any) -> None:
    """Turn lists into tuples and integers in float fields into floats, as decoding does."""
    if type(instance.tenants) is list:
        force_setattr(instance, "tenants", tuple(instance.tenants))
    for tenant in () if instance.tenants is UNSET else instance.tenants:
        settle_numbers(tenant, ("weight",) if tenant.min_run_s is UNSET else ("weight", "min_run_s"))
    if instance.fairness is not UNSET:
        settle_numbers(instance.fairness, ("keep",))
    for job in instance.jobs:
        stops = ("stop_cost",) if isinstance(job, TenantedJob) else ()
        for field in ("running_s", *stops, "submitted_s", "best_rate"):
            if getattr(job, field) is not UNSET:
                settle_numbers(job, (field,))
        if job.finish is not UNSET:
            settle_numbers(job.finish, ("elapsed_s", "remaining", "isolated_s"))


def _check_tree(instance: Any, jobs: _Listed, capacities: Mapping[str, int], problems: list[Problem]) -> None:
    tenants = instance.tenants
    if not isinstance(tenants, tuple | list) or not all(isinstance(one, Tenant) for one in tenants):
        problems.append(Problem("$.tenants", "must be a list of tenants"))
        return
    before = len(problems)
    for index, tenant in enumerate(tenants):
        _check_tenant(f"$.tenants[{index}]", tenant, capacities, problems)
    check_distinct("$.tenants", [tenant.id for tenant in tenants], "tenant id", problems)
    if len(problems) == before:
        _check_parents(tenants, problems)
    if len(problems) == before:
        tree = tree_of(tenants)
        _check_guarantees(tenants, tree, capacities, problems)
        _check_members(jobs, tree, problems)
    for index, job in jobs:
        _check_job_fields(f"$.jobs[{index}]", job, problems)


def _check_tenant(path: str, tenant: Tenant, capacities: Mapping[str, int], problems: list[Problem]) -> None:
    check_name(f"{path}.id", tenant.id, problems)
    if tenant.parent is not None:
        check_name(f"{path}.parent", tenant.parent, problems)
    check_amount(f"{path}.weight", tenant.weight, problems)
    if tenant.min_run_s is not UNSET:
        check_amount(f"{path}.min_run_s", tenant.min_run_s, problems)
    if tenant.priority is not None:
        check_count(f"{path}.priority", tenant.priority, problems, -LARGEST_PRIORITY, LARGEST_PRIORITY)
    if not isinstance(tenant.quotas, dict):
        problems.append(Problem(f"{path}.quotas", "must be an object of quotas by capacity"))
        return
    for name, quota in tenant.quotas.items():
        where = f"{path}.quotas.{name}"
        if name not in capacities:
            meant = did_you_mean(name, capacities)
            problems.append(Problem(where, f"is not one of the instance's capacities{meant}"))
        if not isinstance(quota, Quota):
            problems.append(Problem(where, "must be a quota"))
            continue
        for field in ("guarantee", "borrowing_limit", "lending_limit"):
            amount = getattr(quota, field)
            if amount is not None or field == "guarantee":
                check_count(f"{where}.{field}", amount, problems, high=LARGEST_CAPACITY)
        if not isinstance(quota.non_preemptible_within_guarantee, bool | UnsetType):
            problems.append(Problem(f"{where}.non_preemptible_within_guarantee", "must be true or false"))


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
    # what is no count is told where it stands
    counts = {name: total for name, total in capacities.items() if isinstance(total, Integral)}
    for capacity, total in counts.items():
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
        elif not isinstance(job.tenant, str) or job.tenant not in tree.nodes:
            meant = did_you_mean(str(job.tenant), tree.nodes)
            problems.append(Problem(where, f"there is no tenant {job.tenant!r}{meant}"))
        elif tree.nodes[job.tenant].children:
            below = ", ".join(tree.nodes[job.tenant].children[:3])
            message = f"{job.tenant!r} has children; name one without, below it: {below}"
            problems.append(Problem(where, message))


def _check_job_fields(path: str, job: JobOfTenant, problems: list[Problem]) -> None:
    if job.preemptible is not UNSET and not isinstance(job.preemptible, bool):
        problems.append(Problem(f"{path}.preemptible", "must be true or false"))
    if job.running_s is not UNSET:
        check_amount(f"{path}.running_s", job.running_s, problems)
    if isinstance(job, TenantedJob) and job.stop_cost is not UNSET:
        check_amount(f"{path}.stop_cost", job.stop_cost, problems)
    if job.best_rate is not UNSET:
        check_amount(f"{path}.best_rate", job.best_rate, problems)
    if job.submitted_s is not UNSET:
        check_number(f"{path}.submitted_s", job.submitted_s, problems)
    if job.priority is not UNSET:
        check_count(f"{path}.priority", job.priority, problems, -LARGEST_PRIORITY, LARGEST_PRIORITY)
    if job.finish is UNSET:
        return
    if not isinstance(job.finish, FinishTime):
        problems.append(Problem(f"{path}.finish", "must be an object of elapsed_s, remaining and isolated_s"))
        return
    check_amount(f"{path}.finish.elapsed_s", job.finish.elapsed_s, problems)
    for field in ("remaining", "isolated_s"):
        amount = getattr(job.finish, field)
        if check_amount(f"{path}.finish.{field}", amount, problems) and amount == 0:
            problems.append(Problem(f"{path}.finish.{field}", "must be positive"))


def _check_fairness(instance: Any, jobs: _Listed, problems: list[Problem], rates: bool) -> None:
    fairness = instance.fairness
    if not isinstance(fairness, Fairness):
        problems.append(Problem("$.fairness", "must be an object that says what is shared out fairly"))
        return
    for field, allowed in (
        ("share", SHARES),
        ("over", ("tenants", "tree", "jobs")),
        ("inside", ("sum", "fair", "first_come")),
    ):
        if getattr(fairness, field) not in allowed:
            listed = ", ".join(allowed)
            problems.append(Problem(f"$.fairness.{field}", f"must be one of {listed}"))
    if check_amount("$.fairness.keep", fairness.keep, problems) and fairness.keep > 1:
        problems.append(Problem("$.fairness.keep", f"must be from 0 to 1, not {fairness.keep:g}"))
    if not rates and fairness.share != "dominant_share":
        message = "the options of this instance have costs and no rates; share out dominant_share"
        problems.append(Problem("$.fairness.share", message))
    if fairness.share == "finish_time_ratio":
        for index, job in jobs:
            if job.finish is UNSET:
                problems.append(Problem(f"$.jobs[{index}].finish", "is missing: finish_time_ratio needs it"))
    check_floors(instance, problems)
