"""FreeTrain's allocation by node count, solved to proven optimality at every event.

The published MILP (BFTrainer, arXiv:2106.12091; FreeTrain, CCGrid 2023) collapses to a multiple-choice
knapsack over node counts, because idle nodes are interchangeable; see
`apportion.formulations.gap_filling.by_count`.

`FreeTrainLiteral` solves the published node-level MILP itself by a general solver at every event. It is slow:
for small machines, and for checking `FreeTrainPublished`, which reaches the same optima by count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.completion import (
    CountMenus,
    complete,
    count_menus,
    next_completion,
    values_of,
)
from apportion.cluster.policies.gap_filling_view import FREE, GapFillingView, Plan
from apportion.core.interruption import uninterrupted
from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.instances.gap_filling import GapFillingInstance, GapFillingJob, ScalingCurve
from apportion.solving.api import solve

__all__ = ["FreeTrain", "FreeTrainLiteral", "FreeTrainPublished", "best_counts", "instance_of"]


def instance_of(view: GapFillingView, horizon_s: float) -> GapFillingInstance:
    """Return the view as an instance; job ``k`` is named ``jk``, node ``i`` by its id."""
    names = [str(node) for node in view.nodes.tolist()]
    counts = tuple(range(view.rates.shape[1]))
    allowed = view.allowed(len(counts))

    def forbidden_counts(job: int) -> tuple[int, ...]:
        within = range(int(view.min_nodes[job]), int(view.max_nodes[job]) + 1)
        return tuple(count for count in within if not allowed[job, count])

    return GapFillingInstance(
        schema_version="1",
        horizon_s=horizon_s,
        nodes=tuple(names),
        jobs=tuple(
            GapFillingJob(
                id=f"j{job}",
                min_nodes=int(view.min_nodes[job]),
                max_nodes=int(view.max_nodes[job]),
                scaling=ScalingCurve(nodes=counts, rate=tuple(view.rates[job].tolist())),
                rescale_up_s=float(view.up_s[job]),
                rescale_down_s=float(view.down_s[job]),
                current_nodes=tuple(names[k] for k in np.flatnonzero(view.holder == job).tolist()),
                forbidden_counts=forbidden_counts(job),
            )
            for job in range(view.num_jobs)
        ),
        name=f"at {view.time_s:.12g} s",
    )


@dataclass(frozen=True, slots=True)
class FreeTrainLiteral:
    """The literal MILP with its published big-M; the old map is kept unless the optimum is proven.

    Attributes
    ----------
    horizon_s
        Forward-looking time T_fwd, seconds.
    backend
        A general solver.
    time_limit_s
        Seconds for one event; ``None`` for no limit. What is found within it but not proven is thrown away.
    """

    horizon_s: float = 120.0
    backend: str = "highs"
    time_limit_s: float | None = 10.0

    def __call__(self, view: GapFillingView) -> Plan:
        """Return the MILP's plan for this instant."""
        if not view.num_jobs or not view.nodes.size:
            return Plan(view.holder)
        solution = uninterrupted(
            solve(
                instance_of(view, self.horizon_s),
                backend=self.backend,
                time_limit=self.time_limit_s,
                formulation="by_node_published",
            )
        )
        plan: Any = solution.plan
        if solution.termination is not Termination.OPTIMAL or plan is None:
            return Plan(view.holder)
        place = {str(node): position for position, node in enumerate(view.nodes.tolist())}
        holder = np.full(view.nodes.size, FREE, dtype=np.int64)
        for job, nodes in plan["allocation"].items():
            holder[np.array([place[node] for node in nodes], dtype=np.int64)] = int(job[1:])
        return Plan(holder)


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
