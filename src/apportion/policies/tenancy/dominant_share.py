"""The dominant resource share of a node: what it borrows, over what its tree could lend, per weight."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apportion.policies.tenancy.quota_tree import Pair
from apportion.policies.tenancy.usage import TreeUsage

__all__ = ["Share", "borrows_on", "share"]


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
