"""The tree of tenants: who belongs to whom, what is guaranteed to a subtree, and what it does not lend.

The share of a job in whole units: what is compared between jobs and, added up, between tenants.

Dominant shares are counted in parts that divide every capacity, so that three jobs of one GPU have what one
job of three has; all other shares, and dominant ones under capacities without such a part above a millionth
of a millionth, in billionths.

Rows of limits, and floors under shares, stand beside names that people choose in one JSON object, so none of
their names may equal one of those: a name that is taken gets a number behind it, and jobs get a longer prefix
where a tenant has theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from apportion.instances.options import Option
from apportion.instances.tenants.schema import MOST_SHARE, Quota, Tenant

__all__ = [
    "BILLION",
    "RELATIVE",
    "Counter",
    "Node",
    "Tree",
    "distinct",
    "job_prefix",
    "may_clash",
    "share_counter",
    "tree_of",
    "unit_of",
]


BILLION = 1_000_000_000

RELATIVE = frozenset({"normalised_throughput"})
"""Shares of an option that depend on what else the job may get."""

Counter = Callable[[Any, Sequence[Option]], list[int]]
"""The share of every option of a job, in whole units."""


def unit_of(kind_of_share: str, capacities: Mapping[str, int]) -> int:
    """Return how many units a share of 1 has."""
    if kind_of_share != "dominant_share":
        return BILLION
    found = math.lcm(*(amount for amount in capacities.values() if amount))
    return found if found <= MOST_SHARE else BILLION


def share_counter(kind_of_share: str, capacities: Mapping[str, int]) -> Counter:
    """Return what counts the shares of a job's options; see `apportion.instances.tenants.schema.Fairness`.

    Shares are rounded down to whole units; throughputs and times are divided as doubles, in the order written
    here.
    """
    if kind_of_share == "dominant_share":
        unit = unit_of(kind_of_share, capacities)
        there = {name: amount or 1 for name, amount in capacities.items()}

        def dominant(_: Any, options: Sequence[Option]) -> list[int]:
            found = []
            for option in options:
                largest = 0
                for name, use in option.uses.items():
                    if name in there and (part := unit * use // there[name]) > largest:
                        largest = part
                found.append(largest if largest < MOST_SHARE else MOST_SHARE)
            return found

        return dominant
    if kind_of_share == "normalised_throughput":
        return _throughputs
    return lambda job, options: [_finish(job, option) for option in options]


def _throughputs(job: Any, options: Sequence[Option]) -> list[int]:
    before = 0.0 if job.best_rate is UNSET else job.best_rate
    best = max((option.rate for option in options), default=0.0)
    best = max(best, before)
    return [int(option.rate / best * BILLION) if best > 0 else 0 for option in options]


def _finish(job: Any, option: Option) -> int:
    if job.finish is UNSET or option.rate <= 0:
        return 0
    lasts = job.finish.elapsed_s + job.finish.remaining / option.rate
    return min(MOST_SHARE, int(min(job.finish.isolated_s / lasts, 1e3) * BILLION))


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

    def min_run_s(self, name: str) -> float:
        """Return how many seconds a tenant's jobs run before they may be stopped: its word, or from above."""
        at: str | None = name
        while at is not None:
            said = self.nodes[at].tenant.min_run_s
            if said is not UNSET:
                return said
            at = self.nodes[at].parent
        return 0.0

    @property
    def roots(self) -> tuple[str, ...]:
        """The tenants at the top."""
        return tuple(name for name, node in self.nodes.items() if node.parent is None)

    @property
    def job_prefix(self) -> str:
        """What stands before a job's name among names of tenants."""
        return job_prefix(self.nodes)

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
        return self.claims(capacity, {})[1]

    def unlent(self, capacity: str) -> dict[str, int]:
        """Return what every tenant itself does not lend of a capacity, 0 where it does not limit that."""
        guaranteed, found = self.guarantees(capacity), dict[str, int]()
        for name, node in self.nodes.items():
            lends = node.tenant.quotas.get(capacity, Quota()).lending_limit
            found[name] = 0 if lends is None else max(0, guaranteed[name] - lends)
        return found

    def claims(self, capacity: str, used: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
        """Return what is used inside of every subtree, and its claim: that, or what it withholds if more.

        Parameters
        ----------
        capacity
            What is claimed.
        used
            What the jobs of tenants without children use.
        """
        unlent, inside, claims = self.unlent(capacity), dict[str, int](), dict[str, int]()
        for name, node in reversed(list(self.nodes.items())):
            below = sum(claims[child] for child in node.children)
            inside[name] = below if node.children else used.get(name, 0)
            claims[name] = max(inside[name], unlent[name])
        return inside, claims

    def limits(self, capacity: str) -> dict[str, int]:
        """Return the most that a subtree may claim of a capacity, of the tenants that have such a limit."""
        guaranteed, found = self.guarantees(capacity), dict[str, int]()
        for name, node in self.nodes.items():
            quota = node.tenant.quotas.get(capacity)
            if quota is not None and quota.borrowing_limit is not None:
                found[name] = guaranteed[name] + quota.borrowing_limit
        return found

    def non_preemptible_limits(self, capacity: str) -> dict[str, int]:
        """Return what jobs that are not preemptible may use of a capacity, of the tenants that limit it."""
        guaranteed = self.guarantees(capacity)
        limited = ((name, node.tenant.quotas.get(capacity)) for name, node in self.nodes.items())
        return {
            name: guaranteed[name]
            for name, quota in limited
            if quota is not None and quota.non_preemptible_within_guarantee is True
        }


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


def distinct(wanted: str, taken: Container[str]) -> str:
    """Return a name that is not taken: the one wanted, or the same with the least number that is free.

    >>> distinct("gpu of a", {"gpu of a", "gpu of a [2]"})
    'gpu of a [3]'
    """
    found, number = wanted, 2
    while found in taken:
        found, number = f"{wanted} [{number}]", number + 1
    return found


def job_prefix(tenants: Iterable[str]) -> str:
    """Return what stands before a job's name where shares of tenants and of jobs are named together.

    >>> job_prefix(["a", "b"]), job_prefix(["job x"])
    ('job ', 'job job ')
    """
    names, found = list(tenants), "job "
    while any(name.startswith(found) for name in names):
        found = f"job {found}"
    return found


def may_clash(capacities: Iterable[str], tenants: Iterable[str]) -> bool:
    """Return whether a name could be read as that of a row or a floor: its names then hang on all others."""
    if "share" in (owned := set(capacities)):
        return True
    words = (" of ", " without ", ", ")
    return any(
        name == "everybody" or name.startswith("job ") or any(word in name for word in words)
        for name in owned.union(tenants)
    )
