"""Kueue's tournament by dominant resource share as a policy of a cluster: a baseline.

Every tenant is a cluster queue of one cohort, its own GPUs are its nominal quota, every GPU type is a
flavor in the order of the cluster's types. Within a round cycles follow one another until nobody can be
admitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.believed_speeds import believed_speeds, gpus_by_type
from apportion.policies.cluster.claims import Claims, claims_of
from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterView
from apportion.policies.cluster.place_by_type import place_by_type
from apportion.policies.tenancy.cycle_state import CycleState
from apportion.policies.tenancy.kueue_objects import PodSet, QueueRules, ResourceGroup, Workload
from apportion.policies.tenancy.quota_tree import Pair, Quota, QuotaTree, TreeNode
from apportion.policies.tenancy.tournament import CycleRules, head_order, scheduling_cycle

__all__ = ["KueueTournament"]

_GPU = "gpu"


class KueueTournament:
    """Fair sharing by cycles of heads.

    Parameters
    ----------
    rules
        The switches of a cycle; ``None``: the defaults of fair sharing.
    """

    def __init__(self, rules: CycleRules | None = None) -> None:
        self._rules = rules or CycleRules()
        self._since: dict[int, float] = {}

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round: cycles until every head waits."""
        claims = claims_of(view)
        state = _state(view, claims)
        types = view.nodes.types
        waiting: dict[str, list[Workload]] = {}
        chosen = np.full(view.num_jobs, -1, dtype=np.int64)
        for at, workload in enumerate(_workloads(view, claims, self._since)):
            if workload.admission is None:
                waiting.setdefault(workload.queue, []).append(workload)
            else:
                state.admit(workload)
                chosen[at] = view.nodes.kind[view.held[at][0]]
        for queue in waiting.values():
            queue.sort(key=head_order, reverse=True)
        position = {str(job): at for at, job in enumerate(view.jobs.tolist())}
        while heads := [queue[-1] for queue in waiting.values() if queue]:
            cycle = scheduling_cycle(state, heads, self._rules, view.time_s)
            for victim in cycle.preempted:
                state.release(victim.workload)
                chosen[position[victim.workload.name]] = -1
            for workload in cycle.admitted:
                assert workload.admission is not None  # an admitted workload says its flavors
                chosen[position[workload.name]] = types.index(workload.admission[0][_GPU])
            stays = {name for name, why in cycle.waiting.items() if cycle.preempted and "its pre-emp" in why}
            for queue in waiting.values():
                if queue and queue[-1].name not in stays:
                    queue.pop()
        kept = {job: self._since.get(job, view.time_s) for job in view.jobs[chosen >= 0].tolist()}
        self._since = kept
        return ClusterPlan(place_by_type(view, chosen))


def _state(view: ClusterView, claims: Claims) -> CycleState:
    """Return the empty cluster: a queue for every tenant, what nobody owns at the cohort."""
    types = view.nodes.types
    total = gpus_by_type(view)
    nodes = [TreeNode("cluster", None, False, 1.0, _quotas(types, total - claims.entitled.sum(axis=0)))]
    rules = {}
    for number, name in enumerate(claims.tenants):
        quotas = _quotas(types, claims.entitled[number])
        nodes.append(TreeNode(name, "cluster", True, float(claims.share[number]), quotas))
        groups = (ResourceGroup(types, frozenset({_GPU})),)
        rules[name] = QueueRules(groups, "LowerPriority", "Any", when_can_borrow="TryNextFlavor")
    return CycleState(QuotaTree.of(nodes), rules)


def _quotas(types: tuple[str, ...], gpus: NDArray[np.int64]) -> Mapping[Pair, Quota]:
    return {(name, _GPU): Quota(max(0, int(count))) for name, count in zip(types, gpus.tolist(), strict=True)}


def _workloads(view: ClusterView, claims: Claims, since: Mapping[int, float]) -> list[Workload]:
    runs = believed_speeds(view) > 0
    types = np.array(view.nodes.types)
    found = []
    for at, job in enumerate(view.jobs.tolist()):
        workload = Workload(
            str(job),
            claims.tenants[int(claims.tenant[at])],
            (PodSet("main", int(view.requested_gpus[at]), {_GPU: 1}),),
            created_s=float(view.submitted_s[at]),
            unfit=frozenset(types[~runs[at]].tolist()),
        )
        if view.held[at]:
            flavor = view.nodes.type_of(view.held[at])
            workload = replace(
                workload, admission=({_GPU: flavor},), reserved_s=since.get(job, view.time_s), _use={}
            )
        found.append(workload)
    return found
