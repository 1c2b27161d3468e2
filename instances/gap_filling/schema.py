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
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import force_setattr, replace

from apportion.core.errors import Problem
from apportion.instances.fields import (
    Amount,
    AtLeastOne,
    Count,
    Name,
    PositiveAmount,
    Rule,
    check_distinct,
    refuse,
)
from apportion.instances.tenants.rules import check_tenants
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
    min_nodes: AtLeastOne
    max_nodes: AtLeastOne
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
    horizon_s: PositiveAmount
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
        refuse(self, _rules(self))


def _rules(instance: GapFillingInstance) -> Iterator[Rule]:
    """Yield what every instance keeps."""
    yield lambda _: give_up_lost_nodes(instance)
    yield partial(check_distinct, "$.nodes", instance.nodes, "node")
    yield lambda problems: check_distinct("$.jobs", [job.id for job in instance.jobs], "job id", problems)
    yield partial(check_ownership, instance)
    yield partial(check_quotas, instance)
    for index, job in enumerate(instance.jobs):
        yield partial(check_job, f"$.jobs[{index}]", job, instance)


def give_up_lost_nodes(instance: GapFillingInstance) -> None:
    """Take nodes that are not idle any more from the jobs that had them, with a warning."""
    idle = {*instance.nodes}
    jobs, lost = list(instance.jobs), dict[str, list[str]]()
    for index, job in enumerate(jobs):
        gone = [node for node in job.current_nodes if node not in idle]
        if gone:
            lost[job.id] = gone
            left = tuple(node for node in job.current_nodes if node not in gone)
            jobs[index] = replace(job, current_nodes=left)
    if not lost:
        return
    force_setattr(instance, "jobs", tuple(jobs))
    listed = "; ".join(f"{job}: {', '.join(nodes[:3])}" for job, nodes in list(lost.items())[:5])
    logging.getLogger("apportion").warning(
        "%d of %d jobs lost nodes that are not idle any more (%s)", len(lost), len(jobs), listed
    )


def check_quotas(
    instance: GapFillingInstance, problems: list[Problem], touched: Container[str] | None = None
) -> None:
    """Note what is wrong with tenants, and with what belongs to the tenants of all jobs or those touched."""
    check_tenants(instance, {"idle_nodes": len(instance.nodes)}, problems, touched=touched)


def check_job(path: str, job: GapFillingJob, _: GapFillingInstance, problems: list[Problem]) -> None:
    """Note what is wrong with one job, whatever the rest of its instance is."""
    low, high = job.min_nodes, job.max_nodes
    if low > high:
        problems.append(Problem(f"{path}.min_nodes", f"{low} exceeds max_nodes {high}"))
    check_curve(f"{path}.scaling", job.scaling, high, problems)
    pin = job.pinned_count
    if pin is not None and pin != 0 and not low <= pin <= high:
        problems.append(Problem(f"{path}.pinned_count", f"must be 0 or from {low} to {high}, not {pin}"))
    if job.allowed_counts is UNSET:
        return
    if not job.allowed_counts:
        problems.append(Problem(f"{path}.allowed_counts", "must be a list of node counts, at least one"))
    for index, count in enumerate(job.allowed_counts):
        if not low <= count <= high:
            said = f"must be from {low} to {high}, not {count}"
            problems.append(Problem(f"{path}.allowed_counts[{index}]", said))


def check_curve(path: str, curve: ScalingCurve, max_nodes: int, problems: list[Problem]) -> None:
    """Note what is wrong with a throughput curve that must reach a number of nodes."""
    if len(curve.nodes) != len(curve.rate):
        problems.append(
            Problem(f"{path}.rate", f"has {len(curve.rate)} points, nodes has {len(curve.nodes)}")
        )
    if curve.rate and curve.rate[0] != 0:
        problems.append(Problem(f"{path}.rate[0]", f"must be 0 at 0 nodes, is {curve.rate[0]:g}"))
    if not curve.nodes or curve.nodes[0] != 0:
        problems.append(Problem(f"{path}.nodes", "must start at 0 nodes"))
    for index, (before, count) in enumerate(pairwise(curve.nodes), start=1):
        if count <= before:
            problems.append(Problem(f"{path}.nodes[{index}]", f"{count} does not exceed {before}"))
    if curve.nodes and curve.nodes[-1] < max_nodes:
        problems.append(
            Problem(f"{path}.nodes", f"ends at {curve.nodes[-1]}, must reach max_nodes {max_nodes}")
        )


def check_ownership(instance: GapFillingInstance, problems: list[Problem]) -> None:
    """Note every node that a job holds and that is not idle, or that another job holds too."""
    idle = {*instance.nodes}
    owner: dict[str, str] = {}
    for index, job in enumerate(instance.jobs):
        for position, node in enumerate(job.current_nodes):
            path = f"$.jobs[{index}].current_nodes[{position}]"
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
