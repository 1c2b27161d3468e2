"""A formulation of one's own, gap filling by increments: ``python examples/own/formulation.py``.

==============  ===================================================================================
symbol          meaning
==============  ===================================================================================
n_j1 < n_j2 ..  the node counts job j may have; n_j0 = 0
g_ji            what job j adds to the objective at n_ji nodes; g_j0 at none
x_ji            1 if job j has at least n_ji nodes
==============  ===================================================================================

    maximise    sum_j g_j0 + sum_ji (g_ji - g_j,i-1) x_ji
    subject to  x_ji <= x_j,i-1,   sum_ji (n_ji - n_j,i-1) x_ji <= |N|

The incremental (or delta) form of a piecewise linear function, after Markowitz and Manne, *Econometrica* 25,
1957: a branch says "more" or "fewer" nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.gap_filling.by_count import complete
from apportion.instances import GapFillingInstance, GapFillingJob
from apportion.models import LinearModelBuilder


class GapFillingByIncrement:
    """The increments of a gap-filling instance: a `LinearFormulation` of `apportion.formulations.protocol`.

    Attributes
    ----------
    model
        The linear model.
    exact
        True: its optimum is the instance's.
    """

    def __init__(self, instance: GapFillingInstance) -> None:
        self.instance = instance
        self.exact = True
        menus = [_menu(job, instance) for job in instance.jobs]
        sizes = [len(menu) - 1 for menu in menus]
        self._counts = [np.array([count for count, _ in menu], dtype=np.int64) for menu in menus]
        self._offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        nodes = np.concatenate([np.diff(counts) for counts in self._counts] or [np.zeros(0)])
        gain = np.concatenate([np.diff([worth for _, worth in menu]) for menu in menus] or [np.zeros(0)])

        m = LinearModelBuilder("maximize")
        x = m.binary("x", (int(self._offsets[-1]),))
        later = np.setdiff1d(np.arange(nodes.size), self._offsets[:-1])
        if later.size:
            m.at_most("in_order", x[later] - x[later - 1], 0.0)
        if nodes.size:
            m.at_most("idle_nodes", (x * nodes).sum(), float(len(instance.nodes)))
        m.objective((x * gain).sum() + sum(menu[0][1] for menu in menus))
        self.model = m.build()

    def plan(self, point: NDArray[np.float64]) -> dict[str, Any]:
        """Return ``{"allocation": {job: [node, ...]}}`` of a point."""
        counts = []
        for job, own in enumerate(self._counts):
            steps = int((point[self._offsets[job] : self._offsets[job + 1]] > 0.5).sum())
            counts.append(int(own[steps]))
        return {"allocation": complete(self.instance, counts)}

    def point(self, plan: Any) -> NDArray[np.float64] | None:
        """Return the point of a feasible plan, ``None`` if it is none."""
        allocation = plan.get("allocation") if isinstance(plan, Mapping) else None
        if not isinstance(allocation, Mapping):
            return None
        parts = []
        for job, own in zip(self.instance.jobs, self._counts, strict=True):
            parts.append(own[1:] <= len(allocation.get(job.id, ())))
        return np.concatenate(parts or [np.zeros(0)]).astype(np.float64)


def _menu(job: GapFillingJob, instance: GapFillingInstance) -> list[tuple[int, float]]:
    """Return the node counts a job may have, none among them, and what each adds to the objective."""
    if job.pinned_count is not None or job.forbidden_counts:
        raise ValueError("this example knows no pinned and no forbidden counts; by_count does")
    held = len(job.current_nodes)
    running = float(np.interp(held, job.scaling.nodes, job.scaling.rate)) if held >= job.min_nodes else 0.0
    menu = []
    for count in (0, *range(job.min_nodes, min(job.max_nodes, len(instance.nodes)) + 1)):
        stall_s = job.rescale_up_s if count > held else job.rescale_down_s if count < held else 0.0
        rate = float(np.interp(count, job.scaling.nodes, job.scaling.rate))
        menu.append((count, job.weight * (instance.horizon_s * rate - running * stall_s)))
    return menu


def main() -> None:
    """Solve an example with it and with what the package does, and let the checker judge both."""
    import apportion
    from apportion.core.options import SolveOptions
    from apportion.solvers.general.highs import solve as highs

    instance = apportion.read("examples/gap_filling_small.json")
    formulation = GapFillingByIncrement(instance)
    outcome = highs(formulation.model, SolveOptions(), None)
    report = apportion.check(instance, formulation.plan(outcome.point))
    print(outcome.termination.value, report.feasible, round(report.objective))
    print(round(apportion.solve(instance).objective))


if __name__ == "__main__":
    main()
