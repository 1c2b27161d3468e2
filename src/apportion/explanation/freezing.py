"""How layer freezing is explained: by all its depths, and by what unfreezing a job would cost.

Why a job is frozen as deep as it is, and what unfreezing it would cost.

Layer freezing explained: every depth may be asked about, and a frozen job says what bounds its depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.solution import Solution
from apportion.explanation.by_menus import explain_by_menus
from apportion.explanation.parts import JobWorth, amount
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import Explanation
from apportion.explanation.subject import PlanView, Subject, rival
from apportion.formulations.protocol import KnapsackFormulation
from apportion.instances import edits
from apportion.instances.freezing import FreezingInstance, FreezingJob, FreezingRow
from apportion.instances.freezing.edits import WAITING
from apportion.instances.freezing.nodes import NodeWeights

__all__ = ["FreezingSubject", "explain_freezing", "with_depth"]


def with_depth(
    worth: JobWorth, view: PlanView, job: int, resolver: Resolver | None, share: float
) -> JobWorth:
    """Return a job's worth with what its depth gains, what bounds it, and what unfreezing would cost."""
    instance: FreezingInstance = view.subject.instance
    plan = view.solution.plan
    configuration = plan["configuration"].get(instance.jobs[job].id) if isinstance(plan, dict) else None
    if configuration is None:
        return worth
    asked = instance.jobs[job]
    row = next(
        row
        for row in asked.menu
        if (row.gpu_type, row.gpus) == (configuration["gpu_type"], configuration["gpus"])
    )
    unfrozen = None
    if configuration["depth"]:
        chosen = int(view.rows[job])
        start, stop = view.model.offsets[job : job + 2].tolist()
        name = f"{row.gpus}x{row.gpu_type}, 0 layers frozen"
        at = next((k for k in range(start, stop) if view.structure.option_name(k) == name), None)
        if at is not None and at != chosen:
            unfrozen = rival(view, job, at, resolver, share)
    remarks = tuple(_remarks(instance, asked, row, configuration["depth"]))
    return replace(worth, remarks=remarks, unfrozen=unfrozen)


def _remarks(instance: FreezingInstance, job: FreezingJob, row: FreezingRow, depth: int) -> Iterator[str]:
    progress = dict(zip(row.depths, row.effective_progress, strict=True))
    penalty = dict(zip(row.depths, row.penalty_millionths, strict=False))
    least = progress.get(0)
    if depth:
        gain = ""
        if least:
            gain = f": {amount(progress[depth] / least)} times the effective progress with nothing frozen"
        elif 0 not in progress:
            gain = "; with nothing frozen it does not fit into the memory of these GPUs"
        yield f"{depth} of {job.layers} layers are frozen{gain}"
        if penalty.get(depth):
            yield f"its frozen penalty is {penalty[depth] / 1e4:.4g} %"
    elif not any(progress.values()):
        yield "nothing of it is frozen"
    elif len(progress) > 1 and progress[depth] >= max(progress.values()):
        yield "nothing of it is frozen: no depth makes more effective progress on these GPUs"
    else:
        yield "nothing of it is frozen"
    best = max(progress, key=lambda k: (progress[k], -k))
    if progress[best] > progress[depth]:
        more = (
            f"{best} would make {amount(progress[best] / progress[depth])} times as much"
            if progress[depth]
            else f"{best} would make more"
        )
        yield f"{more}, but {_obstacle(instance, job, best, penalty)}"


def _obstacle(instance: FreezingInstance, job: FreezingJob, depth: int, penalty: dict[int, int]) -> str:
    if job.max_depth is not None and depth > job.max_depth:
        return f"the gate allows {job.max_depth} layers this round"
    frozen_s = depth / job.layers * instance.round_s
    if job.budget_frozen_s is not None and frozen_s > job.budget_frozen_s:
        left = f"{amount(job.budget_frozen_s)} s of frozen time are left of its accuracy budget"
        return f"{left}, that takes {amount(frozen_s)} s"
    if instance.penalty_cap_millionths is not None and penalty.get(depth):
        return f"its penalty of {penalty[depth] / 1e4:.4g} % does not pay under the cap of all jobs"
    current = job.current
    if current is not None and current.depth != depth and job.rebuild_s:
        return f"changing the depth costs {amount(job.rebuild_s)} s of the round"
    return "the plan as a whole is better so"


class FreezingSubject(Subject):
    """A round of layer freezing; see `Subject`."""

    formulation = "all_depths"  # a depth that cannot be optimal is still one that can be asked about

    @property
    def settles(self) -> bool:
        """Whether the instance names no nodes that a choice would have to be placed on."""
        return not self.instance.gpus_per_node

    def with_pin(self, menus: KnapsackFormulation, job: int, row: int) -> Any:
        """Return the round with a job held to a configuration: where nodes are told, it must lie on them."""
        if self.settles:
            return super().with_pin(menus, job, row)
        wanted = WAITING if row < 0 else menus.option_name(row)
        return edits.pin(self.instance, {menus.job_names()[job]: wanted})

    def fewer(self, menus: KnapsackFormulation, capacity: int) -> Any:
        """Return the round with one GPU fewer, or a lower cap; where nodes are told, one is smaller then."""
        if self.settles:
            return super().fewer(menus, capacity)
        return edits.change_capacity(self.instance, menus.model.capacity_names[capacity], -1)

    def start(self, solution: Solution, rows: NDArray[np.int64]) -> Any:
        """Return the warm start of `fewer`: rows of the menus, or the solution where variants are rounds."""
        return rows if self.settles else solution

    def priced_menus(self, multipliers: Mapping[str, float] | None) -> KnapsackFormulation:
        """Return the menus with the capacities of node weights that multipliers name.

        Without them a choice that lies on no nodes would count as the better one.
        """
        menus = self.menus
        for name in multipliers or ():
            weights = NodeWeights.named(self.instance, name)
            if weights is not None:
                menus = menus.bounded(weights.gpu_type, weights.weights)  # type: ignore[attr-defined]
        return menus


def explain_freezing(
    subject: FreezingSubject,
    solution: Solution | None,
    job: str | None,
    option: str | None,
    resolver: Resolver,
    exact_jobs: int,
) -> Explanation:
    """Explain a round by its menus, and every job's depth beside its GPUs."""
    return explain_by_menus(subject, solution, job, option, resolver, exact_jobs, remarked=with_depth)
