"""The limits of the tree as rows: sums of uses of some tenants' jobs that may not exceed a number.

A subtree *claims* of a capacity what its jobs use, or what it does not lend, whichever is more; claims add up
along the tree. So a limit on the claim of a subtree is one row for every way to count some tenants below it
by what they withhold and the others by what they use: where nobody limits lending, the one row of all uses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from apportion.core.errors import InvalidInstance
from apportion.instances.tenants.tree import Tree, distinct

__all__ = [
    "MOST_ROWS",
    "Range",
    "Row",
    "limits_today",
    "most_rows",
    "named_apart",
    "non_preemptible_rows",
    "rows_alone",
    "rows_of",
]

MOST_ROWS = 4096
"""Rows of the whole cluster's limits above which those that follow from others are left out."""
_MOST_TOGETHER = 8 * MOST_ROWS
"""Rows of all capacities together at most: as many take a second."""


class Row(NamedTuple):
    """One limit.

    Attributes
    ----------
    name
        ``CAPACITY of TENANT``, or ``CAPACITY of TENANT without ...``; the cluster is ``everybody``. A number
        stands behind it where a capacity or a row before it is called the same.
    capacity
        Whose uses are added up.
    leaves
        The tenants whose jobs count.
    limit
        What the sum may not exceed, at least 0.
    borrower
        The tenant whose borrowing limit alone this is; ``None`` for other rows.
    preemptible_too
        Whether all jobs of those tenants count, not only those that are not preemptible.
    """

    name: str
    capacity: str
    leaves: frozenset[str]
    limit: int
    borrower: str | None
    preemptible_too: bool = True


def limits_today(tree: Tree, capacity: str, kept: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Return the most that subtrees may claim of a capacity, and what all kept jobs claim together.

    A limit is no less than what jobs that may not be stopped claim by themselves: they keep what they have,
    also where a limit was lowered since, and leave nothing of it to others.

    Parameters
    ----------
    tree, capacity
        The tenants, and what is claimed.
    kept
        What jobs that may not be stopped use, by the tenant without children whose they are.
    """
    inside, claims = tree.claims(capacity, kept)
    limits = {name: max(limit, inside[name]) for name, limit in tree.limits(capacity).items()}
    return limits, sum(claims[root] for root in tree.roots)


class Range(NamedTuple):
    """What is used inside of every subtree, what those below withhold included, at most and at least."""

    most: Mapping[str, int]
    least: Mapping[str, int]


def rows_of(
    tree: Tree,
    capacities: Mapping[str, int],
    ranges: Mapping[str, Range],
    kept: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
) -> list[Row]:
    """Return every row of the tree, the capacities themselves left out, and rows that no plan exceeds.

    Parameters
    ----------
    tree, capacities
        The tenants, and what they share.
    ranges
        What can be used, by capacity, where rows that follow from it are to be left out.
    kept
        By capacity and leaf what jobs that may not be stopped use.

    Raises
    ------
    InvalidInstance
        If they are too many.
    """
    found: list[Row] = []
    taken = set(capacities)
    for capacity, total in capacities.items():
        known = ranges.get(capacity)
        reserves = tree.reserves(capacity)
        limits, least = limits_today(tree, capacity, kept.get(capacity, {}))
        every = max(total, least)
        scopes: list[tuple[str | None, int]] = [(None, every)] if any(reserves.values()) else []
        for scope, limit in [*scopes, *limits.items()]:
            tops = tree.roots if scope is None else tree.nodes[scope].children or (scope,)
            spare = _spare(tree, scope, limit, reserves, known)
            for left, _ in _left_out(tree, tops, reserves, scope, known, spare):
                if scope is not None or left:
                    found += named_apart([_row(tree, capacity, scope, limit, left, reserves)], taken)
                if len(found) > _MOST_TOGETHER:
                    said = "too many tenants limit what they lend, and may use more; limit fewer, higher up"
                    raise InvalidInstance.at("$.tenants", said)
    return found


def non_preemptible_rows(
    tree: Tree, capacities: Iterable[str], kept: Mapping[str, Mapping[str, int]]
) -> Iterator[Row]:
    """Yield a row for every tenant whose jobs that are not preemptible stay within its guarantee.

    Parameters
    ----------
    tree, capacities
        The tenants, and what they share.
    kept
        By capacity and leaf what running jobs use that are not preemptible: no row is lower than that.
    """
    for capacity in capacities:
        own = kept.get(capacity, {})
        for name, limit in tree.non_preemptible_limits(capacity).items():
            leaves = frozenset(tree.below(name))
            least = sum(own.get(leaf, 0) for leaf in leaves)
            called = f"{capacity} of {name} for jobs that are not preemptible"
            yield Row(called, capacity, leaves, max(limit, least), None, preemptible_too=False)


def named_apart(rows: Iterable[Row], taken: set[str]) -> list[Row]:
    """Return rows under names that are not taken, and that are taken from now on."""
    found = []
    for row in rows:
        found.append(row._replace(name=distinct(row.name, taken)))
        taken.add(found[-1].name)
    return found


def rows_alone(
    tree: Tree,
    name: str,
    capacities: Iterable[str],
    ranges: Mapping[str, Range] = MappingProxyType({}),
) -> list[Row]:
    """Return what limits the jobs of a tenant alone on its guarantee, beside the limits of those below it.

    What is below it claims as in the cluster, what it does not lend included, and all claims together do not
    exceed the guarantee instead of the capacity.
    """
    found: list[Row] = []
    for capacity in capacities:
        guaranteed, reserves = tree.guarantees(capacity)[name], tree.reserves(capacity)
        known, tops = ranges.get(capacity), tree.nodes[name].children or (name,)
        spare = _spare(tree, name, guaranteed, reserves, known)
        for left, _ in _left_out(tree, tops, reserves, name, known, spare):
            row = _row(tree, capacity, name, guaranteed, left, reserves)
            found.append(row._replace(name=f"guaranteed {row.name}"))
    return found


def most_rows(tree: Tree, capacity: str) -> int:
    """Return how many rows the limit of the whole cluster has, without forming them."""
    reserves = tree.reserves(capacity)

    def ways(name: str) -> int:
        product = 1
        for child in tree.nodes[name].children:
            product *= ways(child)
        return product + _withholds(tree, name, reserves)

    total = 1
    for root in tree.roots:
        total *= ways(root)
    return total


def _withholds(tree: Tree, name: str, reserves: Mapping[str, int]) -> bool:
    """Return whether a tenant withholds more than its children do on their own."""
    return reserves[name] > sum(reserves[child] for child in tree.nodes[name].children)


def _left_out(
    tree: Tree,
    tops: tuple[str, ...],
    reserves: Mapping[str, int],
    scope: str | None,
    known: Range | None,
    spare: float,
) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield every set of tenants, none above another, that may be counted by what they withhold.

    Who uses at least what it withholds, or never more than that, is counted in one way. What those left out
    might use beyond what they withhold must be less than is to spare; the rest of that stands beside them.
    """
    if not tops:
        if spare > 0:
            yield (), spare
        return
    first, *rest = tops
    apart = first != scope and _withholds(tree, first, reserves)
    fewer = 1 if known is None else max(0, known.most[first] - reserves[first])
    uses = known is not None and known.least[first] >= reserves[first]
    for others, more in _left_out(tree, tuple(rest), reserves, scope, known, spare):
        if fewer or not apart:
            for below, left in _left_out(tree, tree.nodes[first].children, reserves, scope, known, more):
                yield (*below, *others), left
        if apart and fewer < more and not (uses and fewer):
            yield (first, *others), more - fewer


def _spare(
    tree: Tree, scope: str | None, limit: int, reserves: Mapping[str, int], known: Range | None
) -> float:
    """Return by how much all claims in a scope can exceed its limit; without end where that is not known."""
    if known is None:
        return math.inf
    if scope is not None:
        return known.most[scope] - limit
    return sum(max(known.most[root], reserves[root]) for root in tree.roots) - limit


def _row(
    tree: Tree,
    capacity: str,
    scope: str | None,
    limit: int,
    left: tuple[str, ...],
    reserves: Mapping[str, int],
) -> Row:
    leaves = set(tree.leaves if scope is None else tree.below(scope))
    for name in left:
        leaves -= set(tree.below(name))
    whom = "everybody" if scope is None else scope
    without = f" without {', '.join(sorted(left))}" if left else ""
    withheld = sum(reserves[name] for name in left)
    name = f"{capacity} of {whom}{without}"
    return Row(name, capacity, frozenset(leaves), max(0, limit - withheld), None if left else scope)
