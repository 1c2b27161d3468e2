"""What the nodes of a quota tree use now, and what they could still take."""

from __future__ import annotations

from collections.abc import Mapping

from apportion.policies.tenancy.quota_tree import UNLIMITED, Pair, QuotaTree

__all__ = ["TreeUsage"]


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
