"""A makespan no policy can beat on a trace, not even one that knows the future: nothing is ever lost.

For any prices w >= 0, one per kind of job, the work done by time T is worth at most the integral of
G(N(t)), where N(t) nodes are idle and G(N) is the greatest sum of w x rate that `trainers` jobs of any
kinds reach on N nodes. All jobs are done at the earliest where that integral reaches the worth of all work:
a lower bound of the makespan by weak duality. Pre-emption, rescaling, late completions, submissions and the
order of the queue are all left out. The prices are improved by projected subgradient steps; every iterate
gives a valid bound.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from apportion.cluster.simulation.idle_trace import NodeChanges
from apportion.cluster.simulation.snapshot import Workload
from apportion.core.errors import InvalidOption

__all__ = ["makespan_bound"]


def makespan_bound(changes: NodeChanges, jobs: Workload, trainers: int, rounds: int = 40) -> float | None:
    """Return seconds that no replay of these jobs can undercut; ``None`` if the record is too short.

    Parameters
    ----------
    changes
        The changes of the idle nodes over time.
    jobs
        A finite workload.
    trainers
        Most jobs at a time.
    rounds
        Steps of the prices.

    Raises
    ------
    InvalidOption
        If the workload is endless.
    """
    if jobs.endless:
        raise InvalidOption("an endless workload has no makespan")
    key = np.stack((jobs.curve, jobs.min_nodes, jobs.max_nodes), axis=1)
    kinds, kind = np.unique(key, axis=0, return_inverse=True)
    work = np.bincount(kind, weights=jobs.work)
    counts = np.arange(jobs.rates.shape[1])
    rates = jobs.rates[kinds[:, 0]]
    rates = np.where((counts >= kinds[:, 1:2]) & (counts <= kinds[:, 2:3]), rates, 0.0)
    rates = np.maximum.accumulate(rates, axis=1)  # leaving nodes unused is allowed
    best_per_node = (rates[:, 1:] / counts[1:]).max(axis=1)
    price = 1.0 / np.maximum(best_per_node, 1e-300)
    idle = changes.idle_counts()
    at_s = np.append(changes.time_s, changes.end_s) - changes.time_s[0]
    most = int(min(idle.max(initial=0), trainers * (counts.size - 1)))
    bound = 0.0
    reach = np.minimum(idle, most)
    for step in range(rounds):
        gain, shares = _greatest(price[:, None] * rates, trainers, most)
        value = np.concatenate(([0.0], np.cumsum(gain[reach] * np.diff(at_s))))
        worth = float(price @ work)
        if value[-1] < worth:
            return None
        span_s = _first(value, at_s, worth)
        bound = max(bound, span_s)
        lasting = np.diff(np.minimum(at_s, span_s))
        done = np.array([float(lasting @ made[reach]) for made in shares]) / price
        # one more unit of price raises the worth by the work and the integral by what is done of this kind
        slope = (work - done) * price / worth
        price = price * np.exp(np.clip(slope * work.size / (20.0 + step), -0.1, 0.1))
    return bound


def _first(value: NDArray[np.float64], at_s: NDArray[np.float64], worth: float) -> float:
    """Return the first instant at which a curve with flat stretches reaches a value."""
    row = int(np.searchsorted(value, worth, side="left"))
    if row == 0:
        return 0.0
    share = (worth - value[row - 1]) / (value[row] - value[row - 1])
    return float(at_s[row - 1] + share * (at_s[row] - at_s[row - 1]))


def _greatest(
    worth: NDArray[np.float64], trainers: int, most: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the greatest worth of up to `trainers` jobs on 0 to `most` nodes, and each kind's part of it."""
    single, kind = worth.max(axis=0), worth.argmax(axis=0)
    width = single.size
    best = np.zeros(most + 1)
    made = np.zeros((worth.shape[0], most + 1))
    rows = np.arange(most + 1)
    for _ in range(trainers):
        window = sliding_window_view(np.concatenate((np.full(width - 1, -np.inf), best)), width)[:, ::-1]
        total = window + single
        count = total.argmax(axis=1)
        best = total[rows, count]
        made = made[:, np.maximum(rows - count, 0)]
        np.add.at(made, (kind[count], rows), single[count])
    return best, made
