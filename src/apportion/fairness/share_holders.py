"""Who has a share: tenants or jobs, with weights, in the groups that are served one after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from msgspec import UNSET

from apportion.instances.tenants.ledger import TenantLedger

__all__ = ["LevelRequirement", "ShareHolder", "groups_of", "tenant_claimant"]


@dataclass(frozen=True, slots=True, eq=False)
class ShareHolder:
    """A tenant or a job that has a share; its name says which.

    Attributes
    ----------
    name
        The tenant's id, or the job's behind `TenantLedger.job_prefix`: as floors are named.
    jobs
        The ids of the jobs whose shares add up to it.
    weight
        Its weight, above 0.
    is_job
        Whether it is a job and no tenant.
    """

    name: str
    jobs: tuple[str, ...]
    weight: Fraction
    is_job: bool = False

    def __eq__(self, other: object) -> bool:
        """Return whether the names are the same: holders are looked up by the hundred thousand."""
        return isinstance(other, ShareHolder) and self.name == other.name

    def __hash__(self) -> int:
        """Return the hash of the name."""
        return hash(self.name)


class LevelRequirement(NamedTuple):
    """At least `count` of these share holders have a share of `level` or more.

    Attributes
    ----------
    heights
        The share of each that is at the height.
    stay
        How many of them may end below.
    """

    heights: Mapping[ShareHolder, int]
    stay: int

    @property
    def rise(self) -> int:
        """How many must reach the height."""
        return len(self.heights) - self.stay


def groups_of(ledger: TenantLedger) -> list[list[ShareHolder]]:
    """Return the groups of holders among whom shares are made equal, first the one that is served first."""
    over, found = ledger.fairness.over, list[list[ShareHolder]]()
    if over == "jobs":
        return _by_priority(
            [(_priority(ledger, job), _job(ledger, job, weighted=True)) for job in sorted(ledger.jobs)]
        )
    nodes = ledger.tree.nodes
    if over == "tenants":
        found += _by_priority(
            [(nodes[name].priority, tenant_claimant(ledger, name)) for name in ledger.tree.leaves]
        )
    else:
        for depth in range(1 + max((node.depth for node in nodes.values()), default=-1)):
            level = [name for name, node in nodes.items() if node.depth == depth]
            found += _by_priority([(nodes[name].priority, tenant_claimant(ledger, name)) for name in level])
    if ledger.fairness.inside == "fair":
        found += _by_priority(
            [(_priority(ledger, job), _job(ledger, job, weighted=False)) for job in sorted(ledger.jobs)]
        )
    elif ledger.fairness.inside == "first_come":
        found += [
            [_job(ledger, job, weighted=False)]
            for job in sorted(ledger.jobs, key=lambda job: _turn(ledger, job))
        ]
    return found


def tenant_claimant(ledger: TenantLedger, name: str) -> ShareHolder:
    """Return a tenant as a holder."""
    weight = Fraction(ledger.tree.nodes[name].tenant.weight)
    return ShareHolder(name, tuple(sorted(ledger.members(name))), weight)


def _job(ledger: TenantLedger, job: str, *, weighted: bool) -> ShareHolder:
    tenant = ledger.jobs[job].tenant
    known = weighted and isinstance(tenant, str)
    weight = Fraction(ledger.tree.nodes[tenant].tenant.weight) if known else Fraction(1)
    return ShareHolder(ledger.job_prefix + job, (job,), weight, is_job=True)


def _priority(ledger: TenantLedger, job: str) -> int:
    own, tenant = ledger.jobs[job].priority, ledger.jobs[job].tenant
    if own is not UNSET:
        return int(own)
    return ledger.tree.nodes[tenant].priority if isinstance(tenant, str) else 0


def _turn(ledger: TenantLedger, job: str) -> tuple[int, float, str]:
    came = ledger.jobs[job].submitted_s
    return -_priority(ledger, job), 0.0 if came is UNSET else came, job


def _by_priority(holders: list[tuple[int, ShareHolder]]) -> list[list[ShareHolder]]:
    """Return holders with jobs and a weight above 0 by class, the highest first."""
    classes: dict[int, list[ShareHolder]] = {}
    for priority, holder in holders:
        if holder.weight > 0 and holder.jobs:
            classes.setdefault(priority, []).append(holder)
    return [classes[priority] for priority in sorted(classes, reverse=True)]
