"""What a gap-filling policy is shown, and what it answers.

A policy is a plain callable ``policy(view) -> Plan``. The view holds what a production allocator also knows
at that instant: nothing of it tells the future, and nothing tells whether a replay or a live cluster is
asking.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import ApportionError

__all__ = ["FREE", "GapFillingView", "InvalidPlan", "Plan", "Policy", "check_plan"]

FREE = -1
"""Holder of a node that no job holds."""


class InvalidPlan(ApportionError):
    """A policy's plan breaks a rule of gap filling; the message names the rule and the place."""


@dataclass(frozen=True, slots=True, eq=False)
class GapFillingView:
    """One instant of a cluster with malleable jobs on its idle nodes.

    Jobs are the admitted ones, in order of admission; nodes are those idle now (jobs of this allocator may
    run on them), in ascending order of their integer id. Arrays are not to be written to.

    Attributes
    ----------
    time_s
        Now, seconds.
    jobs
        int64 [jobs]: a number for every job that stays the same as long as it is admitted.
    rates
        float64 [jobs, counts]: samples per second the job is believed to reach on 0, 1, 2, ... nodes.
    min_nodes, max_nodes
        int64 [jobs]: a job gets 0 nodes or from min to max.
    up_s, down_s
        float64 [jobs]: seconds of standstill after growing or shrinking.
    remaining
        float64 [jobs]: samples still to train on; never negative.
    nodes
        int64 [nodes]: ids of the idle nodes.
    holder
        int64 [nodes]: position in `jobs` of who holds the node, `FREE` if nobody.
    idle_since_s
        float64 [nodes]: when the node became idle, as far as it was seen.
    departed_after_s
        float64 [departures]: for every node that left since the last decision, how long it had been idle.
    waiting
        Jobs submitted but not admitted.
    measured
        float64 [jobs]: samples per second measured since the last decision, NaN where nothing was measured.
    listed
        bool [jobs, counts]: which counts from min to max a job may have; ``None``: all of them.
    """

    time_s: float
    jobs: NDArray[np.int64]
    rates: NDArray[np.float64]
    min_nodes: NDArray[np.int64]
    max_nodes: NDArray[np.int64]
    up_s: NDArray[np.float64]
    down_s: NDArray[np.float64]
    remaining: NDArray[np.float64]
    nodes: NDArray[np.int64]
    holder: NDArray[np.int64]
    idle_since_s: NDArray[np.float64]
    departed_after_s: NDArray[np.float64]
    waiting: int
    measured: NDArray[np.float64]
    listed: NDArray[np.bool_] | None = None

    @property
    def num_jobs(self) -> int:
        """How many jobs are admitted."""
        return int(self.jobs.size)

    def held(self) -> NDArray[np.int64]:
        """Return int64 [jobs]: how many nodes every job holds."""
        return count_held(self.holder, self.num_jobs)

    def allowed(self, num_counts: int) -> NDArray[np.bool_]:
        """Return bool [jobs, num_counts]: whether a job may have so many nodes; 0 it always may."""
        counts = np.arange(num_counts)
        found: NDArray[np.bool_] = (counts >= self.min_nodes[:, None]) & (counts <= self.max_nodes[:, None])
        if self.listed is not None:
            found &= self.listed[:, :num_counts]
        found[:, 0] = True
        return found

    def at_most(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 [jobs]: the largest count a job may have that is no larger than the given one."""
        width = self.rates.shape[1]
        below = self.allowed(width) & (np.arange(width) <= counts[:, None])
        found: NDArray[np.int64] = width - 1 - below[:, ::-1].argmax(axis=1)
        return found

    def running_rate(self, held: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64 [jobs]: the believed rate at `held` nodes, 0 below the minimum."""
        rate: NDArray[np.float64] = self.rates[np.arange(held.size), held]
        return np.where(held >= self.min_nodes, rate, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What a policy decides for one moment.

    Attributes
    ----------
    holder
        int64 [nodes of the view]: position of the job that gets the node, `FREE` for none.
    wake_s
        Ask again at this time even if nothing happens until then; ``None``: not needed.
    """

    holder: NDArray[np.int64]
    wake_s: float | None = None


Policy = Callable[[GapFillingView], Plan]


def count_held(holder: NDArray[np.int64], num_jobs: int) -> NDArray[np.int64]:
    """Return int64 [jobs]: how many entries of `holder` name each job."""
    return np.bincount(holder + 1, minlength=num_jobs + 1)[1:]


def check_plan(view: GapFillingView, plan: Plan) -> NDArray[np.int64]:
    """Check a plan against its view and return int64 [jobs], the nodes every job gets.

    A node serves one job; a job gets 0 nodes or min to max, or keeps exactly what it holds; its nodes grow or
    shrink as a set and are never swapped.

    Raises
    ------
    InvalidPlan
        If a rule is broken.
    """
    after, before = plan.holder, view.holder
    num_jobs = view.num_jobs
    if after.shape != before.shape or after.dtype.kind != "i":
        raise InvalidPlan(f"holder must be integers [{before.size}], is {after.dtype} {list(after.shape)}")
    if after.size and not (int(after.min()) >= FREE and int(after.max()) < num_jobs):
        raise InvalidPlan(f"holder must be from -1 to {num_jobs - 1}")
    counts, held = count_held(after, num_jobs), view.held()
    kept = count_held(after[after == before], num_jobs)
    if not np.array_equal(kept, np.minimum(counts, held)):
        job = int(np.argmax(kept != np.minimum(counts, held)))
        raise InvalidPlan(
            f"job {view.jobs[job]} swaps nodes: holds {held[job]}, gets {counts[job]}, keeps {kept[job]}"
        )
    within = (counts == 0) | ((counts >= view.min_nodes) & (counts <= view.max_nodes))
    if view.listed is not None:
        within &= view.allowed(view.listed.shape[1])[np.arange(num_jobs), counts]
    within |= counts == held
    if not within.all():
        job = int(np.argmin(within))
        listed = "" if view.listed is None else " as far as they are listed"
        raise InvalidPlan(
            f"job {view.jobs[job]} gets {counts[job]} nodes; allowed are 0 and "
            f"{view.min_nodes[job]} to {view.max_nodes[job]}{listed}"
        )
    return counts
