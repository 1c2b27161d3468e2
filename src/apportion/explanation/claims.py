"""What subtrees of tenants claim of a capacity under a plan, and whether a change of it keeps the limits."""

from __future__ import annotations

from collections.abc import Mapping

from apportion.instances.tenants.tree import Tree

__all__ = ["Claims"]


class Claims:
    """The claims on a capacity: of a subtree what its jobs use, or what it does not lend, whichever is more.

    Parameters
    ----------
    tree
        The tenants.
    capacity
        Its name.
    used
        What the jobs of every tenant without children use.
    room
        How much there is.
    """

    def __init__(self, tree: Tree, capacity: str, used: Mapping[str, int], room: int) -> None:
        self._tree, self._capacity, self._room = tree, capacity, room
        self._limits, guaranteed = tree.limits(capacity), tree.guarantees(capacity)
        self._inside, self._withheld, self._claim = dict[str, int](), dict[str, int](), dict[str, int]()
        for name, node in reversed(list(tree.nodes.items())):
            quota = node.tenant.quotas.get(capacity)
            lends = None if quota is None else quota.lending_limit
            below = sum(self._claim[child] for child in node.children)
            self._inside[name] = below if node.children else used.get(name, 0)
            self._withheld[name] = 0 if lends is None else guaranteed[name] - lends
            self._claim[name] = max(self._inside[name], self._withheld[name])
        self._total = sum(self._claim[root] for root in tree.roots)

    def binding(self, name: str, more: int) -> list[str]:
        """Return the limits that leave a tenant not so much more, in words."""
        inside, total = self._after({name: more})
        found = [
            f"{self._capacity} of {one}: {self._inside[one]} of {self._limits[one]}"
            for one in self._tree.path(name)
            if one in self._limits and inside[one] > self._limits[one]
        ]
        if total > self._room:
            left = f"all {self._room} are used or withheld"
            if self._total < self._room:
                left = f"{self._room - self._total} of {self._room} are left, it needs {more}"
            found.append(f"{self._capacity}: {left}")
        return found

    def keep(self, changes: Mapping[str, int]) -> bool:
        """Return whether every limit is kept where some tenants use so much more, or less."""
        inside, total = self._after(changes)
        return total <= self._room and all(
            amount <= self._limits[one] for one, amount in inside.items() if one in self._limits
        )

    def _after(self, changes: Mapping[str, int]) -> tuple[dict[str, int], int]:
        """Return what is inside of every subtree that a change reaches, and the sum of all claims."""
        nodes = self._tree.nodes
        paths = {one for name in changes for one in self._tree.path(name)}
        more, inside, total = dict(changes), dict[str, int](), self._total
        for one in sorted(paths, key=lambda name: -nodes[name].depth):
            inside[one] = self._inside[one] + more.get(one, 0)
            risen = max(inside[one], self._withheld[one]) - self._claim[one]
            above = nodes[one].parent
            if above is None:
                total += risen
            else:
                more[above] = more.get(above, 0) + risen
        return inside, total
