"""First schedules and prices for a makespan: list scheduling, and rounding of the linear relaxation.

Lenstra, Shmoys, Tardos (1990): a vertex of the relaxation has at most one split job per machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.assignment_bounds import pooled
from apportion.models.assignment_lowering import LoweredAssignment, lower_assignment
from apportion.solvers.assignment.lp import Relaxation, Unsolved, relax
from apportion.solvers.assignment.repair import relieve

__all__ = ["divisible_prices", "first_schedules", "listed", "machine_weights", "rounded", "start"]


def start(model: Assignment) -> tuple[NDArray[Any] | None, NDArray[np.float64] | None]:
    """Return a feasible point and prices for a general solver, each ``None`` where there is none."""
    lowered = lower_assignment(model)
    relaxation = relax(lowered.model)
    if isinstance(relaxation, Unsolved):
        if model.divisible:
            return None, None
        found = first_schedules(model, lowered, None)
        return (min(found, key=model.objective) if found else None), None
    if model.divisible:
        return lowered.choice(relaxation.point), divisible_prices(model, lowered, relaxation)
    weights = machine_weights(model, lowered, relaxation)
    found = first_schedules(model, lowered, relaxation)
    best = min(found, key=model.objective) if found else None
    return best, pooled(model, weights)


def machine_weights(
    model: Assignment, lowered: LoweredAssignment, relaxation: Relaxation
) -> NDArray[np.float64]:
    """Return float64 [machines] weights >= 0 that sum to about 1: the duals of the loads, times the units."""
    weights = np.maximum(-relaxation.of(lowered.model, "load"), 0.0) * model.counts
    if not weights.sum() > 0:
        weights = model.counts.astype(np.float64)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def divisible_prices(
    model: Assignment, lowered: LoweredAssignment, relaxation: Relaxation
) -> NDArray[np.float64]:
    """Return the prices of pools and jobs that prove the optimum of shares."""
    pools = np.maximum(-relaxation.of(lowered.model, "load"), 0.0) * model.counts
    jobs = np.maximum(-relaxation.of(lowered.model, "one_at_a_time"), 0.0)
    return np.concatenate((pools, jobs))


def first_schedules(
    model: Assignment, lowered: LoweredAssignment, relaxation: Relaxation | None
) -> list[NDArray[np.int64]]:
    """Return feasible schedules to begin with, none if the capacities defeat the greedy repair."""
    found = [listed(model, order) for order in (0, 1)]
    if relaxation is not None:
        found.append(rounded(model, lowered, relaxation))
    relieved = (relieve(model, choice, model.values) for choice in found)
    return [choice for choice in relieved if choice is not None]


def listed(model: Assignment, order: int) -> NDArray[np.int64]:
    """Place the jobs one by one where they end first: longest first (0), or largest regret first (1)."""
    segment = model.offsets[:-1]
    shortest = np.minimum.reduceat(model.values, segment)
    key = shortest
    if order == 1:
        longest = np.maximum.reduceat(model.values, segment)
        key = (longest - shortest) / np.maximum(longest, 1e-300)
    return _placed(model, np.full(model.num_jobs, -1, dtype=np.int64), np.argsort(-key, kind="stable"))


def rounded(model: Assignment, lowered: LoweredAssignment, relaxation: Relaxation) -> NDArray[np.int64]:
    """Keep the whole part of the relaxation and place its split jobs, longest first."""
    choice = lowered.choice(np.where(relaxation.point > 1 - 1e-6, relaxation.point, 0.0))
    split = np.flatnonzero(choice < 0)
    shortest = np.minimum.reduceat(model.values, model.offsets[:-1])
    return _placed(model, choice, split[np.argsort(-shortest[split], kind="stable")])


def _placed(model: Assignment, choice: NDArray[np.int64], jobs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place jobs in order, each where its work per unit and its own time end first."""
    work = np.zeros(model.num_machines)
    taken = choice[choice >= 0]
    np.add.at(
        work, model.machine[taken], (model.values * model.gpus)[taken] / model.counts[model.machine[taken]]
    )
    share = model.values * model.gpus / model.counts[model.machine]
    for job in jobs.tolist():
        rows = slice(int(model.offsets[job]), int(model.offsets[job + 1]))
        on = model.machine[rows]
        end = np.maximum(work[on] + share[rows], model.values[rows])
        best = int(np.argmin(end))
        choice[job] = rows.start + best
        work[on[best]] += share[rows][best]
    return choice
