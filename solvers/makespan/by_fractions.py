"""Gavel's minimum makespan in fractions: one linear programme in T, its duals as certificate.

Narayanan et al. (OSDI 2020) bisect on T; with shares of work instead of shares of time T is linear. Small
instances whose times no tolerance of a solver fits are solved in whole numbers: in shares of time f the
greatest least speed s is

    max s    sum_i f_ji <= 1 (alpha_j)    s <= sum_i f_ji / p_ij (beta_j)    sum_j g_ij f_ji <= c_i (gamma_i)

whose duals satisfy ``sum beta = 1`` and ``alpha_j + g_ij gamma_i >= beta_j / p_ij``: so alpha and
``c_i gamma_i`` are the prices of jobs and machines by which `apportion.models.assignment_bounds` shows 1 / s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Outcome, Termination
from apportion.models.assignment import Assignment
from apportion.models.assignment_bounds import weak_duality_bound
from apportion.models.lowering import LoweredAssignment, lower_assignment
from apportion.solvers.assignment.call import AssignmentCall
from apportion.solvers.assignment.relaxation import Relaxation, Unsolved, relax
from apportion.solvers.general.guard import check_engines

__all__ = ["LARGEST", "divided", "solve", "start"]


_NEAR = 1e-6
"""How far the bound of an optimum's own prices may stay below it: HiGHS's tolerances are 1e-7."""
_FAR = 1e3
"""Entries so many times longer than all jobs one after the other take hardly a share of a plan."""


def solve(call: AssignmentCall) -> Outcome:
    """Solve the divisible makespan of a call.

    Times that differ by fifteen orders let HiGHS call a plan optimal that its own prices do not show to be.
    Then the program is solved without the hopelessly long entries, and the prices, which hold for all of
    them, decide.
    """
    model = call.model
    lowered = lower_assignment(model)
    check_engines("highspy")
    outcome = _solved(call, lowered, None)
    if outcome.termination is not Termination.OPTIMAL:
        return outcome
    if _is_proved(model, outcome):
        return _announced(call, outcome)
    long = _hopeless(model)
    other = _solved(call, lowered, np.append(long, False)) if long.any() else outcome
    if other.objective is not None and outcome.objective is not None and other.objective < outcome.objective:
        outcome = other
    if not _is_proved(model, outcome):
        outcome = replace(
            outcome,
            termination=Termination.NUMERICAL_ERROR,
            raw_status="the prices do not show the optimum that HiGHS claims",
            bound=None,
            bound_source=None,
        )
    return _announced(call, outcome)


def start(model: Assignment) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return shares and prices for a general solver, each ``None`` where there are none."""
    lowered = lower_assignment(model)
    relaxation = relax(lowered.model)
    if isinstance(relaxation, Unsolved):
        return None, None
    return lowered.choice(relaxation.point), divisible_prices(model, lowered, relaxation)


def divisible_prices(
    model: Assignment, lowered: LoweredAssignment, relaxation: Relaxation
) -> NDArray[np.float64]:
    """Return the prices of pools and jobs that prove the optimum of shares."""
    pools = np.maximum(-relaxation.of(lowered.model, "load"), 0.0) * model.counts
    jobs = np.maximum(-relaxation.of(lowered.model, "one_at_a_time"), 0.0)
    return np.concatenate((pools, jobs))


def _announced(call: AssignmentCall, outcome: Outcome) -> Outcome:
    """Return an outcome that the call's listener has heard of."""
    call.best.bound = outcome.bound
    if outcome.point is not None:
        call.offer(outcome.point)
    return outcome


def _solved(call: AssignmentCall, lowered: LoweredAssignment, forbidden: NDArray[np.bool_] | None) -> Outcome:
    """Return HiGHS's optimum; without all entries its bound is that of its prices."""
    model = call.model
    relaxation = relax(lowered.model, call.clock.seconds_left, forbidden)
    if isinstance(relaxation, Unsolved):
        ended = Termination.TIME_LIMIT if call.clock.late() else relaxation.termination
        ended = Termination.NUMERICAL_ERROR if ended is Termination.INFEASIBLE else ended
        return Outcome(termination=ended, raw_status=relaxation.raw)
    shares = lowered.choice(relaxation.point)
    prices = divisible_prices(model, lowered, relaxation)
    bound = relaxation.objective if forbidden is None else weak_duality_bound(model, prices)
    return Outcome(
        termination=Termination.OPTIMAL,
        raw_status="optimal basis",
        point=shares,
        objective=model.objective(shares),
        bound=bound,
        bound_source="solver",
        multipliers=prices,
    )


def _is_proved(model: Assignment, outcome: Outcome) -> bool:
    """Return whether the outcome's own prices show that nothing ends much earlier."""
    if outcome.multipliers is None or outcome.objective is None:
        return False
    bound = weak_duality_bound(model, outcome.multipliers)
    return bound is not None and outcome.objective - bound <= _NEAR * outcome.objective


def _hopeless(model: Assignment) -> NDArray[np.bool_]:
    """Return bool [entries]: those far longer than all jobs together, each where it is quickest."""
    filled = model.offsets[:-1][np.diff(model.offsets) > 0]
    quickest = np.minimum.reduceat(model.values, filled) if filled.size else np.zeros(1)
    return np.asarray(model.values > _FAR * float(quickest.sum()), dtype=np.bool_)


LARGEST = 60
"""Entries of the largest instance that is solved so."""
_MOST_PIVOTS = 2_000


def divided(model: Assignment) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the shares of work of an optimal plan and its prices, ``None`` where it is too large.

    Parameters
    ----------
    model
        A divisible makespan; jobs without any entry make it unanswerable.

    Returns
    -------
    tuple or None
        float64 [entries] shares of work and float64 [machines + jobs] prices.
    """
    bounds = model.offsets.tolist()
    if model.num_options > LARGEST or (np.diff(model.offsets) == 0).any():
        return None
    times = [Fraction(time) for time in model.values.tolist()]
    work = np.zeros(model.num_options)
    prices = np.zeros(model.num_machines + model.num_jobs)
    rows: list[int] = []
    jobs: list[int] = []
    for job in range(model.num_jobs):
        own = range(bounds[job], bounds[job + 1])
        at_once = next((row for row in own if not times[row]), None)
        if at_once is None:
            rows.extend(own)
            jobs.append(job)
        else:
            work[at_once] = 1.0
    if not jobs:
        return work, prices
    found = _greatest_speed(model, times, rows, jobs)
    if found is None:
        return None
    shares, duals = found
    owner = model.job_of_option()
    done = dict.fromkeys(jobs, Fraction(0))
    for share, row in zip(shares, rows, strict=True):
        done[int(owner[row])] += share / times[row]
    for share, row in zip(shares, rows, strict=True):
        work[row] = float(share / times[row] / done[int(owner[row])])
    largest = max(duals)
    for j, job in enumerate(jobs):
        prices[model.num_machines + job] = float(duals[j] / largest)
    for machine in range(model.num_machines):
        paid = duals[2 * len(jobs) + machine] * int(model.counts[machine])
        prices[machine] = float(paid / largest)
    return work, prices


def _greatest_speed(
    model: Assignment, times: Sequence[Fraction], rows: Sequence[int], jobs: Sequence[int]
) -> tuple[list[Fraction], list[Fraction]] | None:
    """Return the shares of time, and the duals of the rows alpha, beta and gamma."""
    owner = model.job_of_option().tolist()
    zero, one = Fraction(0), Fraction(1)
    table: list[list[Fraction]] = []
    for job in jobs:
        table.append([one if owner[row] == job else zero for row in rows] + [zero, one])
    for job in jobs:
        table.append([-1 / times[row] if owner[row] == job else zero for row in rows] + [one, zero])
    for machine in range(model.num_machines):
        held = [Fraction(int(model.gpus[row])) if model.machine[row] == machine else zero for row in rows]
        table.append([*held, zero, Fraction(int(model.counts[machine]))])
    return _simplex(table, len(rows))


def _simplex(table: list[list[Fraction]], target: int) -> tuple[list[Fraction], list[Fraction]] | None:
    """Maximise one column under ``A x <= b`` with b >= 0, by Bland's rule; return x before it, and duals."""
    count, width = len(table), len(table[0]) - 1
    full = [
        [*row[:-1], *(Fraction(int(i == k)) for k in range(count)), row[-1]] for i, row in enumerate(table)
    ]
    cost = [Fraction(-int(j == target)) for j in range(width + count)] + [Fraction(0)]
    basis = [width + i for i in range(count)]
    for _ in range(_MOST_PIVOTS):
        enter = next((j for j in range(width + count) if cost[j] < 0), None)
        if enter is None:
            value = dict(zip(basis, (row[-1] for row in full), strict=True))
            return [value.get(j, Fraction(0)) for j in range(target)], cost[width:-1]
        ratios = [(row[-1] / row[enter], basis[i], i) for i, row in enumerate(full) if row[enter] > 0]
        if not ratios:
            return None
        leave = min(ratios)[2]
        pivot = full[leave] = [entry / full[leave][enter] for entry in full[leave]]
        for i, row in enumerate(full):
            if i != leave and row[enter]:
                full[i] = [a - row[enter] * b for a, b in zip(row, pivot, strict=True)]
        cost = [a - cost[enter] * b for a, b in zip(cost, pivot, strict=True)]
        basis[leave] = enter
    return None
