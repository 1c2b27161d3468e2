"""Kueue's tournament by dominant resource share as a policy of a cluster: a baseline.

Every tenant is a cluster queue of one cohort, its own GPUs are its nominal quota, every GPU type is a
flavor in the order of the cluster's types. Within a round cycles follow one another until nobody can be
admitted.

One scheduling cycle with fair sharing: Kueue's tournament by dominant resource share, as a baseline.

Every queue sends its head. At every cohort the heads below it meet, and the one whose side would then have
the least share goes up; the winner at the root is handled first. Shares count what the cycle already
granted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import Claims, ClusterPlan, ClusterView, claims_of
from apportion.cluster.policies.rounds.cycle_state import CycleState
from apportion.cluster.policies.rounds.fair_preemption import (
    DEFAULT_STRATEGIES,
    Preemption,
    Strategy,
    borrows_on,
    preemptions,
    share,
)
from apportion.cluster.policies.rounds.flavors import Assignment, Mode, assigned
from apportion.cluster.policies.rounds.kueue_objects import PodSet, QueueRules, ResourceGroup, Workload
from apportion.cluster.policies.rounds.placing import believed_speeds, place_by_type
from apportion.cluster.policies.rounds.quota_tree import Pair, Quota, QuotaTree, TreeNode

__all__ = ["Cycle", "CycleRules", "KueueTournament", "head_order", "scheduling_cycle"]


@dataclass(frozen=True, slots=True)
class CycleRules:
    """The switches of a scheduling cycle.

    Attributes
    ----------
    fair_sharing
        The tournament; without it heads are ordered by borrowing, priority and creation.
    strategies
        The rules of fair pre-emption.
    nominal_first
        Whether who need not borrow what it requests comes first in the tournament.
    preemptors_first
        Whether workloads that wait for their own pre-emptions come before all others.
    recompute
        Whether overlapping victims make a workload look for other ones in the same cycle.
    within_nominal_reclaims
        Whether a pre-emptor within its nominal quota need not compare shares.
    """

    fair_sharing: bool = True
    strategies: Sequence[Strategy] = DEFAULT_STRATEGIES
    nominal_first: bool = True
    preemptors_first: bool = False
    recompute: bool = True
    within_nominal_reclaims: bool = True


@dataclass(slots=True)
class Cycle:
    """What one cycle did.

    Attributes
    ----------
    admitted
        Workloads with the quota they were given, in order.
    preempted
        Workloads to be stopped, in order; they hold their quota until they have stopped.
    waiting
        Heads that were not admitted, and why.
    compared
        How many shares were compared, the cycle's unit of work.
    """

    admitted: list[Workload] = field(default_factory=list)
    preempted: list[Preemption] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)
    compared: int = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    workload: Workload
    node: int
    assignment: Assignment
    victims: Sequence[Preemption]


def head_order(workload: Workload) -> tuple[int, float, str]:
    """Return the order of a queue: priority, then creation, then name."""
    return -workload.priority, workload.created, workload.name


def scheduling_cycle(
    state: CycleState, heads: Iterable[Workload], rules: CycleRules | None = None, now_s: float = 0.0
) -> Cycle:
    """Handle the head of every queue once.

    Parameters
    ----------
    state
        Quotas and admitted workloads; admitted workloads of the cycle are added to it, nothing is taken away.
    heads
        At most one pending workload of every queue.
    rules
        The switches; the defaults are those of fair sharing.
    now_s
        The time that newly admitted workloads get as their reservation.
    """
    return _Run(state, rules or CycleRules(), now_s).run(heads)


class _Run:
    def __init__(self, state: CycleState, rules: CycleRules, now_s: float) -> None:
        self._state, self._rules, self._now_s = state, rules, now_s
        self._cycle = Cycle()
        self._entries: dict[int, _Entry] = {}
        self._reserved: list[tuple[int, Mapping[Any, int]]] = []

    def run(self, heads: Iterable[Workload]) -> Cycle:
        for head in heads:
            entry = self._nominated(head)
            if entry is None:
                self._cycle.waiting[head.name] = "no flavor of its queue could ever hold it"
            else:
                self._entries[entry.node] = entry
        while self._entries:
            chosen = self._next()
            del self._entries[chosen.node]
            self._handle(chosen)
        for node, amounts in self._reserved:
            self._state.usage.remove(node, amounts)
        return self._cycle

    def _nominated(self, workload: Workload) -> _Entry | None:
        """Return a head with its flavors and, where it lacks quota, whom it would pre-empt."""
        rules = self._rules
        assignment = assigned(self._state, workload, rules.strategies, reclaims=rules.within_nominal_reclaims)
        if assignment is None:
            return None
        victims: Sequence[Preemption] = ()
        if assignment.mode is not Mode.FIT:
            victims = preemptions(
                self._state,
                workload,
                assignment.use,
                assignment.lacking,
                rules.strategies,
                within_nominal_reclaims=rules.within_nominal_reclaims,
            )
        return _Entry(workload, self._state.node(workload), assignment, victims)

    def _next(self) -> _Entry:
        if not self._rules.fair_sharing:
            return min(self._entries.values(), key=self._unfair)
        root = self._state.tree.root(next(iter(self._entries)))
        winner = self._winner(root)
        assert winner is not None  # the root was taken from a queue that still has its head
        return winner

    def _unfair(self, entry: _Entry) -> tuple[Any, ...]:
        return entry.assignment.height, *head_order(entry.workload)

    def _winner(self, node: int) -> _Entry | None:
        """Return who wins below a node."""
        tree = self._state.tree
        if tree.nodes[node].is_queue:
            return self._entries.get(node)
        found = [(child, self._winner(child)) for child in tree.children[node]]
        candidates = [(child, entry) for child, entry in found if entry is not None]
        if not candidates:
            return None
        if len(candidates) == 1:
            return candidates[0][1]
        return min(candidates, key=lambda candidate: self._key(*candidate))[1]

    def _key(self, child: int, entry: _Entry) -> tuple[Any, ...]:
        self._cycle.compared += 1
        workload, use = entry.workload, entry.assignment.use
        with self._state.added(entry.node, use):
            borrows = self._rules.nominal_first and borrows_on(
                self._state.usage, child, (pair for pair, amount in use.items() if amount > 0)
            )
            its = share(self._state.usage, child).order
        behind = self._rules.preemptors_first and not workload.preempting
        return behind, borrows, its, *head_order(workload)

    def _handle(self, entry: _Entry) -> None:
        if entry.assignment.mode is Mode.FIT:
            self._admit(entry)
        elif not entry.victims:
            self._wait(entry, "quota is lacking and there is nobody whom it may pre-empt")
            self._reserve(entry)
        else:
            taken = {victim.workload.name for victim in self._cycle.preempted}
            if any(victim.workload.name in taken for victim in entry.victims):
                self._overlapping(entry)
            else:
                self._preempt(entry)

    def _admit(self, entry: _Entry) -> None:
        with self._state.gone(victim.workload for victim in self._cycle.preempted):
            fits = self._state.usage.fits(entry.node, entry.assignment.use)
        if not fits:
            self._wait(entry, "it no longer fits beside what this cycle already granted")
            return
        admitted = replace(
            entry.workload, admission=entry.assignment.flavors, reserved_s=self._now_s, _use={}
        )
        self._state.admit(admitted)
        self._cycle.admitted.append(admitted)

    def _overlapping(self, entry: _Entry) -> None:
        """Look for other victims where somebody else already pre-empts one of them."""
        reason = "somebody whom it would pre-empt is already pre-empted for another workload"
        if not self._rules.recompute:
            self._wait(entry, reason)
            return
        with self._state.gone(victim.workload for victim in self._cycle.preempted):
            again = self._nominated(entry.workload)
        if again is None:
            self._wait(entry, reason)
        elif again.assignment.mode is Mode.FIT:
            self._wait(entry, "it waits for pre-emptions made for another workload")
            self._hold(again.node, again.assignment.use)
        elif again.victims:
            self._preempt(again)
        else:
            self._wait(entry, reason)

    def _preempt(self, entry: _Entry) -> None:
        everybody = [*self._cycle.preempted, *entry.victims]
        with self._state.gone(victim.workload for victim in everybody):
            fits = self._state.usage.fits(entry.node, entry.assignment.use)
        if not fits:
            self._wait(entry, "it no longer fits beside what this cycle already granted")
            return
        self._hold(entry.node, entry.assignment.use)
        self._cycle.preempted.extend(entry.victims)
        self._wait(entry, "it waits for its pre-emptions")

    def _reserve(self, entry: _Entry) -> None:
        """Keep quota for a workload that waits, unless its queue may reclaim its own at any time."""
        if self._state.rules_of(entry.workload).reclaim == "Any":
            return
        tree, usage = self._state.tree, self._state.usage
        amounts = {}
        for pair, amount in entry.assignment.use.items():
            within: int | None = tree.nominal(entry.node, pair) - usage.of(entry.node, pair)
            if entry.assignment.height > 0:
                limit = tree.borrowing_limit(entry.node, pair)
                within = None if limit is None else (within or 0) + limit
            amounts[pair] = amount if within is None else max(0, min(amount, within))
        self._hold(entry.node, amounts)

    def _hold(self, node: int, amounts: Mapping[Any, int]) -> None:
        self._state.usage.add(node, amounts)
        self._reserved.append((node, amounts))

    def _wait(self, entry: _Entry, reason: str) -> None:
        self._cycle.waiting[entry.workload.name] = reason


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
    total = view.nodes.gpus_by_type
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
