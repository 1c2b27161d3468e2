"""Formulas of Gavel's paper that the package does not need, as another road to what its policies compute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.gavel import FairShares
from apportion.cluster.policies.rounds.shares_problem import SharesProblem
from apportion.cluster.policies.rounds.shares_programme import programme


def alike_types(problem: SharesProblem, reference: int | None = None) -> SharesProblem:
    """Return the problem as a policy sees it that knows no performance.

    Every type is believed to have the throughput of the type `reference`; ``None``: 1 everywhere.
    """
    flat = np.ones_like(problem.throughput)
    if reference is not None:
        flat *= problem.throughput[:, reference : reference + 1]
    return replace(problem, throughput=flat)


def max_min_fairness(problem: SharesProblem, weights: NDArray[np.float64]) -> FairShares:
    """Maximise the least ``(s_m / w_m) thr_m(X) / equal_share_m``; weights float64 [jobs], positive."""
    per_level = weights * problem.equal_share / problem.scale
    optimum = programme(problem, rising=per_level)
    return FairShares(optimum.shares, float((problem.rates(optimum.shares) / per_level).min()))


def minimum_time_share(problem: SharesProblem, shares: NDArray[np.float64]) -> float:
    """Return the least share of worker time ``s_m sum_j X_mj`` of any job alone."""
    return float((problem.scale * shares[: problem.num_jobs].sum(axis=1)).min())
