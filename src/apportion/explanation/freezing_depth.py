"""Why a job is frozen as deep as it is, and what unfreezing it would cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from apportion.explanation.jobs import rival
from apportion.explanation.plan_view import PlanView
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import JobWorth
from apportion.explanation.words import amount
from apportion.formulations.freezing.on_nodes import FreezingOnNodes
from apportion.formulations.protocol import KnapsackFormulation
from apportion.instances.freezing import FreezingInstance, FreezingJob, FreezingRow
from apportion.instances.freezing.nodes import NodeWeights

__all__ = ["cut_by_nodes", "with_depth"]


def cut_by_nodes(
    structure: KnapsackFormulation, instance: Any, multipliers: Mapping[str, float] | None
) -> KnapsackFormulation:
    """Return the formulation with the capacities of node weights that a certificate's multipliers name.

    Without them a choice that lies on no nodes would count as the better one.
    """
    if isinstance(structure, FreezingOnNodes):
        for name in multipliers or ():
            weights = NodeWeights.named(instance, name)
            if weights is not None:
                structure = structure.bounded(weights.gpu_type, weights.weights)
    return structure


def with_depth(
    worth: JobWorth, view: PlanView, job: int, resolver: Resolver | None, share: float
) -> JobWorth:
    """Return a job's worth with what its depth gains, what bounds it, and what unfreezing would cost."""
    instance: FreezingInstance = view.instance
    plan = view.solution.plan
    told = plan["configuration"].get(instance.jobs[job].id) if isinstance(plan, dict) else None
    if told is None:
        return worth
    asked = instance.jobs[job]
    row = next(row for row in asked.menu if (row.gpu_type, row.gpus) == (told["gpu_type"], told["gpus"]))
    unfrozen = None
    if told["depth"]:
        chosen = int(view.rows[job])
        start, stop = view.model.offsets[job : job + 2].tolist()
        name = f"{row.gpus}x{row.gpu_type}, 0 layers frozen"
        at = next((k for k in range(start, stop) if view.structure.option_name(k) == name), None)
        if at is not None and at != chosen:
            unfrozen = rival(view, job, at, resolver, share)
    remarks = tuple(_remarks(instance, asked, row, told["depth"]))
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
