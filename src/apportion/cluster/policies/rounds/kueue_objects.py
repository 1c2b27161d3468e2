"""Cluster queues and workloads as a scheduling cycle sees them: rules of a queue, requests, what is held."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from apportion.cluster.policies.rounds.quota_tree import Pair

__all__ = ["PodSet", "QueueRules", "ResourceGroup", "Workload", "allows"]

Policy = Literal["Any", "LowerPriority", "LowerOrNewerEqualPriority", "Never"]
Search = Literal["MayStopSearch", "TryNextFlavor"]


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that are always taken from one flavor together.

    Attributes
    ----------
    flavors
        In the order in which they are tried.
    resources
        The resources that the group covers.
    """

    flavors: tuple[str, ...]
    resources: frozenset[str]


@dataclass(frozen=True, slots=True)
class QueueRules:
    """What a cluster queue may do.

    Attributes
    ----------
    groups
        Its resource groups.
    within_queue
        Whom of its own workloads a workload may pre-empt; ``None``: not set, as ``"Never"``.
    reclaim
        Whom of other queues; ``None``: not set, which is as ``"Never"`` but for the search of flavors.
    borrow_within_cohort
        Whether pre-empting while borrowing is switched on.
    when_can_borrow, when_can_preempt
        Whether a flavor that needs borrowing or pre-emption ends the search.
    preemption_over_borrowing
        Whether a flavor with pre-emption is better than one that borrows.
    """

    groups: tuple[ResourceGroup, ...] = ()
    within_queue: Policy | None = None
    reclaim: Policy | None = None
    borrow_within_cohort: bool = False
    when_can_borrow: Search = "MayStopSearch"
    when_can_preempt: Search = "TryNextFlavor"
    preemption_over_borrowing: bool = False


@dataclass(frozen=True, slots=True)
class PodSet:
    """Alike pods.

    Attributes
    ----------
    name
        Unique within the workload.
    count
        How many pods.
    requests
        Amount per pod by resource.
    """

    name: str
    count: int
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Workload:
    """Something to be admitted as a whole, or admitted.

    Attributes
    ----------
    name
        Unique; breaks ties.
    queue
        Its cluster queue.
    pod_sets
        What it asks for.
    priority
        Higher first.
    created_s, reserved_s
        When it was created and when it was given its quota; ``None`` counts as earliest.
    admission
        For every pod set the flavor of each resource; ``None`` while it is pending.
    amounts
        For every pod set the amounts held by resource; ``None``: those of its requests.
    unfit
        Flavors on which its pods cannot run, for want of a label or a toleration.
    preempting
        Whether it waits for its own pre-emptions of an earlier cycle.
    """

    name: str
    queue: str
    pod_sets: tuple[PodSet, ...]
    priority: int = 0
    created_s: float | None = None
    reserved_s: float | None = None
    admission: tuple[Mapping[str, str], ...] | None = None
    amounts: tuple[Mapping[str, int], ...] | None = None
    unfit: frozenset[str] = frozenset()
    preempting: bool = False
    _use: dict[Pair, int] = field(default_factory=dict, compare=False)

    @property
    def created(self) -> float:
        """Time of creation, minus infinity where it is not known."""
        return -math.inf if self.created_s is None else self.created_s

    @property
    def use(self) -> Mapping[Pair, int]:
        """What an admitted workload holds by pair."""
        if not self._use and self.admission is not None:
            for position, flavors in enumerate(self.admission):
                pods = self.pod_sets[position]
                held = {resource: pods.count * each for resource, each in pods.requests.items()}
                if self.amounts is not None:
                    held = dict(self.amounts[position])
                for resource, flavor in flavors.items():
                    pair = (flavor, resource)
                    self._use[pair] = self._use.get(pair, 0) + held.get(resource, 0)
        return self._use


def allows(policy: Policy | None, preemptor: Workload, victim: Workload) -> bool:
    """Tell whether a policy lets one workload pre-empt another."""
    if policy is None or policy == "Never":
        return False
    if policy == "Any" or victim.priority < preemptor.priority:
        return True
    newer = victim.priority == preemptor.priority and preemptor.created < victim.created
    return policy == "LowerOrNewerEqualPriority" and newer
