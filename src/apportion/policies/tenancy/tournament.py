"""One scheduling cycle with fair sharing: Kueue's tournament by dominant resource share, as a baseline.

Every queue sends its head. At every cohort the heads below it meet, and the one whose side would then have
the least share goes up; the winner at the root is handled first. Shares count what the cycle already
granted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from apportion.policies.tenancy.cycle_state import CycleState
from apportion.policies.tenancy.dominant_share import borrows_on, share
from apportion.policies.tenancy.fair_preemption import DEFAULT_STRATEGIES, Preemption, Strategy, preemptions
from apportion.policies.tenancy.flavors import Assignment, Mode, assigned
from apportion.policies.tenancy.kueue_objects import Workload

__all__ = ["Cycle", "CycleRules", "head_order", "scheduling_cycle"]


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
