"""Water filling: max-min fairness level after level, bottlenecks found by prices.

Gavel finds the jobs that can still rise with a second, mixed-integer programme with a big M. Here a job is
frozen when the programme that raised the level puts a price on it: by complementary slackness its
throughput is the same in every optimal point, so it cannot rise while the others keep their level. A
bottleneck without a price is found in a later round, which then raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apportion.policies.time_shares.shares_problem import SharesProblem
from apportion.policies.time_shares.shares_programme import LevelOptimum, NoOptimum, NoShares, programme

__all__ = ["Entity", "WaterLevels", "flat_weights", "hierarchical_weights", "water_filling"]

_PRICED = 1e-9
_ROOM = (1e-10, 1e-9, 1e-8, 1e-7)
"""By how much levels that are kept may give way in a round, relatively: the least with which HiGHS ends.

A round keeps what the shares before it reach, so that some shares keep it; where these fill every constraint
to the last digit, HiGHS may find none or end with none, until there is room up to its own tolerance, 1e-7.
"""

Weights = Callable[[NDArray[np.bool_]], NDArray[np.float64]]
"""Weights float64 [jobs] for given frozen jobs, bool [jobs]; a job of weight 0 keeps its level and waits."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A group of jobs with one rule inside.

    Attributes
    ----------
    weight
        Its part beside the other entities.
    rule
        ``"fairness"``: its jobs share by their own weights; ``"fifo"``: the first job takes all until it
        can rise no further.
    """

    weight: float
    rule: Literal["fairness", "fifo"] = "fairness"


@dataclass(frozen=True, slots=True, eq=False)
class WaterLevels:
    """The shares of time and the levels that water filling ended at.

    Attributes
    ----------
    shares
        float64 [rows, types].
    levels
        float64 [jobs]: throughput over that of the equal share.
    rounds
        Programmes solved.
    """

    shares: NDArray[np.float64]
    levels: NDArray[np.float64]
    rounds: int


def flat_weights(weights: NDArray[np.float64]) -> Weights:
    """Return the weights of the jobs that are not frozen, the same in every round."""
    return lambda frozen: np.where(frozen, 0.0, weights)


def hierarchical_weights(
    entities: Sequence[Entity], entity_of: NDArray[np.int64], weights: NDArray[np.float64]
) -> Weights:
    """Return the weights of jobs in entities.

    Parameters
    ----------
    entities
        The groups.
    entity_of
        int64 [jobs]: index of every job's group.
    weights
        float64 [jobs]: weights within a group that shares fairly.
    """
    part = np.array([entity.weight for entity in entities])
    first_only = np.array([entity.rule == "fifo" for entity in entities], dtype=np.bool_)

    def weigh(frozen: NDArray[np.bool_]) -> NDArray[np.float64]:
        rising = np.flatnonzero(~frozen)
        group = entity_of[rising]
        total = np.bincount(group, weights=weights[rising], minlength=part.size)
        found = np.zeros(frozen.size)
        fair = ~first_only[group]
        found[rising[fair]] = part[group[fair]] * weights[rising[fair]] / total[group[fair]]
        groups, first = np.unique(group[~fair], return_index=True)
        found[rising[~fair][first]] = part[groups]
        return found

    return weigh


def water_filling(problem: SharesProblem, weights: Weights) -> WaterLevels:
    """Raise all jobs together, freeze who can rise no further, and go on with the others.

    Parameters
    ----------
    problem
        The data; every job must have a positive throughput somewhere.
    weights
        See `flat_weights` and `hierarchical_weights`. Constant weights give the lexicographic optimum of
        ``(s_m / w_m) level_m``.
    """
    prop = problem.equal_share
    levels = np.zeros(problem.num_jobs)
    frozen = np.zeros(problem.num_jobs, dtype=np.bool_)
    shares = np.zeros((problem.row_scale.size, problem.num_types))
    rounds = 0
    while not frozen.all():
        weight = weights(frozen)
        active = ~frozen & (weight > 0)
        if not active.any():
            break
        step = np.where(active, weight / problem.scale, 0.0)
        kept = problem.rates(shares / (1.0 + problem.excess(shares)))
        optimum = _raised(problem, step * prop, np.minimum(levels * prop, kept))
        rounds += 1
        shares = optimum.shares
        levels = levels + max(0.0, optimum.level or 0.0) * step
        price = np.where(active, optimum.prices * step * prop, 0.0)
        frozen |= price > _PRICED * float(price.max())
    return WaterLevels(shares, np.minimum(levels, problem.rates(shares) / prop), rounds)


def _raised(problem: SharesProblem, rising: NDArray[np.float64], kept: NDArray[np.float64]) -> LevelOptimum:
    """Solve a round that keeps throughputs which some shares are known to reach."""
    for room in _ROOM[:-1]:
        try:
            return programme(problem, rising=rising, least=(1.0 - room) * kept)
        except (NoOptimum, NoShares):  # there are shares, so it is a question of digits
            continue
    return programme(problem, rising=rising, least=(1.0 - _ROOM[-1]) * kept)
