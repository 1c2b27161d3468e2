"""The engine for several capacities: price, repair, stop if close enough, search on, prove where possible."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import Incumbent, KnownBound, SolveOptions
from apportion.outcome import Outcome, SearchTree, Termination
from apportion.solvers.clock import Clock
from apportion.solvers.general.highs_call import HIGHS_ERROR
from apportion.solvers.general.scaling import grid, power_of_two_scale

from .anytime import Ending, Search
from .dual import Dual, model_bound, solve_large
from .growing_core import GrowingCore
from .incumbent import BestChoice
from .linear_dual import has_sparse_rows
from .option_table import OptionTable, build
from .reduction import noise, without_dominated
from .repair import cheapest, filled, repaired
from .wide import is_wide, listed

__all__ = ["solve"]

_QUICK = 4_000
"""Uses up to which the exact search has its first turn after a single repair."""
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
    scale = power_of_two_scale(model.values)
    if scale != 1.0:
        scaled = replace(model, values=model.values * scale)
        with np.errstate(over="ignore"):  # an infinite one is no hint
            near = None if hint is None else hint * scale
        near_bound = None if known is None else known._replace(value=known.value * scale)
        return _unscaled(_solved(scaled, _telling(options, scale), start, near, near_bound), scale)
    return _solved(model, options, start, hint, known)


def _telling(options: SolveOptions, scale: float) -> SolveOptions:
    """Return options whose callback hears objectives in the model's own unit."""
    tell = options.on_incumbent
    if tell is None:
        return options

    def report(found: Incumbent) -> None:
        bound = None if found.bound is None else found.bound / scale
        tell(Incumbent(found.objective / scale, bound, found.seconds))

    return replace(options, on_incumbent=report)


def _unscaled(outcome: Outcome, scale: float) -> Outcome:
    tree = outcome.tree
    return replace(
        outcome,
        tree=None if tree is None else replace(tree, unit=tree.unit / Fraction(scale)),
        objective=None if outcome.objective is None else outcome.objective / scale,
        bound=None if outcome.bound is None else outcome.bound / scale,
        multipliers=None if outcome.multipliers is None else outcome.multipliers / scale,
    )


def _solved(
    model: MultipleChoiceKnapsack,
    options: SolveOptions,
    start: NDArray[np.int64] | None,
    hint: NDArray[np.float64] | None,
    known: KnownBound | None,
) -> Outcome:
    clock = Clock(options)
    run = _Run(model, options, clock, known)
    try:
        ending = run.search(start, hint)
    except KeyboardInterrupt:
        return run.outcome(Termination.INTERRUPTED, "interrupted")
    if ending.infeasible:
        return run.outcome(Termination.INFEASIBLE, "no choice fits")
    termination = {
        "proven": Termination.OPTIMAL,
        "gap": Termination.GAP_REACHED,
        "limit": Termination.TIME_LIMIT,
        "work": Termination.NODE_LIMIT,
        "exhausted": Termination.NODE_LIMIT,
    }[ending.reason]
    return run.outcome(termination, ending.reason)


class _Run:
    """The state of one call, so that an interruption finds the incumbent wherever it strikes."""

    def __init__(
        self, model: MultipleChoiceKnapsack, options: SolveOptions, clock: Clock, known: KnownBound | None
    ) -> None:
        self._model = model
        self._known = known
        self._options = options
        self._clock = clock
        self._best = BestChoice(model, options, clock)
        self._multipliers: NDArray[np.float64] | None = None
        self._start_used: bool | None = None
        self._source = "multipliers"
        self._tree: SearchTree | None = None
        self._seconds: dict[str, float] = {}
        counted = ("passes", "states", "nodes", "mip_calls", "mip_nodes")
        self._counters: dict[str, float] = dict.fromkeys(counted, 0.0)

    def search(self, start: NDArray[np.int64] | None, hint: NDArray[np.float64] | None) -> Ending:
        """Run all phases and say how it ended."""
        best, model = self._best, self._model
        if start is not None:
            self._start_used = bool(model.check(start).feasible) and best.take(
                np.asarray(start, dtype=np.int64)
            )
        best.step = grid(model.values)
        if self._start_used and self._known is not None:
            best.bound, self._source = self._known
            if best.proven or best.close:
                return Ending("proven" if best.proven else "gap")
        if self._start_used and hint is not None and float(np.abs(hint).max(initial=0.0)) <= _GREATEST_HINT:
            self._set_bound(hint)
            if (ended := self._ended()) is not None:
                return ended
        if best.point is None and not model.required.any():
            best.take(np.full(model.num_jobs, -1, dtype=np.int64))
        if is_wide(model):
            return self._listed()
        menus = build(model)
        if menus is None:
            return Ending("proven", infeasible=True)
        self._mark("build")
        if menus.num_jobs == 0 or menus.num_capacities == 0:
            rows = (
                np.zeros(0, np.int64) if menus.num_jobs == 0 else menus.rows[menus.best_choice(menus.values)]
            )
            best.take(rows)
            self._set_bound(np.zeros(model.num_capacities))
            # options that cannot fit were left out on the way, so the best of the rest is the optimum
            best.bound, self._source = best.objective, "enumeration"
            return Ending("proven")
        if self._clock.late():
            # Building took the limit: one pass for an incumbent, and the bound at no price.
            self._set_bound(np.zeros(model.num_capacities))
            if best.point is None:
                best.take(menus.rows[cheapest(menus)])
            return Ending("limit")
        dual, top = solve_large(
            menus,
            gap=min(1e-8, 0.01 * self._options.gap) or 1e-8,
            late=self._clock.late,
            seconds=None if self._options.deterministic else self._clock.remaining,
            anchor=self._anchor(menus),
        )
        if dual.infeasible:
            return Ending("proven", infeasible=True)
        self._set_bound(menus.expand(dual.multipliers, model.num_capacities))
        self._counters["dual_evaluations"] = float(dual.evaluations)
        self._mark("dual")
        self._begin(menus, dual.multipliers, start)
        if has_sparse_rows(menus) and (ended := self._cores(menus, dual)) is not None:
            return self._concluded(ended, menus, dual.multipliers)
        quick = menus.num_options * menus.num_capacities <= _QUICK
        self._repair(menus, top, dual.multipliers, dual.choices[-1:] if quick else dual.choices)
        self._mark("repair")
        if (ended := self._ended()) is not None:
            return ended
        tight = without_dominated(menus)
        search = Search(tight, dual.multipliers, dual.bound, best, self._options, self._clock, self._counters)
        ending = search.first_turn() if quick else None
        if ending is None:
            if quick:
                self._repair(menus, top, dual.multipliers, dual.choices[:-1])
            ending = search.run()
        self._mark("search")
        return self._concluded(ending, search.live, dual.multipliers)

    def _anchor(self, menus: OptionTable) -> NDArray[np.int64] | None:
        """Return the options of the incumbent, where all of them are among the menus."""
        if self._best.point is None:
            return None
        place = menus.locate(self._best.point)
        return place if bool((place >= 0).all()) else None

    def _cores(self, menus: OptionTable, dual: Dual) -> Ending | None:
        """Solve growing cores of menus with many capacities that few jobs touch."""
        limits = self._best, self._options, self._clock, self._counters
        ended = GrowingCore(menus, dual.multipliers, dual.bound, *limits).run()
        self._mark("cores")
        return ended

    def _concluded(self, ending: Ending, live: OptionTable, weights: NDArray[np.float64]) -> Ending:
        """State the bound that an ending shows; `live` are the options that were searched."""
        best = self._best
        if ending.proving is not None:
            self._tree = ending.proving.tree(self._model.num_capacities)
        shown = ending.reason == "proven" or ending.by_solver
        if shown and not ending.infeasible and not best.proven:
            # the exact search counts in whole numbers, the beams in sums of float64
            rounding = 0.0 if ending.proving is not None else noise(live, weights)
            if ending.by_solver and best.value is not None:
                rounding += HIGHS_ERROR * abs(best.value)
            self._searched(rounding)
            if ending.by_solver and self._source == "branch_and_bound":
                self._source = "solver"
        elif best.proven:
            self._settle_on_grid()
        return ending

    def _searched(self, rounding: float) -> None:
        """State what an exhaustive search shows: nothing is better by more than the floor and the rounding.

        Where values lie on a grid the rounding is far below its step. Options that reduced costs fixed away
        need not be counted: what that lets pass has its own margin (`within_reach`).
        """
        best = self._best
        if best.objective is None or best.floor is None or best.value is None:
            return
        sign = 1.0 if self._model.sense == "maximize" else -1.0
        slack = 0.0 if best.step > 4.0 * rounding else rounding
        if slack <= 1e-10 * abs(best.value):
            slack = 0.0
        stated = best.objective + sign * slack
        if best.bound is None or sign * (stated - best.bound) < 0:
            best.bound, self._source = stated, "branch_and_bound"

    def _listed(self) -> Ending:
        """Decide in 64-bit integers what float64 does not count."""
        best, model = self._best, self._model
        found = listed(model, self._clock.late)
        if found.rows is not None:
            best.take(found.rows)
        self._set_bound(np.zeros(model.num_capacities))
        if found.complete:
            self._searched(0.0)
            return Ending("proven", infeasible=found.rows is None)
        return Ending("limit" if self._clock.late() else "exhausted")

    def _settle_on_grid(self) -> None:
        """State the bound of the values' common step: no objective lies between it and the incumbent."""
        if self._best.step > 0:
            self._best.bound, self._source = self._best.objective, "branch_and_bound"

    def _ended(self) -> Ending | None:
        """Say how it ended if the incumbent is good enough, or a limit is reached."""
        best = self._best
        if best.proven:
            self._settle_on_grid()
            return Ending("proven")
        if best.close:
            return Ending("gap")
        if (stopped := self._clock.stopped()) is not None:
            return Ending("work" if stopped is Termination.NODE_LIMIT else "limit")
        return None

    def _begin(
        self, menus: OptionTable, weights: NDArray[np.float64], start: NDArray[np.int64] | None
    ) -> None:
        """Find an incumbent near a start that does not fit any more."""
        best, late = self._best, self._clock.late
        if start is None or self._start_used or np.shape(start) != (menus.num_jobs,):
            return
        place = menus.locate(np.asarray(start, dtype=np.int64))
        place = np.where(place >= 0, place, menus.best_choice(menus.scores(weights)))
        fitting = repaired(menus, weights, place, late)
        if fitting is not None:
            best.take(menus.rows[filled(menus, weights, fitting, late)])

    def _repair(
        self,
        menus: OptionTable,
        top: OptionTable,
        weights: NDArray[np.float64],
        choices: tuple[NDArray[np.int64], ...],
    ) -> None:
        """Find incumbents near the multipliers' choices."""
        best, late = self._best, self._clock.late
        for choice in reversed(choices):
            if best.close or best.proven or (late() and best.point is not None):
                break
            fitting = repaired(top, weights, choice, late)
            if fitting is not None:
                best.take(top.rows[filled(top, weights, fitting, late)])
        if best.point is None:
            # Nothing near the top could be repaired: begin at the smallest uses.
            least = cheapest(menus)
            if (menus.used(least) > menus.capacities).any():
                repair = repaired(menus, weights, least, late)
                least = least if repair is None else repair
            best.take(menus.rows[filled(menus, weights, least, late)])

    def _set_bound(self, multipliers: NDArray[np.float64]) -> None:
        bound = model_bound(self._model, multipliers)
        if bound is None:
            return
        self._multipliers = multipliers
        if self._known is None or self._best.sign * (bound - self._known.value) < 0:
            self._best.bound, self._source = bound, "multipliers"
        else:
            self._best.bound, self._source = self._known

    def _mark(self, phase: str) -> None:
        self._seconds[phase] = self._clock.seconds - sum(self._seconds.values())

    def outcome(self, termination: Termination, status: str) -> Outcome:
        """Return the outcome: the incumbent, its bound and why the search ended."""
        best = self._best
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
            bound_source=None if infeasible or best.bound is None else self._source,
            multipliers=self._multipliers,
            seconds=self._seconds,
            counters=self._counters,
            start_used=self._start_used,
            tree=self._tree,
        )
