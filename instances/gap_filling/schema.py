"""The gap-filling instance: idle nodes of a supercomputer, malleable training jobs, a forward-looking time.

The data of BFTrainer's and FreeTrain's resource allocator (arXiv:2106.12091): admitted jobs, nodes that are
idle now, who holds which of them, throughput curves and rescale costs.

`PUBLISHED_CURVES` are the seven throughput curves of BFTrainer's evaluation, images of ImageNet per second
against the number of Summit nodes, from the data set of its replayer (Liu, Kettimuthu, Papka, Foster,
*BFTrainer: Low-Cost Training of Neural Networks on Unfillable Supercomputer Nodes*, arXiv:2106.12091); only
MobileNet's is concave. `equal_share` is the baseline rule that splits idle nodes without looking at them.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import force_setattr, replace

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.fields import (
    Amount,
    Count,
    Name,
    check_amount,
    check_count,
    check_distinct,
    check_header,
    check_name,
    make_plain,
    settle_numbers,
)
from apportion.instances.tenants.rules import check_tenants, settle_tenants
from apportion.instances.tenants.schema import Tenanted, TenantedJob

__all__ = [
    "PUBLISHED_CURVES",
    "GapFillingInstance",
    "GapFillingJob",
    "ScalingCurve",
    "check_curve",
    "check_job",
    "check_ownership",
    "check_quotas",
    "equal_share",
    "give_up_lost_nodes",
    "settle_job",
]


def equal_share(
    num_nodes: int, min_nodes: Sequence[int], max_nodes: Sequence[int], as_published: bool = False
) -> list[int]:
    """Return how many nodes each job gets when idle nodes are shared equally, first come first served.

    With q = floor(nodes / jobs), a job gets min(q, max) nodes if q >= min, else none. What is left over is
    handed out in job order, each job up to its max; a job that would stay below its min is skipped.

    This is the heuristic BFTrainer is compared with (arXiv:2106.12091). The published code gives a job whose
    min equals q nothing in the first pass, so that it waits for what is left over.

    Parameters
    ----------
    num_nodes
        Idle nodes.
    min_nodes, max_nodes
        Per job, in order of submission.
    as_published
        Whether a job needs a quota above its min, as in the published code.

    Examples
    --------
    >>> equal_share(11, [1, 4, 1], [4, 8, 2])
    [4, 5, 2]
    >>> equal_share(3, [1, 1, 1], [64, 64, 64], as_published=True)
    [3, 0, 0]
    """
    if not min_nodes:
        return []
    quota = num_nodes // len(min_nodes)
    least = int(as_published)  # by how much the quota exceeds the minimum of a job that gets it
    share = [
        min(quota, high) if quota >= low + least else 0
        for low, high in zip(min_nodes, max_nodes, strict=True)
    ]
    left = num_nodes - sum(share)
    for job, (low, high) in enumerate(zip(min_nodes, max_nodes, strict=True)):
        more = min(left, high - share[job])
        if share[job] + more >= low:
            share[job] += more
            left -= more
    return share


class ScalingCurve(Struct, frozen=True, forbid_unknown_fields=True):
    """Throughput against node count, piecewise linear between the given points.

    Attributes
    ----------
    nodes
        Node counts; the first is 0, they strictly increase, and the last reaches the job's `max_nodes`.
    rate
        Samples per second at each count; 0 at 0 nodes.
    """

    nodes: tuple[Count, ...]
    rate: tuple[Amount, ...]


class GapFillingJob(TenantedJob, frozen=True, forbid_unknown_fields=True):
    """A malleable training job.

    Attributes
    ----------
    id
        Unique name.
    min_nodes, max_nodes
        The job runs on 0 nodes, or on at least `min_nodes` and at most `max_nodes`.
    scaling
        Its throughput curve.
    rescale_up_s, rescale_down_s
        Seconds the job stands still when it grows or shrinks.
    current_nodes
        The idle nodes it holds now. Fewer than `min_nodes` means it lost some: its current rate counts as 0.
        More than `max_nodes` must shrink. Nodes that are not idle any more are taken as lost, with a warning.
    weight
        Factor on the job's part of the objective.
    pinned_count
        If given, the job must get exactly this many nodes.
    forbidden_counts
        Node counts the job must not get.
    allowed_counts
        The node counts beside 0 that it may get, such as 1, 2, 4, 8; where absent all from `min_nodes` to
        `max_nodes`.
    tenant, preemptible, running_s, stop_cost, submitted_s, priority, finish, best_rate
        What belongs to its tenant; see `apportion.instances.tenants.schema.TenantedJob`.
    """

    id: Name
    min_nodes: Count
    max_nodes: Count
    scaling: ScalingCurve
    rescale_up_s: Amount
    rescale_down_s: Amount
    current_nodes: tuple[Name, ...] = ()
    weight: Amount = 1.0
    pinned_count: Count | None = None
    forbidden_counts: tuple[Count, ...] = ()
    allowed_counts: tuple[Count, ...] | UnsetType = UNSET

    def allows(self, count: int) -> bool:
        """Return whether neither `forbidden_counts` nor `allowed_counts` keep a node count from the job."""
        listed = self.allowed_counts is UNSET or count == 0 or count in self.allowed_counts
        return listed and count not in self.forbidden_counts


class GapFillingInstance(
    Tenanted, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="gap_filling"
):
    """Idle nodes and the jobs to fill them with; every semantic rule is checked on construction.

    Attributes
    ----------
    schema_version
        ``"1"``.
    horizon_s
        Forward-looking time T_fwd, seconds: how long the allocation is expected to last; positive.
    nodes
        Names of the nodes idle now, unique.
    jobs
        The admitted jobs.
    name
        A name for reports.
    tenants, fairness
        Whose jobs they are and what is shared out fairly; see `apportion.instances.tenants.schema.Tenanted`.

    Raises
    ------
    InvalidInstance
        If any rule is broken; all problems are listed with their JSON paths.
    """

    schema_version: Literal["1"]
    horizon_s: Amount
    nodes: tuple[Name, ...]
    jobs: tuple[GapFillingJob, ...]
    name: str = ""

    if TYPE_CHECKING:

        @property
        def _planned(self) -> Mapping[str, Mapping[str, list[str]]]: ...

    def __repr__(self) -> str:
        size = f"{len(self.jobs)} jobs on {len(self.nodes)} idle nodes"
        return f"<GapFillingInstance {self.name!r}: {size}, horizon {self.horizon_s:g} s>"

    def __post_init__(self) -> None:
        make_plain(self)
        give_up_lost_nodes(self)
        problems = _problems(self)
        if problems:
            raise InvalidInstance(problems)
        settle_tenants(self)
        settle_numbers(self, ("horizon_s",))
        for job in self.jobs:
            settle_job(job)


def give_up_lost_nodes(instance: GapFillingInstance) -> None:
    """Take nodes that are not idle any more from the jobs that had them, with a warning."""
    if not isinstance(instance.nodes, tuple | list) or not isinstance(instance.jobs, tuple | list):
        return
    idle = {node for node in instance.nodes if isinstance(node, str)}
    jobs, lost = list(instance.jobs), dict[str, list[str]]()
    for index, job in enumerate(jobs):
        if isinstance(job, GapFillingJob) and isinstance(job.current_nodes, tuple | list):
            gone = [node for node in job.current_nodes if isinstance(node, str) and node not in idle]
            if gone:
                lost[str(job.id)] = gone
                left = tuple(node for node in job.current_nodes if node not in gone)
                jobs[index] = replace(job, current_nodes=left)
    if not lost:
        return
    force_setattr(instance, "jobs", tuple(jobs))
    listed = "; ".join(f"{job}: {', '.join(nodes[:3])}" for job, nodes in list(lost.items())[:5])
    logging.getLogger("apportion").warning(
        "%d of %d jobs lost nodes that are not idle any more (%s)", len(lost), len(jobs), listed
    )


def settle_job(job: GapFillingJob) -> None:
    """Turn integers in the float fields of a checked job into floats, as decoding does."""
    settle_numbers(job, ("rescale_up_s", "rescale_down_s", "weight"))
    settle_numbers(job.scaling, ("rate",))


def _problems(instance: GapFillingInstance) -> list[Problem]:
    problems: list[Problem] = []
    check_header(instance, problems)
    if check_amount("$.horizon_s", instance.horizon_s, problems) and instance.horizon_s <= 0:
        problems.append(Problem("$.horizon_s", "must be positive"))
    _check_nodes(instance.nodes, problems)
    if not isinstance(instance.jobs, tuple | list):
        return [*problems, Problem("$.jobs", "must be a list of jobs")]
    for index, job in enumerate(instance.jobs):
        if isinstance(job, GapFillingJob):
            check_job(f"$.jobs[{index}]", job, problems)
        else:
            problems.append(Problem(f"$.jobs[{index}]", f"must be a GapFillingJob, not {type(job).__name__}"))
    check_distinct(
        "$.jobs", (job.id for job in instance.jobs if isinstance(job, GapFillingJob)), "job id", problems
    )
    check_ownership(instance, problems)
    if isinstance(instance.nodes, tuple | list):
        check_quotas(instance, problems)
    return problems


def check_quotas(
    instance: GapFillingInstance, problems: list[Problem], touched: Container[str] | None = None
) -> None:
    """Note what is wrong with tenants, and with what belongs to the tenants of all jobs or those touched."""
    check_tenants(instance, {"idle_nodes": len(instance.nodes)}, problems, touched=touched)


def _check_nodes(nodes: Any, problems: list[Problem]) -> None:
    if not isinstance(nodes, tuple | list):
        problems.append(Problem("$.nodes", "must be a list of node names"))
        return
    for index, node in enumerate(nodes):
        check_name(f"$.nodes[{index}]", node, problems)
    check_distinct("$.nodes", nodes, "node", problems)


def check_job(path: str, job: GapFillingJob, problems: list[Problem]) -> None:
    """Note what is wrong with one job, whatever the rest of its instance is."""
    check_name(f"{path}.id", job.id, problems)
    low = check_count(f"{path}.min_nodes", job.min_nodes, problems, low=1)
    high = check_count(f"{path}.max_nodes", job.max_nodes, problems, low=1)
    if low and high and job.min_nodes > job.max_nodes:
        problems.append(Problem(f"{path}.min_nodes", f"{job.min_nodes} exceeds max_nodes {job.max_nodes}"))
    check_amount(f"{path}.rescale_up_s", job.rescale_up_s, problems)
    check_amount(f"{path}.rescale_down_s", job.rescale_down_s, problems)
    check_amount(f"{path}.weight", job.weight, problems)
    if isinstance(job.scaling, ScalingCurve):
        check_curve(f"{path}.scaling", job.scaling, job.max_nodes if high else 0, problems)
    else:
        problems.append(Problem(f"{path}.scaling", "must be a ScalingCurve"))
    if not isinstance(job.current_nodes, tuple | list):
        problems.append(Problem(f"{path}.current_nodes", "must be a list of node names"))
    if low and high:
        _check_pins(path, job, problems)


def check_curve(path: str, curve: ScalingCurve, max_nodes: int, problems: list[Problem]) -> None:
    """Note what is wrong with a throughput curve that must reach a number of nodes."""
    if not isinstance(curve.nodes, tuple | list) or not isinstance(curve.rate, tuple | list):
        problems.append(Problem(path, "nodes and rate must be lists"))
        return
    if len(curve.nodes) != len(curve.rate):
        problems.append(
            Problem(f"{path}.rate", f"has {len(curve.rate)} points, nodes has {len(curve.nodes)}")
        )
    counts_ok = [check_count(f"{path}.nodes[{i}]", count, problems) for i, count in enumerate(curve.nodes)]
    rates_ok = [check_amount(f"{path}.rate[{i}]", rate, problems) for i, rate in enumerate(curve.rate)]
    if rates_ok and rates_ok[0] and curve.rate[0] != 0:
        problems.append(Problem(f"{path}.rate[0]", f"must be 0 at 0 nodes, is {curve.rate[0]:g}"))
    if not all(counts_ok):
        return
    if not curve.nodes or curve.nodes[0] != 0:
        problems.append(Problem(f"{path}.nodes", "must start at 0 nodes"))
    for index in range(1, len(curve.nodes)):
        if curve.nodes[index] <= curve.nodes[index - 1]:
            problems.append(
                Problem(
                    f"{path}.nodes[{index}]", f"{curve.nodes[index]} does not exceed {curve.nodes[index - 1]}"
                )
            )
    if curve.nodes and curve.nodes[-1] < max_nodes:
        problems.append(
            Problem(f"{path}.nodes", f"ends at {curve.nodes[-1]}, must reach max_nodes {max_nodes}")
        )


def _check_pins(path: str, job: GapFillingJob, problems: list[Problem]) -> None:
    pin = job.pinned_count
    if pin is not None and check_count(f"{path}.pinned_count", pin, problems):
        low, high = job.min_nodes, job.max_nodes
        if pin != 0 and not low <= pin <= high:
            problems.append(Problem(f"{path}.pinned_count", f"must be 0 or from {low} to {high}, not {pin}"))
    if not isinstance(job.forbidden_counts, tuple | list):
        problems.append(Problem(f"{path}.forbidden_counts", "must be a list of node counts"))
        return
    for index, count in enumerate(job.forbidden_counts):
        check_count(f"{path}.forbidden_counts[{index}]", count, problems)
    if job.allowed_counts is UNSET:
        return
    if not isinstance(job.allowed_counts, tuple | list) or not job.allowed_counts:
        problems.append(Problem(f"{path}.allowed_counts", "must be a list of node counts, at least one"))
        return
    for index, count in enumerate(job.allowed_counts):
        check_count(f"{path}.allowed_counts[{index}]", count, problems, job.min_nodes, job.max_nodes)


def check_ownership(instance: GapFillingInstance, problems: list[Problem]) -> None:
    """Note every node that a job holds and that is not idle, or that another job holds too."""
    if not isinstance(instance.nodes, tuple | list):
        return
    idle = {node for node in instance.nodes if isinstance(node, str)}
    owner: dict[str, str] = {}
    for index, job in enumerate(instance.jobs):
        if not isinstance(job, GapFillingJob) or not isinstance(job.current_nodes, tuple | list):
            continue
        for position, node in enumerate(job.current_nodes):
            path = f"$.jobs[{index}].current_nodes[{position}]"
            if not check_name(path, node, problems):
                continue
            if node not in idle:
                problems.append(Problem(path, f"node {node!r} is not among the idle nodes"))
            elif node in owner:
                problems.append(Problem(path, f"node {node!r} is already held by job {owner[node]!r}"))
            owner.setdefault(node, job.id)


_NODES = (0, 1, 2, 4, 8, 16, 32, 64)

PUBLISHED_CURVES: Mapping[str, ScalingCurve] = MappingProxyType(
    {
        name: ScalingCurve(nodes=_NODES, rate=(0.0, *rate))
        for name, rate in (
            ("AlexNet", (7115.3, 13071.7, 21066.1, 40484.9, 74002.9, 130762.0, 202135.4)),
            ("VGG16", (1193.3, 2389.2, 4691.7, 9257.9, 18348.9, 36208.5, 70151.7)),
            ("ResNet18", (5218.8, 10582.5, 20436.0, 39584.0, 78023.8, 144762.5, 262723.0)),
            ("DenseNet", (989.9, 1952.5, 3849.8, 7608.1, 14993.2, 28812.2, 57773.9)),
            ("MnasNet1", (3245.7, 6001.9, 11489.3, 23075.6, 43899.7, 83474.2, 160493.6)),
            ("ShuffleNet", (2831.0, 5259.0, 9988.0, 20379.2, 38895.3, 74125.1, 145081.5)),
            ("MobileNet", (3039.9, 5893.0, 11386.0, 22024.8, 42488.4, 82268.3, 155213.8)),
        )
    }
)
"""Curve by model name, in the round-robin order of the published job mix."""
