"""The engine for several capacities: price, repair, stop if close enough, search on, prove where possible."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import SolveOptions
from apportion.outcome import Outcome, SearchTree, Termination

from .anytime import Ending, Search
from .budget import Budget
from .dual import model_bound, solve_large
from .incumbent import Best
from .menus import Menus, build
from .reduction import grid, without_dominated
from .repair import cheapest, filled, repaired

__all__ = ["solve"]


def solve(
    model: MultipleChoiceKnapsack, options: SolveOptions, start: NDArray[np.int64] | None = None
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

    Returns
    -------
    Outcome
        `point` holds the chosen rows. `multipliers` prove `bound` where `bound_source` is ``multipliers``;
        where it is ``branch_and_bound`` the bound is a claim of the exhaustive part of the search,
        ``solver`` one of HiGHS.
    """
    budget = Budget(options)
    run = _Run(model, options, budget)
    try:
        ending = run.search(start)
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

    def __init__(self, model: MultipleChoiceKnapsack, options: SolveOptions, budget: Budget) -> None:
        self._model = model
        self._options = options
        self._budget = budget
        self._best = Best(model, options, budget)
        self._multipliers: NDArray[np.float64] | None = None
        self._start_used: bool | None = None
        self._source = "multipliers"
        self._tree: SearchTree | None = None
        self._seconds: dict[str, float] = {}
        self._counters: dict[str, float] = {"passes": 0.0, "states": 0.0, "nodes": 0.0}

    def search(self, start: NDArray[np.int64] | None) -> Ending:
        """Run all phases and say how it ended."""
        best, model = self._best, self._model
        if start is not None:
            self._start_used = bool(model.check(start).feasible) and best.offer(
                np.asarray(start, dtype=np.int64)
            )
        if best.rows is None and not model.required.any():
            best.offer(np.full(model.num_jobs, -1, dtype=np.int64))
        menus = build(model)
        if menus is None:
            return Ending("proven", infeasible=True)
        self._mark("build")
        if menus.num_jobs == 0 or menus.num_capacities == 0:
            rows = (
                np.zeros(0, np.int64) if menus.num_jobs == 0 else menus.rows[menus.best_choice(menus.values)]
            )
            best.offer(rows)
            self._set_bound(np.zeros(model.num_capacities))
            # options that cannot fit were left out on the way, so the best of the rest is the optimum
            best.bound, self._source = best.objective, "enumeration"
            return Ending("proven")
        if self._budget.late():
            # Building took the limit: one pass for an incumbent, and the bound at no price.
            self._set_bound(np.zeros(model.num_capacities))
            if best.rows is None:
                best.offer(menus.rows[cheapest(menus)])
            return Ending("limit")
        dual, top = solve_large(
            menus, gap=min(1e-8, 0.01 * self._options.gap) or 1e-8, late=self._budget.late
        )
        if dual.infeasible:
            return Ending("proven", infeasible=True)
        self._set_bound(menus.expand(dual.multipliers, model.num_capacities))
        self._counters["dual_evaluations"] = float(dual.evaluations)
        self._mark("dual")
        self._repair(menus, top, dual.multipliers, dual.choices, start)
        self._mark("repair")
        best.step = grid(model.values)
        if best.proven:
            self._settle_on_grid()
            return Ending("proven")
        if best.close:
            return Ending("gap")
        if self._budget.spent():
            return Ending("work" if self._budget.out_of_work else "limit")
        tight = without_dominated(menus)
        ending = Search(
            tight, dual.multipliers, dual.bound, best, self._options, self._budget, self._counters
        ).run()
        self._mark("search")
        if ending.proving is not None:
            self._tree = ending.proving.tree(model.num_capacities)
        if ending.reason == "proven" and not ending.infeasible and not best.proven:
            best.bound, self._source = best.objective, "branch_and_bound"
        elif best.proven:
            self._settle_on_grid()
        return ending

    def _settle_on_grid(self) -> None:
        """State the bound of the values' common step: no objective lies between it and the incumbent."""
        if self._best.step > 0:
            self._best.bound, self._source = self._best.objective, "branch_and_bound"

    def _repair(
        self,
        menus: Menus,
        top: Menus,
        weights: NDArray[np.float64],
        choices: tuple[NDArray[np.int64], ...],
        start: NDArray[np.int64] | None,
    ) -> None:
        """Find incumbents near the multipliers' choices and near a start that does not fit any more."""
        best, late = self._best, self._budget.late
        if start is not None and not self._start_used and np.shape(start) == (menus.num_jobs,):
            place = menus.locate(np.asarray(start, dtype=np.int64))
            place = np.where(place >= 0, place, menus.best_choice(menus.values - weights @ menus.uses))
            fitting = repaired(menus, weights, place, late)
            if fitting is not None:
                best.offer(menus.rows[filled(menus, weights, fitting, late)])
        for choice in reversed(choices):
            if best.close or (late() and best.rows is not None):
                break
            fitting = repaired(top, weights, choice, late)
            if fitting is not None:
                best.offer(top.rows[filled(top, weights, fitting, late)])
        if best.rows is None:
            # Nothing near the top could be repaired: begin at the smallest uses.
            least = cheapest(menus)
            if (menus.used(least) > menus.capacities).any():
                repair = repaired(menus, weights, least, late)
                least = least if repair is None else repair
            best.offer(menus.rows[filled(menus, weights, least, late)])

    def _set_bound(self, multipliers: NDArray[np.float64]) -> None:
        bound = model_bound(self._model, multipliers)
        if bound is not None:
            self._multipliers, self._best.bound = multipliers, bound

    def _mark(self, phase: str) -> None:
        self._seconds[phase] = self._budget.seconds - sum(self._seconds.values())

    def outcome(self, termination: Termination, status: str) -> Outcome:
        """Say what there is."""
        best = self._best
        self._seconds["solve"] = self._budget.seconds
        infeasible = termination is Termination.INFEASIBLE
        if best.bound is not None and best.objective is not None:
            # Sums in another order may differ in the last digit: a bound is never worse than what was found.
            worse = max if self._model.sense == "maximize" else min
            best.bound = worse(best.bound, best.objective)
        return Outcome(
            termination=termination,
            raw_status=status,
            point=None if infeasible else best.rows,
            objective=None if infeasible else best.objective,
            bound=None if infeasible else best.bound,
            bound_source=None if infeasible or best.bound is None else self._source,
            multipliers=self._multipliers,
            seconds=self._seconds,
            counters=self._counters,
            start_used=self._start_used,
            tree=self._tree,
        )
