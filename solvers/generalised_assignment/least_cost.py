"""Generalised assignment, exactly: bound, incumbent, fixing by reduced cost, branch and bound on the rest.

Find some placement under tight capacities: shifts and swaps that lower the total overflow, with kicks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Outcome, Termination
from apportion.models.assignment import Assignment
from apportion.models.assignment_bounds import machine_bound, pooled
from apportion.models.lowering import lower_assignment
from apportion.solvers.assignment.call import AssignmentCall, no_placement, small
from apportion.solvers.assignment.mip import (
    branch_and_bound,
    relieve,
    repaired,
    trusted,
)
from apportion.solvers.assignment.relaxation import relaxed
from apportion.solvers.general.guard import check_engines
from apportion.solvers.generalised_assignment.by_tree import Descent, TreeSearch, fits, fits_in_parts

__all__ = ["greedy_and_prices", "solve", "without_overflow"]


_LARGEST = 600
"""Jobs up to which all swaps are looked at."""
_KICKS = 40


def without_overflow(
    model: Assignment, cost: NDArray[np.float64], seed: int, over: Callable[[], bool]
) -> NDArray[np.int64] | None:
    """Return a choice of all jobs that respects the capacities, or ``None`` if none was found.

    Parameters
    ----------
    model
        The assignment.
    cost
        float64 [entries], minimised: where to begin, and which of equal moves to prefer.
    seed
        Random seed.
    over
        Whether the time is over.
    """
    if model.num_jobs > _LARGEST:
        return None
    rng = np.random.default_rng(seed)
    rows = model.rows()
    at = np.maximum(rows, 0)
    price = np.where(rows >= 0, cost[at], np.inf)
    use = np.where(rows >= 0, model.uses[at], 0)
    limit = np.where(model.limited, model.capacities, np.int64(2**62))
    placed = np.argmin(price, axis=1)
    able = np.flatnonzero(np.isfinite(price).any(axis=1))
    for _ in range(_KICKS):
        if over():
            return None
        with np.errstate(invalid="ignore"):  # forbidden pairs cost infinity
            placed_or_none = _settled(price, use, limit, placed)
        if placed_or_none:
            return np.asarray(rows[np.arange(placed.size), placed], dtype=np.int64)
        for job in rng.choice(able, size=min(able.size, 3), replace=False).tolist():
            placed[job] = rng.choice(np.flatnonzero(np.isfinite(price[job])))
    return None


def _settled(
    price: NDArray[np.float64], use: NDArray[np.int64], limit: NDArray[np.int64], placed: NDArray[np.int64]
) -> bool:
    """Descend on the overflow; return whether it is gone."""
    jobs = np.arange(placed.size)
    span = float(np.ptp(price[np.isfinite(price)])) or 1.0
    while True:
        own = use[jobs, placed]
        held = np.zeros(limit.size, dtype=np.int64)
        np.add.at(held, placed, own)  # not as weights of a bincount, which are doubles
        room = limit - held
        excess = np.maximum(-room, 0)
        if not excess.any():
            return True
        # a job leaves its machine and enters another
        leave = excess[placed] - np.maximum(-(room[placed] + own), 0)
        enter = np.maximum(-(room[None, :] - use), 0) - excess[None, :]
        shift = (leave[:, None] - enter).astype(np.float64)
        shift -= 1e-3 * (price - price[jobs, placed][:, None]) / span
        shift[~np.isfinite(price)] = -np.inf
        shift[jobs, placed] = -np.inf
        # two jobs change places
        there = use[:, placed]
        after = np.maximum(-(room[placed][None, :] + own[None, :] - there), 0)
        relief = (excess[placed][None, :] - after).astype(np.float64)
        swap = relief + relief.T
        apart = price[:, placed] - price[jobs, placed][:, None]
        swap -= 1e-3 * (apart + apart.T) / span
        swap[~np.isfinite(apart) | ~np.isfinite(apart.T) | (placed[:, None] == placed[None, :])] = -np.inf
        best_shift, best_swap = int(np.argmax(shift)), int(np.argmax(swap))
        if max(shift.flat[best_shift], swap.flat[best_swap]) < 0.5:
            return False
        if shift.flat[best_shift] >= swap.flat[best_swap]:
            job, machine = divmod(best_shift, limit.size)
            placed[job] = machine
        else:
            first, second = divmod(best_swap, placed.size)
            placed[first], placed[second] = placed[second], placed[first]


_QUICK = 600
"""Entries left after fixing up to which restarts do not pay."""
_MANY = 20_000
"""Entries above which jobs are placed one by one as well: what is rounded may not fit."""
_ROUNDED_SHARE = 0.4
"""Share of the time left in which roundings of the relaxation are made to fit."""
_PARTS_SHARE = 0.5
"""Share of the time left in which a plan is improved some machines at a time where one tree is too large."""
_SEARCHABLE = 2_000
"""Jobs up to which the quadratic neighbourhoods are searched."""


def solve(call: AssignmentCall, start: NDArray[np.int64] | None) -> Outcome:
    """Solve a generalised assignment, from a feasible choice or ``None``."""
    model, clock = call.model, call.clock
    near = relaxed(model, clock)
    if near.said_infeasible and no_placement(model, clock.seconds_left):
        return Outcome(
            termination=Termination.INFEASIBLE,
            raw_status="prices show that the capacities cannot hold the required jobs",
            bound_source="multipliers",
        )
    prices = near.prices
    bound = _whole_bound(model, machine_bound(model, prices))
    call.best.bound = bound
    best = _better(model, start, _first(model, near.point, prices, clock.late_in(_ROUNDED_SHARE)))
    if best is not None and clock.late():
        return _outcome(model, best, bound, prices, Termination.TIME_LIMIT, "placed one by one", 0)
    if fits(model):
        return _by_tree(call, None if best is None else _descended(call, best), bound, prices)
    check_engines("highspy")  # from here on there is no road without it
    if best is None and not clock.late():
        sign = -1.0 if model.goal == "value" else 1.0
        reduced = sign * model.values + prices[model.machine] * model.uses
        best = without_overflow(model, reduced, call.options.seed, clock.late)
    if best is not None and not call.closes(model.objective(best)):
        call.offer(best)
        best = _descended(call, best)
    if best is not None and clock.uncounted is not None and fits_in_parts(model):
        best = _in_parts(call, best, prices)
    if best is not None:
        call.offer(best)
        if call.closes(model.objective(best)):
            return _outcome(model, best, bound, prices, Termination.OPTIMAL, "the bound is met", 0)
        if clock.work_left == 0:
            return _outcome(model, best, bound, prices, Termination.NODE_LIMIT, "searched", 0)
    if near.failed is not None and near.failed.termination is Termination.TIME_LIMIT:
        return _outcome(model, best, bound, prices, Termination.TIME_LIMIT, near.failed.raw, 0)
    return _branch(call, best, bound, prices)


def _by_tree(
    call: AssignmentCall, best: NDArray[np.int64] | None, bound: float, prices: NDArray[np.float64]
) -> Outcome:
    """Search by the compiled tree."""
    model, clock = call.model, call.clock

    def take(choice: NDArray[np.int64], proven: float | None) -> None:
        call.best.bound = proven
        call.offer(choice)

    found = TreeSearch(model, prices).run(
        best, call.options.gap, clock.work_left, call.options.seed, clock.late, take, call.options.threads
    )
    clock.charge(found.nodes)
    if found.choice is None and found.closed:
        return Outcome(
            termination=Termination.INFEASIBLE,
            raw_status="the search found no placement",
            bound_source="branch_and_bound",
            counters={"nodes": float(found.nodes)},
        )
    if found.bound is not None:
        bound = min(bound, found.bound) if model.goal == "value" else max(bound, found.bound)
    ended = Termination.TIME_LIMIT if clock.late() else Termination.NODE_LIMIT
    ended = Termination.INTERRUPTED if found.interrupted else ended
    ended = Termination.OPTIMAL if found.closed else ended
    outcome = _outcome(model, found.choice, bound, prices, ended, "searched", found.nodes)
    return replace(outcome, row_multipliers=found.row_multipliers)


def _in_parts(
    call: AssignmentCall, best: NDArray[np.int64], prices: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return a choice that trees over a few machines improve, in a share of the time left."""
    clock, options, late = call.clock, call.options, call.clock.late_in(_PARTS_SHARE)
    call.offer(best)

    def over() -> bool:
        return late() or (call.best.objective is not None and call.closes(call.best.objective))

    found = TreeSearch(call.model, prices).run(
        best,
        options.gap,
        clock.work_left,
        options.seed,
        over,
        lambda choice, _: call.offer(choice),
        options.threads,
        deciding=False,
    )
    clock.charge(found.nodes)
    if found.interrupted:
        raise KeyboardInterrupt
    return best if found.choice is None else found.choice


def greedy_and_prices(
    model: Assignment,
) -> tuple[NDArray[np.int64] | None, NDArray[np.float64] | None]:
    """Return a feasible choice and the prices of the linear relaxation, each ``None`` where there is none."""
    near = relaxed(model)
    first = _first(model, near.point, near.prices)
    return first, None if near.point is None else pooled(model, near.prices)


def _whole_bound(model: Assignment, bound: float) -> float:
    """Round the bound of whole values to a whole number."""
    if abs(bound) >= 2.0**50 or not (model.values == np.rint(model.values)).all():
        return bound
    return float(math.floor(bound) if model.goal == "value" else math.ceil(bound))


def _first(
    model: Assignment,
    begin: NDArray[np.float64] | None,
    prices: NDArray[np.float64],
    over: Callable[[], bool] = lambda: False,
) -> NDArray[np.int64] | None:
    """Round the relaxation, or place jobs where they fit: keep what is whole, place the rest by price."""
    sign = -1.0 if model.goal == "value" else 1.0
    reduced = sign * model.values + prices[model.machine] * model.uses
    nothing = np.full(model.num_jobs, -1, dtype=np.int64)
    rounded = nothing if begin is None else model.chosen(np.flatnonzero(begin > 0.5))
    begun = [rounded]
    if begin is None or model.num_options > _MANY:
        whole = nothing if begin is None else model.chosen(np.flatnonzero(begin > 1 - 1e-6))
        begun.insert(0, _one_by_one(model, reduced, whole))
    best: NDArray[np.int64] | None = None
    for cost, choices in ((reduced, begun), (sign * model.values, [rounded])):
        order = np.lexsort((cost, model.job_of_option()))
        cheapest = order[np.minimum(model.offsets[:-1], max(order.size - 1, 0))] if order.size else order
        for given in choices:
            choice = np.where(model.required & (given < 0), cheapest, given) if order.size else given.copy()
            best = _better(model, best, relieve(model, choice, cost, over))
    if best is None and not over():
        best = repaired(model, nothing)
    return best


def _one_by_one(model: Assignment, cost: NDArray[np.float64], choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place the others where they cost least of where they fit, the greatest least share of room first."""
    choice = choice.copy()
    room = np.where(model.limited, model.capacities - model.used(choice), np.iinfo(np.int64).max)
    share = model.uses / np.maximum(room, 1)[model.machine]
    least = np.full(model.num_jobs, np.inf)
    np.minimum.at(least, model.job_of_option(), share)
    for job in [job for job in np.argsort(-least, kind="stable").tolist() if choice[job] < 0]:
        rows = slice(int(model.offsets[job]), int(model.offsets[job + 1]))
        on = model.machine[rows]
        price = np.where(model.uses[rows] <= room[on], cost[rows], np.inf)
        if price.size and price.min() < (np.inf if model.required[job] else 0.0):
            best = int(np.lexsort((share[rows], price))[0])
            choice[job] = rows.start + best
            room[on[best]] -= model.uses[rows][best]
    return choice


def _better(
    model: Assignment, first: NDArray[np.int64] | None, second: NDArray[np.int64] | None
) -> NDArray[np.int64] | None:
    if first is None or second is None:
        return second if first is None else first
    sign = 1.0 if model.goal == "value" else -1.0
    return second if sign * (model.objective(second) - model.objective(first)) > 0 else first


def _descended(call: AssignmentCall, choice: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the choice that shifts, swaps and ejections lead to."""
    model = call.model
    if model.num_jobs > _SEARCHABLE:
        return choice
    sign = -1.0 if model.goal == "value" else 1.0
    found = Descent(model, choice).run(lambda cost: call.clock.late() or call.closes(sign * cost))
    better = _better(model, choice, found)
    return choice if better is None else better


def _branch(
    call: AssignmentCall,
    best: NDArray[np.int64] | None,
    bound: float,
    prices: NDArray[np.float64],
) -> Outcome:
    model, options, clock = call.model, call.options, call.clock
    lowered = lower_assignment(model)
    allowed = None if best is None else _kept(model, prices, model.objective(best))
    start = None if best is None else lowered.point(best)
    if allowed is not None and start is not None:
        allowed |= start > 0
        if best is not None and not allowed.any():  # nothing is placed, and nothing better can be
            return _outcome(
                model, best, model.objective(best), prices, Termination.OPTIMAL, "all is fixed", 0
            )
    quick = allowed is not None and int(allowed.sum()) <= _QUICK
    branched = branch_and_bound(
        lowered.model,
        clock.seconds_left,
        start,
        allowed,
        options.gap,
        options.seed,
        clock.work_left,
        quick=quick,
    )
    if branched.point is not None:
        found = lowered.choice(branched.point)
        if model.check(found).feasible:
            best = _better(model, best, found)
    if branched.termination is Termination.INFEASIBLE and best is None and small(model):
        return Outcome(termination=Termination.INFEASIBLE, raw_status=branched.raw, bound_source="solver")
    source = "branch_and_bound"
    if branched.bound is not None and best is not None:
        proven = trusted(model, branched.bound, model.objective(best))
        if proven < bound if model.sense == "maximize" else proven > bound:
            bound, source = proven, "solver"
    if best is not None:
        call.best.bound = bound
        call.offer(best)
    ended = branched.termination
    if ended is Termination.INFEASIBLE:
        ended = Termination.NUMERICAL_ERROR  # refuted by the plan, or not to be believed of such numbers
    if ended is Termination.NODE_LIMIT and clock.late():
        ended = Termination.TIME_LIMIT
    return _outcome(model, best, bound, prices, ended, branched.raw, branched.nodes, source)


def _kept(model: Assignment, prices: NDArray[np.float64], incumbent: float) -> NDArray[np.bool_]:
    """Return the entries that some better solution may use: reduced cost below the gap.

    An entry's reduced cost and its job's least one are off by less than `noise`: each takes four roundings of
    at most ``eps / 2`` of their magnitudes. The bound has its own margin.
    """
    sign = -1.0 if model.goal == "value" else 1.0
    price = np.where(model.limited, prices, 0.0)[model.machine] * model.uses
    reduced = sign * model.values + price
    size = np.abs(model.values) + price
    filled = np.flatnonzero(np.diff(model.offsets))
    segment = model.offsets[:-1][filled]
    least, largest = np.zeros(model.num_jobs), np.zeros(model.num_jobs)
    least[filled] = np.minimum.reduceat(reduced, segment)
    least[~model.required] = np.minimum(least[~model.required], 0.0)
    owner = model.job_of_option()
    largest[filled] = np.abs(least[filled])
    noise = 4 * float(np.finfo(np.float64).eps) * (size + largest[owner])
    gap = sign * (incumbent - machine_bound(model, prices))
    whole = bool((model.values == np.rint(model.values)).all())
    allowed = gap - 1 + 1e-6 if whole else gap
    return np.asarray(reduced - least[owner] <= allowed + noise + 1e-9 * abs(incumbent), dtype=np.bool_)


def _outcome(
    model: Assignment,
    best: NDArray[np.int64] | None,
    bound: float,
    prices: NDArray[np.float64],
    termination: Termination,
    raw: str,
    nodes: int,
    source: str = "branch_and_bound",
) -> Outcome:
    return Outcome(
        termination=termination,
        raw_status=raw,
        point=best,
        objective=None if best is None else model.objective(best),
        bound=bound,
        bound_source=source,
        multipliers=pooled(model, prices),
        counters={"nodes": float(nodes)},
    )
