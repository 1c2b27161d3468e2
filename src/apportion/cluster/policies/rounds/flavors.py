"""Which flavors a pending workload would take now, and whether it fits, must pre-empt, or cannot run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from apportion.cluster.policies.rounds.cycle_state import CycleState
from apportion.cluster.policies.rounds.fair_preemption import Strategy, preemptions
from apportion.cluster.policies.rounds.kueue_objects import PodSet, QueueRules, ResourceGroup, Workload
from apportion.cluster.policies.rounds.quota_tree import Pair

__all__ = ["Assignment", "Mode", "assigned"]


class Mode(IntEnum):
    """How a demand could be met; a greater one is better."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


@dataclass(frozen=True, slots=True)
class Assignment:
    """Flavors for a whole workload.

    Attributes
    ----------
    flavors
        For every pod set the flavor of each resource.
    use
        Total amount by pair.
    modes
        By pair.
    height
        How far up the tree it borrows: 0 within its queue's own quota.
    """

    flavors: tuple[Mapping[str, str], ...]
    use: Mapping[Pair, int]
    modes: Mapping[Pair, Mode]
    height: int

    @property
    def mode(self) -> Mode:
        """The worst mode of any pair."""
        return min(self.modes.values(), default=Mode.FIT)

    @property
    def lacking(self) -> frozenset[Pair]:
        """The pairs whose quota is lacking."""
        return frozenset(pair for pair, mode in self.modes.items() if mode is not Mode.FIT)


@dataclass(frozen=True, slots=True)
class _Choice:
    """One flavor for one resource group: the worst pair's mode and height, and the mode of each pair."""

    flavor: str
    mode: Mode
    height: int
    modes: Mapping[Pair, Mode]


def assigned(
    state: CycleState, workload: Workload, strategies: Sequence[Strategy], *, reclaims: bool
) -> Assignment | None:
    """Return the flavors that a workload would take now; ``None`` where no flavor could ever do.

    Parameters
    ----------
    state
        Restored before this returns.
    workload
        Pending.
    strategies
        See `fair_preemption.preemptions`.
    reclaims
        See there, ``within_nominal_reclaims``.
    """
    rules = state.rules_of(workload)
    use: dict[Pair, int] = {}
    modes: dict[Pair, Mode] = {}
    flavors: list[Mapping[str, str]] = []
    height = 0
    for pods in workload.pod_sets:
        own: dict[str, str] = {}
        wanted = {name for name, each in pods.requests.items() if each * pods.count > 0}
        for group in rules.groups:
            resources = sorted(wanted & group.resources)
            if not resources:
                continue
            choice = _chosen(state, workload, rules, group, pods, resources, use, (strategies, reclaims))
            if choice is None:
                return None
            for resource in resources:
                pair = (choice.flavor, resource)
                own[resource] = choice.flavor
                use[pair] = use.get(pair, 0) + pods.count * pods.requests[resource]
                modes[pair] = min(choice.modes[pair], modes.get(pair, Mode.FIT))
            height = max(height, choice.height)
            wanted -= group.resources
        if wanted:
            return None
        flavors.append(own)
    return Assignment(tuple(flavors), use, modes, height)


def _chosen(
    state: CycleState,
    workload: Workload,
    rules: QueueRules,
    group: ResourceGroup,
    pods: PodSet,
    resources: Sequence[str],
    before: Mapping[Pair, int],
    preempting: tuple[Sequence[Strategy], bool],
) -> _Choice | None:
    """Return the first flavor that ends the search, else the best one; ``None`` if none could ever do."""
    best: _Choice | None = None
    for flavor in group.flavors:
        if flavor in workload.unfit:
            continue
        seen: dict[Pair, tuple[Mode, int]] = {}
        for resource in resources:
            pair = (flavor, resource)
            demand = before.get(pair, 0) + pods.count * pods.requests[resource]
            seen[pair] = _mode(state, workload, rules, pair, demand, preempting)
        worst = min(seen.values(), key=lambda found: _goodness(rules, found))
        choice = _Choice(flavor, *worst, {pair: mode for pair, (mode, _) in seen.items()})
        if worst[0] is Mode.NO_FIT:
            continue
        if best is None or _goodness(rules, worst) > _goodness(rules, (best.mode, best.height)):
            best = choice
        if not _goes_on(rules, worst):
            return choice
    return best


def _goodness(rules: QueueRules, found: tuple[Mode, int]) -> tuple[int, int, int]:
    """Return what flavors are compared by, greater is better."""
    mode, height = found
    if rules.preemption_over_borrowing:
        return min(mode, Mode.PREEMPT), -height, mode
    return mode, -height, 0


def _goes_on(rules: QueueRules, found: tuple[Mode, int]) -> bool:
    """Tell whether the search for a better flavor goes on after this one."""
    mode, height = found
    if mode <= Mode.NO_CANDIDATES:
        return True
    if mode in (Mode.PREEMPT, Mode.RECLAIM) and rules.when_can_preempt == "TryNextFlavor":
        return True
    return height > 0 and rules.when_can_borrow == "TryNextFlavor"


def _mode(
    state: CycleState,
    workload: Workload,
    rules: QueueRules,
    pair: Pair,
    demand: int,
    preempting: tuple[Sequence[Strategy], bool],
) -> tuple[Mode, int]:
    """Return how one pair's demand could be met, and how far up it would borrow."""
    node = state.node(workload)
    tree = state.tree
    if demand > tree.potential(node, pair):
        return Mode.NO_FIT, 0
    height, reclaimable = _borrowing_height(state, node, pair, demand)
    if demand <= max(0, state.usage.available(node, pair)):
        return Mode.FIT, height
    allowed = (
        demand <= tree.nominal(node, pair)
        or reclaimable
        or rules.borrow_within_cohort
        or rules.reclaim != "Never"
    )
    if not allowed:
        return Mode.NO_FIT, height
    strategies, reclaims = preempting
    victims = preemptions(
        state, workload, {pair: demand}, (pair,), strategies, within_nominal_reclaims=reclaims
    )
    if not victims:
        return Mode.NO_CANDIDATES, height
    with state.gone(victim.workload for victim in victims):
        height = _borrowing_height(state, node, pair, demand)[0]
    own = any(victim.workload.queue == workload.queue for victim in victims)
    return (Mode.PREEMPT if own else Mode.RECLAIM), height


def _borrowing_height(state: CycleState, node: int, pair: Pair, demand: int) -> tuple[int, bool]:
    """Return the height of the lowest subtree whose quota holds the demand, and whether it has a parent."""
    tree, usage = state.tree, state.usage
    for at in tree.path(node):
        if usage.of(at, pair) + demand <= tree.subtree[at].get(pair, 0):
            return tree.height(at), tree.parent[at] is not None
        demand -= usage.room(at, pair)
    return tree.height(tree.root(node)), False
