"""Gavel's policies as formulas: finish-time fairness, makespan, cost under deadlines.

Written after the paper's formulas (Narayanan et al., OSDI 2020, sections 4 and 5) and its artifact's
behaviour.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidOption
from apportion.policies.time_shares.shares_problem import SharesProblem
from apportion.policies.time_shares.shares_programme import NoShares, programme

__all__ = [
    "CostOptimum",
    "FairShares",
    "cost_with_deadlines",
    "finish_time_fairness",
    "makespan",
]

_ROUNDS = 100
_STILL = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class FairShares:
    """Shares of time and what their policy optimises.

    Attributes
    ----------
    shares
        float64 [rows, types].
    value
        The policy's figure, as it follows from the shares.
    """

    shares: NDArray[np.float64]
    value: float


@dataclass(frozen=True, slots=True, eq=False)
class CostOptimum:
    """Shares of the greatest throughput per cost.

    Attributes
    ----------
    shares
        float64 [rows, types].
    value
        Sum of throughput over cost.
    deadlines_met
        False where no shares meet all deadlines; all of them were dropped then.
    """

    shares: NDArray[np.float64]
    value: float
    deadlines_met: bool


def makespan(problem: SharesProblem, steps: NDArray[np.float64]) -> FairShares:
    """Minimise the time in seconds after which the last job ends; steps float64 [jobs] are left to do."""
    optimum = programme(problem, rising=steps)
    return FairShares(optimum.shares, float((steps / problem.rates(optimum.shares)).max()))


def finish_time_fairness(
    problem: SharesProblem,
    steps: NDArray[np.float64],
    since_s: NDArray[np.float64],
    isolated_s: NDArray[np.float64] | None = None,
) -> FairShares:
    """Minimise the greatest finish-time ratio ``rho = (t + R / thr(X)) / (I + R / iso)``.

    For a given rho the programme asks how far all jobs can exceed the throughput that rho needs; from the
    shares follows a smaller rho, and so on until none is smaller.

    Parameters
    ----------
    problem
        The data.
    steps
        float64 [jobs]: R, steps left, positive.
    since_s
        float64 [jobs]: t, seconds since each job started.
    isolated_s
        float64 [jobs]: I, isolated time of the steps already done; ``None``: 0.
    """
    alone = steps / problem.isolated + (0.0 if isolated_s is None else isolated_s)

    def ratio(shares: NDArray[np.float64]) -> float:
        return float(((since_s + steps / np.maximum(problem.rates(shares), 1e-300)) / alone).max())

    shares = makespan(problem, steps).shares
    rho = ratio(shares)
    for _ in range(_ROUNDS):
        better = programme(problem, rising=steps / (rho * alone - since_s)).shares
        smaller = ratio(better)
        if smaller >= rho * (1 - _STILL):
            break
        shares, rho = better, smaller
    return FairShares(shares, rho)


def cost_with_deadlines(
    problem: SharesProblem,
    cost: NDArray[np.float64] | None = None,
    steps: NDArray[np.float64] | None = None,
    deadline_s: NDArray[np.float64] | None = None,
) -> CostOptimum:
    """Maximise the sum of throughput over cost, so that every job with a deadline meets it.

    Parameters
    ----------
    problem
        The data.
    cost
        float64 [types]: cost of a worker and hour; ``None``: 1 everywhere.
    steps
        float64 [jobs]: steps left; only those with a deadline are looked at.
    deadline_s
        float64 [jobs]: seconds left, infinity without a deadline; ``None``: nobody has one.
    """
    _, row, speed = problem.entries()
    value = np.zeros((problem.row_scale.size, problem.num_types))
    np.add.at(value, row, speed / (1.0 if cost is None else cost))
    least = None
    if deadline_s is not None and steps is not None:
        bound = np.isfinite(deadline_s)
        if not (deadline_s > 0).all():
            raise InvalidOption("deadlines must be positive seconds")
        least = np.where(bound, steps / deadline_s, 0.0)
    met = True
    try:
        shares = programme(problem, least=least, value=value).shares
    except NoShares:
        shares, met = programme(problem, value=value).shares, False
    return CostOptimum(shares, float((shares * value).sum()), met)
