"""The objectives of Gavel's policy on a view of a cluster: what fractions of time jobs are entitled to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from apportion.estimation.last_bits import without_last_bits
from apportion.policies.cluster.believed_speeds import shares_problem
from apportion.policies.cluster.claims import claims_of
from apportion.policies.cluster.cluster_view import ClusterView
from apportion.policies.time_shares.gavel_policies import cost_with_deadlines, finish_time_fairness
from apportion.policies.time_shares.isolated_time import IsolatedTime
from apportion.policies.time_shares.shares_problem import SharesProblem
from apportion.policies.time_shares.shares_programme import programme
from apportion.policies.time_shares.water_filling import (
    Entity,
    flat_weights,
    hierarchical_weights,
    water_filling,
)

__all__ = ["OBJECTIVES", "FractionsOf"]

_SLACK = 1e-6
_DIGITS = 12

FractionsOf = Callable[[ClusterView], NDArray[np.float64]]
"""From a view to the fractions of time, float64 [jobs, types]."""


def max_min(view: ClusterView) -> NDArray[np.float64]:
    """Max-min fairness, normalised by the throughput on an equal share over the GPUs asked for."""
    problem = shares_problem(view)
    equal = np.minimum(problem.workers / view.num_jobs, 1.0)
    return _rising_together(problem, problem.throughput @ (equal / max(1.0, equal.sum())) / problem.scale)


def least_makespan(view: ClusterView) -> NDArray[np.float64]:
    """Minimise the time until the last job ends."""
    return _rising_together(shares_problem(view), _remaining(view))


def water(view: ClusterView) -> NDArray[np.float64]:
    """Water filling over all jobs alike."""
    problem = shares_problem(view)
    weights = np.ones(view.num_jobs) if view.claims is None else view.claims.weight
    return water_filling(problem, flat_weights(weights)).shares


def hierarchical_water(view: ClusterView) -> NDArray[np.float64]:
    """Water filling over tenants, and inside each over its jobs or first come, first served."""
    claims = claims_of(view)
    entities = [
        Entity(float(share), "fifo" if first else "fairness")
        for share, first in zip(claims.share, claims.first_come, strict=True)
    ]
    weights = hierarchical_weights(entities, claims.tenant, claims.weight)
    return water_filling(shares_problem(view), weights).shares


def least_cost(view: ClusterView) -> NDArray[np.float64]:
    """Maximise throughput over cost, deadlines kept where they can all be kept."""
    problem = shares_problem(view)
    if view.claims is None:
        return cost_with_deadlines(problem).shares
    left = np.maximum(view.claims.deadline_s - view.time_s, view.round_s)
    return cost_with_deadlines(problem, view.claims.gpu_cost, _remaining(view), left).shares


class FinishTimes:
    """Minimise the greatest finish-time ratio; what was done so far counts as time in isolation."""

    def __init__(self) -> None:
        self._isolated = IsolatedTime()

    def __call__(self, view: ClusterView) -> NDArray[np.float64]:
        """Return the fractions."""
        problem, steps = shares_problem(view), _remaining(view)
        since = view.time_s - view.submitted_s
        used = self._isolated.upto(view.jobs.tolist(), steps, problem.isolated)
        rho = finish_time_fairness(problem, steps, since, used).value
        needed = steps / (rho * (used + steps / problem.isolated) - since)
        return programme(
            problem, least=needed * (1 - _SLACK), value=problem.throughput / problem.equal_share[:, None]
        ).shares


OBJECTIVES: Mapping[str, Callable[[], FractionsOf]] = MappingProxyType(
    {
        "max_min": lambda: max_min,
        "makespan": lambda: least_makespan,
        "water_filling": lambda: water,
        "hierarchical": lambda: hierarchical_water,
        "finish_time": FinishTimes,
        "cost": lambda: least_cost,
    }
)
"""By name: how the objective's fractions are made, fresh for every simulation."""


def _rising_together(problem: SharesProblem, norm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Maximise the least throughput over its norm, then the sum of them."""
    # the last bits differ by machine: jobs that are alike shall be alike everywhere
    normed = without_last_bits(problem.throughput / norm[:, None], _DIGITS)
    relative = replace(problem, throughput=normed)
    ones = np.ones(problem.num_jobs)
    level = programme(relative, rising=ones).level or 0.0
    return programme(relative, least=ones * level * (1 - _SLACK), value=relative.throughput).shares


def _remaining(view: ClusterView) -> NDArray[np.float64]:
    return np.array([max(belief.remaining_progress, 1e-9) for belief in view.beliefs])
