"""Gavel (Narayanan et al., OSDI 2020): time fractions by linear programs, realised in rounds.

What the fractions optimise is an objective, written after the paper's formulas (sections 4 and 5) and its
artifact's behaviour: max-min, finish-time fairness, makespan, cost under deadlines. Of the fractions that
reach its optimum those with the greatest sum of relative speeds are taken, so that what the worst-off cannot
use is not lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.profiling import without_last_bits
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView, claims_of
from apportion.cluster.policies.rounds.placing import free_gpus, place_on_freest, shares_problem
from apportion.cluster.policies.rounds.shares_problem import IsolatedTime, SharesProblem
from apportion.cluster.policies.rounds.shares_programme import (
    Entity,
    NoShares,
    flat_weights,
    hierarchical_weights,
    programme,
    water_filling,
)
from apportion.core.errors import InvalidOption, one_of

__all__ = [
    "OBJECTIVES",
    "CostOptimum",
    "FairShares",
    "FractionsOf",
    "Gavel",
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


_OBJECTIVE_SLACK = 1e-6
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
            problem,
            least=needed * (1 - _OBJECTIVE_SLACK),
            value=problem.throughput / problem.equal_share[:, None],
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
    return programme(relative, least=ones * level * (1 - _OBJECTIVE_SLACK), value=relative.throughput).shares


def _remaining(view: ClusterView) -> NDArray[np.float64]:
    return np.array([max(belief.remaining_progress, 1e-9) for belief in view.beliefs])


_SLACK = 1e-6


class Gavel:
    """Gavel's policy: fractions anew whenever the set of jobs changes, priorities every round.

    Parameters
    ----------
    objective
        A name of `gavel_objectives.OBJECTIVES`.
    reset_s
        Least seconds between two resets of what the jobs have received; 1,920 in the published simulator.
    """

    def __init__(self, objective: str = "max_min", reset_s: float = 1920.0) -> None:
        one_of("objective", objective, OBJECTIVES)
        self._fractions_of: FractionsOf = OBJECTIVES[objective]()
        self._reset_s, self._last_reset_s = reset_s, -math.inf
        self._jobs: tuple[int, ...] = ()
        self._fractions: dict[int, NDArray[np.float64]] = {}
        self._received: dict[int, NDArray[np.float64]] = {}

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Run the jobs that lag most behind their fractions."""
        types = len(view.nodes.types)
        jobs = tuple(view.jobs.tolist())
        if jobs != self._jobs:
            fractions = self._fractions_of(view)
            self._jobs = jobs
            self._fractions = dict(zip(jobs, fractions, strict=True))
            if view.time_s - self._last_reset_s >= self._reset_s:
                self._last_reset_s, self._received = view.time_s, {}
            self._received = {job: self._received.get(job, np.zeros(types)) for job in jobs}
        for job, held in zip(jobs, view.held, strict=True):
            if held:
                self._received[job][view.nodes.kind[held[0]]] += 1.0
        return ClusterPlan(self._placed(view, self._priorities(view)))

    def _priorities(self, view: ClusterView) -> list[tuple[int, int]]:
        """Return (job, type) by falling priority: fraction over the rounds received."""
        fraction = np.stack([self._fractions[int(job)] for job in view.jobs])
        received = np.stack([self._received[int(job)] for job in view.jobs])
        entitled = fraction > _SLACK
        lag = np.where(entitled, np.inf, 0.0)
        np.divide(fraction, received, out=lag, where=entitled & (received > 0))
        # of those that never ran, who is entitled to most
        order = np.lexsort((-fraction.ravel(), -lag.ravel()))
        wanted = [divmod(int(cell), lag.shape[1]) for cell in order]
        return [(job, kind) for job, kind in wanted if fraction[job, kind] > _SLACK]

    def _placed(self, view: ClusterView, wanted: list[tuple[int, int]]) -> list[tuple[int, ...]]:
        nodes: list[tuple[int, ...]] = [()] * view.num_jobs
        kinds = view.nodes.kind
        left = view.nodes.gpus_by_type
        chosen: dict[int, int] = {}
        for job, kind in wanted:
            gpus = int(view.requested_gpus[job])
            if job not in chosen and gpus <= left[kind]:
                left[kind] -= gpus
                chosen[job] = kind
        for job, kind in chosen.items():
            held = view.held[job]
            if held and kinds[held[0]] == kind:
                nodes[job] = held
        free = free_gpus(view.nodes.gpus, nodes)
        for job, kind in chosen.items():
            if not nodes[job]:
                own = np.where(kinds == kind, free, 0)
                nodes[job] = place_on_freest(own, int(view.requested_gpus[job]))
                for node in nodes[job]:
                    free[node] -= 1
        return nodes
