"""Whom a workload may pre-empt under fair sharing: Kueue's rule, written after its specification.

The queue whose share is greatest gives first, from the root of the tree downwards. A workload of another
queue is taken if that leaves the pre-emptor's side with no greater share than the victim's side, or at all
while the pre-emptor stays within its own quota.

The dominant resource share of a node: what it borrows, over what its tree could lend, per weight.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from apportion.cluster.policies.rounds.cycle_state import CycleState, TreeUsage
from apportion.cluster.policies.rounds.kueue_objects import Workload, allows
from apportion.cluster.policies.rounds.quota_tree import Pair

__all__ = ["DEFAULT_STRATEGIES", "Preemption", "Share", "Strategy", "borrows_on", "preemptions", "share"]


@dataclass(frozen=True, slots=True)
class Share:
    """How much a node borrows, comparable between nodes.

    Attributes
    ----------
    ratio
        Greatest over the resources of 1000 x borrowed / lendable; 0 where nothing is lendable.
    weight
        The node's fair-sharing weight.
    dominant
        The resource of the greatest ratio (equal ones: the first by name); ``None`` for ratio 0.
    borrows
        Whether it uses more than its subtree's quota of any pair.
    """

    ratio: float = 0.0
    weight: float = 1.0
    dominant: str | None = None
    borrows: bool = False

    @property
    def infinite(self) -> bool:
        """Whether no weight divides it: weight 0 and something borrowed."""
        return self.weight == 0 and self.ratio > 0

    @property
    def weighted(self) -> float:
        """The ratio per weight, ``math.inf`` for weight 0."""
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def rounded(self) -> int | None:
        """The weighted ratio rounded up, as it is reported; ``None`` where it is infinite."""
        return None if self.infinite else math.ceil(self.weighted)

    @property
    def order(self) -> tuple[bool, float]:
        """What shares are compared by: a greater one is served later and pre-empted first."""
        return (True, self.ratio) if self.infinite else (False, self.weighted)


def share(usage: TreeUsage, node: int, extra: Mapping[Pair, int] | None = None) -> Share:
    """Return a node's share.

    Parameters
    ----------
    usage
        What all nodes use.
    node
        The node's number.
    extra
        Amounts that are counted on top of the node's usage.
    """
    tree = usage.tree
    weight = tree.nodes[node].weight
    if tree.parent[node] is None:
        return Share(weight=weight)
    borrowed: dict[str, int] = {}
    for pair, quota in tree.subtree[node].items():
        beyond = usage.of(node, pair) - quota + (0 if extra is None else extra.get(pair, 0))
        if beyond > 0:
            borrowed[pair[1]] = borrowed.get(pair[1], 0) + beyond
    if not borrowed:
        return Share(weight=weight)
    lendable = tree.lendable(node)
    best, dominant = 0.0, None
    for resource in sorted(borrowed):
        if lendable.get(resource, 0) > 0:
            ratio = 1000.0 * borrowed[resource] / lendable[resource]
            if ratio > best:
                best, dominant = ratio, resource
    return Share(best, weight, dominant, borrows=True)


def borrows_on(usage: TreeUsage, node: int, pairs: Iterable[Pair]) -> bool:
    """Tell whether a node uses more than its subtree's quota on one of these pairs; a root never does."""
    tree = usage.tree
    if tree.parent[node] is None:
        return False
    return any(usage.of(node, pair) > tree.subtree[node].get(pair, 0) for pair in pairs)


Strategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
Reason = Literal["InClusterQueue", "InCohortReclamation", "InCohortFairSharing"]

DEFAULT_STRATEGIES: tuple[Strategy, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


@dataclass(frozen=True, slots=True)
class Preemption:
    """A workload to be stopped, and why it may be.

    Attributes
    ----------
    workload
        The victim.
    reason
        ``InClusterQueue`` (same queue), ``InCohortReclamation`` (the pre-emptor stays within its nominal
        quota) or ``InCohortFairSharing`` (shares compared).
    """

    workload: Workload
    reason: Reason


def preemptions(
    state: CycleState,
    preemptor: Workload,
    use: Mapping[Pair, int],
    lacking: Collection[Pair],
    strategies: Sequence[Strategy] = DEFAULT_STRATEGIES,
    *,
    within_nominal_reclaims: bool = True,
) -> list[Preemption]:
    """Return whom a workload pre-empts, in the order chosen; nobody if that would not make it fit.

    Parameters
    ----------
    state
        The cycle's state; it is changed while this runs and restored before it returns.
    preemptor
        The workload that wants to run.
    use
        What it would use, by pair.
    lacking
        The pairs whose quota it lacks.
    strategies
        The rules that compare shares, first pass and second pass.
    within_nominal_reclaims
        Whether a pre-emptor within its nominal quota need not compare shares.
    """
    return _Search(state, preemptor, use, lacking, within_nominal_reclaims).run(strategies)


class _Search:
    """One search; `_waiting` holds for every queue its candidates that were not taken yet."""

    def __init__(
        self,
        state: CycleState,
        preemptor: Workload,
        use: Mapping[Pair, int],
        lacking: Collection[Pair],
        within_nominal_reclaims: bool,
    ) -> None:
        self._state, self._use = state, use
        self._queue = state.node(preemptor)
        self._above = frozenset(state.tree.path(self._queue))
        self._waiting = _candidates(state, preemptor, lacking)
        self._rank = _ranked(self._waiting, self._queue)
        self._taken: list[Preemption] = []
        with state.added(self._queue, use):
            exceeds = any(state.usage.exceeds_nominal(self._queue, pair) for pair in lacking)
        self._entitled = within_nominal_reclaims and not exceeds

    def run(self, strategies: Sequence[Strategy]) -> list[Preemption]:
        if not self._waiting:
            return []
        self._state.usage.add(self._queue, self._use)
        try:
            found = self._search(strategies)
        finally:
            self._state.usage.remove(self._queue, self._use)
        if found:
            self._give_back()
        for victim in self._taken:
            self._state.admit(victim.workload)
        return self._taken if found else []

    def _search(self, strategies: Sequence[Strategy]) -> bool:
        aside: dict[int, list[Workload]] = {}
        if self._first_pass(strategies[0], aside):
            return True
        return len(strategies) > 1 and self._second_pass(aside)

    def _first_pass(self, strategy: Strategy, aside: dict[int, list[Workload]]) -> bool:
        while (queue := self._next(self._waiting)) is not None:
            waiting = self._waiting[queue]
            if queue == self._queue or self._entitled:
                reason: Reason = "InClusterQueue" if queue == self._queue else "InCohortReclamation"
                if self._take(waiting.pop(0), reason):
                    return True
                continue
            own, other = self._sides(queue)
            if self._share(own).infinite and not self._share(other).infinite:
                aside.setdefault(queue, []).extend(waiting)
                waiting.clear()
                continue
            while waiting:
                candidate = waiting.pop(0)
                if self._passes(strategy, own, other, candidate):
                    if self._take(candidate, "InCohortFairSharing"):
                        return True
                    break
                aside.setdefault(queue, []).append(candidate)
        return False

    def _second_pass(self, aside: dict[int, list[Workload]]) -> bool:
        while (queue := self._next(aside)) is not None:
            candidate = aside.pop(queue)[0]
            own, other = self._sides(queue)
            passes = self._passes("LessThanInitialShare", own, other, candidate)
            if passes and self._take(candidate, "InCohortFairSharing"):
                return True
        return False

    def _passes(self, strategy: Strategy, own: int, other: int, candidate: Workload) -> bool:
        ours = self._share(own).order
        if strategy == "LessThanInitialShare":
            return ours < self._share(other).order
        with self._state.gone([candidate]):
            return ours <= self._share(other).order

    def _take(self, victim: Workload, reason: Reason) -> bool:
        """Stop a workload, and tell whether the pre-emptor fits now."""
        self._state.release(victim)
        self._taken.append(Preemption(victim, reason))
        self._state.usage.remove(self._queue, self._use)
        fits = self._state.usage.fits(self._queue, self._use)
        self._state.usage.add(self._queue, self._use)
        return fits

    def _give_back(self) -> None:
        """Spare whoever is not needed, from the last but one to the first."""
        for position in range(len(self._taken) - 2, -1, -1):
            spared = self._taken[position].workload
            self._state.admit(spared)
            if self._state.usage.fits(self._queue, self._use):
                last = self._taken.pop()
                if position < len(self._taken):
                    self._taken[position] = last
            else:
                self._state.release(spared)

    def _next(self, waiting: Mapping[int, list[Workload]]) -> int | None:
        """Return the queue that gives next: from the root down, always the greatest share."""
        return self._below(self._state.tree.root(self._queue), waiting)

    def _below(self, node: int, waiting: Mapping[int, list[Workload]]) -> int | None:
        tree = self._state.tree
        if tree.nodes[node].is_queue:
            return node if waiting.get(node) else None
        living: list[tuple[tuple[bool, float], bool, int, int]] = []
        for child in tree.children[node]:
            is_queue = tree.nodes[child].is_queue
            if is_queue and not waiting.get(child):
                continue
            its = self._share(child)
            if child in self._above or its.borrows:
                rank = self._rank[waiting[child][0].name] if is_queue else 0
                living.append((its.order, not is_queue, -rank, child))
        for *_, child in sorted(living, reverse=True):
            found = self._below(child, waiting)
            if found is not None:
                return found
        return None

    def _sides(self, queue: int) -> tuple[int, int]:
        """Return the children of the lowest common ancestor on the pre-emptor's and on a queue's side."""
        ours, theirs = self._state.tree.path(self._queue), self._state.tree.path(queue)
        while len(ours) > 1 and len(theirs) > 1 and ours[-2] == theirs[-2]:
            ours.pop()
            theirs.pop()
        return ours[-2], theirs[-2]

    def _share(self, node: int) -> Share:
        return share(self._state.usage, node)


def _candidates(
    state: CycleState, preemptor: Workload, lacking: Collection[Pair]
) -> dict[int, list[Workload]]:
    """Return by queue the workloads that may be pre-empted, first the one to go first."""
    own = state.node(preemptor)
    rules = state.rules_of(preemptor)
    found: dict[int, list[Workload]] = {}
    for queue in state.queues_of_tree(own):
        policy = rules.within_queue if queue == own else rules.reclaim
        if policy is None or policy == "Never":
            continue
        if queue != own and not any(state.usage.exceeds_nominal(queue, pair) for pair in lacking):
            continue
        allowed = [
            workload
            for workload in state.holders[queue].values()
            if any(workload.use.get(pair, 0) > 0 for pair in lacking) and allows(policy, preemptor, workload)
        ]
        if allowed:
            found[queue] = sorted(allowed, key=_order)
    return found


def _order(workload: Workload) -> tuple[int, float, str]:
    reserved = float("-inf") if workload.reserved_s is None else workload.reserved_s
    return workload.priority, -reserved, workload.name


def _ranked(waiting: Mapping[int, Sequence[Workload]], own: int) -> dict[str, int]:
    """Return the place of every candidate in the order over all queues."""
    listed = [(queue == own, *_order(workload)) for queue, several in waiting.items() for workload in several]
    return {name: place for place, (*_, name) in enumerate(sorted(listed))}
