"""Cores that grow until they hold every option that can matter: for many capacities that few jobs touch.

A core keeps the options of least loss at the multipliers, and those that let jobs that the relaxation divides
come to whole amounts (`beside_divided`); HiGHS solves it as a mixed-integer program. Each
incumbent says which options can still be in a better choice (`reachable`); once a core holds them all, its
optimum is that of the menus. After the kernel search of Angelelli, Mansini and Speranza, *Kernel search: A
general heuristic for the multi-dimensional knapsack problem*, Computers & Operations Research 37 (2010).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.solvers.clock import Clock
from apportion.solvers.multiknapsack.anytime import StopReason
from apportion.solvers.multiknapsack.linear_dual import (
    ResidualCore,
    beside_divided,
    residual_core,
    worst_exceeded,
)
from apportion.solvers.multiknapsack.local_search import LocalSearch
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable, noise
from apportion.solvers.multiknapsack.proving import CoreAnswer, overrun, solve_core

__all__ = ["FEW_ENTRIES", "ExpandingCore"]


_FIRST = 1.1
"""Options per job of the first core, beside those that divided jobs need: most jobs are settled,"""
_GROWTH = 1.6
"""and by how much the next one is larger."""
_NODES = 200
"""Branch-and-bound nodes of the first core, growing alike: a core that resists is left for a larger one."""
_SHARE, _LEAST_SHARE = 0.1, 0.2
"""Share of the time left that one core has, and has at most where it would not come to its relaxation."""
_LONGER, _LONGEST = 2.0, 4.0
"""By how much longer the local search has after each core that brought nothing, and at most."""
_CORES, _CORES_PER_ENTRY = 0.25, 3e-5
"""Share of the time left, at most so many seconds per use that is not 0, after which all options within reach
are one last core,"""
FEW_ENTRIES = 6_000
"""or from the beginning if they have at most so many uses that are not 0,"""
_LAST_ENTRIES = 60_000
"""and then at most so many: HiGHS finds no choice among more of them in time."""
_SECONDS_PER_ENTRY = 2e-5
"""Seconds per use that HiGHS may take before it first looks at the clock: 0.77 for 44,400 on two cores."""
_NO_TIME = 0.1
"""Seconds in which no core is begun."""
_ITERATIONS = 10
"""Iterations of the simplex method that count as a node: a root of thousands has none."""
_FAR, _NEAR_BY = 0.04, 0.5
"""Where the incumbent is this part of the bound away, neighbourhoods have this share of what is left,"""
_DRAWN, _MORE, _TURN, _IDLE = 20, 1.03, 0.15, 40
"""jobs of the first ones, by how much they grow, seconds that each has, and how many may bring nothing."""
_SECONDS_PER_NODE = 1e-2
"""What deterministic mode charges for a node, and for a core's own relaxation."""


class Neighbourhoods:
    """Large neighbourhood search: HiGHS chooses some jobs anew, the others keep their options.

    Where a search looks at some of the capacities, the others refuse most of what HiGHS finds of all jobs.
    Drawn are jobs that share capacities, as many as HiGHS just decides in a turn. After Shaw, *Using
    constraint programming and local search methods to solve vehicle routing problems*, CP (1998).

    Parameters
    ----------
    menus
        All options, under some of the capacities at least: those that a choice exceeds join them.
    bound
        What no choice exceeds.
    best, options, clock, counters
        Of the solve call.
    """

    def __init__(
        self,
        menus: OptionTable,
        bound: float,
        best: ChoiceIncumbent,
        options: SolveOptions,
        clock: Clock,
        counters: dict[str, float],
    ) -> None:
        self._bound, self._best = bound, best
        self._menus, self._kept = best.under_all(menus)
        self._options, self._clock, self._counters = options, clock, counters
        self._drawn = np.random.default_rng(options.seed)

    def is_far(self) -> bool:
        """Return whether there is an incumbent, and much between it and the bound."""
        return self._best.value is not None and self._best.distance_to(self._bound) > _FAR * abs(self._bound)

    def run(self, seconds: float) -> None:
        """Improve the incumbent for so many seconds, until it is near the bound, or as long as it helps."""
        best, clock, size, idle = self._best, self._clock, float(_DRAWN), 0
        until = clock.elapsed + seconds
        self._look()
        while self.is_far() and not best.close and clock.elapsed < until and clock.stopped() is None:
            at = best.among(self._menus)
            if at is None or idle > _IDLE:
                return
            before = best.value
            decided = self._chosen_anew(at, max(2, round(size)))
            idle = idle + 1 if best.value == before else 0
            size *= (_MORE if idle else 1.0) if decided else _MORE**-4

    def _chosen_anew(self, at: NDArray[np.int64], size: int) -> bool:
        """Let HiGHS choose the options of some jobs; return whether it says that none are better."""
        menus, clock = self._menus, self._clock
        few, jobs = self._few, self._jobs(size)
        part = few.part(jobs, few.capacities - few.used(np.delete(at, jobs)))
        begins = menus.offsets[:-1][jobs] - part.offsets[:-1]
        answer = solve_core(
            part,
            start=at[jobs] - begins,
            seconds=None if clock.counted else _TURN,
            nodes=max(1, int(_TURN / _SECONDS_PER_NODE)) if clock.counted else None,
            step=self._best.step,
            threads=1,
            seed=self._options.seed,
        )
        clock.charge(max(1, answer.nodes), (1 + answer.nodes) * _SECONDS_PER_NODE)
        self._counters["mip_calls"] += 1
        self._counters["mip_nodes"] += answer.nodes
        if answer.choice is not None:
            chosen = at.copy()
            chosen[jobs] = begins + answer.choice
            used = menus.used(chosen)
            if (used <= menus.capacities).all():
                self._best.take(menus.rows[chosen])
            else:
                self._kept[worst_exceeded(menus, used)] = True
                self._look()
        return answer.proven

    def _look(self) -> None:
        """Look at the capacities that are kept, and at the jobs that each of them links."""
        self._few = few = self._menus.under(self._kept)
        capacity, option, _ = few.entries()
        capacity, job = np.divmod(np.unique(capacity * few.num_jobs + few.job[option]), few.num_jobs)
        self._links = np.split(job, np.flatnonzero(np.diff(capacity)) + 1)

    def _jobs(self, size: int) -> NDArray[np.int64]:
        """Draw jobs that two capacities link, the rather the fewer these are."""
        links = self._links
        rarity = 1.0 / np.array([own.size for own in links])
        two = self._drawn.choice(len(links), min(2, len(links)), replace=False, p=rarity / rarity.sum())
        linked = np.unique(np.concatenate([links[place] for place in two]))
        return np.sort(self._drawn.choice(linked, min(size, linked.size), replace=False))


class ExpandingCore:
    """A sequence of cores.

    Parameters
    ----------
    menus
        All options.
    weights, bound
        Near-optimal multipliers, and L at them over the menus.
    local
        A local search, which has as much time after a core as the core took, and more where that brought
        nothing.
    best, options, clock, counters
        Of the solve call; see `apportion.solvers.multiknapsack.anytime.Search`.
    last
        Share of the time left that the last core has.
    soon
        Whether all options within reach are the first core already, if HiGHS may have so many.

    Attributes
    ----------
    bound
        What HiGHS says that nothing better than the incumbent exceeds; infinity where it said nothing.
    """

    def __init__(
        self,
        menus: OptionTable,
        weights: NDArray[np.float64],
        bound: float,
        local: LocalSearch,
        best: ChoiceIncumbent,
        options: SolveOptions,
        clock: Clock,
        counters: dict[str, float],
        last: float = 1.0,
        soon: bool = False,
    ) -> None:
        self._menus = menus
        self._bound, self._local = bound, local
        self._best = best
        self._options = options
        self._clock = clock
        self._counters, self._last, self._soon = counters, last, soon
        self._loss = menus.loss(weights)
        self._needed = beside_divided(menus, self._loss)
        self._margin = noise(menus, weights)
        self.bound = float(np.inf)

    def run(self) -> StopReason | None:
        """Solve cores until something ends it; ``None`` if the largest one worth trying was not decided."""
        size, nodes, share = _FIRST * self._menus.num_jobs, float(_NODES), 1.0
        rest = self._best, self._options, self._clock, self._counters
        looked_at = self._best.under_all(self._menus)[1]
        near_by = None if looked_at.all() else Neighbourhoods(self._menus, self._bound, *rest)
        turn = self._clock.elapsed
        if not self._soon:
            turn += min(self._clock.seconds_of(_CORES), _CORES_PER_ENTRY * self._menus.num_entries)
        while True:
            if self._best.proven:
                return StopReason("proven")
            if self._best.close:
                return StopReason("gap")
            left = self._clock.remaining
            if self._clock.stopped() is not None or (left is not None and left <= _NO_TIME):
                return None
            reach = self._reach()
            entries, late = self._entries(reach), self._clock.elapsed >= turn
            last = entries <= FEW_ENTRIES or (late and self._takes_last(entries, left))
            cut = np.inf if last else self._cut(size)
            core = self._menus.keep(self._needed | (self._loss <= min(cut, reach)))
            whole = cut >= reach or core.num_options == self._menus.num_options
            if last and near_by is not None and near_by.is_far():
                if self._menus.num_entries <= _LAST_ENTRIES:
                    near_by.run(self._clock.seconds_of(_NEAR_BY))
                near_by = None
                continue
            last |= whole  # where no option loses anything, the first core is all there is
            asked, before = self._clock.elapsed, self._best.objective
            answer = self._solve(core, None if last else int(nodes))
            if answer is None:
                if late:
                    return None
                turn = self._clock.elapsed  # no time is left for one that grows
                continue
            if answer.proven and (whole or self._reach() <= min(cut, reach)):
                return StopReason("proven", by_solver=True)
            if answer.infeasible and whole and self._best.point is None:
                return StopReason("proven", infeasible=True, by_solver=True)
            if whole:
                self.bound = np.inf if answer.bound is None else answer.bound
                return None
            share = 1.0 if self._best.objective != before else min(_LONGER * share, _LONGEST)
            self._local.run(share * (self._clock.elapsed - asked))
            size, nodes = _GROWTH * size, _GROWTH * nodes

    def _reach(self) -> float:
        """Return the largest loss of an option that a better choice can contain."""
        floor = self._best.floor
        return np.inf if floor is None else max(0.0, self._bound - floor + self._margin)

    @staticmethod
    def _takes_last(entries: float, left: float | None) -> bool:
        """Return whether HiGHS may have all options within reach: few, with time to look at the clock."""
        return entries <= _LAST_ENTRIES and (left is None or left >= _SECONDS_PER_ENTRY * entries)

    def _entries(self, reach: float) -> float:
        """Return how many uses of the options within reach are not 0."""
        if self._best.point is None:
            return np.inf
        return float(self._menus.entries_of(self._loss <= reach))

    def _cut(self, size: float) -> float:
        if size >= self._loss.size:
            return np.inf
        return float(np.partition(self._loss, int(size))[int(size)])

    def _solve(self, core: OptionTable, nodes: int | None) -> CoreAnswer | None:
        """Solve a core, without a limit of nodes in the last one's share; ``None`` if there is no time."""
        best, clock = self._best, self._clock
        left = clock.seconds_left if clock.counted else clock.remaining
        part = residual_core(core)
        if not part.menus.num_jobs:
            return self._taken(core, CoreAnswer(part.menus.rows, None, True, 0, "settled"), part)
        at, share, seconds = best.among(core), self._last if nodes is None else _SHARE, None
        if left is not None:
            late = overrun(part.menus)
            needed = late + _SECONDS_PER_ENTRY * part.menus.num_entries
            seconds = max(share * left, min(needed, _LEAST_SHARE * left)) - late
            if seconds <= 0.0:
                return None
        answer = solve_core(
            part.menus,
            start=None if at is None else part.inward(at),
            seconds=seconds,
            nodes=clock.work_left if nodes is None else nodes,
            step=best.step,
            threads=self._options.threads,
            seed=self._options.seed,
            enough=lambda choice: best.ends(core.rows[part.outward(choice)]),
            reduced=nodes is not None,  # looking for more takes thrice the search
            restarts=nodes is not None,
        )
        work = max(1, answer.nodes, answer.iterations // _ITERATIONS)
        clock.charge(work, (1 + answer.nodes) * _SECONDS_PER_NODE)
        self._counters["mip_calls"] += 1
        self._counters["mip_nodes"] += answer.nodes
        return self._taken(core, answer, part)

    def _taken(self, core: OptionTable, answer: CoreAnswer, part: ResidualCore) -> CoreAnswer:
        """Keep the choice of an answer; nothing is proved by one that does not fit."""
        if answer.bound is not None:
            answer = replace(answer, bound=part.value + answer.bound)
        if answer.choice is None:  # no proof where the core holds the incumbent, or there is none
            absent = self._best.point is not None and self._best.among(core) is None
            return replace(answer, proven=answer.proven and absent)
        rows = core.rows[part.outward(answer.choice)]
        self._best.take(rows)
        return replace(answer, proven=answer.proven and self._best.fits(rows))
