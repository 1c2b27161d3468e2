"""Why a job is frozen as deep as it is, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apportion.core.display import amount
from apportion.instances.freezing.check import configuration_name
from apportion.instances.freezing.job import FreezingJob, FreezingRow
from apportion.instances.freezing.schema import FreezingInstance

__all__ = ["remarks"]


def remarks(
    instance: FreezingInstance, job: FreezingJob, plan: Mapping[str, Any]
) -> tuple[tuple[str, ...], str | None]:
    """Return what a job's depth gains and what bounds it, and the same GPUs with nothing frozen."""
    configuration = plan["configuration"].get(job.id)
    if configuration is None:
        return (), None
    place = configuration["gpu_type"], configuration["gpus"]
    row = next(row for row in job.menu if (row.gpu_type, row.gpus) == place)
    unfrozen = configuration_name(*place, 0) if configuration["depth"] else None
    return tuple(_remarks(instance, job, row, configuration["depth"])), unfrozen


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
