"""Why nothing is feasible: the fewest jobs and capacities that are in each other's way.

Optional jobs never are; a conflict is made of required jobs and of capacities. For one capacity the fewest
jobs follow in closed form from their least uses. For several, a deletion filter over jobs and capacities
(Chinneck, *Feasibility and Infeasibility in Optimization*, Springer 2008, section 6.2) finds an irreducible
set by exact re-solves, and a bounded search then looks for a smaller one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from apportion.explanation.parts import Conflict
from apportion.explanation.resolver import Resolver
from apportion.explanation.submodel import least_uses, part
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["conflicts", "find"]

_MOST_SEARCHED = 400
"""Re-solves the search for a smaller conflict may take."""
_SHARE = 0.1
"""Part of the seconds left that one question of the filter may take."""

Members = tuple[tuple[int, ...], tuple[int, ...]]


def find(
    demand: MultipleChoiceKnapsack, names: Sequence[str], resolver: Resolver
) -> tuple[tuple[Conflict, ...], bool | None]:
    """Return the conflicts of a knapsack, the smallest first, and whether it is feasible.

    Parameters
    ----------
    demand
        Menus that are not cut to the capacities (`KnapsackFormulation.demand`).
    names
        The jobs' names.
    resolver
        Answers what closed forms cannot.

    Returns
    -------
    tuple
        The conflicts (none if it is feasible), and ``True``, ``False`` or ``None`` where it stays open.
    """
    certain = conflicts(demand, names)
    if certain:
        best = certain[0]
        if not best.smallest:
            smaller, exhausted = _smaller(demand, len(best.jobs) + len(best.capacities), resolver)
            if smaller is not None:
                certain = (_conflict(demand, names, smaller, smallest=exhausted), *certain)
            elif exhausted:
                certain = (replace(best, smallest=True), *certain[1:])
        return certain, False
    search = _Search(demand, resolver)
    jobs = tuple(np.flatnonzero(demand.required).tolist())
    whole = search.infeasible(jobs, tuple(range(demand.num_capacities)))
    if not whole:
        return (), None if whole is None else True
    found, undecided = search.filtered(jobs)
    size = len(found[0]) + len(found[1])
    smaller, exhausted = (None, False) if undecided else _smaller(demand, size, resolver)
    open_names = tuple(_name(demand, names, member) for member in undecided)
    return (_conflict(demand, names, smaller or found, smallest=exhausted, undecided=open_names),), False


def conflicts(demand: MultipleChoiceKnapsack, names: Sequence[str]) -> tuple[Conflict, ...]:
    """Return what closed forms show: jobs without any option, and single capacities that are exceeded.

    A single capacity is exceeded by the least uses of the required jobs; the fewest of them that exceed it
    are those with the largest least uses.
    """
    empty = np.flatnonzero(demand.required & (np.diff(demand.offsets) == 0))
    if empty.size:
        return tuple(_conflict(demand, names, ((int(job),), ()), smallest=True) for job in empty)
    least = np.where(demand.required[:, None], least_uses(demand), 0)
    found: list[Members] = []
    for k in np.flatnonzero(least.sum(axis=0) > demand.capacities):
        order = np.argsort(-least[:, k], kind="stable")
        enough = int(np.argmax(np.cumsum(least[order, k]) > demand.capacities[k])) + 1
        found.append((tuple(sorted(order[:enough].tolist())), (int(k),)))
    found.sort(key=lambda members: len(members[0]))
    # a conflict with two capacities has three members or more
    return tuple(
        _conflict(
            demand,
            names,
            members,
            smallest=len(members[0]) == len(found[0][0])
            and (demand.num_capacities == 1 or len(members[0]) < 3),
        )
        for members in found
    )


class _Search:
    """Questions about parts of a knapsack, answered by closed form where possible."""

    def __init__(self, demand: MultipleChoiceKnapsack, resolver: Resolver) -> None:
        self._demand = demand
        self._resolver = resolver
        self._least = least_uses(demand)

    def infeasible(self, jobs: Iterable[int], capacities: Iterable[int]) -> bool | None:
        """Return whether some jobs cannot all be served from some capacities."""
        j, k = np.array(list(jobs), dtype=np.int64), np.array(list(capacities), dtype=np.int64)
        if not j.size or not k.size:
            return False
        if (self._least[np.ix_(j, k)].sum(axis=0) > self._demand.capacities[k]).any():
            return True
        feasible = self._resolver.feasible(part(self._demand, j, k), share=_SHARE)
        return None if feasible is None else not feasible

    def filtered(self, jobs: Sequence[int]) -> tuple[Members, list[tuple[str, int]]]:
        """Return an irreducible conflict within an infeasible set, and the members that stayed undecided.

        Whole chunks are dropped first, small jobs before large ones; the last pass drops single members.
        """
        room = np.maximum(self._demand.capacities, 1)
        load = (self._least / room).sum(axis=1)
        kept = [("job", job) for job in sorted(jobs, key=lambda job: load[job])]
        kept += [("capacity", k) for k in range(self._demand.num_capacities)]
        undecided: list[tuple[str, int]] = []
        chunk = max(len(kept) // 2, 1)
        while chunk:
            at = 0
            while at < len(kept):
                trial = kept[:at] + kept[at + chunk :]
                answer = self.infeasible(*_split(trial))
                if answer:
                    kept = trial
                else:
                    if answer is None and chunk == 1:
                        undecided.append(kept[at])
                    at += chunk
            chunk //= 2
        return _split(kept), undecided


def _smaller(demand: MultipleChoiceKnapsack, size: int, resolver: Resolver) -> tuple[Members | None, bool]:
    """Look through all sets of fewer members, smallest first; say whether the search was complete.

    Single capacities need no look: they were settled in closed form.
    """
    jobs = [job for job in np.flatnonzero(demand.required).tolist() if _uses_any(demand, job)]
    num = demand.num_capacities
    shapes = [(total - k, k) for total in range(3, size) for k in range(2, min(num, total - 1) + 1)]
    if sum(comb(len(jobs), j) * comb(num, k) for j, k in shapes) > _MOST_SEARCHED:
        return None, False
    search = _Search(demand, resolver)
    for members in _sets(jobs, num, shapes):
        answer = search.infeasible(*members)
        if answer is None:
            return None, False
        if answer:
            return members, True
    return None, True


def _sets(jobs: Sequence[int], num: int, shapes: Sequence[tuple[int, int]]) -> Iterator[Members]:
    for num_jobs, num_capacities in shapes:
        for some in combinations(jobs, num_jobs):
            for capacities in combinations(range(num), num_capacities):
                yield some, capacities


def _uses_any(demand: MultipleChoiceKnapsack, job: int) -> bool:
    return bool(demand.uses[demand.offsets[job] : demand.offsets[job + 1]].any())


def _split(members: Sequence[tuple[str, int]]) -> Members:
    return (
        tuple(sorted(index for what, index in members if what == "job")),
        tuple(sorted(index for what, index in members if what == "capacity")),
    )


def _name(demand: MultipleChoiceKnapsack, names: Sequence[str], member: tuple[str, int]) -> str:
    what, index = member
    return names[index] if what == "job" else demand.capacity_names[index]


def _conflict(
    demand: MultipleChoiceKnapsack,
    names: Sequence[str],
    members: Members,
    *,
    smallest: bool,
    undecided: tuple[str, ...] = (),
) -> Conflict:
    jobs, capacities = members
    least: NDArray[np.int64] = least_uses(demand)[list(jobs)].sum(axis=0)
    needs = {demand.capacity_names[k]: int(least[k]) for k in capacities}
    available = {demand.capacity_names[k]: int(demand.capacities[k]) for k in capacities}
    return Conflict(
        jobs=tuple(names[job] for job in jobs),
        capacities=tuple(needs),
        needs=needs,
        available=available,
        irreducible=not undecided,
        smallest=smallest,
        undecided=undecided,
        reason=_reason(needs, available),
    )


def _reason(needs: dict[str, int], available: dict[str, int]) -> str:
    if not needs:
        return "its pin, its forbidden options or its empty menu leave it no option at all"
    over = [name for name, need in needs.items() if need > available[name]]
    if over:
        return f"they need at least {needs[over[0]]} of {over[0]}, and there are {available[over[0]]}"
    return f"no combination of their options fits {' and '.join(needs)} at once"
