"""By turns on one incumbent: sub-problems around the busiest machine, CP-SAT, HiGHS and SCIP.

Every turn starts from the best schedule anybody found, over the entries it leaves open, and every bound
counts. Time goes where it has paid (`Shares`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.assignment_lowering import LoweredAssignment
from apportion.options import SolveOptions
from apportion.outcome import Termination
from apportion.solvers.assignment.clock import Clock
from apportion.solvers.assignment.mip import branch_and_bound
from apportion.solvers.makespan.local_search import ScheduleSearch
from apportion.solvers.makespan.shares import Shares
from apportion.solvers.makespan.subproblem import rebalanced
from apportion.solvers.makespan.turns import Loading, Turn, available, take_turn

__all__ = ["Portfolio"]

_SMALL = 400
"""Open entries that are branched on at once."""
_PATIENCE = 5
"""Sub-problems without improvement that end a turn of theirs."""
_SUBPROBLEMS = "sub-problems"
_WEIGHTS = {_SUBPROBLEMS: 1.2, "cp-sat": 1.0, "highs": 0.9, "scip": 0.2}
"""Shares of time to begin with: what each was worth on generated instances of Fanjul-Peyro's families."""
_FIRST = {_SUBPROBLEMS: 0.12, "cp-sat": 0.15, "highs": 0.2, "scip": 0.08}
"""First turns, as shares of the time left; of sub-problems, how long one may go without improvement."""
_WIDTHS: dict[str, tuple[int | None, ...]] = {
    "cp-sat": (None, 2, 3),
    "highs": (2, 4, None),
    "scip": (2, None),
}
"""Entries per job, those of least reduced cost, that an engine's turns are limited to (``None``: all open).

Two per job hold a near-optimal schedule nearly always, and are searched in a fraction of the time (the
size-reduction heuristic of Fanjul-Peyro and Ruiz, Computers & Operations Research 38, 2011); only all of
them give a bound.
"""
_WORTHWHILE = 2.0
"""Seconds below which no engine is started in a child process: HiGHS then gets its turn here."""
_AT_HAND = 4_000
"""Open entries up to which that is done: HiGHS keeps to its limit on them."""


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
        self.interrupted = False

    def open_entries(self, incumbent: float) -> NDArray[np.bool_]:
        """Return the entries that a schedule ending before the incumbent may use."""
        target = incumbent - 1 if self.whole else incumbent
        slack = 1e-9 * max(1.0, incumbent)
        return np.asarray(
            (self.extra <= target - self.base + slack) & (self.model.values <= target + slack), dtype=np.bool_
        )

    def narrowed(self, allowed: NDArray[np.bool_], width: int | None) -> NDArray[np.bool_]:
        """Return about `width` open entries per job, by reduced cost, or all."""
        if width is None or int(allowed.sum()) <= width * self.model.num_jobs:
            return allowed
        most = np.partition(self.extra[allowed], width * self.model.num_jobs - 1)
        return np.asarray(allowed & (self.extra <= most[width * self.model.num_jobs - 1]), dtype=np.bool_)

    def run(self, best: NDArray[np.int64]) -> tuple[NDArray[np.int64], bool]:
        """Return the best schedule and whether it is proven."""
        small = int(self.open_entries(self.search.makespan()).sum()) <= _SMALL
        proven = small and self._branch()
        if not proven and not self._over():
            proven = self._by_turns()
        choice = self.search.choice()
        if self.model.objective(choice) > self.model.objective(best):
            choice = best
        return choice, proven

    def _by_turns(self) -> bool:
        """Return whether the incumbent is proven before the time, or the work without a clock, is over."""
        left = self.clock.left
        engines = [_SUBPROBLEMS, *(available() if left is None or left > _WORTHWHILE else ())]
        if len(engines) == 1:
            self._subproblems(0.25 * (left or 10.0))
            open_still = int(self.open_entries(self.search.makespan()).sum())
            if not self._over() and open_still <= _AT_HAND and self._branch():
                return True
        loading = Loading(engines[1:]) if left is not None and len(engines) > 1 else None
        shares = Shares(
            {name: weight for name, weight in _WEIGHTS.items() if name in engines},
            {name: share * (left or 10.0) for name, share in _FIRST.items()},
        )
        timed = self.options.time_limit is not None
        had = dict.fromkeys(engines, 0)
        turns = 1_000_000 if timed else 12
        turns = turns if self.options.work_limit is None else max(int(self.options.work_limit), 1)
        for turn in range(turns):
            if self._over():
                break
            name = shares.next()
            before, bound, began = self.search.makespan(), self.clock.bound or 0.0, self.clock.elapsed
            length = self._length(shares.length(name))
            if name == _SUBPROBLEMS:
                self._subproblems(length)
            else:
                if loading is not None:
                    loading.wait(0.4 * (self.clock.left or 0.0))
                    length = self._length(length)
                widths = _WIDTHS[name]
                turned = self._engine(name, length, turn, widths[had[name] % len(widths)])
                had[name] += 1
                if turned.exhausted:
                    return True
                if turned.interrupted:
                    self.interrupted = True
                    break
                if turned.refused:
                    shares.drop(name)
                    continue
            gained = self.search.makespan() < before or (self.clock.bound or 0.0) > bound
            shares.book(name, self.clock.elapsed - began if timed else 1.0, gained)
        return False

    def _length(self, seconds: float) -> float:
        """Return the seconds of a turn: all that is left if the rest would be too little for another."""
        left = self.clock.left
        return seconds if left is None or left > 1.4 * seconds else left

    def _subproblems(self, seconds: float) -> None:
        """Re-optimise a few machines at a time until that has not helped for some seconds, or some tries."""
        until = self.clock.elapsed + seconds
        patience = 0
        for _ in range(1_000_000 if self.clock.left is not None else 20):
            if self._over() or (self.clock.left is not None and self.clock.elapsed >= until):
                return
            before = self.search.makespan()
            if self._rebalance(patience):
                if self.search.makespan() < before:
                    patience, until = 0, self.clock.elapsed + seconds
                self.clock.tell(self.search.makespan(), self.search.choice())
            else:
                patience += 1
            if patience >= _PATIENCE:
                return

    def _engine(self, name: str, seconds: float, turn: int, width: int | None) -> Turn:
        """Let an engine begin with the incumbent; take its schedule and its bound."""
        top = self.search.makespan()
        allowed = self.open_entries(top)
        narrow = self.narrowed(allowed, width)
        turned = take_turn(
            name,
            self.lowered,
            narrow,
            self.search.choice(),
            replace(self.options, seed=self.options.seed + turn),
            None if self.clock.left is None else self.clock.share(seconds),
            self.clock.left,
            self.clock.tell,
            least=self.clock.bound or 0.0,
            # one unit above the bound there is nothing to optimise: any earlier schedule will do
            hunting=name == "highs" and self.whole and top - 1 <= (self.clock.bound or 0.0),
        )
        if turned.choice is not None and self.model.objective(turned.choice) < top:
            self.search.take(turned.choice)
            self.clock.tell(self.search.makespan(), self.search.choice())
        if narrow.sum() < allowed.sum():
            return replace(turned, bound=None, exhausted=False)
        if turned.bound is not None:
            self._bounded(turned.bound, top)
        return turned

    def _bounded(self, bound: float, top: float) -> None:
        """Take a bound that holds for whatever ends before `top`."""
        proven = min(bound, top)
        if self.whole:
            proven = float(np.ceil(proven - 1e-6))
        self.clock.bound = max(self.clock.bound or 0.0, proven)

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

    def _branch(self) -> bool:
        """Branch and bound over few open entries, here; return whether the incumbent is proven."""
        top = self.search.makespan()
        begin = self.lowered.point(self.search.choice())
        branched = branch_and_bound(
            self.lowered.model,
            self.clock.left,
            begin,
            np.append(self.open_entries(top), True) | (begin > 0),
            self.options.gap,
            self.options.seed,
            2_000 if self.clock.left is None else None,
            ceiling=top,
        )
        if branched.bound is not None:
            self._bounded(branched.bound, top)
        if branched.point is not None:
            choice = self.lowered.choice(branched.point)
            if self.model.check(choice).feasible and self.model.objective(choice) < top:
                self.search.take(choice)
                self.clock.tell(self.search.makespan(), self.search.choice())
        return branched.termination is Termination.OPTIMAL and self.options.gap == 0
