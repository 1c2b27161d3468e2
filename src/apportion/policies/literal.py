"""The published node-level MILP itself, solved by a general solver at every event.

Slow: for small machines, and for checking `apportion.policies.freetrain.FreeTrainPublished`, which reaches
the same optima by count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.api import solve
from apportion.instances.gap_filling import GapFillingInstance, GapFillingJob, ScalingCurve
from apportion.interruption import uninterrupted
from apportion.outcome import Termination
from apportion.policies.gap_filling_view import FREE, GapFillingView, Plan

__all__ = ["FreeTrainLiteral", "instance_of"]


def instance_of(view: GapFillingView, horizon_s: float) -> GapFillingInstance:
    """Return the view as an instance; job ``k`` is named ``jk``, node ``i`` by its id."""
    names = [str(node) for node in view.nodes.tolist()]
    counts = tuple(range(view.rates.shape[1]))
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
