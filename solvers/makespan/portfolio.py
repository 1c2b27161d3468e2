"""By turns on one incumbent: small exact sub-problems around the busiest machine, and branch and bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.assignment_lowering import LoweredAssignment
from apportion.options import SolveOptions
from apportion.solvers.assignment.clock import Clock
from apportion.solvers.assignment.mip import branch_and_bound
from apportion.solvers.makespan.local_search import ScheduleSearch
from apportion.solvers.makespan.subproblem import rebalanced

__all__ = ["Portfolio"]

_SMALL = 400
"""Open entries that are branched on at once."""
_PATIENCE = 5
"""Sub-problems without improvement before branch and bound takes its turn."""
_SLICE = 0.35
"""Share of the time left that one turn of branch and bound gets."""


class Portfolio:
    """The search after the starts.

    Parameters
    ----------
    model, lowered
        The assignment and its linear model.
    search
        The local search, holding the incumbent.
    options, clock
        Limits of the call.
    prices
        Weights of the pools.
    """

    def __init__(
        self,
        model: Assignment,
        lowered: LoweredAssignment,
        search: ScheduleSearch,
        options: SolveOptions,
        clock: Clock,
        prices: NDArray[np.float64],
    ) -> None:
        self.model, self.lowered, self.search = model, lowered, search
        self.options, self.clock = options, clock
        self.whole = bool((model.values == np.rint(model.values)).all())
        self.rng = np.random.default_rng(options.seed + 1)
        share = (prices / np.bincount(model.pool, minlength=len(model.pool_names)))[model.pool]
        share = share / share.sum()
        weighted = share[model.machine] * model.values
        least = np.minimum.reduceat(weighted, model.offsets[:-1])
        self.extra = weighted - least[model.job_of_option()]
        self.base = float(least.sum())

    def open_entries(self, incumbent: float) -> NDArray[np.bool_]:
        """Return the entries that a schedule ending before the incumbent may use."""
        target = incumbent - 1 if self.whole else incumbent
        slack = 1e-9 * max(1.0, incumbent)
        return np.asarray(
            (self.extra <= target - self.base + slack) & (self.model.values <= target + slack), dtype=np.bool_
        )

    def run(self, best: NDArray[np.int64]) -> tuple[NDArray[np.int64], bool]:
        """Return the best schedule and whether it is proven."""
        rounds = 40 if self.options.time_limit is None else 1_000_000
        rounds = rounds if self.options.work_limit is None else max(int(self.options.work_limit), 1)
        small = int(self.open_entries(self.search.makespan()).sum()) <= _SMALL
        if small and self._branch(None):
            return self.search.choice(), True
        patience = turn = 0
        for _ in range(rounds):
            if self._over():
                break
            before = self.search.makespan()
            if self._rebalance(patience):
                patience = 0 if self.search.makespan() < before else patience
                self.clock.tell(self.search.makespan())
            else:
                patience += 1
            if patience >= _PATIENCE and not self._over():
                left = self.clock.left
                if self._branch(None if left is None else max(1.0, _SLICE * left), turn):
                    return self.search.choice(), True
                turn += 1
                patience = 2
        choice = self.search.choice()
        if self.model.objective(choice) > self.model.objective(best):
            choice = best
        return choice, False

    def _rebalance(self, patience: int) -> bool:
        """Re-optimise the busiest machine with a few others; return whether anything improved."""
        search = self.search
        busiest = int(np.argmax(search.load))
        top = search.makespan()
        allowed = self.open_entries(top)
        others = np.delete(np.arange(search.load.size), busiest)
        width = min(others.size, 2 + min(patience // 2, 4))
        slackness = top - search.load[others] + 1e-9 * max(1.0, top)
        chosen = self.rng.choice(others, size=width, replace=False, p=slackness / slackness.sum())
        machines = np.append(chosen, busiest)
        seconds = self.clock.share(0.4 + 0.2 * min(patience, 10))
        placed = rebalanced(search, machines, self.model, allowed, seconds, self.options, self.whole)
        if placed is None:
            return False
        search.put(placed)
        search.descend(self._over)
        return True

    def _over(self) -> bool:
        return self.clock.over or self.clock.closed(self.search.makespan())

    def _branch(self, seconds: float | None, turn: int = 0) -> bool:
        """Branch and bound over all open entries; return whether nothing better than the incumbent is left.

        By turns it improves on the incumbent, or looks for any schedule that ends earlier.
        """
        top = self.search.makespan()
        hunting = self.whole and turn % 2 == 1
        begin = None if hunting else self.lowered.point(self.search.choice())
        allowed = np.append(self.open_entries(top), True)
        if begin is not None:
            allowed |= begin > 0
        branched = branch_and_bound(
            self.lowered.model,
            self.clock.left if seconds is None else self.clock.share(seconds),
            begin,
            allowed,
            self.options.gap,
            self.options.seed + turn,
            2_000 if self.clock.left is None else None,
            ceiling=top - 1 if hunting else top,
        )
        if branched.bound is not None:
            proven = min(branched.bound, top)
            if self.whole:
                proven = float(np.ceil(proven - 1e-6))
            self.clock.bound = max(self.clock.bound or 0.0, proven)
        if branched.point is not None:
            choice = self.lowered.choice(branched.point)
            if self.model.check(choice).feasible and self.model.objective(choice) < top:
                self.search.take(choice)
                self.clock.tell(self.search.makespan())
        if branched.status == "infeasible" and hunting:
            self.clock.bound = top
            return True
        return branched.status == "optimal" and self.options.gap == 0
