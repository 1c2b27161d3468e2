"""The search from the first incumbent to the limit: the exact search, beams, and HiGHS on cores that resist.

The exact search has the first turn and then a share of the time. In between, beam passes over all jobs
alternate with passes over a random part of them, the rest staying as in the incumbent. Widths grow while
nothing improves. Every improvement lets reduced costs fix more options. A beam merges what leaves the same
capacities, so one pass proves rounds of few GPUs; HiGHS's cuts prove cores whose capacities no sum of uses
meets. Neither is seen by the prices that the exact search prunes with. Tables have one turn, as soon as the
search has taken a quarter of the time that they will.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.options import SolveOptions
from apportion.outcome import Termination
from apportion.solvers.clock import Clock
from apportion.solvers.general.highs_call import HIGHS_ERROR

from .beam import search
from .core_mip import solve_core
from .incumbent import BestChoice
from .nested_tables import NestedTables, nested_tables
from .option_table import OptionTable
from .proving import Proving, provable
from .reduction import within_reach
from .tilt import Tilt, freezing, tilted

__all__ = ["Ending", "Search"]

_FIRST_WIDTH = 64
_WIDEST = 20_000
_MEMORY = 12_000_000
"""States kept over all layers of a pass at most."""
_PART = 120
"""Jobs of a neighbourhood to begin with."""
_GLANCE = 0.003
"""Seconds that the exact search has before one beam pass is tried: small menus are proven in less."""
_HEAD = {True: 1.0, False: 0.05}
"""Seconds that the exact search has before the next beam passes, by whether a proof can be hoped for,"""
_HEAD_SHARE = 0.25
"""at most this share of the time limit,"""
_PROOF_SHARE = {True: 0.75, False: 0.1}
"""and its share of the time after that."""
_HOPEFUL_BITS = 120.0
"""A proof can be hoped for where the choices left (options fixed) number at most two to this power."""
_TURN = 0.05
"""Seconds of one turn of the exact search."""
_MIP_OPTIONS = 4_000
"""Cores of more options are not given to HiGHS."""
_MIP_AFTER = 0.4
"""Seconds after which HiGHS first tries a core,"""
_MIP_SHARE = 0.5
"""for this share of the time gone by until then, half a second at least; and again when that has trebled,"""
_HOPEFUL_OPTIONS = 250
"""if it closed a third of the gap or the core has no more options; else hardly ever."""
_SECONDS_PER_STATE, _SECONDS_PER_LAYER, _SECONDS_PER_MIP_NODE = 2.5e-7, 1.5e-4, 1e-2
"""What deterministic mode charges for the states and layers of a beam, and for a node of HiGHS."""
_TABLES_AFTER = 0.05
"""Seconds after which it is looked at whether tables decide the menus,"""
_TABLES_SHARE = 0.25
"""and the share of their seconds after which they do."""
_OVERRUN = 0.25
"""Seconds by which HiGHS may be late on a core."""
_LARGEST_LAYER = 4_000_000
"""States made in one layer at most."""
_PATIENCE = 15.0
"""Without a limit: seconds to search on, thrice those to the last improvement on top."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How the search ended.

    Attributes
    ----------
    reason
        ``proven``, ``gap``, ``limit``, ``work`` or ``exhausted`` (bounded search without a limit given).
    infeasible
        Whether, with `reason` ``proven``, no choice exists at all.
    proving
        The exact search that proved it.
    by_solver
        Whether HiGHS says, on the core, that nothing is better than the incumbent.
    """

    reason: str
    infeasible: bool = False
    proving: Proving | None = None
    by_solver: bool = False


class Search:
    """One improvement run.

    Parameters
    ----------
    menus
        All options, misfits and dominated ones gone.
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
    """

    def __init__(
        self,
        menus: OptionTable,
        weights: NDArray[np.float64],
        bound: float,
        best: BestChoice,
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
        self._random = np.random.default_rng(options.seed)
        self._live = menus
        self._live_floor = -math.inf
        self._tilt: Tilt | None = None
        self._widths = {False: float(_FIRST_WIDTH), True: float(_FIRST_WIDTH)}
        self._part = float(_PART)
        self._rate = 3e-7
        self._last_gain = clock.elapsed
        self._began = self._last_gain
        self._next_mip = self._began + _MIP_AFTER
        self._solver_agrees = False
        self._tables: NestedTables | None = None
        self._tables_are_open = True
        self._proving: Proving | None = None
        if provable(menus):
            self._proving = Proving(menus, weights, best, clock, options.seed, threads=options.threads)

    @property
    def live(self) -> OptionTable:
        """The options that reduced costs have not fixed away."""
        return self._live

    def first_turn(self) -> Ending | None:
        """Let the exact search have its first turn; ``None`` if that proves nothing."""
        return None if self._proving is None else self._prove()

    def run(self) -> Ending:
        """Search until something ends it."""
        while True:
            best = self._best
            if best.proven:
                return Ending("proven")
            if best.close:
                return Ending("gap")
            if (stopped := self._clock.stopped()) is not None:
                reason = "work" if stopped is Termination.NODE_LIMIT else "limit"
                return Ending(reason, by_solver=self._solver_agrees)
            if self._exhausted():
                return Ending("exhausted", by_solver=self._solver_agrees)
            self._refresh()
            if self._tables_are_due():
                ending = self._tabled()
            elif self._mip_is_due():
                ending = self._mip()
            elif self._proof_is_due():
                ending = self._prove()
            else:
                ending = self._beam()
            if ending is not None:
                return ending

    def _exhausted(self) -> bool:
        if self._options.time_limit is not None or self._options.work_limit is not None:
            return False
        return self._clock.elapsed > _PATIENCE + 3.0 * self._last_gain

    def _refresh(self) -> None:
        """Fix options by reduced cost whenever the incumbent has risen since the last time."""
        floor = self._best.floor
        if floor is not None and floor > self._live_floor:
            self._live = within_reach(self._all, self._weights, self._bound, floor)
            self._live_floor = floor
            self._counters["live_options"] = float(self._live.num_options)
            self._tilt = None

    def _tables_are_due(self) -> bool:
        elapsed = self._clock.elapsed - self._began
        if not self._tables_are_open or elapsed < _TABLES_AFTER:
            return False
        if self._tables is None:
            self._tables = nested_tables(self._live)
            self._tables_are_open = self._tables is not None
        if self._tables is None or elapsed < _TABLES_SHARE * self._tables.seconds:
            return False
        left, work = self._clock.remaining, self._clock.work_left
        timely = left is None or self._tables.seconds < left
        self._tables_are_open = timely and (work is None or self._tables.entries <= work)
        return self._tables_are_open

    def _tabled(self) -> Ending | None:
        """Find the optimum of what was live when tables were first looked at."""
        tables, best = self._tables, self._best
        assert tables is not None
        self._tables_are_open, self._tables = False, None
        filled, choice = tables.best(self._clock.late)
        self._clock.charge(tables.entries, tables.seconds)
        self._counters["states"] += tables.entries
        if not filled:
            return None
        if choice is not None:
            rows = tables.menus.rows[choice]
            best.take(rows)
            if not best.fits(rows):  # a capacity whose row was rounded
                return None
        return Ending("proven", infeasible=best.point is None)

    def _beam(self) -> Ending | None:
        live, best = self._live, self._best
        open_jobs = np.flatnonzero(np.diff(live.offsets) > 1)
        anchor = None if best.point is None else live.locate(best.point)
        usable = anchor is not None and bool((anchor >= 0).all())
        partial = (
            usable and open_jobs.size > self._part and bool(self._random.random() < _share(open_jobs.size))
        )
        if self._tilt is None:
            self._tilt = freezing(live, self._weights, self._clock.late)
        menus, jobs = live, np.arange(live.num_jobs)
        floor = best.floor
        if partial and anchor is not None and floor is not None and best.value is not None:
            size = min(open_jobs.size - 1, int(self._part * self._random.uniform(0.7, 1.5)))
            jobs = np.sort(self._random.choice(open_jobs, size, replace=False))
            rest = np.ones(live.num_jobs, dtype=np.bool_)
            rest[jobs] = False
            menus = live.part(jobs, live.capacities - live.used(anchor[rest]))
            floor -= float(live.values[anchor[rest]].sum())
        heat = float(np.exp(self._random.uniform(-0.6, 0.5)))
        tilt = tilted(menus, self._tilt.weights, self._tilt.temperature * heat, self._clock.late)
        if self._clock.late():
            return None
        entropy = tilt.entropy(menus)
        if self._random.random() < 0.5:
            order = np.argsort(entropy * self._random.random(entropy.size), kind="stable")
        else:
            order = self._random.permutation(entropy.size)
        width = self._width(partial, menus)
        began = self._clock.seconds
        found = search(menus, tilt, order, width, floor, self._clock.late)
        took = self._clock.seconds - began
        if not self._clock.counted and found.expanded > 50_000:
            self._rate = 0.7 * self._rate + 0.3 * took / found.expanded
        layers = menus.num_jobs
        self._clock.charge(
            max(1, found.expanded), found.expanded * _SECONDS_PER_STATE + layers * _SECONDS_PER_LAYER
        )
        self._counters["passes"] += 1
        self._counters["states"] += found.expanded
        improved = False
        if found.choice is not None:
            choice = found.choice if anchor is None or not partial else anchor.copy()
            if partial:
                choice[jobs] = menus.rows[found.choice]
            improved = best.take(live.rows[choice])
        if improved:
            self._last_gain = self._clock.elapsed
        else:
            self._widths[partial] = min(_WIDEST, self._widths[partial] * 1.1 + 1)
        if found.complete and not self._clock.late():
            if not partial:
                return Ending("proven", infeasible=best.point is None)
            # The neighbourhood is exhausted: a larger one is affordable.
            self._part *= 1.1
        return None

    def _width(self, partial: bool, menus: OptionTable) -> int:
        """States per layer, such that a pass fits the memory and a third of the time left."""
        layers = max(1, menus.num_jobs)
        widest = int(np.diff(menus.offsets).max(initial=1))
        width = min(self._widths[partial], _MEMORY / layers, _LARGEST_LAYER / widest)
        left = self._clock.remaining
        if left is not None:
            per_state = self._rate * menus.num_options
            width = min(width, max(16.0, 0.33 * left / max(per_state, 1e-12)))
        return max(16, int(width))

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

    def _prove(self) -> Ending | None:
        proving = self._proving
        assert proving is not None
        value = self._best.value
        ended = proving.run(_TURN if self._counters["passes"] else _GLANCE)
        self._counters["nodes"] = float(proving.nodes)
        if self._best.value != value:
            self._last_gain = self._clock.elapsed
        return Ending("proven", self._best.point is None, proving) if ended else None

    def _mip_is_due(self) -> bool:
        if self._clock.elapsed < self._next_mip or self._live.num_options > _MIP_OPTIONS:
            return False
        left = self._clock.remaining
        return left is None or left > 2 * _OVERRUN

    def _mip(self) -> Ending | None:
        """Let HiGHS try the core; how long, and when next, follows from how far it gets."""
        clock, best, live = self._clock, self._best, self._live
        share = max(0.5, _MIP_SHARE * (clock.elapsed - self._began))
        left = clock.remaining
        if left is not None:
            share = min(share, left - _OVERRUN)
        anchor = None if best.point is None else live.locate(best.point)
        answer = solve_core(
            live,
            start=anchor if anchor is not None and bool((anchor >= 0).all()) else None,
            seconds=None if clock.counted else share,
            nodes=max(1, int(100 * share)) if clock.counted else None,
            step=best.step,
            threads=self._options.threads,
            seed=self._options.seed,
        )
        # a call without a node counts as one: else a counted clock would stand still
        clock.charge(max(1, answer.nodes), (1 + answer.nodes) * _SECONDS_PER_MIP_NODE)
        self._counters["mip_calls"] += 1
        self._counters["mip_nodes"] += answer.nodes
        if answer.choice is not None and best.take(live.rows[answer.choice]):
            self._last_gain = clock.elapsed
        if answer.proven and (answer.choice is None or best.fits(live.rows[answer.choice])):
            if best.point is None or best.step > 0 or self._options.gap > HIGHS_ERROR:
                return Ending("proven", infeasible=best.point is None, by_solver=True)
            # without a step of values HiGHS shows no more than its tolerances: the searches go on to a proof
            self._solver_agrees, self._next_mip = True, math.inf
            return None
        closed = 0.0
        if answer.bound is not None and best.value is not None and self._bound > best.value:
            closed = (self._bound - answer.bound) / (self._bound - best.value)
        gone = clock.elapsed - self._began
        hopeful = closed > 1 / 3 or live.num_options <= _HOPEFUL_OPTIONS
        self._next_mip = self._began + (3.0 if hopeful else 50.0) * gone
        return None


def _share(open_jobs: int) -> float:
    """Return the share of the passes that look at a part of the jobs only."""
    return 0.15 if open_jobs < 1000 else 0.9
