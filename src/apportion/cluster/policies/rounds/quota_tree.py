"""A forest of cohorts with cluster queues as its leaves, and the quotas that follow from it.

A pair ``(flavor, resource)`` is one capacity, for instance ``("spot", "nvidia.com/gpu")``. Amounts are
integers that saturate at `UNLIMITED`. What a node may use beyond its own quota it borrows from its parent's
subtree. The rules are those of Kueue's hierarchical cohorts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from apportion.core.errors import InvalidOption

__all__ = ["UNLIMITED", "Pair", "Quota", "QuotaTree", "TreeNode"]

UNLIMITED = 2**63 - 1
"""The greatest amount; sums beyond it stay there."""

Pair = tuple[str, str]
"""A flavor and a resource."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What a node may use of one pair.

    Attributes
    ----------
    nominal
        Its own quota.
    borrowing_limit
        How much more it may take from the rest of its tree; ``None``: no limit.
    lending_limit
        How much of its own the rest of the tree may use; ``None``: all of it.
    """

    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A cohort, or a cluster queue.

    Attributes
    ----------
    name
        Unique among the cohorts, or among the queues.
    parent
        The cohort above; ``None`` stands alone or is a root.
    is_queue
        Whether it is a cluster queue, which has no nodes below.
    weight
        Fair-sharing weight; 0 is served last.
    quotas
        By pair; a missing pair has quota 0 and no limits.
    """

    name: str
    parent: str | None
    is_queue: bool
    weight: float = 1.0
    quotas: Mapping[Pair, Quota] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class QuotaTree:
    """The nodes by number, with everything about them that usage does not change.

    Attributes
    ----------
    nodes
        Cohorts and queues; a cohort that is only named as a parent was added, without quota, weight 1.
    parent
        For every node the number of its parent; ``None`` for a root.
    children
        For every node the numbers of its children.
    subtree
        For every node its quota by pair, with what its subtree lends it.
    local
        For every node what it keeps for itself by pair; only positive amounts.
    queues, cohorts
        Numbers by name.
    """

    nodes: tuple[TreeNode, ...]
    parent: tuple[int | None, ...]
    children: tuple[tuple[int, ...], ...]
    subtree: tuple[Mapping[Pair, int], ...]
    local: tuple[Mapping[Pair, int], ...]
    queues: Mapping[str, int]
    cohorts: Mapping[str, int]
    _lendable: dict[int, Mapping[str, int]] = field(default_factory=dict)
    _height: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[TreeNode]) -> QuotaTree:
        """Return the tree of these nodes.

        Raises
        ------
        InvalidOption
            If a name stands twice, or cohorts are above one another in a circle.
        """
        listed = list(nodes)
        cohorts = _numbered(listed, is_queue=False)
        for node in tuple(listed):
            if node.parent is not None and node.parent not in cohorts:
                cohorts[node.parent] = len(listed)
                listed.append(TreeNode(node.parent, None, is_queue=False))
        parent = tuple(None if node.parent is None else cohorts[node.parent] for node in listed)
        children: list[list[int]] = [[] for _ in listed]
        for number, above in enumerate(parent):
            if above is not None:
                children[above].append(number)
        subtree: list[dict[Pair, int]] = [{} for _ in listed]
        local: list[dict[Pair, int]] = [{} for _ in listed]
        for number in _children_first(parent, children, listed):
            total = {pair: quota.nominal for pair, quota in listed[number].quotas.items()}
            for child in children[number]:
                for pair, amount in subtree[child].items():
                    total[pair] = min(UNLIMITED, total.get(pair, 0) + amount - local[child].get(pair, 0))
            subtree[number] = total
            for pair, quota in listed[number].quotas.items():
                if quota.lending_limit is not None and total[pair] > quota.lending_limit:
                    local[number][pair] = total[pair] - quota.lending_limit
        return cls(
            tuple(listed),
            parent,
            tuple(map(tuple, children)),
            tuple(subtree),
            tuple(local),
            _numbered(listed, is_queue=True),
            cohorts,
        )

    def path(self, node: int) -> list[int]:
        """Return the node and everything above it, the root last."""
        above = [node]
        while (up := self.parent[above[-1]]) is not None:
            above.append(up)
        return above

    def root(self, node: int) -> int:
        """Return the root of a node's tree."""
        return self.path(node)[-1]

    def potential(self, node: int, pair: Pair) -> int:
        """Return the most that a node could ever use of a pair."""
        above = self.parent[node]
        if above is None:
            return self.subtree[node].get(pair, 0)
        most = min(UNLIMITED, self.local[node].get(pair, 0) + self.potential(above, pair))
        limit = self.borrowing_limit(node, pair)
        return most if limit is None else min(most, self.subtree[node].get(pair, 0) + limit)

    def borrowing_limit(self, node: int, pair: Pair) -> int | None:
        """Return a node's borrowing limit for a pair, ``None`` without one."""
        quota = self.nodes[node].quotas.get(pair)
        return None if quota is None else quota.borrowing_limit

    def nominal(self, node: int, pair: Pair) -> int:
        """Return a node's own quota of a pair."""
        quota = self.nodes[node].quotas.get(pair)
        return 0 if quota is None else quota.nominal

    def lendable(self, node: int) -> Mapping[str, int]:
        """Return by resource what the tree could ever lend to a node that has a parent."""
        if node not in self._lendable:
            above = self.parent[node]
            amounts: dict[str, int] = {}
            if above is not None:
                for pair in self.subtree[self.root(node)]:
                    more = amounts.get(pair[1], 0) + self.potential(above, pair)
                    amounts[pair[1]] = min(UNLIMITED, more)
            self._lendable[node] = amounts
        return self._lendable[node]

    def height(self, node: int) -> int:
        """Return the longest way down from a node to a leaf: 0 for a queue, 1 for a cohort of queues."""
        if node not in self._height:
            below = [self.height(child) for child in self.children[node]]
            self._height[node] = 1 + max(below, default=-1)
        return self._height[node]


def _numbered(nodes: list[TreeNode], *, is_queue: bool) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for number, node in enumerate(nodes):
        if node.is_queue is is_queue:
            if node.name in numbers:
                raise InvalidOption(f"{'queue' if is_queue else 'cohort'} {node.name!r} stands twice")
            numbers[node.name] = number
    return numbers


def _children_first(
    parent: tuple[int | None, ...], children: list[list[int]], nodes: list[TreeNode]
) -> list[int]:
    """Return the numbers of all nodes, children before parents."""
    order = [number for number, above in enumerate(parent) if above is None]
    for number in order:
        order.extend(children[number])
    if len(order) < len(nodes):
        circle = sorted(nodes[number].name for number in set(range(len(nodes))) - set(order))
        raise InvalidOption(f"cohorts {', '.join(circle)} hang on a circle of parents")
    return order[::-1]
