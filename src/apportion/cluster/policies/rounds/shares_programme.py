"""The one linear programme that every policy over shares of time is a case of.

max c   (or the sum of value * X)
s.t.    thr_m(X) - k_m c >= L_m  for every job m,     X in P

Water filling: max-min fairness level after level, bottlenecks found by prices.

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

from apportion.cluster.policies.rounds.shares_problem import SharesProblem
from apportion.core.errors import ApportionError
from apportion.core.interruption import raise_if_interrupted
from apportion.core.outcome import Termination
from apportion.models.linear import Block, LinearModel

__all__ = [
    "Entity",
    "LevelOptimum",
    "NoOptimum",
    "NoShares",
    "WaterLevels",
    "flat_weights",
    "hierarchical_weights",
    "programme",
    "water_filling",
]


class NoShares(ApportionError):
    """No shares of time meet the demands."""


class NoOptimum(ApportionError):
    """HiGHS ended without an optimum."""


@dataclass(frozen=True, slots=True, eq=False)
class LevelOptimum:
    """An optimal point.

    Attributes
    ----------
    shares
        float64 [rows, types].
    level
        c at the optimum, as it follows from the shares; ``None`` where values were maximised.
    prices
        float64 [jobs]: what one more unit of L_m would cost the objective, at least 0.
    """

    shares: NDArray[np.float64]
    level: float | None
    prices: NDArray[np.float64]


def programme(
    problem: SharesProblem,
    rising: NDArray[np.float64] | None = None,
    least: NDArray[np.float64] | None = None,
    value: NDArray[np.float64] | None = None,
) -> LevelOptimum:
    """Solve the programme with HiGHS.

    Parameters
    ----------
    problem
        The data.
    rising
        float64 [jobs]: k, by how much a job's throughput must grow per unit of c; ``None``: no c.
    least
        float64 [jobs]: L, the throughput that every job gets at least; ``None``: 0.
    value
        float64 [rows, types]: worth of a share; ``None``: c is maximised.

    Raises
    ------
    NoShares
        If no shares reach `least`.
    NoOptimum
        If HiGHS ends without one.
    """
    from apportion.solvers.general.highs_call import call

    model = _model(problem, rising, least, value)
    answer = call(model, {"threads": 1}, interruptible=True)
    if answer.termination is Termination.INFEASIBLE:
        # its presolve takes least throughputs that are just reached for out of reach: asked again without
        answer = call(model, {"threads": 1, "presolve": "off"}, interruptible=True)
    raise_if_interrupted()
    if answer.termination is Termination.INFEASIBLE:
        raise NoShares("no shares of time give every job the throughput asked for")
    if answer.termination is not Termination.OPTIMAL or answer.point is None or answer.duals is None:
        raise NoOptimum(f"the programme over shares of time has no optimum: {answer.raw}")
    rows = problem.row_scale.size
    shares = np.clip(answer.point[: rows * problem.num_types], 0.0, 1.0).reshape(rows, problem.num_types)
    prices = np.maximum(0.0, -answer.duals[: problem.num_jobs])
    level = None
    if rising is not None and (up := rising > 0).any():
        reached = problem.rates(shares) - (0.0 if least is None else least)
        level = float((reached[up] / rising[up]).min())
    return LevelOptimum(shares, level, prices)


def _model(
    problem: SharesProblem,
    rising: NDArray[np.float64] | None,
    least: NDArray[np.float64] | None,
    value: NDArray[np.float64] | None,
) -> LinearModel:
    from scipy.sparse import coo_array

    jobs, types, scale = problem.num_jobs, problem.num_types, problem.row_scale
    rows = scale.size
    columns = rows * types + (rising is not None)
    job, row, speed = problem.entries()
    column = row[:, None] * types + np.arange(types)
    kind = np.broadcast_to(np.arange(types), (rows, types))
    parts = [
        (np.broadcast_to(job[:, None], column.shape), column, speed),
        (np.broadcast_to(jobs + job[:, None], column.shape), column, np.ones(column.shape)),
        (2 * jobs + kind, np.arange(rows * types).reshape(rows, types), np.repeat(scale, types)),
    ]
    if rising is not None:
        parts.append((np.arange(jobs), np.full(jobs, columns - 1), -rising))
    where_row, where_column, data = (np.concatenate([np.ravel(part[k]) for part in parts]) for k in range(3))
    matrix = coo_array((data, (where_row, where_column)), shape=(2 * jobs + types, columns)).tocsr()
    matrix.eliminate_zeros()
    cost = np.zeros(columns)
    if value is not None:
        cost[: rows * types] = value.ravel()
    else:
        cost[-1] = 1.0
    upper = np.full(columns, np.inf)
    upper[: rows * types] = np.repeat(problem.row_runs, types)
    endless = np.full(jobs + types, -np.inf)
    variables = [Block("X", 0, (rows, types))]
    if rising is not None:
        variables.append(Block("c", rows * types, (1,)))
    return LinearModel(
        sense="maximize",
        cost=cost,
        offset=0.0,
        lower=np.zeros(columns),
        upper=upper,
        integer=np.zeros(columns, dtype=np.bool_),
        row_lower=np.concatenate((np.zeros(jobs) if least is None else least, endless)),
        row_upper=np.concatenate((np.full(jobs, np.inf), np.ones(jobs), problem.workers)),
        indptr=matrix.indptr.astype(np.int32),
        indices=matrix.indices.astype(np.int32),
        data=matrix.data,
        variables=tuple(variables),
        rows=(
            Block("throughput", 0, (jobs,)),
            Block("time", jobs, (jobs,)),
            Block("workers", 2 * jobs, (types,)),
        ),
    )


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
