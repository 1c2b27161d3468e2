"""Generalised assignment, exactly: bound, incumbent, fixing by reduced cost, branch and bound on the rest."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.assignment_bounds import lagrangian_bound, pooled
from apportion.models.assignment_lowering import LoweredAssignment, lower_assignment
from apportion.options import SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solvers.assignment.clock import Clock
from apportion.solvers.assignment.lp import Relaxation, relax
from apportion.solvers.assignment.mip import branch_and_bound
from apportion.solvers.assignment.repair import relieve, repaired
from apportion.solvers.generalised_assignment.feasibility import without_overflow
from apportion.solvers.generalised_assignment.local_search import Search

__all__ = ["greedy_and_prices", "solve"]

_QUICK = 600
"""Entries left after fixing up to which restarts do not pay."""
_SEARCHABLE = 4_000
"""Jobs up to which the quadratic neighbourhoods are searched."""


def solve(model: Assignment, options: SolveOptions, start: NDArray[np.int64] | None, clock: Clock) -> Outcome:
    """Solve a generalised assignment.

    Parameters
    ----------
    model
        Costs or values under capacities.
    options
        Limits; deterministic calls count nodes, not seconds.
    start
        A feasible choice, or ``None``.
    clock
        The clock of the call.
    """
    lowered = lower_assignment(model)
    relaxation = relax(lowered.model, clock.left)
    if relaxation is None:
        status = Termination.TIME_LIMIT if clock.over else Termination.INFEASIBLE
        return Outcome(
            termination=status,
            raw_status="linear relaxation: no solution",
            point=start,
            bound_source="solver",
        )
    prices = _prices(model, lowered, relaxation)
    bound = _whole_bound(model, relaxation.objective)
    clock.bound = bound
    best = _better(model, start, _first(model, lowered, relaxation, prices))
    if best is None and not clock.over:
        sign = -1.0 if model.goal == "value" else 1.0
        reduced = sign * model.values + prices[model.machine] * model.uses
        best = without_overflow(model, reduced, options.seed, lambda: clock.over)
    if best is not None and not clock.closed(model.objective(best)):
        clock.tell(model.objective(best))
        best = _searched(model, best, options, clock, min(200, 20_000 // max(model.num_jobs, 1)))
    if best is not None:
        clock.tell(model.objective(best))
        if clock.closed(model.objective(best)):
            return _told(model, best, bound, prices, Termination.OPTIMAL, "the bound is met", 0)
    return _branch(model, lowered, options, clock, best, bound, prices, relaxation)


def greedy_and_prices(
    model: Assignment,
) -> tuple[NDArray[np.int64] | None, NDArray[np.float64] | None]:
    """Return a feasible choice and the prices of the linear relaxation, each ``None`` where there is none."""
    lowered = lower_assignment(model)
    relaxation = relax(lowered.model)
    if relaxation is None:
        return None, None
    prices = _prices(model, lowered, relaxation)
    return _first(model, lowered, relaxation, prices), pooled(model, prices)


def _prices(model: Assignment, lowered: LoweredAssignment, relaxation: Relaxation) -> NDArray[np.float64]:
    price = np.zeros(model.num_machines)
    duals = relaxation.of(lowered.model, "capacity")
    price[np.flatnonzero(model.limited)] = duals if model.goal == "value" else -duals
    return np.maximum(price, 0.0)


def _whole_bound(model: Assignment, bound: float) -> float:
    """Round the bound of whole values to a whole number, with a margin for the solver's tolerance."""
    if not (model.values == np.rint(model.values)).all():
        return bound
    slack = 1e-6 * max(1.0, abs(bound))
    return float(math.floor(bound + slack) if model.goal == "value" else math.ceil(bound - slack))


def _first(
    model: Assignment, lowered: LoweredAssignment, relaxation: Relaxation, prices: NDArray[np.float64]
) -> NDArray[np.int64] | None:
    """Round the relaxation: keep what is whole, place the rest by price."""
    sign = -1.0 if model.goal == "value" else 1.0
    reduced = sign * model.values + prices[model.machine] * model.uses
    rounded = lowered.choice(relaxation.point)
    best: NDArray[np.int64] | None = None
    for cost in (reduced, sign * model.values):
        choice = rounded.copy()
        missing = np.flatnonzero(model.required & (choice < 0))
        order = np.lexsort((cost, model.job_of_option()))
        cheapest = order[np.minimum(model.offsets[:-1], max(order.size - 1, 0))] if order.size else order
        choice[missing] = cheapest[missing]
        best = _better(model, best, relieve(model, choice, cost))
    if best is None:
        best = repaired(model, np.full(model.num_jobs, -1, dtype=np.int64))
    return best


def _better(
    model: Assignment, first: NDArray[np.int64] | None, second: NDArray[np.int64] | None
) -> NDArray[np.int64] | None:
    if first is None or second is None:
        return second if first is None else first
    sign = 1.0 if model.goal == "value" else -1.0
    return second if sign * (model.objective(second) - model.objective(first)) > 0 else first


def _searched(
    model: Assignment, choice: NDArray[np.int64], options: SolveOptions, clock: Clock, rounds: int
) -> NDArray[np.int64]:
    if model.num_jobs > _SEARCHABLE:
        return choice
    search = Search(model, options.seed)
    search.load(choice)

    def over() -> bool:
        sign = -1.0 if model.goal == "value" else 1.0
        return clock.over or clock.closed(sign * search.total())

    found = search.run(over, rounds)
    better = _better(model, choice, found)
    return choice if better is None else better


def _branch(
    model: Assignment,
    lowered: LoweredAssignment,
    options: SolveOptions,
    clock: Clock,
    best: NDArray[np.int64] | None,
    bound: float,
    prices: NDArray[np.float64],
    relaxation: Relaxation,
) -> Outcome:
    allowed = None if best is None else _kept(model, prices, model.objective(best))
    start = None if best is None else lowered.point(best)
    if allowed is not None and start is not None:
        allowed |= start > 0
    nodes = None if options.work_limit is None else max(int(options.work_limit), 1)
    quick = allowed is not None and int(allowed.sum()) <= _QUICK
    branched = branch_and_bound(
        lowered.model, clock.left, start, allowed, options.gap, options.seed, nodes, quick=quick
    )
    if branched.point is not None:
        found = lowered.choice(branched.point)
        if model.check(found).feasible:
            best = _better(model, best, found)
    if branched.status == "infeasible" and best is None:
        return Outcome(
            termination=Termination.INFEASIBLE, raw_status=branched.raw, bound_source="branch_and_bound"
        )
    proven = branched.bound
    if branched.status == "infeasible" and best is not None:
        proven = model.objective(best)  # nothing better was left to search
    if proven is not None and best is not None:
        # what was fixed away cannot beat the incumbent it was fixed by
        sign = 1.0 if model.goal == "value" else -1.0
        own = model.objective(best)
        proven = own if sign * (proven - own) < 0 else proven
        bound = min(bound, proven) if sign > 0 else max(bound, proven)
        bound = _whole_bound(model, bound)
    if best is not None:
        clock.bound = bound
        clock.tell(model.objective(best))
    optimal = best is not None and branched.status != "limit"
    limit = Termination.NODE_LIMIT if nodes is not None and not clock.over else Termination.TIME_LIMIT
    return _told(
        model, best, bound, prices, Termination.OPTIMAL if optimal else limit, branched.raw, branched.nodes
    )


def _kept(model: Assignment, prices: NDArray[np.float64], incumbent: float) -> NDArray[np.bool_] | None:
    """Return the entries that some better solution may use: reduced cost below the gap."""
    by_pool = pooled(model, prices)
    proven = lagrangian_bound(model, by_pool)
    if proven is None:
        return None
    price = np.zeros(len(model.pool_names))
    price[model.priced] = by_pool
    sign = -1.0 if model.goal == "value" else 1.0
    reduced = sign * model.values + price[model.pool][model.machine] * model.uses
    filled = np.flatnonzero(np.diff(model.offsets))
    least = np.zeros(model.num_jobs)
    least[filled] = np.minimum.reduceat(reduced, model.offsets[:-1][filled])
    least[~model.required] = np.minimum(least[~model.required], 0.0)
    extra = reduced - least[model.job_of_option()]
    gap = sign * (incumbent - proven)
    whole = bool((model.values == np.rint(model.values)).all())
    slack = 1e-9 * max(1.0, abs(incumbent))
    return np.asarray(extra <= (gap - 1 + 1e-6 if whole else gap) + slack, dtype=np.bool_)


def _told(
    model: Assignment,
    best: NDArray[np.int64] | None,
    bound: float,
    prices: NDArray[np.float64],
    termination: Termination,
    raw: str,
    nodes: int,
) -> Outcome:
    return Outcome(
        termination=termination,
        raw_status=raw,
        point=best,
        objective=None if best is None else model.objective(best),
        bound=bound,
        bound_source="branch_and_bound",
        multipliers=pooled(model, prices),
        counters={"nodes": float(nodes)},
    )
