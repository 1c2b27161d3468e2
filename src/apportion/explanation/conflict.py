"""Why nothing is feasible: the fewest jobs and capacities that are in each other's way.

Optional jobs never are; a conflict is made of required jobs and of capacities. For one capacity the fewest
jobs follow in closed form from their least uses. For several, a deletion filter over jobs and capacities
(Chinneck, *Feasibility and Infeasibility in Optimization*, Springer 2008, section 6.2) finds an irreducible
set by exact re-solves, and a bounded search then looks for a smaller one.

The cheapest ways to make an infeasible knapsack feasible: more capacity, or fewer jobs.

With one capacity both follow in closed form from the least uses. With several, the least sum of relative
additions is the small MILP ``min sum_k e_k / max(C_k, 1)`` subject to ``sum u_jik x_ji <= C_k + e_k`` and
one option per required job; leaving out the fewest jobs is the knapsack in which every job is optional and
worth 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import ApportionError
from apportion.core.interruption import uninterrupted
from apportion.explanation.parts import Conflict, Relaxation
from apportion.explanation.resolver import Resolver, least_uses, part
from apportion.models.multiple_choice import MultipleChoiceKnapsack

if TYPE_CHECKING:
    from apportion.solving.registry import LinearSolver

__all__ = ["conflicts", "find", "leave_out", "more_capacity"]


Verify = Callable[[Mapping[str, int], Sequence[str]], bool]


_UNPLACED = "what is chosen cannot be placed on nodes or machines"
_MOST_TRIED = 20
"""Jobs that are left out one by one where no count says which."""


def more_capacity(
    demand: MultipleChoiceKnapsack, resolver: Resolver, verify: Verify
) -> tuple[Relaxation | None, str]:
    """Return the least addition of capacity that makes the knapsack feasible, or why there is none.

    Parameters
    ----------
    demand
        Menus that are not cut to the capacities.
    resolver
        Its remaining seconds limit the MILP.
    verify
        ``verify(additions, jobs left out)`` solves the relaxed instance and says whether there is a plan.
    """
    if (demand.required & (np.diff(demand.offsets) == 0)).any():
        return None, "no capacity helps: a job has no option at all"
    jobs = np.flatnonzero(demand.required)
    required = part(demand, jobs, np.arange(demand.num_capacities))
    if demand.num_capacities == 1:
        used, minimal = least_uses(required).sum(axis=0), True
    else:
        solved = _least_relative(required, resolver)
        if isinstance(solved, str):
            return None, solved
        used, minimal = solved
    extra = np.maximum(used - demand.capacities, 0)
    add = {demand.capacity_names[k]: int(extra[k]) for k in np.flatnonzero(extra)}
    if not add:
        return None, f"there is enough of every capacity: {_UNPLACED}"
    cost = float((extra / np.maximum(demand.capacities, 1)).sum())
    verified, note = _verified(verify, add, ())
    return Relaxation("add_capacity", add, (), cost, minimal, verified, note), ""


def leave_out(
    demand: MultipleChoiceKnapsack, names: Sequence[str], resolver: Resolver, verify: Verify
) -> tuple[Relaxation | None, str]:
    """Return the fewest required jobs whose absence makes the knapsack feasible, or why there is none.

    Of several such sets one capacity gives the one that frees most of it.
    """
    empty = demand.required & (np.diff(demand.offsets) == 0)
    rest = np.flatnonzero(demand.required & ~empty)
    if demand.num_capacities == 1:
        gone, minimal = _largest_first(demand, rest), True
    else:
        solved = _fewest(demand, rest, resolver)
        if solved is None:
            return None, "the fewest jobs to leave out were not found within the limit"
        gone, minimal = solved
    left = np.sort(np.concatenate((np.flatnonzero(empty), gone)))
    if not left.size:
        return _one_left_out(demand, names, rest, resolver, verify)
    ids = tuple(names[job] for job in left)
    verified, note = _verified(verify, {}, ids)
    return Relaxation("leave_out", {}, ids, float(len(ids)), minimal, verified, note), ""


def _one_left_out(
    demand: MultipleChoiceKnapsack,
    names: Sequence[str],
    jobs: NDArray[np.int64],
    resolver: Resolver,
    verify: Verify,
) -> tuple[Relaxation | None, str]:
    """Return one job without which the others can be placed, those that need most looked at first."""
    needs = (least_uses(demand)[jobs] / np.maximum(demand.capacities, 1)).sum(axis=1)
    for job in jobs[np.argsort(-needs, kind="stable")][:_MOST_TRIED].tolist():
        if resolver.exhausted:
            break
        if _verified(verify, {}, (names[job],))[0]:
            return Relaxation("leave_out", {}, (names[job],), 1.0, True, True, ""), ""
    return None, f"no single job was found without which there is a plan: {_UNPLACED}"


def _verified(verify: Verify, add: Mapping[str, int], ids: Sequence[str]) -> tuple[bool, str]:
    try:
        if verify(add, ids):
            return True, ""
    except ApportionError as error:
        return False, f"the relaxed instance could not be solved: {error}"
    return False, "re-solving the relaxed instance found no plan within the limit"


def _largest_first(demand: MultipleChoiceKnapsack, jobs: NDArray[np.int64]) -> NDArray[np.int64]:
    least = least_uses(demand)[jobs, 0]
    order = np.lexsort((-np.arange(jobs.size), -least))  # largest first, of equals the last job first
    excess = int(least.sum() - demand.capacities[0])
    if excess <= 0:
        return np.zeros(0, dtype=np.int64)
    enough = int(np.argmax(np.cumsum(least[order]) >= excess)) + 1
    return jobs[order[:enough]]


def _fewest(
    demand: MultipleChoiceKnapsack, jobs: NDArray[np.int64], resolver: Resolver
) -> tuple[NDArray[np.int64], bool] | None:
    within = part(demand, jobs, np.arange(demand.num_capacities))
    counting = MultipleChoiceKnapsack.from_arrays(
        np.ones(within.num_options),
        within.uses,
        within.offsets,
        within.capacities,
        required=False,
        sense="maximize",
        capacity_names=within.capacity_names,
    )
    answer = resolver.solve(counting, share=0.5)
    if answer is None or answer.plan is None:
        return None
    chosen = np.asarray(answer.plan)
    kept = int((chosen >= 0).sum())
    return jobs[chosen < 0], answer.bound is not None and math.floor(answer.bound + 1e-6) <= kept


def _least_relative(
    required: MultipleChoiceKnapsack, resolver: Resolver
) -> tuple[NDArray[np.int64], bool] | str:
    from apportion.core.errors import BackendUnavailable
    from apportion.core.options import SolveOptions
    from apportion.core.outcome import Termination
    from apportion.models.linear import LinearModelBuilder
    from apportion.solving import registry

    if resolver.exhausted:
        return "the least addition of capacity was not looked for: the time is up"
    m = LinearModelBuilder("minimize")
    x = m.binary("x", (required.num_options,))
    extra = m.continuous("extra", (required.num_capacities,), labels=(required.capacity_names,))
    m.equal("one_option", x.segment_sum(required.offsets), 1.0)
    m.at_most("capacity", required.uses.T @ x - extra, required.capacities, (required.capacity_names,))
    m.objective((extra * (1.0 / np.maximum(required.capacities, 1))).sum())
    model = m.build()
    try:
        solve = cast("LinearSolver", registry.backend("highs").load())
    except BackendUnavailable as error:
        return f"the least addition of capacity needs HiGHS: {error}"
    left = resolver.remaining
    options = SolveOptions(time_limit=None if left is None else max(left * 0.5, 1e-3))
    outcome = uninterrupted(solve(model, options, None))
    if outcome.point is None:
        return "the least addition of capacity was not found within the limit"
    point = np.asarray(outcome.point, dtype=np.float64)[model.variable("x")]
    # one option per job by its largest entry, so that the uses are exact integers
    chosen = [
        start + int(np.argmax(point[start:stop]))
        for start, stop in zip(required.offsets[:-1].tolist(), required.offsets[1:].tolist(), strict=True)
    ]
    least = least_uses(required).sum(axis=0)  # every capacity by itself needs so much, whatever is chosen
    used = required.used(_improved(required, np.array(chosen, dtype=np.int64)))
    rooms = np.maximum(required.capacities, 1)
    extra = np.maximum(used - required.capacities, 0) / rooms
    if (used - required.capacities <= np.maximum(least - required.capacities, 0)).all():
        return used, True
    cost, bound = float(extra.sum()), outcome.bound
    if outcome.termination is not Termination.OPTIMAL or bound is None:
        return used, False
    # the least only where one unit less would be seen: HiGHS's bound is good to a millionth
    within = bound * 1e-6 + 1e-9
    return used, cost <= bound + within and bool((1.0 / rooms[extra > 0] > 2 * within).all())


def _improved(required: MultipleChoiceKnapsack, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a choice that no change of one job makes cheaper; fractions confirm what doubles say."""
    uses, capacities, rooms = required.uses, required.capacities, np.maximum(required.capacities, 1)
    used = uses[chosen].sum(axis=0)

    def cost(some: NDArray[np.int64]) -> Fraction:
        over = zip(np.maximum(some - capacities, 0).tolist(), rooms.tolist(), strict=True)
        return sum((Fraction(extra, room) for extra, room in over), Fraction(0))

    least, improved = cost(used), True
    while improved:
        improved = False
        for job, row in enumerate(chosen.tolist()):
            start, stop = required.offsets[job : job + 2].tolist()
            others = used - uses[row] + uses[start:stop]
            best = int((np.maximum(others - capacities, 0) / rooms).sum(axis=1).argmin())
            if start + best != row and (now := cost(others[best])) < least:
                chosen[job], used, least, improved = start + best, others[best], now, True
    return chosen


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
    return bool(demand.uses_of(np.arange(*demand.offsets[job : job + 2])).any())


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
