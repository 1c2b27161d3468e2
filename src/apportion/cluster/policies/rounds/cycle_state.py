"""The state that one scheduling cycle works on: quotas, rules, what is admitted and what is used.

What the nodes of a quota tree use now, and what they could still take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from apportion.cluster.policies.rounds.kueue_objects import QueueRules, Workload
from apportion.cluster.policies.rounds.quota_tree import UNLIMITED, Pair, QuotaTree
from apportion.core.errors import InvalidOption

__all__ = ["CycleState", "TreeUsage"]


class TreeUsage:
    """Usage of every node by pair; a cohort counts what its children use beyond what they keep.

    Parameters
    ----------
    tree
        The quotas.
    """

    def __init__(self, tree: QuotaTree) -> None:
        self.tree = tree
        self._used: list[dict[Pair, int]] = [{} for _ in tree.nodes]

    def of(self, node: int, pair: Pair) -> int:
        """Return what a node uses of a pair."""
        return self._used[node].get(pair, 0)

    def add(self, node: int, amounts: Mapping[Pair, int]) -> None:
        """Add amounts to a node, and above it what exceeds its room."""
        for pair, amount in amounts.items():
            self._add(node, pair, amount)

    def remove(self, node: int, amounts: Mapping[Pair, int]) -> None:
        """Take amounts from a node, and above it what it no longer uses there."""
        for pair, amount in amounts.items():
            self._remove(node, pair, amount)

    def room(self, node: int, pair: Pair) -> int:
        """Return what is left of the amount that a node keeps for itself."""
        return max(0, self.tree.local[node].get(pair, 0) - self.of(node, pair))

    def available(self, node: int, pair: Pair) -> int:
        """Return what a node could take now; negative where it or a cohort above uses too much."""
        tree = self.tree
        quota, used = tree.subtree[node].get(pair, 0), self.of(node, pair)
        above = tree.parent[node]
        if above is None:
            return quota - used
        up = self.available(above, pair)
        limit = tree.borrowing_limit(node, pair)
        if limit is not None:
            kept = tree.local[node].get(pair, 0)
            up = min(up, quota - kept - max(0, used - kept) + limit)
        return self.room(node, pair) + up

    def fits(self, node: int, amounts: Mapping[Pair, int]) -> bool:
        """Tell whether a node could take all these amounts now."""
        return all(
            amount <= max(0, self.available(node, pair)) for pair, amount in amounts.items() if amount > 0
        )

    def exceeds_nominal(self, node: int, pair: Pair) -> bool:
        """Tell whether a queue uses more of a pair than its own quota."""
        return self.of(node, pair) > self.tree.nominal(node, pair)

    def _add(self, node: int, pair: Pair, amount: int) -> None:
        room = self.room(node, pair)
        used = self._used[node]
        used[pair] = min(UNLIMITED, used.get(pair, 0) + amount)
        above = self.tree.parent[node]
        if above is not None and amount > room:
            self._add(above, pair, amount - room)

    def _remove(self, node: int, pair: Pair, amount: int) -> None:
        used = self._used[node]
        beyond = used.get(pair, 0) - self.tree.local[node].get(pair, 0)
        used[pair] = used.get(pair, 0) - amount
        above = self.tree.parent[node]
        if above is not None and beyond > 0:
            self._remove(above, pair, min(amount, beyond))


class CycleState:
    """Quotas, the rules of every queue, and the admitted workloads with what they use.

    Parameters
    ----------
    tree
        Cohorts and queues.
    rules
        By queue name; a queue without rules has the defaults.
    admitted
        Workloads that hold their quota.

    Raises
    ------
    InvalidOption
        If an admitted workload names no queue of the tree.
    """

    def __init__(
        self, tree: QuotaTree, rules: Mapping[str, QueueRules], admitted: Iterable[Workload] = ()
    ) -> None:
        self.tree = tree
        self.rules = rules
        self.usage = TreeUsage(tree)
        self.holders: dict[int, dict[str, Workload]] = {node: {} for node in tree.queues.values()}
        for workload in admitted:
            self.admit(workload)

    def node(self, workload: Workload) -> int:
        """Return the number of a workload's queue."""
        if workload.queue not in self.tree.queues:
            raise InvalidOption(f"workload {workload.name!r}: there is no cluster queue {workload.queue!r}")
        return self.tree.queues[workload.queue]

    def rules_of(self, workload: Workload) -> QueueRules:
        """Return the rules of a workload's queue."""
        return self.rules.get(workload.queue, QueueRules())

    def admit(self, workload: Workload) -> None:
        """Let an admitted workload hold what it uses."""
        node = self.node(workload)
        self.holders[node][workload.name] = workload
        self.usage.add(node, workload.use)

    def release(self, workload: Workload) -> None:
        """Take from a workload what it holds."""
        node = self.node(workload)
        del self.holders[node][workload.name]
        self.usage.remove(node, workload.use)

    def queues_of_tree(self, node: int) -> list[int]:
        """Return the queues below the root of a node's tree."""
        found, stack = [], [self.tree.root(node)]
        while stack:
            at = stack.pop()
            if self.tree.nodes[at].is_queue:
                found.append(at)
            stack.extend(self.tree.children[at])
        return found

    @contextmanager
    def gone(self, workloads: Iterable[Workload]) -> Iterator[None]:
        """Count as if these workloads held nothing, while the context lasts."""
        taken = list(workloads)
        for workload in taken:
            self.release(workload)
        try:
            yield
        finally:
            for workload in reversed(taken):
                self.admit(workload)

    @contextmanager
    def added(self, node: int, amounts: Mapping[Pair, int]) -> Iterator[None]:
        """Count amounts as used by a queue, while the context lasts."""
        self.usage.add(node, amounts)
        try:
            yield
        finally:
            self.usage.remove(node, amounts)
