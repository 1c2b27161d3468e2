"""The exact search over the menus left, in slices, or HiGHS on them: every choice found is an incumbent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import BackendUnavailable
from apportion.core.outcome import SearchTree, Termination
from apportion.solvers.clock import Clock
from apportion.solvers.compiled import load
from apportion.solvers.general.highs_call import call
from apportion.solvers.general.points import Start
from apportion.solvers.multiknapsack.alike_jobs import alike_jobs
from apportion.solvers.multiknapsack.dual import solve_dual
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable
from apportion.solvers.search.depth_first import Status
from apportion.solvers.search.menu_search import MenuSearch, ScaledMenus, Settings, Unit, unit_of

__all__ = ["CoreAnswer", "Proving", "overrun", "provable", "solve_core"]


_EQUAL = 5e-10
"""Relative difference of objectives that counts as none: half of what the judge lets pass as optimal."""
_LARGEST = 1e9
"""Capacities up to which HiGHS sees a unit: it takes differences below a billionth of a row for rounding.

Of uses near 2e11 that fill a capacity to the unit it cuts off choices that fit, and of uses of 10^12 it has
called optimal, without presolve, what is not."""


@dataclass(frozen=True, slots=True, eq=False)
class CoreAnswer:
    """What HiGHS said about the core.

    Attributes
    ----------
    choice
        int64 [jobs]: options of its best point, or ``None``.
    bound
        Its dual bound over the core, loosened by HiGHS's tolerance; ``None`` without one.
    proven
        Whether that bound meets the point, or, without a point, HiGHS calls the core infeasible. A point that
        does not fit, where large capacities are counted in larger units, proves nothing.
    nodes
        Branch-and-bound nodes.
    status
        HiGHS's own words.
    iterations
        Of the simplex method: what the search took before its first node, too.
    infeasible
        Whether HiGHS calls the core infeasible.
    """

    choice: NDArray[np.int64] | None
    bound: float | None
    proven: bool
    nodes: int
    status: str
    iterations: int = 0
    infeasible: bool = False


def _in_units_of_highs(menus: OptionTable) -> OptionTable:
    """Return menus whose large capacities are counted in larger units, of which uses are rounded down.

    Every choice that fits keeps them: sum floor(use / s) <= floor(sum use / s) <= floor(capacity / s). What
    HiGHS says of all choices holds, and whether its own choice fits is for the caller to see. Where all uses
    are multiples of a unit that is large enough nothing is lost.
    """
    most = np.minimum(menus.capacities, np.asarray(menus.matrix.sum(axis=1)))
    if not (most > _LARGEST).any():
        return menus
    capacity, _, use = menus.entries()
    unit = np.ones(menus.num_capacities, dtype=np.int64)
    rows, begins = np.unique(capacity, return_index=True)
    unit[rows] = np.gcd.reduceat(use.astype(np.int64), begins)
    step = unit * 2.0 ** np.ceil(np.log2(np.maximum(most / unit / _LARGEST, 1.0)))
    step[most <= _LARGEST] = 1.0
    matrix = menus.matrix.copy()
    if isinstance(matrix, np.ndarray):
        matrix = np.floor(matrix / step[:, None])
    else:
        matrix.data = np.floor(matrix.data / step[matrix.indices])
    return replace(menus, matrix=matrix, capacities=np.floor(menus.capacities / step))


_OVERRUN, _LATE_PER_ENTRY, _MANY_ENTRIES = 0.05, 4e-5, 30_000
"""Seconds by which HiGHS may be late, and by how many more for every use: 1.7 for 36,600, of few less."""


def overrun(menus: OptionTable) -> float:
    """Return the seconds by which HiGHS may miss a limit on some menus."""
    entries = menus.num_entries
    return _OVERRUN + _LATE_PER_ENTRY * entries * min(1.0, entries / _MANY_ENTRIES)


_SHIFTED = 20_000
"""Options up to which HiGHS shifts points; of 81,000 it takes a minute, and does not look at the clock."""

_IMPROVING = tuple(f"mip_heuristic_run_{name}" for name in ("rins", "rens", "root_reduced_cost"))
"""Settings of HiGHS that solve smaller programs for better points."""


def solve_core(
    menus: OptionTable,
    *,
    start: NDArray[np.int64] | None,
    seconds: float | None,
    nodes: int | None,
    step: float,
    threads: int,
    seed: int,
    enough: Callable[[NDArray[np.int64]], bool] | None = None,
    reduced: bool = False,
    restarts: bool = True,
    improving: bool = True,
) -> CoreAnswer:
    """Solve the menus as a mixed-integer program.

    Parameters
    ----------
    menus
        The options left; at least one per job.
    start
        int64 [jobs]: options of a feasible choice, if one is known.
    seconds, nodes
        Limits; ``None`` for none.
    step
        Objectives differ by at least this much (0 if unknown), so a smaller absolute gap is a proof.
    threads, seed
        Given to HiGHS.
    enough
        Whether a choice, int64 [jobs], ends the search.
    reduced
        Whether reduced costs have left nothing to reduce: HiGHS then looks for no reductions, for no point
        before it has solved the relaxation, and shifts the relaxation's point until it is whole.
    restarts
        Whether HiGHS may begin anew once its root has fixed much.
    improving
        Whether HiGHS solves smaller programs around its points for better ones.
    """
    menus = _in_units_of_highs(menus)
    alike = alike_jobs(menus)
    model = alike.written()
    settings: dict[str, object] = {
        "threads": threads,
        "random_seed": seed,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 0.999 * step,
        "mip_allow_restart": restarts,
    }
    if reduced:
        settings |= {
            "presolve": "off",
            "mip_heuristic_run_feasibility_jump": False,
            "mip_heuristic_run_shifting": menus.num_options <= _SHIFTED,
        }
    if not improving:
        settings |= dict.fromkeys(_IMPROVING, False)
    if seconds is not None:
        settings["time_limit"] = max(0.0, seconds)
    if nodes is not None:
        settings["mip_max_nodes"] = nodes
    known = None
    if start is not None:
        point = alike.inward(start)
        known = Start(point, model.objective(point))

    def listen(point: NDArray[np.float64] | None, _: float | None) -> bool:
        choice = None if point is None else alike.outward(point)
        return choice is not None and enough is not None and enough(choice)

    first: CoreAnswer | None = None
    while True:
        try:
            said = call(model, settings, known, listen=None if enough is None else listen)
        except BackendUnavailable as error:
            return CoreAnswer(None, None, False, 0, str(error))
        if said.termination is Termination.INFEASIBLE:
            infeasible = CoreAnswer(None, None, True, said.nodes, said.raw, said.iterations, infeasible=True)
            return first or infeasible
        choice = None if said.point is None else alike.outward(said.point)
        is_optimal, proven = said.termination is Termination.OPTIMAL, False
        if choice is not None and said.bound is not None and is_optimal:
            value = float(menus.values[choice].sum())
            proven = said.bound - value <= max(0.9995 * step, _EQUAL * abs(value))
        answer = CoreAnswer(choice, said.bound, proven, said.nodes, said.raw, said.iterations)
        if proven or known is None or not is_optimal:
            return first if first is not None and not proven else answer
        first, known = answer, None  # of a start its bound may end short of the point that it calls optimal
        if seconds is not None:
            settings["time_limit"] = max(0.0, seconds - sum(said.seconds))


_SLICE = {True: 10_000, False: 2_000}
"""Nodes between two looks at the clock, by whether the search is compiled: some 0.15 ms, and some 10 ms."""
_SLICE_OF_THREADS = 20_000
"""The same for every thread of several: they meet after a slice, which costs some microseconds."""
_MOST_OPTIONS = 50_000
"""Menus of more options are not searched exactly: starting a tree would take tenths of a second."""
_EXACT_USES = 2.0**53
"""Uses are kept in float64 by the menus, and are whole numbers only below this."""
_FITTING_ROUNDS = 60
_SECONDS_PER_NODE = {True: 1.5e-8, False: 4e-6}
"""By whether the search is compiled; what deterministic mode charges."""


def provable(menus: OptionTable) -> bool:
    """Whether the exact search takes menus of this size and of such uses."""
    return (
        menus.num_options <= _MOST_OPTIONS
        and float(menus.capacities.max(initial=0.0)) < _EXACT_USES
        and menus.greatest_use * menus.num_jobs < _EXACT_USES
    )


class Proving:
    """One exact search, taken up again and again.

    Parameters
    ----------
    menus
        At least one job; see `provable`.
    weights
        float64 [capacities]: near-optimal multipliers, in units of value.
    best
        The incumbent, raised by what is found and raising what is looked for.
    clock
        Charged for every node.
    seed
        For the multiplier vectors that are drawn.
    settings
        Which ingredients the search has; all by default.
    threads
        Among how many the tree is divided where the search is compiled.
    """

    def __init__(
        self,
        menus: OptionTable,
        weights: NDArray[np.float64],
        best: ChoiceIncumbent,
        clock: Clock,
        seed: int,
        settings: Settings | None = None,
        threads: int = 1,
    ) -> None:
        self._menus, self._weights, self._best, self._clock = menus, weights, best, clock
        self._unit: Unit = unit_of(menus.values, menus.num_jobs, best.step)
        whole = ScaledMenus(
            self._unit.worths(menus.values),
            menus.uses.astype(np.int64),
            menus.offsets,
            menus.capacities.astype(np.int64),
        )
        self._worth, self._most = whole.worth, whole.largest_worth()
        self._known = best.value
        compiled = load("search.depth_first_c") is not None
        self._price = _SECONDS_PER_NODE[compiled]
        threads = threads if compiled else 1
        self._slice = _SLICE[compiled] if threads == 1 else threads * _SLICE_OF_THREADS
        self.seconds = 0.0
        floor = None if best.point is None else self._floor(best.point)
        scaled = weights / float(self._unit.size)
        self._search = MenuSearch(whole, scaled, floor, self._fit, seed, settings, threads)

    @property
    def nodes(self) -> int:
        """How many nodes were searched so far."""
        return self._search.nodes

    def tree(self, num_capacities: int) -> SearchTree:
        """Return what a proof needs to know of the tree that ended the search, in terms of the model."""
        record = self._search.record()
        prices = np.zeros((record.multipliers.shape[0], num_capacities), dtype=np.int64)
        prices[:, self._menus.binding] = record.multipliers
        return SearchTree(prices, self._unit.size / record.power, record.order, record.nodes)

    def run(self, seconds: float) -> bool:
        """Search on for so many seconds of the clock; true if nothing better than the incumbent exists."""
        best, clock, search = self._best, self._clock, self._search
        if best.value != self._known and best.point is not None:
            self._known = best.value
            search.raise_floor(self._floor(best.point))
        began = clock.elapsed
        try:
            while True:
                before = search.nodes
                status = search.run(
                    self._slice if clock.work_left is None else min(self._slice, clock.work_left)
                )
                clock.charge(search.nodes - before, (search.nodes - before) * self._price)
                if status is Status.EXHAUSTED:
                    return True
                if status is Status.FOUND:
                    self._take(search.leaf())
                if clock.stopped() is not None or best.close or clock.elapsed - began >= seconds:
                    return False
        finally:
            self.seconds += clock.elapsed - began

    def _take(self, choice: NDArray[np.int64]) -> None:
        """Offer a choice; a capacity whose row was rounded may refuse it, and then it raises nothing."""
        rows = self._menus.rows[choice]
        if self._best.take(rows) or self._best.fits(rows):
            self._known = self._best.value
            exact = self._unit.exact
            self._search.raise_floor(int(self._worth[choice].sum()) if exact else self._floor(rows))

    def _floor(self, rows: NDArray[np.int64]) -> int:
        """Return what a choice is worth, as far as any choice of these menus is."""
        worth = self._unit.floor(self._best.values_of(rows))
        return min(max(worth, -self._most - 1), self._most)

    def _fit(self, decided: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return multipliers of the linear relaxation of what is open once some options are chosen."""
        menus = self._menus
        still = np.ones(menus.num_jobs, dtype=np.bool_)
        still[menus.job[decided]] = False
        if not still.any():
            return self._weights / float(self._unit.size)
        left = menus.part(np.flatnonzero(still), menus.capacities - menus.used(decided))
        dual = solve_dual(left, gap=1e-4, rounds=_FITTING_ROUNDS, start=self._weights, late=self._clock.late)
        return dual.multipliers / float(self._unit.size)
