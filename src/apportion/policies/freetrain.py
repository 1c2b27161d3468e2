"""FreeTrain's allocation by node count, solved to proven optimality at every event.

The published MILP (BFTrainer, arXiv:2106.12091; FreeTrain, CCGrid 2023) collapses to a multiple-choice
knapsack over node counts, because idle nodes are interchangeable; see
`apportion.formulations.gap_filling.by_count`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.interruption import uninterrupted
from apportion.options import SolveOptions
from apportion.outcome import Termination
from apportion.policies.completion import complete, next_completion
from apportion.policies.count_menus import CountMenus, count_menus, values_of
from apportion.policies.gap_filling_view import GapFillingView, Plan

__all__ = ["FreeTrain", "FreeTrainPublished", "best_counts"]

_OPTIONS = SolveOptions(time_limit=None)


def best_counts(menus: CountMenus, held: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    """Return int64 [jobs], node counts proven to be optimal, ``None`` if there are no admissible ones.

    Among equal optima the one that leaves more jobs at their `held` nodes is preferred, if given.
    """
    from apportion.solvers.knapsack import one_capacity

    current = None if held is None else menus.rows(held)
    outcome = uninterrupted(one_capacity.solve(menus.knapsack, _OPTIONS, preferred=current))
    if outcome.termination is not Termination.OPTIMAL or outcome.point is None:
        return None
    return menus.counts[outcome.point]


@dataclass(frozen=True, slots=True)
class FreeTrain:
    """FreeTrain's policy: maximise throughput over a forward-looking time less the rescale stalls.

    Attributes
    ----------
    horizon_s
        Forward-looking time T_fwd, seconds.
    wakes
        Whether to ask to be woken when a job will be done, which the published accounting does not.
    """

    horizon_s: float = 120.0
    wakes: bool = False

    def __call__(self, view: GapFillingView) -> Plan:
        """Return the optimal plan for this instant."""
        if not view.num_jobs or not view.nodes.size:
            return Plan(view.holder)
        held = view.held()
        counts = best_counts(count_menus(view, values_of(view, held, self.horizon_s)), held)
        if counts is None:
            return Plan(view.holder)
        plan = complete(view, counts, held)
        return Plan(plan.holder, next_completion(view, held, counts)) if self.wakes else plan


@dataclass(frozen=True, slots=True)
class FreeTrainPublished:
    """The published MILP as published, by count: its big-M limits every change, and only optima are used.

    In the no-migration rows the published constant M = (idle nodes) + 1 cuts off every change of a job's
    nodes by more than M / 2. A plan is used only if proven optimal; otherwise the old map is kept, as the
    authors' replayer does.

    Attributes
    ----------
    horizon_s
        Forward-looking time T_fwd, seconds.
    """

    horizon_s: float = 120.0

    def __call__(self, view: GapFillingView) -> Plan:
        """Return the published MILP's plan for this instant."""
        if not view.num_jobs or not view.nodes.size:
            return Plan(view.holder)
        held = view.held()
        change = np.abs(np.arange(view.rates.shape[1]) - held[:, None])
        allowed = 2 * change <= view.nodes.size + 1
        counts = best_counts(count_menus(view, values_of(view, held, self.horizon_s), allowed), held)
        return Plan(view.holder) if counts is None else complete(view, counts, held)
