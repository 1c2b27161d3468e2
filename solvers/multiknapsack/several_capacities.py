"""The engine for several capacities: price, repair, stop if close enough, search on, prove where possible.

The first incumbents: near a start that does not fit any more, and near what the multipliers choose.

The bound that a call states, and what shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import KnownBound, SolveOptions
from apportion.core.outcome import Outcome, SearchTree, Termination
from apportion.models.exact_sums import grid
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.general.highs_call import HIGHS_ERROR
from apportion.solvers.general.scaling import power_of_two_scale, unscaled, with_callback_in_own_unit
from apportion.solvers.multiknapsack.anytime import Search, StopReason
from apportion.solvers.multiknapsack.dual import Dual, model_bound, solve_large
from apportion.solvers.multiknapsack.ejection import Ejection
from apportion.solvers.multiknapsack.expanding_core import FEW_ENTRIES, ExpandingCore
from apportion.solvers.multiknapsack.implied_rows import filled_by_few, with_implied_rows
from apportion.solvers.multiknapsack.int64_fallback import is_wide, list_choices
from apportion.solvers.multiknapsack.linear_dual import has_sparse_rows
from apportion.solvers.multiknapsack.option_table import (
    ChoiceIncumbent,
    OptionTable,
    build,
    noise,
    within_reach,
    without_dominated,
)
from apportion.solvers.multiknapsack.proving import Proving, provable
from apportion.solvers.multiknapsack.relaxation_tree import RelaxationTree
from apportion.solvers.multiknapsack.repair import by_density, cheapest, filled, repaired, thinned

__all__ = ["ProvenBound", "near_choices", "near_start", "solve"]


class ProvenBound:
    """The bound of one call; its value stands with the incumbent that it is measured against.

    Parameters
    ----------
    model
        The model.
    best
        The incumbent; its `bound` is set.
    known
        A bound that holds.

    Attributes
    ----------
    source
        What shows it; see `apportion.core.outcome.Outcome`.
    multipliers
        float64 [capacities]: those of the last bound by multipliers.
    tree
        The tree that ended the exact search.
    """

    def __init__(
        self, model: MultipleChoiceKnapsack, best: ChoiceIncumbent, known: KnownBound | None
    ) -> None:
        self._model, self._best, self._known = model, best, known
        self.source = "multipliers"
        self.multipliers: NDArray[np.float64] | None = None
        self.tree: SearchTree | None = None

    def by_known(self) -> bool:
        """Take the bound that was known before, if there is one."""
        if self._known is None:
            return False
        self._best.bound, self.source = self._known
        return True

    def at(self, multipliers: NDArray[np.float64]) -> None:
        """Take the bound at some multipliers, or what was known before if that is as good."""
        bound = model_bound(self._model, multipliers)
        if bound is None:
            return
        self.multipliers = multipliers
        if self._known is None or self._best.sign * (bound - self._known.value) < 0:
            self._best.bound, self.source = bound, "multipliers"
        else:
            self.by_known()

    def over_fitting(self, menus: OptionTable, dual: Dual, implied: bool = False) -> None:
        """Take what prices show over the options that fit, and under implied rows, if it is less.

        Others are in no choice. Multipliers alone know neither: this is a step of the search.
        """
        best, model = self._best, self._model
        whole = menus.num_options == model.num_options + np.count_nonzero(~model.required)
        if best.bound is None or (whole and not implied):
            return
        stated = best.sign * (dual.bound + noise(menus, dual.multipliers))
        if best.sign * (best.bound - stated) > 0:
            best.bound, self.source = stated, "branch_and_bound"

    def by_enumeration(self) -> None:
        """State that the incumbent is the best of all choices."""
        self._best.bound, self.source = self._best.objective, "enumeration"

    def on_grid(self) -> None:
        """State the bound of the values' common step: no objective lies between it and the incumbent."""
        if self._best.step > 0:
            self._best.bound = self._best.objective
            self.source = self.source if self.source == "solver" else "branch_and_bound"

    def by_search(self, rounding: float) -> None:
        """State what an exhaustive search shows: nothing is better by more than the floor and the rounding.

        Where values lie on a grid the rounding is far below its step. Options that reduced costs fixed away
        need not be counted: what that lets pass has its own margin (`within_reach`).
        """
        best = self._best
        if best.objective is None or best.floor is None or best.value is None:
            return
        slack = 0.0 if best.step > 4.0 * rounding else rounding
        if slack <= 1e-10 * abs(best.value):
            slack = 0.0
        stated = best.objective + best.sign * slack
        if best.bound is None or best.sign * (stated - best.bound) < 0:
            best.bound, self.source = stated, "branch_and_bound"

    def beyond(self, bound: float, source: str) -> None:
        """Take what nothing better than the incumbent exceeds, unless what is known is near enough."""
        best = self._best
        if best.value is None or best.bound is None or best.close:
            return
        stated = best.sign * max(bound, best.value)
        if best.sign * (stated - best.bound) < 0:
            best.bound, self.source = stated, source

    def by_ending(self, ending: StopReason, live: OptionTable, weights: NDArray[np.float64]) -> StopReason:
        """State what an ending shows, and return it; `live` are the options that were searched."""
        best = self._best
        if ending.proving is not None:
            self.tree = ending.proving.tree(self._model.num_capacities)
        if ending.reason == "claimed":  # by the word of HiGHS, as where it is asked about the whole
            if best.objective is not None and not best.proven:
                best.bound, self.source = best.objective, "solver"
            return ending
        shown = ending.reason == "proven" or ending.by_solver
        if shown and not ending.infeasible and not best.proven:
            # the exact search counts in whole numbers, the beams in sums of float64
            rounding = 0.0 if ending.proving is not None else noise(live, weights)
            if ending.by_solver and best.value is not None:
                rounding += HIGHS_ERROR * abs(best.value)
            self.by_search(rounding)
            if ending.by_solver and self.source == "branch_and_bound":
                self.source = "solver"
        elif best.proven:
            self.on_grid()
        elif ending.counts is not None:
            self.beyond(ending.counts.bound, "solver" if ending.counts.by_solver else "branch_and_bound")
        return ending


def near_start(
    menus: OptionTable,
    weights: NDArray[np.float64],
    start: NDArray[np.int64],
    best: ChoiceIncumbent,
    late: Callable[[], bool],
) -> None:
    """Offer a choice near a start, int64 [jobs] of rows; what the weights prefer stands in for others."""
    place = menus.locate(start)
    place = np.where(place >= 0, place, menus.best_choice(menus.scores(weights)))
    fitting = repaired(menus, weights, place, late)
    if fitting is not None:
        best.take(menus.rows[filled(menus, weights, fitting, late)])


def near_choices(
    menus: OptionTable,
    top: OptionTable,
    weights: NDArray[np.float64],
    choices: tuple[NDArray[np.int64], ...],
    best: ChoiceIncumbent,
    late: Callable[[], bool],
) -> None:
    """Offer what choices among the menus `top` are repaired to, the last one first; else any that is found.

    Parameters
    ----------
    menus
        All options.
    top
        Those that the choices are from.
    weights
        float64 [capacities]: near-optimal multipliers.
    choices
        int64 [jobs] each.
    best
        The incumbent.
    late
        Whether the time is over.
    """
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


_QUICK = 4_000
"""Uses up to which the exact search has its first turn after a single repair."""
_LONG_REPAIR = 200_000
"""Uses from which a limit could end a repair before anything fits: a greedy choice comes first."""
_MANY = 8
"""Capacities from which a choice by density comes before multipliers, which take long to find."""
_SOON_READ = 4_000_000
"""Uses up to which all options are ordered by density although the limit has passed: some 30 ms."""
_AT_LAST = 600_000
"""The same with few capacities, where multipliers have been asked before."""
_SHORT = 0.5
"""Seconds in which more is found than a choice by density."""
_LEAST_PROOF, _PROOF_TO_CORES = 1.0, 1.0
"""Seconds, and the share of those that cores took, in which the exact search may prove what HiGHS claims."""
_FIRST_EJECTION, _PER_ENTRY, _CORES_AFTER = 0.03, 2e-6, 0.2
"""Seconds, seconds per use, and share of the time left, that the local search has at most before cores,"""
_PAYS = 0.2
"""Share of the gap that implied rows must close: more rows take longer in all that follows."""
_EJECTION, _EJECTION_SHARE = 2.0, 0.8
"""and after them: seconds without a limit, else the share of the time left."""
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


class _Run:
    """The state of one call, so that an interruption finds the incumbent wherever it strikes."""

    def __init__(
        self, model: MultipleChoiceKnapsack, options: SolveOptions, clock: Clock, known: KnownBound | None
    ) -> None:
        self._model = model
        self._options = options
        self._clock = clock
        self._best = ChoiceIncumbent(model, options, clock)
        self._shown = ProvenBound(model, self._best, known)
        self._start_used: bool | None = None
        self._menus: OptionTable | None = None
        self._densities = [1.0, 0.0]  # of the choices by density that were not offered yet
        self._seconds: dict[str, float] = {}
        counted = ("passes", "states", "nodes", "mip_calls", "mip_nodes")
        self._counters: dict[str, float] = dict.fromkeys(counted, 0.0)

    def search(self, start: NDArray[np.int64] | None, hint: NDArray[np.float64] | None) -> StopReason:
        """Run all phases and say how it ended."""
        best, model = self._best, self._model
        if start is not None:
            self._start_used = bool(model.check(start).feasible) and best.take(
                np.asarray(start, dtype=np.int64)
            )
        best.step = grid(model.values)
        if self._start_used and self._shown.by_known() and (best.proven or best.close):
            return StopReason("proven" if best.proven else "gap")
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
            return StopReason("proven", infeasible=True)
        self._menus = menus
        self._mark("build")
        if menus.num_jobs == 0 or menus.num_capacities == 0:
            rows = (
                np.zeros(0, np.int64) if menus.num_jobs == 0 else menus.rows[menus.best_choice(menus.values)]
            )
            best.take(rows)
            self._shown.at(np.zeros(model.num_capacities))
            # options that cannot fit were left out on the way, so the best of the rest is the optimum
            self._shown.by_enumeration()
            return StopReason("proven")
        if self._clock.late():
            # Building took the limit: one pass for an incumbent, and the bound at no price.
            self._shown.at(np.zeros(model.num_capacities))
            self._thinned(menus, menus.values)
            return StopReason("limit")
        sparse = has_sparse_rows(menus)
        quick = menus.num_options * menus.num_capacities <= _QUICK
        if sparse or (menus.num_capacities >= _MANY and not quick):
            self._greedy(menus)  # one call of HiGHS, or a dual, may take all of the time before any repair
        dual, top = solve_large(
            menus,
            gap=min(1e-8, 0.01 * self._options.gap) or 1e-8,
            late=self._clock.late,
            seconds=None if self._options.deterministic else self._clock.remaining,
            anchor=best.among(menus),
        )
        if dual.infeasible:
            return StopReason("proven", infeasible=True)
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
            if (ended := self._of_sparse(menus, dual)) is not None:
                return ended
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

    def greedy_at_last(self) -> None:
        """Offer the choices by density where the limit is too short for others to be surely as good."""
        menus = self._menus
        if menus is None or self._best.proven or not self._densities:
            return
        soon = menus.uses.size <= _SOON_READ if menus.num_capacities >= _MANY else menus.uses.size <= _AT_LAST
        limit = self._options.time_limit
        if soon and limit is not None and limit < _SHORT:
            self._greedy(menus, every=True)

    def _greedy(self, menus: OptionTable, every: bool = False) -> None:
        """Offer the choices by density: where a job counts as much as a whole capacity, and by uses alone."""
        least = cheapest(menus)
        while self._densities:
            choice = by_density(menus, least, self._densities.pop(0))
            if choice is not None:
                self._best.take(menus.rows[choice])
            if self._clock.late() and not every:
                break
        self._mark("greedy by density")

    def _thinned(self, menus: OptionTable, scores: NDArray[np.float64]) -> None:
        """Offer what fits of the options of greatest score; the smallest uses where nothing else is known."""
        least = cheapest(menus)
        fitting = thinned(menus, menus.best_choice(scores), least)
        if fitting is not None or self._best.point is None:
            self._best.take(menus.rows[least if fitting is None else fitting])
        self._mark("greedy")

    def _of_sparse(self, menus: OptionTable, dual: Dual) -> StopReason | None:
        """Search menus of which an option uses few capacities: locally, and cores that grow."""
        rows, priced = self._under_rows(menus, dual)
        self._shown.over_fitting(rows, priced, implied=rows is not menus)
        best, entries = self._best, float(np.count_nonzero(menus.uses))
        loss, seed = rows.loss(priced.multipliers), self._options.seed
        ejection = Ejection(menus, loss, dual.multipliers, best, self._clock, seed)
        left = self._clock.remaining
        if entries > FEW_ENTRIES and not best.proven and not best.close:
            first = min(_FIRST_EJECTION, _PER_ENTRY * entries)
            ejection.run(first if left is None else min(first, _CORES_AFTER * left))
            self._mark("ejection")
        ended = self._cores(rows, priced, ejection)
        if ended is not None:
            return self._shown.by_ending(ended, rows, priced.multipliers)
        left = self._clock.remaining
        ejection.run(_EJECTION if left is None else _EJECTION_SHARE * left)
        self._mark("ejection")
        return None

    def _under_rows(self, menus: OptionTable, dual: Dual) -> tuple[OptionTable, Dual]:
        """Return the menus under implied rows, and their prices, where these close enough of the gap."""
        best = self._best
        if best.value is None or best.proven or best.close or not filled_by_few(menus, dual.multipliers):
            return menus, dual
        rows = with_implied_rows(menus)
        if rows is menus:
            return menus, dual
        anchor, left = best.among(menus), None if self._options.deterministic else self._clock.remaining
        priced = solve_large(rows, gap=1e-8, late=self._clock.late, seconds=left, anchor=anchor)[0]
        self._mark("dual")
        if priced.bound > dual.bound - _PAYS * (dual.bound - best.value):
            return menus, dual
        near_choices(menus, menus, dual.multipliers, priced.choices, best, self._clock.late)
        self._mark("repair")
        return rows, priced

    def _cores(self, menus: OptionTable, dual: Dual, ejection: Ejection) -> StopReason | None:
        """Solve growing cores of menus with many capacities that few jobs touch, and rows that follow."""
        best = self._best
        limits = best, self._options, self._clock, self._counters
        cores = ExpandingCore(menus, dual.multipliers, dual.bound, ejection, *limits)
        ended = cores.run()
        self._shown.beyond(cores.bound, "solver")
        self._mark("cores")
        if ended is None or not ended.by_solver or best.step > 0 or self._options.gap > HIGHS_ERROR:
            return ended
        if best.proven:
            return StopReason("proven")
        # HiGHS shows no more than its tolerances, so our own trees prove what they leave open
        left = menus if best.floor is None else within_reach(menus, dual.multipliers, dual.bound, best.floor)
        spent, remaining = self._seconds["cores"], self._clock.remaining
        turn = max(_LEAST_PROOF, _PROOF_TO_CORES * spent)
        turn, seed = turn if remaining is None else min(turn, remaining), self._options.seed
        if menus is not self._menus:  # a tree is told in multipliers of capacities, not of what follows
            tree = RelaxationTree(left, best, self._clock, seed)
            proven = tree.run(turn)
            self._counters["relaxations"] = float(tree.relaxations)
            self._mark("proof")
            if proven:
                return StopReason("proven", by_solver=tree.by_solver)
        elif provable(left):
            proving = Proving(left, dual.multipliers, best, self._clock, seed, threads=self._options.threads)
            proven = proving.run(turn)
            self._counters["nodes"] = float(proving.nodes)
            self._mark("proof")
            if proven:
                return StopReason("proven", proving=proving)
        return StopReason("claimed", by_solver=True)

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

    def _ended(self) -> StopReason | None:
        """Say how it ended if the incumbent is good enough, or a limit is reached."""
        best = self._best
        if best.proven:
            self._shown.on_grid()
            return StopReason("proven")
        if best.close:
            return StopReason("gap")
        if (stopped := self._clock.stopped()) is not None:
            return StopReason("work" if stopped is Termination.NODE_LIMIT else "limit")
        return None

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
