"""The tree of tenants: who belongs to whom, what is guaranteed to a subtree, and what it does not lend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from apportion.instances.tenants.schema import Quota, Tenant

__all__ = ["Node", "Tree", "tree_of"]


@dataclass(frozen=True, slots=True)
class Node:
    """One tenant in the tree.

    Attributes
    ----------
    tenant
        As it stands in the instance.
    parent
        Its parent's id, ``None`` at the top.
    children
        Its children's ids, sorted.
    depth
        0 at the top.
    priority
        Its class, its parent's where it has none.
    """

    tenant: Tenant
    parent: str | None
    children: tuple[str, ...]
    depth: int
    priority: int


@dataclass(frozen=True, slots=True)
class Tree:
    """All tenants by id, parents before children, equals in the order of their ids.

    Attributes
    ----------
    nodes
        The tenants.
    """

    nodes: Mapping[str, Node]

    @property
    def roots(self) -> tuple[str, ...]:
        """The tenants at the top."""
        return tuple(name for name, node in self.nodes.items() if node.parent is None)

    @property
    def leaves(self) -> tuple[str, ...]:
        """The tenants without children, to whom jobs belong."""
        return tuple(name for name, node in self.nodes.items() if not node.children)

    def path(self, name: str) -> Iterator[str]:
        """Yield a tenant and those above it, the top last."""
        at: str | None = name
        while at is not None:
            yield at
            at = self.nodes[at].parent

    def below(self, name: str) -> tuple[str, ...]:
        """Return the tenants without children at or below one."""
        node = self.nodes[name]
        if not node.children:
            return (name,)
        return tuple(leaf for child in node.children for leaf in self.below(child))

    def guarantees(self, capacity: str) -> dict[str, int]:
        """Return what every subtree is guaranteed of a capacity."""
        found: dict[str, int] = {}
        for name, node in reversed(list(self.nodes.items())):
            quota = node.tenant.quotas.get(capacity)
            theirs = sum(found[child] for child in node.children)
            found[name] = theirs if quota is None else max(quota.guarantee, theirs)
        return found

    def reserves(self, capacity: str) -> dict[str, int]:
        """Return how much of a capacity every subtree withholds from others even while it is idle."""
        guaranteed, found = self.guarantees(capacity), dict[str, int]()
        for name, node in reversed(list(self.nodes.items())):
            quota = node.tenant.quotas.get(capacity, Quota())
            own = 0 if quota.lending_limit is None else max(0, guaranteed[name] - quota.lending_limit)
            found[name] = max(own, sum(found[child] for child in node.children))
        return found

    def limits(self, capacity: str) -> dict[str, int]:
        """Return the most that a subtree may claim of a capacity, of the tenants that have such a limit."""
        guaranteed, found = self.guarantees(capacity), dict[str, int]()
        for name, node in self.nodes.items():
            quota = node.tenant.quotas.get(capacity)
            if quota is not None and quota.borrowing_limit is not None:
                found[name] = guaranteed[name] + quota.borrowing_limit
        return found


def tree_of(tenants: Sequence[Tenant]) -> Tree:
    """Return the tree of valid tenants."""
    by_id = {tenant.id: tenant for tenant in sorted(tenants, key=lambda tenant: tenant.id)}
    children: dict[str | None, list[str]] = {}
    for tenant in by_id.values():
        children.setdefault(tenant.parent, []).append(tenant.id)
    nodes: dict[str, Node] = {}
    waiting = list(children.get(None, ()))
    for name in waiting:
        tenant = by_id[name]
        above = None if tenant.parent is None else nodes[tenant.parent]
        inherited = 0 if above is None else above.priority
        own = tuple(children.get(name, ()))
        priority = inherited if tenant.priority is None else tenant.priority
        nodes[name] = Node(tenant, tenant.parent, own, 0 if above is None else above.depth + 1, priority)
        waiting.extend(own)
    return Tree(nodes)
