"""Tenants, quotas and fairness: the optional fields that every kind of instance shares.

Fields that are absent stay absent when an instance is written again, so instances without tenants are
encoded, and their digests are, as they were before there were any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from apportion.core.display import Displayable
from apportion.core.extension_points import loaded
from apportion.instances.fields import LARGEST_USE, Amount, Capacity, Name, Number, PositiveAmount, Proportion

__all__ = [
    "LARGEST_PRIORITY",
    "MOST_SHARE",
    "SHARES",
    "Fairness",
    "FinishTime",
    "JobOfTenant",
    "OwnedJob",
    "Quota",
    "Tenant",
    "Tenanted",
    "TenantedJob",
]

LARGEST_PRIORITY = 10**9
"""Largest magnitude of a priority."""
MOST_SHARE = LARGEST_USE
"""Largest share of one job, in units."""
SHARES = ("dominant_share", "normalised_throughput", "finish_time_ratio")
"""What may be shared out fairly."""

Priority = Annotated[int, Meta(ge=-LARGEST_PRIORITY, le=LARGEST_PRIORITY)]
Units = Annotated[int, Meta(ge=0, le=10**18)]
FloorName = Annotated[str, Meta(min_length=1, max_length=2100)]  # a job's behind a prefix longer than a name


class Quota(Struct, frozen=True, forbid_unknown_fields=True):
    """What a tenant has of one capacity.

    Attributes
    ----------
    guarantee
        How much is its own. Of a tenant with children it is the total for all of them, at least the sum of
        theirs; the sum of theirs where no quota is given.
    borrowing_limit
        How much it may use beyond its guarantee, of what others leave; null for no limit.
    lending_limit
        How much of its guarantee others may use while it does not; null for all of it.
    non_preemptible_within_guarantee
        Whether its jobs that are not `TenantedJob.preemptible` together use no more than is guaranteed: what
        is borrowed can then always be given back. False where absent.
    """

    guarantee: Capacity = 0
    borrowing_limit: Capacity | None = None
    lending_limit: Capacity | None = None
    non_preemptible_within_guarantee: bool | UnsetType = UNSET


class Tenant(Struct, frozen=True, forbid_unknown_fields=True):
    """An organisation, a team or a user: a node of the tree of tenants.

    Attributes
    ----------
    id
        Unique name.
    parent
        The tenant it belongs to; null at the top.
    weight
        Its weight among its equals: twice the weight means twice the share. 0 means that it takes no part in
        what is shared out fairly, only in the sum behind it.
    priority
        Its class: tenants of a higher class are served fairly first. null: its parent's, 0 at the top.
    quotas
        Its quota by capacity. A capacity that is not named has no guarantee and no limit.
    min_run_s
        Seconds that a job of it runs before it may be stopped or moved; its parent's where absent, 0 at the
        top.
    """

    id: Name
    parent: Name | None = None
    weight: Amount = 1.0
    priority: Priority | None = None
    quotas: dict[Name, Quota] = {}
    min_run_s: Amount | UnsetType = UNSET


class FinishTime(Struct, frozen=True, forbid_unknown_fields=True):
    """What a job's finish-time ratio rho follows from: (elapsed + remaining / rate) / isolated.

    Attributes
    ----------
    elapsed_s
        Seconds since the job came.
    remaining
        What is left to do, in units of the rate of its options; above 0.
    isolated_s
        Seconds from its coming to its end with an equal share of the cluster to itself; above 0.
    """

    elapsed_s: Amount
    remaining: PositiveAmount
    isolated_s: PositiveAmount


class Fairness(Struct, frozen=True, forbid_unknown_fields=True):
    """What is made equal, as far as it can be, before the objective counts: lexicographic max-min.

    The least share is made as large as it can be; of those who can have more, the least again; and so on.
    Among the plans that give everyone at least that, the objective decides.

    Attributes
    ----------
    share
        ``"dominant_share"``: the largest fraction of any capacity that a job's option takes.
        ``"normalised_throughput"``: the rate of a job's option over its best one. ``"finish_time_ratio"``: 1
        / rho of a job, with rho of `FinishTime`. A tenant's share is the sum over its jobs; a share counts
        divided by the weight.
    over
        Whose share: ``"tenants"``, those without children; ``"tree"``, the tenants at the top first, then,
        what they have being held, their children, and so on down; ``"jobs"``, every job's own, with the
        weight of its tenant.
    inside
        How a tenant's jobs share what it has: ``"sum"``, by the objective; ``"fair"``, by the same max-min
        over the jobs; ``"first_come"``, one after the other in the order of `TenantedJob.submitted_s`.
    keep
        From 0 to 1: how much of every level is kept while the objective is improved. 1 keeps all of it,
        0 nothing; what lies between is the price of fairness.
    floors
        Shares that must be reached, in whole units of `apportion.instances.tenants.tree` and before any
        weight, by tenant or by ``"job NAME"``: levels that are known already.
    """

    share: Literal["dominant_share", "normalised_throughput", "finish_time_ratio"] = "dominant_share"
    over: Literal["tenants", "tree", "jobs"] = "tenants"
    inside: Literal["sum", "fair", "first_come"] = "sum"
    keep: Proportion = 1.0
    floors: dict[FloorName, Units] = {}


class TenantedJob(Struct, frozen=True, kw_only=True):
    """The fields of a job that belong to its tenant; all absent where the instance has no tenants.

    Attributes
    ----------
    tenant
        The tenant it belongs to, one without children.
    preemptible
        Whether a running job may be stopped or moved; true where absent. One that may not keeps what it has.
    running_s
        Seconds that it has run so far: where its tenant's `min_run_s` is more, it may not be stopped or moved
        yet.
    stop_cost
        What stopping it costs, in units of the objective, if it runs now and gets nothing; 0 where absent.
    submitted_s
        When it came, seconds on any clock: who came first goes first where that decides; 0 where absent.
    priority
        The job's own class, where that differs from its tenant's.
    finish
        What its finish-time ratio follows from.
    best_rate
        A rate that its normalised throughput is divided by, where none of its options is as fast: that of the
        best option it had before it was pinned.
    """

    tenant: Name | UnsetType = UNSET
    preemptible: bool | UnsetType = UNSET
    running_s: Amount | UnsetType = UNSET
    stop_cost: Amount | UnsetType = UNSET
    submitted_s: Number | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    finish: FinishTime | UnsetType = UNSET
    best_rate: Amount | UnsetType = UNSET


class OwnedJob(Struct, frozen=True, kw_only=True):
    """The fields of a job that belong to its tenant, of a kind that says by itself what stopping costs.

    Attributes
    ----------
    tenant, preemptible, running_s, submitted_s, priority, finish, best_rate
        As of a `TenantedJob`.
    """

    tenant: Name | UnsetType = UNSET
    preemptible: bool | UnsetType = UNSET
    running_s: Amount | UnsetType = UNSET
    submitted_s: Number | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    finish: FinishTime | UnsetType = UNSET
    best_rate: Amount | UnsetType = UNSET


JobOfTenant = TenantedJob | OwnedJob
"""A job that may belong to a tenant, of any kind."""


class Tenanted(Displayable, Struct, frozen=True, kw_only=True):
    """The fields of an instance whose jobs belong to tenants.

    Attributes
    ----------
    tenants
        The tenants, in any order; absent where jobs belong to nobody.
    fairness
        What is shared out fairly before the objective counts; absent where only the objective does.
    """

    tenants: tuple[Tenant, ...] | UnsetType = UNSET
    fairness: Fairness | UnsetType = UNSET

    def to_dict(self) -> dict[str, Any]:
        """Return the instance as the JSON object that `apportion.read` reads."""
        found: dict[str, Any] = to_builtins(self)
        return found

    def table(self) -> dict[str, list[Any]]:
        """Return the menus as columns, those that ``add_jobs`` of the kind's builder takes."""
        found: dict[str, list[Any]] = loaded("apportion.instances.tables:menu_table")(self)
        return found

    def _head(self, most: int) -> Mapping[str, list[Any]]:
        found: Mapping[str, list[Any]] = loaded("apportion.instances.tables:menu_table")(self, most)
        return found

    def _facts(self) -> Mapping[str, str]:
        return {"instance": repr(self).strip("<>")}
