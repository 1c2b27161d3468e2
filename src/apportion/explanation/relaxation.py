"""The cheapest ways to make an infeasible knapsack feasible: more capacity, or fewer jobs.

With one capacity both follow in closed form from the least uses. With several, the least sum of relative
additions is the small MILP ``min sum_k e_k / max(C_k, 1)`` subject to ``sum u_jik x_ji <= C_k + e_k`` and
one option per required job; leaving out the fewest jobs is the knapsack in which every job is optional and
worth 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ApportionError
from apportion.explanation.parts import Relaxation
from apportion.explanation.resolver import Resolver
from apportion.explanation.submodel import least_uses, part
from apportion.interruption import uninterrupted
from apportion.models.multiple_choice import MultipleChoiceKnapsack

if TYPE_CHECKING:
    from apportion.registry.calls import LinearSolver

__all__ = ["leave_out", "more_capacity"]

Verify = Callable[[Mapping[str, int], Sequence[str]], bool]


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
    ids = tuple(names[job] for job in left)
    verified, note = _verified(verify, {}, ids)
    return Relaxation("leave_out", {}, ids, float(len(ids)), minimal, verified, note), ""


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
    from apportion import registry
    from apportion.errors import BackendUnavailable
    from apportion.models.builder import LinearModelBuilder
    from apportion.options import SolveOptions
    from apportion.outcome import Termination

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
    used = required.uses[_improved(required, np.array(chosen, dtype=np.int64))].sum(axis=0)
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
