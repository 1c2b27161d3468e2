"""The one linear programme that every policy over shares of time is a case of.

max c   (or the sum of value * X)
s.t.    thr_m(X) - k_m c >= L_m  for every job m,     X in P
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ApportionError
from apportion.interruption import raise_if_interrupted
from apportion.models.linear import Block, LinearModel
from apportion.outcome import Termination
from apportion.policies.time_shares.shares_problem import SharesProblem

__all__ = ["LevelOptimum", "NoOptimum", "NoShares", "programme"]


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
