"""The engine for several capacities: price, repair, stop if close enough, search on, prove where possible."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import KnownBound, SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models.exact_sums import grid
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.general.scaling import power_of_two_scale, unscaled, with_callback_in_own_unit
from apportion.solvers.multiknapsack.anytime import Search, StopReason, without_dominated
from apportion.solvers.multiknapsack.dual import Dual, alike_prices, at_prices, precision, solve_large
from apportion.solvers.multiknapsack.int64_fallback import is_wide, list_choices
from apportion.solvers.multiknapsack.linear_dual import worst_exceeded
from apportion.solvers.multiknapsack.local_search import LocalSearch, is_far
from apportion.solvers.multiknapsack.marginal_jobs import near_optimum
from apportion.solvers.multiknapsack.option_table import (
    ChoiceIncumbent,
    OptionTable,
    build,
    noise,
)
from apportion.solvers.multiknapsack.place_patterns import PlacePatterns
from apportion.solvers.multiknapsack.proven_bound import ProvenBound, filled_by_few, with_implied_rows
from apportion.solvers.multiknapsack.repair import (
    by_density,
    cheapest,
    drawn_near,
    near_choices,
    near_start,
    thinned,
)
from apportion.solvers.multiknapsack.ruin_recreate import Places, RuinRecreate
from apportion.solvers.multiknapsack.sparse_menus import SparseSearch, roughly_priced

__all__ = ["solve"]


_QUICK = 4_000
"""Uses up to which the exact search has its first turn after a single repair."""
_REPAIR_SHARE, _LITTLE = 0.25, 0.02
"""Share of the time left that a repair of menus of few uses has: a local search from any choice does more,
and sets of options for places much more."""
_MANY = 8
"""Capacities from which a choice by density comes before multipliers, which take long to find."""
_SOON_READ = 4_000_000
"""Uses up to which all options are ordered by density although the limit has passed: some 30 ms."""
_AT_LAST, _SLOWER = 1_300_000, 10
"""The same with few capacities, some 60 ms; how many a sparse one counts as."""
_SHORT = 0.5
"""Seconds in which more is found than a choice by density."""
_ALONE, _WHOLE = 0.0, 1.0
"""What is added to the uses in a choice by density: nothing, or as much as a whole capacity has."""
_DENSITIES = 2
"""Choices by density that there are: the first is the better one most of the time."""
_LONG_PRICED, _FIRST_SHARE = 30_000, 0.3
"""Uses from which on multipliers take long: places are filled before, in this share of the time left."""
_LOWERED = 0.75
"""Part of the prices known at which more is chosen than fits, so that the densest can be taken of it."""
_SHORT_PER_USE, _PRICED_SHARE = 1.5e-6, 0.5
"""Seconds left for every use, of all options, below which time is short, and the share of it that prices have
then: plans that they lead to have as much."""
_ALIKE_OPEN, _ROWS_PER_USE, _PRICED_PER_USE = 0.1, 2e-7, 5e-7
"""What part of the bound is open at most where capacities are called alike at alike prices; seconds left for
each use from which on rows that follow come before other prices, and from which on these are refined."""
_SETS_PER_USE = 2e-6
"""Seconds left for each use from which on places are filled by sets of options."""
_FAR_SHARE = 0.25
"""Share of the time left that a local search has where the incumbent is far from the bound."""
_CLOSED = 0.2
"""Share of what prices leave open that HiGHS must close: else the bound that they prove is stated."""
_GREATEST_HINT = 2.0**900
"""A greater multiplier is no hint: what all jobs use at its price must still be a double."""


def solve(
    model: MultipleChoiceKnapsack,
    options: SolveOptions,
    start: NDArray[np.int64] | None = None,
    hint: NDArray[np.float64] | None = None,
    known: KnownBound | None = None,
) -> Outcome:
    """Solve a multiple-choice knapsack with several capacities.

    Parameters
    ----------
    model
        The menus; any number of capacities, none included.
    options
        With a time limit the call returns within it (building the search form of millions of options
        aside); without one, when the optimum is proven, the gap is reached, or a bounded search is over.
    start
        int64 [jobs], chosen rows (-1: none). A feasible start is never lost; any other is repaired if
        possible.
    hint
        float64 [capacities]: multipliers of a similar model. Where they show that a feasible start is within
        the gap, nothing is searched.
    known
        A bound that holds. Where a feasible start is within the gap of it, nothing is searched.

    Returns
    -------
    Outcome
        `point` holds the chosen rows. `multipliers` prove `bound` where `bound_source` is ``multipliers``;
        where it is ``branch_and_bound`` the bound is a claim of the exhaustive part of the search,
        ``solver`` one of HiGHS.
    """
    scale, step = power_of_two_scale(model.values), grid(model.values)
    if scale != 1.0:
        scaled = replace(model, values=model.values * scale)
        with np.errstate(over="ignore"):  # an infinite one is no hint
            near = None if hint is None else hint * scale
        near_bound = None if known is None else known._replace(value=known.value * scale)
        limits = with_callback_in_own_unit(options, scale)
        step = step * scale or grid(scaled.values)
        return unscaled(_solved(scaled, limits, start, near, near_bound, step), scale)
    return _solved(model, options, start, hint, known, step)


def _solved(
    model: MultipleChoiceKnapsack,
    options: SolveOptions,
    start: NDArray[np.int64] | None,
    hint: NDArray[np.float64] | None,
    known: KnownBound | None,
    step: float,
) -> Outcome:
    clock = Clock(options)
    run = _Run(model, options, clock, known, step)
    try:
        ending = run.search(start, hint)
        if ending.reason == "limit":
            run.greedy_at_last()
    except KeyboardInterrupt:
        return run.outcome(Termination.INTERRUPTED, "interrupted")
    if ending.infeasible:
        return run.outcome(Termination.INFEASIBLE, "no choice fits")
    termination = {
        "proven": Termination.OPTIMAL,
        "claimed": Termination.OPTIMAL,
        "gap": Termination.GAP_REACHED,
        "limit": Termination.TIME_LIMIT,
        "work": Termination.NODE_LIMIT,
        "exhausted": Termination.NODE_LIMIT,
    }[ending.reason]
    return run.outcome(termination, ending.reason)


class CapacitiesLeftOut(Exception):
    """A choice would be the incumbent but for capacities that are not searched: int64 [jobs], its rows."""

    def __init__(self, choice: NDArray[np.int64]) -> None:
        self.choice = choice


class PartlyConstrained(ChoiceIncumbent):
    """The incumbent of a search that looks at some of the capacities.

    Attributes
    ----------
    searched
        int64: the capacities of the model that are looked at; ``None`` for all.
    every
        The menus under all of them, and which of these are looked at.
    """

    searched: NDArray[np.int64] | None = None
    every: tuple[OptionTable, NDArray[np.bool_]] | None = None

    def of_a_part(self) -> Self:
        """Return one without a choice that looks at the same capacities."""
        found = super().of_a_part()
        found.searched = self.searched
        return found

    def under_all(self, menus: OptionTable) -> tuple[OptionTable, NDArray[np.bool_]]:
        """Return the menus under every capacity, and which of these are looked at."""
        return super().under_all(menus) if self.every is None else self.every

    def ends(self, rows: NDArray[np.int64]) -> bool:
        """Return whether a choice would reach the gap, or ends the search under these capacities."""
        return super().ends(rows) or (self.searched is not None and not self.fits(rows))

    def take(self, rows: NDArray[np.int64]) -> bool:
        """Keep a choice as every incumbent does.

        Raises
        ------
        CapacitiesLeftOut
            If it would be kept but for the capacities that are not looked at.
        """
        if self.searched is None or self.fits(rows):
            return super().take(rows)
        model = self._model
        served = bool((rows >= 0)[model.required].all())
        kept = bool((model.used(rows) <= model.capacities)[self.searched].all())
        if served and kept and self.improves(model.objective(rows)):
            raise CapacitiesLeftOut(rows)
        return False


def binding_rows(menus: OptionTable, dual: Dual) -> NDArray[np.bool_]:
    """Return bool [capacities]: those with a price or exceeded at prices.

    Limits of tenants that lend are one for every set of them, and few bind. What a search finds under those
    that do is mostly within the others.
    """
    kept = dual.multipliers > 0.0
    for choice in dual.choices[-1:]:
        kept |= menus.used(choice) > menus.capacities
    return kept


class _Run:
    """The state of one call, so that an interruption finds the incumbent wherever it strikes."""

    def __init__(
        self,
        model: MultipleChoiceKnapsack,
        options: SolveOptions,
        clock: Clock,
        known: KnownBound | None,
        step: float,
    ) -> None:
        self._model = model
        self._options = options
        self._clock = clock
        self._best = PartlyConstrained(model, options, clock)
        self._best.step = step  # of which all values are multiples; 0 where none is evident
        self._shown = ProvenBound(model, self._best, known)
        self._start_used: bool | None = None
        self._menus: OptionTable | None = None
        self._rough: tuple[OptionTable, Dual] | None = None
        """The menus under rows that follow, and their rough prices, where these came before others."""
        self._patterns: PlacePatterns | None = None
        self._quick = False
        self._densities = list[float]()  # of the choices by density that were not offered yet
        self._seconds: dict[str, float] = {}
        counted = ("passes", "states", "nodes", "mip_calls", "mip_nodes")
        self._counters: dict[str, float] = dict.fromkeys(counted, 0.0)

    def search(self, start: NDArray[np.int64] | None, hint: NDArray[np.float64] | None) -> StopReason:
        """Run all phases and say how it ended."""
        best, model = self._best, self._model
        if hint is not None and float(np.abs(hint).max(initial=0.0)) > _GREATEST_HINT:
            hint = None
        if start is not None and (ended := self._started(start, hint)) is not None:
            return ended
        near_by = None if self._start_used else start
        if best.point is None and not model.required.any():
            best.take(np.full(model.num_jobs, -1, dtype=np.int64))
        if is_wide(model):
            return self._listed()
        near, priced = near_optimum(model, best, self._shown, self._options, self._clock, hint)
        if near is not None:
            return near
        self._mark("margin")
        menus = build(model)
        if menus is None:
            return StopReason("proven", infeasible=True)
        self._menus, sparse = menus, menus.has_sparse_rows
        self._quick = menus.num_options * menus.num_capacities <= _QUICK
        self._densities = [_WHOLE, _ALONE] if sparse else [_ALONE, _WHOLE]
        self._mark("build")
        if menus.num_jobs == 0 or menus.num_capacities == 0:
            return self._chosen_freely(menus)
        if sparse and priced is None:
            known = None if hint is None else menus.restrict(hint)
            priced = menus.expand(alike_prices(menus, known), model.num_capacities)
        if (ended := self._before_prices(menus, priced)) is not None:
            return ended
        places = self._filled_places(menus, priced) if sparse else None
        dual, top = self._relaxation(menus, None if priced is None else menus.restrict(priced))
        if dual.infeasible:
            return StopReason("proven", infeasible=True)
        self._shown.at(menus.expand(dual.multipliers, model.num_capacities))
        self._shown.over_fitting(menus, dual)
        if self._rough is not None:
            self._shown.over_fitting(*self._rough, implied=True)
        self._counters["dual_evaluations"] = float(dual.evaluations)
        self._mark("dual")
        if menus.few_bind and places is None and top is menus:
            return self._under_those_that_bind(menus, dual, near_by)
        return self._priced(menus, dual, top, places, near_by)

    def _relaxation(self, menus: OptionTable, near: NDArray[np.float64] | None) -> tuple[Dual, OptionTable]:
        """Return prices, and the menus that their choices are of."""
        clock, short = self._clock, menus.has_sparse_rows and self._is_short(menus)
        if short and near is not None and not clock.is_short_of(_ROWS_PER_USE * menus.num_entries):
            dual = at_prices(menus, near)
            are_alike = self._best.distance_to(dual.bound) <= _ALIKE_OPEN * abs(dual.bound)
            if are_alike and not menus.few_bind and filled_by_few(menus, near):
                self._rough = roughly_priced(menus, dual, self._best)
            if self._rough is not None:  # a relaxation without rows that follow is worth less
                return dual, menus
        return solve_large(
            menus,
            gap=precision(self._options.gap),
            start=near,
            late=clock.late,
            seconds=clock.seconds_of(_PRICED_SHARE) if short else clock.uncounted,
            anchor=self._best.among(menus),
        )

    def _is_short(self, menus: OptionTable) -> bool:
        """Whether time is short for so many uses."""
        return self._clock.is_short_of(_SHORT_PER_USE * menus.num_entries)

    def _priced(
        self,
        menus: OptionTable,
        dual: Dual,
        top: OptionTable,
        places: RuinRecreate | None,
        start: NDArray[np.int64] | None,
    ) -> StopReason:
        """Repair the choices of the relaxation, and where that is not good enough search on."""
        self._at_prices(menus, dual, top, start)
        if (ended := self._shown.ended(self._clock)) is not None:
            return ended
        left = self._by_sparse_search(menus, dual, places)
        if isinstance(left, StopReason):
            return left
        if not menus.has_sparse_rows:
            self._near_start(left, dual.multipliers, start)
        return self._searched(left, dual, top)

    def _under_those_that_bind(
        self, menus: OptionTable, dual: Dual, start: NDArray[np.int64] | None
    ) -> StopReason:
        """Search under some capacities and implied rows; those that a better choice would exceed join them.

        What is no choice under some is none under all, and a bound under some holds under all.
        """
        late, left = self._clock.late, self._clock.uncounted
        rows = with_implied_rows(menus)
        if rows is not menus:
            priced, top = solve_large(rows, gap=precision(self._options.gap), late=late, seconds=left)
            self._mark("dual")
            if priced.infeasible:
                return StopReason("proven", infeasible=True)
            if top is rows and priced.bound < dual.bound - noise(rows, priced.multipliers):
                self._shown.over_fitting(rows, priced, implied=True)
                menus, dual = rows, priced
        kept = binding_rows(menus, dual)
        while True:
            part, few = menus.under(kept), replace(dual, multipliers=dual.multipliers[kept])
            self._quick = part.num_options * part.num_capacities <= _QUICK
            self._best.searched, self._best.every = part.binding, (menus, kept.copy())
            try:
                return self._priced(part, few, part, None, start)
            except CapacitiesLeftOut as found:
                self._mark("search")
                kept[worst_exceeded(menus, menus.used(menus.locate(found.choice)))] = True
                start = found.choice
                self._counters["capacity_rounds"] = self._counters.get("capacity_rounds", 0.0) + 1.0
            finally:
                self._best.searched = self._best.every = None
            if (ended := self._shown.ended(self._clock)) is not None:
                return ended

    def _started(self, start: NDArray[np.int64], hint: NDArray[np.float64] | None) -> StopReason | None:
        """Take a start that fits, and return whether what is known of the bound shows it good enough."""
        best = self._best
        self._start_used = bool(self._model.check(start).feasible) and best.take(
            np.asarray(start, dtype=np.int64)
        )
        if not self._start_used:
            return None
        if self._shown.by_known() and (best.proven or best.close):
            return StopReason("proven" if best.proven else "gap")
        if hint is None:
            return None
        self._shown.at(hint)
        return self._shown.ended(self._clock)

    def _chosen_freely(self, menus: OptionTable) -> StopReason:
        """Give every job its best option: no capacity is left, or no job."""
        none = np.zeros(0, np.int64)
        self._best.take(none if menus.num_jobs == 0 else menus.rows[menus.best_choice(menus.values)])
        self._shown.at(np.zeros(self._model.num_capacities))
        # options that cannot fit were left out on the way, so the best of the rest is the optimum
        self._shown.by_enumeration()
        return StopReason("proven")

    def _before_prices(self, menus: OptionTable, priced: NDArray[np.float64] | None) -> StopReason | None:
        """Offer what is found without multipliers, or with those of some jobs; end where the time is over."""
        sparse = menus.has_sparse_rows
        if priced is not None and (sparse or self._clock.late()):
            if self._shown.multipliers is None:  # prices of some jobs, which no core has shown a bound at
                self._shown.at(priced)
            self._thinned(menus, menus.scores((1.0 if sparse else _LOWERED) * menus.restrict(priced)))
        if self._clock.late():
            if priced is None:  # one pass for an incumbent, and the bound at no price
                self._shown.at(np.zeros(self._model.num_capacities))
                self._thinned(menus, menus.values)
            return StopReason("limit")
        # one call of HiGHS, or a dual, may take all of the time before any repair
        if sparse or (menus.num_capacities >= _MANY and not self._quick):
            self._greedy(menus)
        return None

    def _filled_places(self, menus: OptionTable, priced: NDArray[np.float64] | None) -> RuinRecreate | None:
        """Return what fills places anew, where capacities fall into places; fill them if prices take long."""
        among, left = Places.among(menus), self._clock.remaining
        if among is None:
            return None
        places = RuinRecreate(menus, among, self._best, self._clock, self._options.seed, solve)
        if not self._clock.is_short_of(_SETS_PER_USE * menus.num_entries):
            self._patterns = PlacePatterns.among(menus, among, self._best, self._clock, solve)
        if left is not None and self._patterns is None and menus.num_entries > _LONG_PRICED:
            near_prices = np.zeros(menus.num_capacities) if priced is None else menus.restrict(priced)
            places.sweep(near_prices, _FIRST_SHARE * left)
            self._mark("places")
        return places

    def _at_prices(
        self,
        menus: OptionTable,
        dual: Dual,
        top: OptionTable,
        start: NDArray[np.int64] | None,
    ) -> None:
        """Repair choices of the relaxation, and a start that does not fit."""
        sparse, late = menus.has_sparse_rows, self._clock.late
        if not sparse and late() and len(self._densities) == _DENSITIES:
            self._greedy(menus, most=1)  # as quick as the next, which hangs on a dual that was cut short
        elif not sparse and late():
            self._thinned(menus, menus.scores(dual.multipliers))
        if sparse:
            self._near_start(menus, dual.multipliers, start)
            if self._is_short(menus):  # a repair may not end
                self._thinned(menus, menus.scores(dual.multipliers))
            late = self._clock.late_in(_REPAIR_SHARE if self._patterns is None else _LITTLE)
        first = dual.choices[-1:] if self._quick and not sparse else dual.choices
        near_choices(menus, top, dual.multipliers, first, self._best, late)
        self._mark("repair")

    def _by_sparse_search(
        self, menus: OptionTable, dual: Dual, places: RuinRecreate | None
    ) -> OptionTable | StopReason:
        """Return how the search of options of few uses ended, or the options that it leaves."""
        sparse = menus.has_sparse_rows
        # where some capacities are searched, rows that follow from all are among them if they bind
        asked = self._best.searched is None and (sparse or not self._quick)
        if not sparse and not asked:
            return menus
        rest = self._best, self._shown, self._options, self._clock, self._counters, self._mark
        search, under = SparseSearch(menus, dual, *rest, places, self._patterns, self._rough), menus
        if self._rough is not None and not self._clock.is_short_of(_PRICED_PER_USE * menus.num_entries):
            under = self._rough[0]
        elif sparse and self._is_short(menus):
            search.come_near()
        if self._rough is None and asked and search.has_time and filled_by_few(menus, dual.multipliers):
            under = with_implied_rows(menus)
        if not sparse and under is menus:
            return menus
        if self._best.point is None and under is not menus:
            late, left = self._clock.late, self._clock.uncounted
            if solve_large(under, late=late, seconds=left)[0].infeasible:
                return StopReason("proven", infeasible=True)
        if not search.tightened(under) and not sparse:
            return self._shown.ended(self._clock) or menus
        found = search.run()
        return found if isinstance(found, StopReason) else self._shown.ended(self._clock) or found

    def _searched(self, menus: OptionTable, dual: Dual, top: OptionTable) -> StopReason:
        """Search on, and return how that ended."""
        quick = self._quick
        kept = menus if quick else without_dominated(menus)
        search = Search(
            kept, dual.multipliers, dual.bound, self._best, self._options, self._clock, self._counters
        )
        ending = search.first_turn() if quick else None
        if ending is None:
            if quick:
                near_choices(menus, top, dual.multipliers, dual.choices[:-1], self._best, self._clock.late)
                search.leave_out_dominated()
            self._from_far(kept, dual)
            ending = search.run()
        self._mark("search")
        ending = self._shown.by_ending(ending, search.live, dual.multipliers)
        value = self._best.value
        if value is not None and dual.bound - search.by_highs > _CLOSED * (dual.bound - value):
            self._shown.beyond(search.by_highs, "solver")
        return ending

    def _from_far(self, menus: OptionTable, dual: Dual) -> None:
        """Search on from an incumbent far from the bound: tight floors refuse what prices are repaired to.

        Not under a limit of work, which counts nodes.
        """
        best, clock, prices = self._best, self._clock, dual.multipliers
        if clock.work_left is None and is_far(best, dual.bound):
            local = LocalSearch(menus, menus.loss(prices), prices, best, clock, self._options.seed)
            local.from_far(dual.bound, clock.seconds_of(_FAR_SHARE))

    def _near_start(
        self, menus: OptionTable, weights: NDArray[np.float64], start: NDArray[np.int64] | None
    ) -> None:
        """Offer a choice near a start that does not fit."""
        if start is not None and np.shape(start) == (menus.num_jobs,):
            near_start(menus, weights, np.asarray(start, dtype=np.int64), self._best, self._clock.late)

    def greedy_at_last(self) -> None:
        """Offer the choices by density where the limit is too short for others to be surely as good."""
        menus = self._menus
        if menus is None or self._best.proven or not self._densities:
            return
        size = menus.matrix.size * (_SLOWER if menus.is_sparse else 1)
        first = len(self._densities) == _DENSITIES
        few = _AT_LAST if first else _AT_LAST // 2
        soon = size <= (_SOON_READ if menus.num_capacities >= _MANY else few)
        limit, value, least = self._options.time_limit, self._best.value, cheapest(menus)
        none = value is not None and value <= float(menus.values[least[least >= 0]].sum())
        fallback = self._fallback(menus) if none else least
        if soon and limit is not None and limit < _SHORT and not (none and menus.is_sparse):
            self._greedy(menus, every=True, fallback=fallback)
        elif none:  # whatever it takes: nobody has more than what uses least
            self._greedy(menus, most=1, fallback=fallback)

    def _greedy(
        self,
        menus: OptionTable,
        every: bool = False,
        most: int = _DENSITIES,
        fallback: NDArray[np.int64] | None = None,
    ) -> None:
        """Offer some of the choices by density not offered yet, beside a fallback or what uses least."""
        least = cheapest(menus) if fallback is None else fallback
        left = max(0, len(self._densities) - most)
        while len(self._densities) > left:
            choice = by_density(menus, least, self._densities.pop(0))
            if choice is not None:
                self._best.take(menus.rows[choice])
            if (self._clock.late() or menus.is_sparse) and not every:
                break
        self._mark("greedy by density")

    def _fallback(self, menus: OptionTable) -> NDArray[np.int64]:
        """Return what uses least, or the incumbent where that is no choice: under floors, or linking rows."""
        least, mine = cheapest(menus), self._best.among(menus)
        return least if mine is None or (menus.used(least) <= menus.capacities).all() else mine

    def _thinned(self, menus: OptionTable, scores: NDArray[np.float64]) -> None:
        """Offer what fits of the options of greatest score; the smallest uses where nothing else is known."""
        least = self._fallback(menus)
        sparse = menus.has_sparse_rows
        some, per_job = (drawn_near(menus, scores), _WHOLE) if sparse else (menus.best_choice(scores), _ALONE)
        for gains in (None, scores) if sparse else (None,):
            fitting = thinned(menus, some, least, per_job, gains)
            if fitting is not None or self._best.point is None:
                self._best.take(menus.rows[least if fitting is None else fitting])
        self._mark("greedy")

    def _listed(self) -> StopReason:
        """Decide in 64-bit integers what float64 does not count."""
        best, model = self._best, self._model
        found = list_choices(model, self._clock.late)
        if found.rows is not None:
            best.take(found.rows)
        self._shown.at(np.zeros(model.num_capacities))
        if found.complete:
            self._shown.by_search(0.0)
            return StopReason("proven", infeasible=found.rows is None)
        return StopReason("limit" if self._clock.late() else "exhausted")

    def _mark(self, phase: str) -> None:
        since = self._clock.seconds - sum(self._seconds.values())
        self._seconds[phase] = self._seconds.get(phase, 0.0) + since

    def outcome(self, termination: Termination, status: str) -> Outcome:
        """Return the outcome: the incumbent, its bound and why the search ended."""
        best, shown = self._best, self._shown
        self._seconds["solve"] = self._clock.seconds
        infeasible = termination is Termination.INFEASIBLE
        if best.bound is not None and best.objective is not None:
            # Sums in another order may differ in the last digit: a bound is never worse than what was found.
            worse = max if self._model.sense == "maximize" else min
            best.bound = worse(best.bound, best.objective)
        return Outcome(
            termination=termination,
            raw_status=status,
            point=None if infeasible else best.point,
            objective=None if infeasible else best.objective,
            bound=None if infeasible else best.bound,
            bound_source=None if infeasible or best.bound is None else shown.source,
            multipliers=shown.multipliers,
            seconds=self._seconds,
            counters=self._counters,
            start_used=self._start_used,
            tree=shown.tree,
        )
