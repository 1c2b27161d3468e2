"""The state that one scheduling cycle works on: quotas, rules, what is admitted and what is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from apportion.errors import InvalidOption
from apportion.policies.tenancy.kueue_objects import QueueRules, Workload
from apportion.policies.tenancy.quota_tree import Pair, QuotaTree
from apportion.policies.tenancy.usage import TreeUsage

__all__ = ["CycleState"]


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
