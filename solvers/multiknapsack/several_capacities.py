"""The engine for several capacities: price, repair, stop if close enough, search on, prove where possible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import KnownBound, SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solvers.clock import Clock
from apportion.solvers.general.highs_call import HIGHS_ERROR
from apportion.solvers.general.scaling import (
    grid,
    power_of_two_scale,
    unscaled,
    with_callback_in_own_unit,
)

from .anytime import Ending, Search
from .dual import Dual, solve_large
from .first_choices import near_choices, near_start
from .greedy import by_density, thinned
from .growing_core import GrowingCore
from .incumbent import BestChoice
from .linear_dual import has_sparse_rows
from .option_table import OptionTable, build
from .proving import Proving, provable
from .reduction import within_reach, without_dominated
from .repair import cheapest
from .shown_bound import ShownBound
from .wide import is_wide, listed

__all__ = ["solve"]

_QUICK = 4_000
"""Uses up to which the exact search has its first turn after a single repair."""
_LONG_REPAIR = 200_000
"""Uses from which a limit could end a repair before anything fits: a greedy choice comes first."""
_LEAST_PROOF, _PROOF_TO_CORES = 1.0, 1.0
"""Seconds, and the share of those that cores took, in which the exact search may prove what HiGHS claims."""
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
        return unscaled(
            _solved(scaled, with_callback_in_own_unit(options, scale), start, near, near_bound), scale
        )
    return _solved(model, options, start, hint, known)


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
        "claimed": Termination.OPTIMAL,
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
        self._options = options
        self._clock = clock
        self._best = BestChoice(model, options, clock)
        self._shown = ShownBound(model, self._best, known)
        self._start_used: bool | None = None
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
        if self._start_used and self._shown.by_known() and (best.proven or best.close):
            return Ending("proven" if best.proven else "gap")
        if self._start_used and hint is not None and float(np.abs(hint).max(initial=0.0)) <= _GREATEST_HINT:
            self._shown.at(hint)
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
            self._shown.at(np.zeros(model.num_capacities))
            # options that cannot fit were left out on the way, so the best of the rest is the optimum
            self._shown.by_enumeration()
            return Ending("proven")
        if self._clock.late():
            # Building took the limit: one pass for an incumbent, and the bound at no price.
            self._shown.at(np.zeros(model.num_capacities))
            self._thinned(menus, menus.values)
            return Ending("limit")
        sparse = has_sparse_rows(menus)
        if sparse:  # one call of HiGHS, which may take all of the time, comes before any repair
            self._greedy(menus)
        dual, top = solve_large(
            menus,
            gap=min(1e-8, 0.01 * self._options.gap) or 1e-8,
            late=self._clock.late,
            seconds=None if self._options.deterministic else self._clock.remaining,
            anchor=best.among(menus),
        )
        if dual.infeasible:
            return Ending("proven", infeasible=True)
        self._shown.at(menus.expand(dual.multipliers, model.num_capacities))
        self._shown.over_fitting(menus, dual)
        self._counters["dual_evaluations"] = float(dual.evaluations)
        self._mark("dual")
        if start is not None and not self._start_used and np.shape(start) == (menus.num_jobs,):
            near_start(menus, dual.multipliers, np.asarray(start, dtype=np.int64), best, self._clock.late)
        long = menus.num_options * menus.num_capacities > _LONG_REPAIR
        if not sparse and (self._clock.late() or (long and self._clock.remaining is not None)):
            self._thinned(menus, menus.scores(dual.multipliers))
        if sparse:
            near_choices(menus, top, dual.multipliers, dual.choices, best, self._clock.late)
            self._mark("repair")
        if sparse and (ended := self._cores(menus, dual)) is not None:
            return self._shown.by_ending(ended, menus, dual.multipliers)
        quick = menus.num_options * menus.num_capacities <= _QUICK
        first = dual.choices[-1:] if quick else dual.choices
        if not sparse:
            near_choices(menus, top, dual.multipliers, first, best, self._clock.late)
            self._mark("repair")
        if (ended := self._ended()) is not None:
            return ended
        kept = menus if quick else without_dominated(menus)
        search = Search(kept, dual.multipliers, dual.bound, best, self._options, self._clock, self._counters)
        ending = search.first_turn() if quick else None
        if ending is None:
            if quick:
                near_choices(menus, top, dual.multipliers, dual.choices[:-1], best, self._clock.late)
                search.leave_out_dominated()
            ending = search.run()
        self._mark("search")
        return self._shown.by_ending(ending, search.live, dual.multipliers)

    def _greedy(self, menus: OptionTable) -> None:
        """Offer the choices by density: by uses alone, and where a job counts as much as a whole capacity."""
        least = cheapest(menus)
        for per_job in (0.0, 1.0):
            choice = by_density(menus, least, per_job)
            if choice is None:
                break
            self._best.take(menus.rows[choice])
            if self._clock.late():
                break
        self._mark("greedy")

    def _thinned(self, menus: OptionTable, scores: NDArray[np.float64]) -> None:
        """Offer what fits of the options of greatest score; the smallest uses where nothing else is known."""
        least = cheapest(menus)
        fitting = thinned(menus, menus.best_choice(scores), least)
        if fitting is not None or self._best.point is None:
            self._best.take(menus.rows[least if fitting is None else fitting])
        self._mark("greedy")

    def _cores(self, menus: OptionTable, dual: Dual) -> Ending | None:
        """Solve growing cores of menus with many capacities that few jobs touch."""
        best = self._best
        limits = best, self._options, self._clock, self._counters
        ended = GrowingCore(menus, dual.multipliers, dual.bound, *limits).run()
        self._mark("cores")
        if ended is None or not ended.by_solver or best.step > 0 or self._options.gap > HIGHS_ERROR:
            return ended
        # HiGHS shows no more than its tolerances, so the exact search proves what they leave open
        left = menus if best.floor is None else within_reach(menus, dual.multipliers, dual.bound, best.floor)
        if provable(left):
            proving = Proving(
                left, dual.multipliers, best, self._clock, self._options.seed, threads=self._options.threads
            )
            spent, remaining = self._seconds["cores"], self._clock.remaining
            turn = max(_LEAST_PROOF, _PROOF_TO_CORES * spent)
            proven = proving.run(turn if remaining is None else min(turn, remaining))
            self._counters["nodes"] = float(proving.nodes)
            self._mark("proof")
            if proven:
                return Ending("proven", proving=proving)
        return Ending("claimed", by_solver=True)

    def _listed(self) -> Ending:
        """Decide in 64-bit integers what float64 does not count."""
        best, model = self._best, self._model
        found = listed(model, self._clock.late)
        if found.rows is not None:
            best.take(found.rows)
        self._shown.at(np.zeros(model.num_capacities))
        if found.complete:
            self._shown.by_search(0.0)
            return Ending("proven", infeasible=found.rows is None)
        return Ending("limit" if self._clock.late() else "exhausted")

    def _ended(self) -> Ending | None:
        """Say how it ended if the incumbent is good enough, or a limit is reached."""
        best = self._best
        if best.proven:
            self._shown.on_grid()
            return Ending("proven")
        if best.close:
            return Ending("gap")
        if (stopped := self._clock.stopped()) is not None:
            return Ending("work" if stopped is Termination.NODE_LIMIT else "limit")
        return None

    def _mark(self, phase: str) -> None:
        self._seconds[phase] = self._clock.seconds - sum(self._seconds.values())

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
