"""Solve a multiple-choice knapsack exactly, by the solver for one capacity or the one for any number."""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions, Start
from apportion.core.outcome import Outcome, Termination
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["solve", "start"]


def solve(
    model: MultipleChoiceKnapsack,
    options: SolveOptions,
    start: Start,
) -> Outcome:
    """Solve a knapsack by structure.

    Parameters
    ----------
    model
        The menus.
    options
        Limits; `options.time_limit` is what is left for this call.
    start
        A feasible choice to begin with, what every job has now, and multipliers of the round before.
    """
    point = None if start.point is None else start.point.astype(np.int64, copy=False)
    preferred = start.preferred
    if model.num_capacities == 1:
        from apportion.solvers.knapsack import one_capacity

        near = None if start.hint is None else float(start.hint[0])
        outcome = _no_less_than_greedy(
            model, options, one_capacity.solve(model, options, point, preferred=preferred, hint=near)
        )
        return _first_in_order(model, outcome) if options.deterministic and preferred is None else outcome
    from apportion.solvers.multiknapsack import several_capacities

    return several_capacities.solve(model, options, point, start.hint, start.bound)


_SHORT = 0.5
"""Seconds in which more is found than a choice by density."""
_SOON_READ = 600_000
"""Options up to which all are ordered by density although the limit has passed."""


def _no_less_than_greedy(model: MultipleChoiceKnapsack, options: SolveOptions, outcome: Outcome) -> Outcome:
    """Return an outcome that a short limit ended, with the choice by density where that is better."""
    ended = outcome.termination is Termination.TIME_LIMIT and (options.time_limit or 0.0) < _SHORT
    if not ended or model.num_options > _SOON_READ:
        return outcome
    from apportion.solvers.multiknapsack.option_table import build
    from apportion.solvers.multiknapsack.repair import by_density, cheapest

    menus = build(model)
    found = None if menus is None or not menus.num_jobs else by_density(menus, cheapest(menus))
    if menus is None or found is None:
        return outcome
    point = menus.rows[found]
    objective, sign = model.objective(point), 1.0 if model.sense == "maximize" else -1.0
    if outcome.objective is not None and sign * (objective - outcome.objective) <= 0.0:
        return outcome
    return replace(outcome, point=point, objective=objective)


def _first_in_order(model: MultipleChoiceKnapsack, outcome: Outcome) -> Outcome:
    """Return a proven outcome with the first of the equal optima, where that question can be answered."""
    from apportion.solvers.knapsack.greedy import first_optimum

    if outcome.termination is not Termination.OPTIMAL or outcome.objective is None:
        return outcome
    point = first_optimum(model, outcome.objective)
    if point is None:
        return outcome
    sign = 1.0 if model.sense == "maximize" else -1.0
    if sign * (outcome.objective - model.objective(point)) > 2e-12 * abs(outcome.objective):
        return outcome  # the table's sums lost digits: its first optimum is none
    return replace(outcome, point=point, counters={**outcome.counters, "first_in_order": 1.0})


def start(
    model: MultipleChoiceKnapsack,
    seconds: float | None = None,
) -> tuple[NDArray[np.int64] | None, NDArray[np.float64] | None]:
    """Return a greedy feasible choice and near-optimal multipliers, each ``None`` where there is none.

    This is what every general solver starts from, and what verifies its bound. It takes about so many
    `seconds` at most; ``None`` for as many as it needs.
    """
    if model.num_capacities == 1:
        from apportion.solvers.knapsack import dual, greedy

        choice = greedy.choice(model, 0.0)
        if choice is None:
            return None, None
        multiplier, _ = dual.multiplier(model)
        return greedy.choice(model, multiplier), np.array([multiplier])
    from apportion.solvers.multiknapsack import dual as duals
    from apportion.solvers.multiknapsack import repair

    end = math.inf if seconds is None else perf_counter() + seconds

    def late() -> bool:
        return perf_counter() >= end

    multipliers, _ = duals.multipliers(model, late=late, seconds=seconds)
    return repair.choice(model, multipliers, late=late), multipliers
