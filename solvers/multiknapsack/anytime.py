"""The search from the first incumbent to the limit: the exact search, beams, and HiGHS on cores that resist.

The exact search has the first turn and then a share of the time, beams have the rest. Every improvement
lets reduced costs fix more options. A beam merges what leaves the same capacities, so one pass proves rounds
of few GPUs; HiGHS's cuts prove cores whose capacities no sum of uses meets. Neither is seen by the prices
that the exact search prunes with. Tables have one turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.solvers.clock import Clock
from apportion.solvers.general.highs_call import HIGHS_ERROR
from apportion.solvers.multiknapsack.alike_jobs import alike_jobs
from apportion.solvers.multiknapsack.beam import BeamTurns
from apportion.solvers.multiknapsack.nested_tables import NestedTables, nested_tables
from apportion.solvers.multiknapsack.option_table import (
    ChoiceIncumbent,
    OptionTable,
    reachable,
)
from apportion.solvers.multiknapsack.proving import Proving, overrun, provable, solve_core
from apportion.solvers.multiknapsack.relaxation_tree import RelaxationTree, count_tree

__all__ = ["Search", "StopReason", "TablesTurn", "without_dominated"]


_AFTER = 0.005
"""Seconds after which it is looked at whether counts of values, or tables, decide the menus,"""
_SHARE = 0.25
"""and the share of their seconds after which they do."""


class TablesTurn:
    """The one turn of `NestedTables` in a search.

    Parameters
    ----------
    best
        The incumbent, which a better choice replaces.
    clock
        Charged for every entry.

    Attributes
    ----------
    entries
        Entries that were looked at.
    """

    def __init__(self, best: ChoiceIncumbent, clock: Clock) -> None:
        self._best, self._clock = best, clock
        self._tables: NestedTables | None = None
        self._is_open = True
        self.entries = 0

    def is_due(self, menus: OptionTable, elapsed: float) -> bool:
        """Return whether tables can be filled in time, and so many seconds of the search are enough for that.

        The menus of the first call after some seconds are those that the tables decide.
        """
        if not self._is_open or elapsed < _AFTER:
            return False
        if self._tables is None:
            self._tables = nested_tables(menus)
            self._is_open = self._tables is not None
        if self._tables is None or elapsed < _SHARE * self._tables.seconds:
            return False
        left, work = self._clock.remaining, self._clock.work_left
        timely = left is None or self._tables.seconds < left
        self._is_open = timely and (work is None or self._tables.entries <= work)
        return self._is_open

    def fill(self) -> bool:
        """Fill the tables; return whether nothing is better than the incumbent then."""
        tables, best = self._tables, self._best
        assert tables is not None
        self._is_open, self._tables = False, None
        filled, choice = tables.best(self._clock.late)
        self.entries = tables.entries
        self._clock.charge(tables.entries, tables.seconds)
        if not filled:
            return False
        if choice is None:
            return True
        rows = tables.menus.rows[choice]
        best.take(rows)
        return best.fits(rows)  # not where a capacity's row was rounded


_GLANCE = 0.003
"""Seconds that the exact search has before one beam pass is tried: small menus are proven in less."""
_HEAD_OF_COUNTS, _COUNTS_SHARE = 0.2, 0.5
"""Seconds, and the share of the time on top, that the tree of counts has."""
_HEAD = {True: 1.0, False: 0.05}
"""Seconds that the exact search has before the next beam passes, by whether a proof can be hoped for,"""
_HEAD_SHARE = 0.25
"""at most this share of the time limit,"""
_PROOF_SHARE = {True: 0.75, False: 0.1}
"""and its share of the time after that."""
_HOPEFUL_BITS = 120.0
"""Try to prove optimality when at most 2**this combinations remain after fixing."""
_TURN = 0.05
"""Seconds of one turn of the exact search."""
_ALIKE = 8
"""Jobs to every distinct one from which on they are called alike."""
_MIP_OPTIONS = 4_000
"""Cores of more options are not given to HiGHS,"""
_ALIKE_OPTIONS = 100_000
"""counted once for all jobs alike, which are looked for among so many,"""
_MIP_AFTER = 0.4
"""Seconds after which HiGHS first tries a core,"""
_MIP_SHARE, _MANY_SHARE, _MANY = 0.5, 1.5, 10
"""for this share of the time gone by until then, half a second at least, and again when that has trebled; for
the greater share with more capacities than so many, under which a tree of options is seldom searched."""
_SECONDS_PER_MIP_NODE = 1e-2
"""What deterministic mode charges for a node of HiGHS."""
_OVERRUN = 0.25
"""Seconds by which HiGHS may be late on a core at most."""
_LEAST_PROOF, _PROOF_TO_SEARCH = 0.5, 0.25
"""Seconds, and the share of those searched until then, in which what HiGHS claims may be proven."""
_PATIENCE = 15.0
"""Without a limit: seconds to search on, thrice those to the last improvement on top."""


@dataclass(frozen=True, slots=True)
class StopReason:
    """How the search ended.

    Attributes
    ----------
    reason
        ``proven``, ``claimed`` (optimal by the word of HiGHS alone), ``gap``, ``limit``, ``work`` or
        ``exhausted`` (bounded search without a limit given).
    infeasible
        Whether, with `reason` ``proven``, no choice exists at all.
    proving
        The exact search that proved it.
    by_solver
        Whether HiGHS says, on the core, that nothing is better than the incumbent.
    counts
        The tree of counts, if there is one: what is still open in it bounds everything better.
    rounding
        What sums that proved it may be off by, beside those at the multipliers of the search.
    """

    reason: str
    infeasible: bool = False
    proving: Proving | None = None
    by_solver: bool = False
    counts: RelaxationTree | None = None
    rounding: float = 0.0


class Search:
    """One improvement run.

    Parameters
    ----------
    menus
        All options, misfits gone; dominated ones may stand in them.
    weights
        float64 [capacities]: near-optimal multipliers.
    bound
        L(weights) over the menus.
    best
        The incumbent so far.
    options, clock
        Of the solve call.
    counters
        Updated in place: ``passes``, ``states``, ``nodes``, ``mip_calls``, ``mip_nodes``, ``live_options``.

    Attributes
    ----------
    by_highs
        What HiGHS says that nothing better than the incumbent exceeds; infinity where it said nothing.
    """

    def __init__(
        self,
        menus: OptionTable,
        weights: NDArray[np.float64],
        bound: float,
        best: ChoiceIncumbent,
        options: SolveOptions,
        clock: Clock,
        counters: dict[str, float],
    ) -> None:
        self._all = menus
        self._weights = weights
        self._bound = bound
        self._best = best
        self._options = options
        self._clock = clock
        self._counters = counters
        self._live = menus
        self._live_floor = -math.inf
        self._classes: OptionTable | None = None
        self._last_gain = clock.elapsed
        self._began = self._last_gain
        self._next_mip, self.by_highs = self._began + _MIP_AFTER, math.inf
        self._solver_agrees, self._agreed_until = False, math.inf
        self._tables = TablesTurn(best, clock)
        self._counts: RelaxationTree | None = None
        self._counts_asked = False
        self._beams = BeamTurns(weights, best, options.seed, clock, counters)
        self._proving: Proving | None = None
        if provable(menus):
            self._proving = Proving(menus, weights, best, clock, options.seed, threads=options.threads)

    @property
    def live(self) -> OptionTable:
        """The options that reduced costs have not fixed away."""
        return self._live

    def first_turn(self) -> StopReason | None:
        """Let the exact search have its first turn; ``None`` if that proves nothing."""
        return None if self._proving is None else self._prove()

    def leave_out_dominated(self) -> None:
        """Leave dominated options out of all that follows; the exact search goes on among those it has."""
        self._all = self._live = without_dominated(self._all)

    def run(self) -> StopReason:
        """Search until something ends it."""
        while True:
            best = self._best
            if best.proven:
                return StopReason("proven")
            if best.close:
                return StopReason("gap")
            if (stopped := self._clock.stopped()) is not None:
                reason = "work" if stopped is Termination.NODE_LIMIT else "limit"
                agreed = self._solver_agrees
                return StopReason("claimed" if agreed else reason, by_solver=agreed, counts=self._counts)
            if self._solver_agrees and self._clock.elapsed >= self._agreed_until:
                return StopReason("claimed", by_solver=True)
            if self._exhausted():
                return StopReason("exhausted", by_solver=self._solver_agrees, counts=self._counts)
            self._refresh()
            value = best.objective
            if self._tables.is_due(self._live, self._clock.elapsed - self._began):
                ending = self._tabled()
            elif self._counts_are_due():
                ending = self._counted()
            elif self._mip_is_due():
                ending = self._mip()
            elif self._proof_is_due():
                ending = self._prove()
            else:
                ending = self._beam()
            if ending is not None:
                return ending
            if best.objective != value:
                self._last_gain = self._clock.elapsed

    def _exhausted(self) -> bool:
        if self._options.time_limit is not None or self._options.work_limit is not None:
            return False
        return self._clock.elapsed > _PATIENCE + 3.0 * self._last_gain

    def _refresh(self) -> None:
        """Fix options by reduced cost whenever the incumbent has risen since the last time."""
        floor = self._best.floor
        if floor is not None and floor > self._live_floor:
            self._live = self._all.keep(reachable(self._all, self._weights, self._bound, floor))
            self._live_floor, self._classes = floor, None
            self._counters["live_options"] = float(self._live.num_options)

    def _tabled(self) -> StopReason | None:
        filled = self._tables.fill()
        self._counters["states"] += self._tables.entries
        return StopReason("proven", infeasible=self._best.point is None) if filled else None

    def _counts_are_due(self) -> bool:
        """Whether counts of options of some value are looked at, and have had less than their share."""
        gone = self._clock.elapsed - self._began
        if gone < _AFTER:
            return False
        if not self._counts_asked:
            tree = count_tree(self._live, self._best, self._clock, self._options.seed)
            if tree is not None and not self._counters["passes"] and not self._are_alike():
                return False  # a pass mostly finds what counts then only prove; of alike jobs counts find it
            self._counts_asked, self._counts = True, tree
        return self._counts is not None and self._counts.seconds < _HEAD_OF_COUNTS + _COUNTS_SHARE * gone

    def _are_alike(self) -> bool:
        """Whether there are many jobs to every one that differs."""
        return _ALIKE * self._distinct().num_jobs <= self._live.num_jobs

    def _counted(self) -> StopReason | None:
        tree = self._counts
        assert tree is not None
        ended = tree.run(_TURN)
        counters = self._counters
        counters["relaxations"] = float(tree.relaxations)
        counters["mip_calls"] += tree.mip_calls
        counters["mip_nodes"] += tree.mip_nodes
        tree.mip_calls = tree.mip_nodes = 0
        if not ended:
            return None
        return StopReason("proven", infeasible=self._best.point is None, by_solver=tree.by_solver)

    def _beam(self) -> StopReason | None:
        exhausted, nothing = self._beams.run(self._live), self._best.point is None
        return StopReason("proven", nothing, rounding=self._beams.rounding) if exhausted else None

    def _proof_is_due(self) -> bool:
        """Whether the exact search has had less than its share of the time."""
        if self._proving is None:
            return False
        if self._counters["passes"] == 0 and self._proving.seconds >= _GLANCE:
            return False
        left = self._clock.remaining
        elapsed = self._clock.elapsed - self._began
        hopeful = bool(np.log2(np.diff(self._live.offsets)).sum() <= _HOPEFUL_BITS)
        head = _HEAD[hopeful] if left is None else min(_HEAD[hopeful], _HEAD_SHARE * (elapsed + left))
        return self._proving.seconds < head + _PROOF_SHARE[hopeful] * elapsed

    def _prove(self) -> StopReason | None:
        proving = self._proving
        assert proving is not None
        ended = proving.run(_TURN if self._counters["passes"] else _GLANCE)
        self._counters["nodes"] = float(proving.nodes)
        return StopReason("proven", self._best.point is None, proving) if ended else None

    def _mip_is_due(self) -> bool:
        if self._clock.elapsed < self._next_mip or not self._suits_mip():
            return False
        left = self._clock.remaining
        return left is None or left > 2 * self._overrun()

    def _overrun(self) -> float:
        """Return the seconds by which HiGHS may be late on the options left."""
        return min(_OVERRUN, overrun(self._live))

    def _suits_mip(self) -> bool:
        """Whether the options left are few enough for HiGHS."""
        live = self._live
        return live.num_options <= _MIP_OPTIONS or self._distinct().num_options <= _MIP_OPTIONS

    def _distinct(self) -> OptionTable:
        """Return the menus of jobs that are not alike; of many options all."""
        if self._classes is None:
            self._classes = self._live
            if self._live.num_options <= _ALIKE_OPTIONS:
                self._classes = alike_jobs(self._live).menus
        return self._classes

    def _mip(self) -> StopReason | None:
        """Let HiGHS try the core, and again when three times as long has gone by."""
        clock, best, live = self._clock, self._best, self._live
        part = _MANY_SHARE if live.num_capacities > _MANY else _MIP_SHARE
        share = max(0.5, part * (clock.elapsed - self._began))
        left = clock.remaining
        if left is not None:
            share = min(share, left - self._overrun())
        answer = solve_core(
            live,
            start=best.among(live),
            seconds=None if clock.counted else share,
            nodes=max(1, int(100 * share)) if clock.counted else None,
            step=best.step,
            threads=self._options.threads,
            seed=self._options.seed,
            enough=lambda choice: best.ends(live.rows[choice]),
            restarts=False,
            improving=False,  # beams and a local search do; the rest takes a quarter of the time
        )
        # a call without a node counts as one: else a counted clock would stand still
        clock.charge(max(1, answer.nodes), (1 + answer.nodes) * _SECONDS_PER_MIP_NODE)
        self._counters["mip_calls"] += 1
        self._counters["mip_nodes"] += answer.nodes
        if answer.choice is not None:
            best.take(live.rows[answer.choice])
        if answer.bound is not None:
            self.by_highs = min(self.by_highs, answer.bound)
        if answer.proven and (answer.choice is None or best.fits(live.rows[answer.choice])):
            if best.point is None or best.seen_by_highs or self._options.gap > HIGHS_ERROR:
                return StopReason("proven", infeasible=best.point is None, by_solver=True)
            # without a step of values HiGHS shows no more than its tolerances: the searches go on to a proof
            self._solver_agrees, self._next_mip = True, math.inf
            gone = clock.elapsed
            self._agreed_until = gone + max(_LEAST_PROOF, _PROOF_TO_SEARCH * gone)
            return None
        self._next_mip = self._began + 3.0 * (clock.elapsed - self._began)
        return None


_LARGEST_PAIRWISE = 40_000_000
"""Comparisons of options within menus that dominance removal may cost at most."""


def without_dominated(menus: OptionTable) -> OptionTable:
    """Drop options that another of the same menu beats: worth at most as much, using at least as much of all.

    Menus are compared pairwise in blocks; where that would cost too many comparisons nothing is dropped.
    """
    width = int(np.diff(menus.offsets).max(initial=0))
    num_jobs, num_caps = menus.num_jobs, menus.num_capacities
    if num_jobs * width * width * (num_caps + 1) > _LARGEST_PAIRWISE:
        return menus
    position = np.arange(menus.num_options) - menus.offsets[:-1][menus.job]
    value = np.full((num_jobs, width), -np.inf)
    value[menus.job, position] = menus.values
    padded = np.full((num_caps, num_jobs, width), np.inf)
    padded[:, menus.job, position] = menus.uses
    beaten = np.zeros((num_jobs, width), dtype=np.bool_)
    block = max(1, 1_000_000 // (width * width))
    earlier = np.tri(width, k=-1, dtype=np.bool_)[None]
    for start in range(0, num_jobs, block):
        part = slice(start, start + block)
        # [j, a, b]: b is at least as good as a in everything; of equals the first stays.
        good = value[part, None, :] >= value[part, :, None]
        equal = value[part, None, :] == value[part, :, None]
        for k in range(num_caps):
            mine, other = padded[k, part, :, None], padded[k, part, None, :]
            good &= other <= mine
            equal &= other == mine
        beaten[part] = (good & (~equal | earlier)).any(axis=2)
    return menus.keep(~beaten[menus.job, position])
