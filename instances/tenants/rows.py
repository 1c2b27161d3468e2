"""The limits of the tree as rows: sums of uses of some tenants' jobs that may not exceed a number.

A subtree *claims* of a capacity what its jobs use, or what it does not lend, whichever is more; claims add up
along the tree. So a limit on the claim of a subtree is one row for every way to count some tenants below it
by what they withhold and the others by what they use: where nobody limits lending, the one row of all uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from apportion.instances.tenants.tree import Tree

__all__ = ["MOST_ROWS", "Row", "most_rows", "rows_alone", "rows_of"]

MOST_ROWS = 4096
"""Rows of one limit, above which lending limits are too many to be told apart."""


class Row(NamedTuple):
    """One limit.

    Attributes
    ----------
    name
        ``CAPACITY of TENANT``, or ``CAPACITY of TENANT without ...``; the cluster is ``everybody``.
    capacity
        Whose uses are added up.
    leaves
        The tenants whose jobs count.
    limit
        What the sum may not exceed, at least 0.
    """

    name: str
    capacity: str
    leaves: frozenset[str]
    limit: int


def rows_of(tree: Tree, capacities: Mapping[str, int]) -> list[Row]:
    """Return every row of the tree, the capacities themselves left out."""
    found: list[Row] = []
    for capacity, total in capacities.items():
        reserves = tree.reserves(capacity)
        limits = tree.limits(capacity)
        scopes: list[tuple[str | None, int]] = [(None, total)] if any(reserves.values()) else []
        for scope, limit in [*scopes, *limits.items()]:
            tops = tree.roots if scope is None else tree.nodes[scope].children or (scope,)
            for left in _left_out(tree, tops, reserves, scope):
                if scope is not None or left:
                    found.append(_row(tree, capacity, scope, limit, left, reserves))
    return found


def rows_alone(tree: Tree, name: str, capacities: Iterable[str]) -> list[Row]:
    """Return what limits the jobs of a tenant alone on its guarantee, beside the limits of those below it.

    What is below it claims as in the cluster, what it does not lend included, and all claims together do not
    exceed the guarantee instead of the capacity.
    """
    found: list[Row] = []
    for capacity in capacities:
        guaranteed, reserves = tree.guarantees(capacity)[name], tree.reserves(capacity)
        for left in _left_out(tree, tree.nodes[name].children or (name,), reserves, name):
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
    tree: Tree, tops: tuple[str, ...], reserves: Mapping[str, int], scope: str | None
) -> Iterator[tuple[str, ...]]:
    """Yield every set of tenants, none above another, that may be counted by what they withhold."""
    if not tops:
        yield ()
        return
    first, *rest = tops
    for others in _left_out(tree, tuple(rest), reserves, scope):
        for below in _left_out(tree, tree.nodes[first].children, reserves, scope):
            yield (*below, *others)
        if first != scope and _withholds(tree, first, reserves):
            yield (first, *others)


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
    return Row(f"{capacity} of {whom}{without}", capacity, frozenset(leaves), max(0, limit - withheld))
