"""Costates of the fluid optimum of a sum of completion times: a price for a unit of every job's work.

Without arrivals the fluid optimum of the weighted sum of completion times has costates: the price p_j of a
unit of job j's work is constant until the job ends, and max sum p_j r_j(k_j) over all options that fit is
the weight of the jobs left at all times (Pontryagin's principle; heSRPT of Berg, Vesilo and Harchol-Balter,
*Performance Evaluation* 144, 2020, is the case of one power law for all). So backward, from who ends last:

    p_j = min_k (w_j + M(N) - M(N - k)) / r_j(k),   then   M(c) <- max(M(c), max_k M(c - k) + p_j r_j(k)),

from M = 0 on, and the next is whoever of those left has the greatest p_j x_j / w_j at the mean weight, x_j
its remaining work. Several capacities have an M each; a job counts in that of the option where its price is
least.

The compiled twin `costates_c` forms the same sums draw by draw; where it is not built or switched off,
numpy forms those of all draws together. Both return the same prices to the last bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.compiled import load

__all__ = ["costates"]

_LOOKS = 16
"""Steps of the recursion after which jobs with all their prices are set aside, where they are half."""


def costates(
    rates: NDArray[np.float64],
    remaining: NDArray[np.float64],
    uses: NDArray[np.int64],
    pool: NDArray[np.int64],
    sizes: NDArray[np.int64],
    weights: NDArray[np.float64] | None = None,
    last: float = 0.0,
) -> NDArray[np.float64]:
    """Return float64 [jobs, draws]: the price of a unit of each job's work.

    Parameters
    ----------
    rates
        float64 [jobs, options]: work done a second, 0 where a job cannot run.
    remaining
        float64 [jobs, draws] > 0: work to do, drawn anew in each column.
    uses
        int64 [options] >= 1: how much of its capacity each uses.
    pool
        int64 [options]: which capacity each uses.
    sizes
        int64 [capacities]: their sizes.
    weights
        float64 [jobs] > 0: how much a second of each job's completion counts; ``None``: all alike, 1.
    last
        How much the completion of whoever ends last counts beside its weight: a second of makespan.

    Examples
    --------
    Two jobs of speed equal to the GPUs they have: the shorter one first, so its work is worth twice as much.

    >>> one, none = np.ones(1, np.int64), np.zeros(1, np.int64)
    >>> costates(np.ones((2, 1)), np.array([[1.0], [2.0]]), one, none, one).ravel().tolist()
    [2.0, 1.0]
    """
    jobs, draws = remaining.shape
    useful = _useful(rates, uses, pool)
    if not useful.size:  # nobody can run
        return np.zeros((jobs, draws))
    uses, pool = uses[useful], pool[useful]
    # jobs of one speed, of which there are few, are looked at together
    rates, speed = np.unique(rates[:, useful], axis=0, return_inverse=True)
    counts = np.ones(jobs) if weights is None else weights
    ahead = np.ascontiguousarray(remaining.T / counts)  # [draws, jobs], per second that counts
    compiled = load("knapsack.costates_c")
    if compiled is None:
        return _uncompiled(rates, speed, ahead, uses, pool, sizes, counts, last)
    price = np.zeros((draws, jobs))
    rows, *of_options = (np.ascontiguousarray(one, dtype=np.int64) for one in (speed, uses, pool, sizes))
    weighed = np.ascontiguousarray(counts, dtype=np.float64)
    compiled.run(rates, rows, weighed, *of_options, float(counts.mean()), float(last), ahead, price)
    return price.T


def _useful(
    rates: NDArray[np.float64], uses: NDArray[np.int64], pool: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the options that are quicker for some job than smaller ones of their capacity."""
    found = []
    for kind in np.unique(pool):
        at = np.flatnonzero(pool == kind)
        at = at[np.argsort(uses[at], kind="stable")]
        smaller = np.maximum.accumulate(rates[:, at], axis=1)
        found.append(at[(np.diff(smaller, axis=1, prepend=0.0) > 0.0).any(axis=0)])
    return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)


def _uncompiled(
    rates: NDArray[np.float64],
    speed: NDArray[np.int64],
    ahead: NDArray[np.float64],
    uses: NDArray[np.int64],
    pool: NDArray[np.int64],
    sizes: NDArray[np.int64],
    counts: NDArray[np.float64],
    last: float,
) -> NDArray[np.float64]:
    """Return the prices of the useful options, all draws together; `speed` names each job's row of rates."""
    draws, jobs = ahead.shape
    with np.errstate(divide="ignore"):
        seconds = np.where(rates.T > 0.0, 1.0 / rates.T, np.inf)[:, None]
    worth = [
        _Worth(np.flatnonzero(pool == kind), uses, int(sizes[kind]), draws) for kind in range(sizes.size)
    ]
    price = np.zeros((draws, jobs))
    here = np.arange(jobs)  # of whom some draw has no price yet, or not long ago
    alike = float(counts.mean())
    every = np.arange(draws)
    lost = np.empty((uses.size, draws))
    for step in range(jobs):
        if step % _LOOKS == 0 and here.size > 2 * np.count_nonzero(waits := (ahead > 0.0).any(axis=0)):
            here, ahead, counts = here[waits], ahead[:, waits], counts[waits]
            used, speed = np.unique(speed[waits], return_inverse=True)
            rates, seconds = rates[used], seconds[:, :, used]
        for table in worth:
            lost[table.at] = table.lost()
        lost += alike + last * (step == 0)
        typical = (lost[:, :, None] * seconds).min(axis=0)
        ends = (typical.take(speed, axis=1) * ahead).argmax(axis=1)
        ahead[every, ends] = -1.0  # it has a price
        own = (lost + (counts[ends] - alike)) * seconds[:, 0, speed[ends]]
        fastest = own.argmin(axis=0)
        paid = own[fastest, every]
        paid[np.isinf(paid)] = 0.0
        price[every, here[ends]] = paid
        kind = np.where(paid > 0.0, pool[fastest], -1)
        earned = paid[:, None] * rates[speed[ends]]
        for index, table in enumerate(worth):
            table.add(np.flatnonzero(kind == index), earned)
    return price.T


class _Worth:
    """The greatest worth of so much of one capacity, for every draw: M."""

    def __init__(self, at: NDArray[np.int64], uses: NDArray[np.int64], size: int, draws: int) -> None:
        self.at = at
        """The options that use it."""
        own = uses[at]
        most = int(own.max(initial=0))
        # before the first of its columns stand as many that no option may come from
        self._table = np.full((draws, most + size + 1), -np.inf)
        self._known = self._table[:, most:]
        self._known[:] = 0.0
        row = self._table.shape[1] * np.arange(draws)
        self._before = row[:, None, None] + (most + np.arange(size + 1) - own[:, None])
        self._without = row + (most + size - own)[:, None]

    def lost(self) -> NDArray[np.float64]:
        """Return float64 [its options, draws]: what all of it earns less without what each uses."""
        return np.asarray(self._table[:, -1] - self._table.take(self._without))

    def add(self, draws: NDArray[np.int64], earned: NDArray[np.float64]) -> None:
        """Add a job to some draws, with what it earns a second: float64 [draws, all options]."""
        if draws.size:
            own = slice(None) if draws.size == self._table.shape[0] else draws
            with_it = self._table.take(self._before[own])
            with_it += earned[own][:, self.at, None]
            self._known[own] = np.maximum(self._known[own], with_it.max(axis=1))
