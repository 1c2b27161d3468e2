"""What a gap-filling policy is shown of an instance, and what its answer means to the instance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.instances import GapFillingInstance
from apportion.policies.gap_filling_view import FREE, GapFillingView, Plan, check_plan

__all__ = ["GapFillingEyes"]


class GapFillingEyes:
    """Turns instances into views, and remembers what an instance does not hold.

    Jobs and nodes get numbers that stay the same; since when a node has been idle, and how long those that
    left had been, is counted from when they were first seen.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._idle_since: dict[str, float] = {}

    def view(self, instance: GapFillingInstance, time_s: float) -> GapFillingView:
        """Return what a policy is shown.

        Rates are those of the instance times the weight of the job, so that the sum of the rates is what the
        objective weighs. How much is left of a job is not known: infinity. A job whose minimum exceeds the
        idle nodes is not shown; it can get none.
        """
        idle = len(instance.nodes)
        departed = self._see_nodes(instance, time_s)
        for job in instance.jobs:
            self._jobs.setdefault(job.id, len(self._jobs))
        shown = sorted(
            (job for job in instance.jobs if job.min_nodes <= idle), key=lambda job: self._jobs[job.id]
        )
        width = 1 + min(idle, max((job.max_nodes for job in shown), default=0))
        counts = np.arange(width)
        rates = [job.weight * np.interp(counts, job.scaling.nodes, job.scaling.rate) for job in shown]
        nodes = sorted(instance.nodes, key=self._nodes.__getitem__)
        position = {node: at for at, node in enumerate(nodes)}
        holder = np.full(idle, FREE, dtype=np.int64)
        for number, job in enumerate(shown):
            holder[[position[node] for node in job.current_nodes]] = number
        return GapFillingView(
            time_s=time_s,
            jobs=np.array([self._jobs[job.id] for job in shown], dtype=np.int64),
            rates=np.array(rates, dtype=np.float64).reshape(len(shown), width),
            min_nodes=np.array([job.min_nodes for job in shown], dtype=np.int64),
            max_nodes=np.array([min(job.max_nodes, width - 1) for job in shown], dtype=np.int64),
            up_s=np.array([job.rescale_up_s for job in shown], dtype=np.float64),
            down_s=np.array([job.rescale_down_s for job in shown], dtype=np.float64),
            remaining=np.full(len(shown), np.inf),
            nodes=np.array([self._nodes[node] for node in nodes], dtype=np.int64),
            holder=holder,
            idle_since_s=np.array([self._idle_since[node] for node in nodes], dtype=np.float64),
            departed_after_s=departed,
            waiting=0,
            measured=np.full(len(shown), np.nan),
        )

    def plan(self, view: GapFillingView, answer: Plan, _: GapFillingInstance) -> dict[str, Any]:
        """Return the plan of a policy's answer as it stands in JSON.

        Raises
        ------
        InvalidPlan
            If the answer breaks a rule of its view.
        """
        check_plan(view, answer)
        jobs = {number: name for name, number in self._jobs.items()}
        nodes = {number: name for name, number in self._nodes.items()}
        allocation: dict[str, list[str]] = {}
        for node, job in zip(view.nodes.tolist(), answer.holder.tolist(), strict=True):
            if job != FREE:
                allocation.setdefault(jobs[int(view.jobs[job])], []).append(nodes[node])
        return {"allocation": allocation}

    def _see_nodes(self, instance: GapFillingInstance, time_s: float) -> NDArray[np.float64]:
        """Note which nodes came and went; return how long those that left had been idle."""
        idle = set(instance.nodes)
        gone = [node for node in self._idle_since if node not in idle]
        departed = [time_s - self._idle_since.pop(node) for node in gone]
        for node in instance.nodes:
            self._nodes.setdefault(node, len(self._nodes))
            self._idle_since.setdefault(node, time_s)
        return np.array(departed, dtype=np.float64)
