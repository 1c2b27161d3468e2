"""Layer freezing in the table of kinds: its options, limits and edits, as configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from apportion.core.display import amount
from apportion.core.extension_points import loaded
from apportion.instances.freezing import check
from apportion.instances.freezing.check import configuration_name, offered
from apportion.instances.freezing.edits import EDITS, WAITING
from apportion.instances.freezing.job import FreezingJob, FreezingRow
from apportion.instances.freezing.nodes import NodeWeights, nodes_of
from apportion.instances.freezing.schema import FreezingInstance
from apportion.instances.kind import ProblemType, Wording
from apportion.instances.options import DerivedCapacity, OptionSet

__all__ = ["FREEZING", "OPTION_SET"]


def _taken(_: FreezingInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    return {
        job: configuration_name(one["gpu_type"], one["gpus"], one["depth"])
        for job, one in plan["configuration"].items()
    }


def _derived(instance: FreezingInstance, name: str) -> DerivedCapacity | None:
    """Return the capacity of node weights."""
    weights = NodeWeights.named(instance.gpus_per_node, name)
    if weights is None:
        return None

    def amounts(given: Any) -> list[int]:
        gpus = given.uses[:, list(given.capacities).index(weights.gpu_type)].tolist()
        return [weights.of(own) if own else 0 for own in gpus]

    cut = weights.gpu_type, weights.weights
    return DerivedCapacity(weights.capacity(instance.gpus[weights.gpu_type]), amounts, cut)


OPTION_SET = OptionSet(
    offered,
    _taken,
    derived=_derived,
    stopped=lambda job: job.current is not None and not job.menu,
    nodes=lambda instance: {name: nodes_of(instance, name) for name in instance.gpus},
    columns=lambda instance: loaded("apportion.instances.freezing.option_columns:columns")(instance),
)


def _in_id_order(instance: FreezingInstance) -> FreezingInstance:
    """Sort the jobs, the GPU types, and the rows of every menu by GPU type and count."""
    jobs = tuple(sorted(map(_rows_in_order, instance.jobs), key=lambda job: job.id))
    gpus = dict(sorted(instance.gpus.items()))
    same = all(old is new for old, new in zip(instance.jobs, jobs, strict=True))
    if same and list(gpus) == list(instance.gpus):
        return instance
    return replace(instance, jobs=jobs, gpus=gpus)


def _rows_in_order(job: FreezingJob) -> FreezingJob:
    menu = tuple(sorted(job.menu, key=lambda row: (row.gpu_type, row.gpus)))
    same = all(old is new for old, new in zip(job.menu, menu, strict=True))
    return job if same else replace(job, menu=menu)


def _menu(job: FreezingJob) -> Iterator[dict[str, Any]]:
    for row in job.menu:
        for at, (depth, progress) in enumerate(zip(row.depths, row.effective_progress, strict=True)):
            place = {"gpu_type": row.gpu_type, "gpus": row.gpus, "depth": depth}
            penalty = {"penalty_millionths": row.penalty_millionths[at]} if row.penalty_millionths else {}
            yield {**place, "effective_progress": progress, **penalty}


def _remarks(
    instance: FreezingInstance, job: FreezingJob, plan: Mapping[str, Any]
) -> tuple[tuple[str, ...], str | None]:
    """Return what a job's depth gains and what bounds it, and the same GPUs with nothing frozen."""
    configuration = plan["configuration"].get(job.id)
    if configuration is None:
        return (), None
    place = configuration["gpu_type"], configuration["gpus"]
    row = next(row for row in job.menu if (row.gpu_type, row.gpus) == place)
    unfrozen = configuration_name(*place, 0) if configuration["depth"] else None
    return tuple(_remarks_on(instance, job, row, configuration["depth"])), unfrozen


def _remarks_on(instance: FreezingInstance, job: FreezingJob, row: FreezingRow, depth: int) -> Iterator[str]:
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


FREEZING = ProblemType(
    "freezing",
    FreezingInstance,
    lambda instance: bool(instance.power > 0),
    check.check,
    check.exact_objective,
    in_id_order=_in_id_order,
    edits=EDITS,
    option_set=OPTION_SET,
    remarks=_remarks,
    menu=_menu,
    menu_field="menu",
    wording=Wording(
        runs=True,
        waiting=WAITING,
        option=lambda name: name.replace(", 0 layers frozen", ", nothing frozen"),
    ),
)
