"""What a policy for a cluster of training jobs is shown every round, and what it answers.

A policy is a plain callable ``policy(view) -> ClusterPlan``. The view holds what a scheduler knows at that
instant. What it *believes* of a job is an object of its own, apart from what the simulated job really does.
What tenants and users claim of the cluster is there too: whose a job is, weights, entitlements, deadlines,
prices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.belief import Belief
from apportion.core.errors import ApportionError

__all__ = [
    "Claims",
    "ClusterPlan",
    "ClusterPolicy",
    "ClusterView",
    "InvalidClusterPlan",
    "Nodes",
    "check_cluster_plan",
    "claims_of",
]


class InvalidClusterPlan(ApportionError):
    """A policy's plan breaks a rule of the cluster; the message names the rule and the place."""


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """The machines of a cluster.

    Attributes
    ----------
    gpus
        int64 [nodes]: GPUs of every node.
    kind
        int64 [nodes]: index into `types`.
    types
        Names of the GPU types.
    """

    gpus: NDArray[np.int64]
    kind: NDArray[np.int64]
    types: tuple[str, ...]

    @property
    def total_gpus(self) -> int:
        """GPUs of the whole cluster."""
        return int(self.gpus.sum())

    @property
    def gpus_by_type(self) -> NDArray[np.int64]:
        """int64 [types]: the GPUs of every type."""
        return np.bincount(self.kind, weights=self.gpus, minlength=len(self.types)).astype(np.int64)

    def of_type(self, gpu_type: int) -> NDArray[np.int64]:
        """Return the indices of the nodes of one GPU type."""
        return np.flatnonzero(self.kind == gpu_type)

    def type_of(self, nodes: Sequence[int]) -> str:
        """Return the GPU type's name of an allocation (all its nodes have the same)."""
        return self.types[int(self.kind[nodes[0]])]


@dataclass(frozen=True, slots=True, eq=False)
class ClusterView:
    """One round of a cluster. Jobs are those submitted and not complete, in the workload's order.

    Attributes
    ----------
    time_s
        Now, seconds.
    round_s
        Seconds until the policy is asked again.
    nodes
        The machines.
    jobs
        int64 [jobs]: a number for every job that stays the same; it counts in the workload's order.
    submitted_s
        float64 [jobs].
    requested_gpus
        int64 [jobs]: the GPU count its user asked for.
    held
        For every job the node index of each of its GPUs, in the order they were given; ``()`` if it waits.
    depth
        int64 [jobs]: frozen layers now.
    attained_s
        float64 [jobs]: seconds it has held GPUs, restart delays included.
    attained_gpu_s
        float64 [jobs]: the same times the GPUs held.
    restarts
        int64 [jobs]: how often it was given GPUs, the first start included.
    frozen_s
        float64 [jobs]: accumulated frozen fraction x seconds.
    restart_s
        float64 [jobs]: seconds a restart costs, as believed.
    beliefs
        What the scheduler believes of every job's progress; look only at the ones needed.
    claims
        Whose the jobs are and what they claim, in the same order; ``None`` where nobody said.
    """

    time_s: float
    round_s: float
    nodes: Nodes
    jobs: NDArray[np.int64]
    submitted_s: NDArray[np.float64]
    requested_gpus: NDArray[np.int64]
    held: Sequence[tuple[int, ...]]
    depth: NDArray[np.int64]
    attained_s: NDArray[np.float64]
    attained_gpu_s: NDArray[np.float64]
    restarts: NDArray[np.int64]
    frozen_s: NDArray[np.float64]
    restart_s: NDArray[np.float64]
    beliefs: Sequence[Belief]
    claims: Claims | None = None

    @property
    def num_jobs(self) -> int:
        """How many jobs are submitted and not complete."""
        return int(self.jobs.size)


@dataclass(frozen=True, slots=True, eq=False)
class ClusterPlan:
    """What a policy decides for one round.

    Attributes
    ----------
    nodes
        For every job of the view the node index of each of its GPUs; ``()`` lets it wait. A job whose
        sequence differs from the one it holds is restarted.
    depth
        int64 [jobs]: layers to freeze; ``None`` freezes nothing anywhere.
    """

    nodes: Sequence[tuple[int, ...]]
    depth: NDArray[np.int64] | None = None


ClusterPolicy = Callable[[ClusterView], ClusterPlan]


def check_cluster_plan(view: ClusterView, plan: ClusterPlan) -> None:
    """Check a plan against its view: nodes exist, no GPU serves two jobs, a job stays within one GPU type.

    Raises
    ------
    InvalidClusterPlan
        If a rule is broken.
    """
    if len(plan.nodes) != view.num_jobs:
        raise InvalidClusterPlan(f"nodes must have {view.num_jobs} entries, has {len(plan.nodes)}")
    count = view.nodes.gpus.size
    taken: list[int] = []
    for gpus in plan.nodes:
        taken.extend(gpus)
    used: NDArray[Any] = np.asarray(taken, dtype=np.int64)
    if used.size and not (int(used.min()) >= 0 and int(used.max()) < count):
        raise InvalidClusterPlan(f"node indices must be from 0 to {count - 1}")
    over = np.bincount(used, minlength=count) > view.nodes.gpus
    if over.any():
        node = int(np.argmax(over))
        raise InvalidClusterPlan(f"node {node} has {view.nodes.gpus[node]} GPUs and gets more")
    if len(view.nodes.types) > 1:
        for position, gpus in enumerate(plan.nodes):
            if len({int(view.nodes.kind[node]) for node in gpus}) > 1:
                raise InvalidClusterPlan(f"job {view.jobs[position]} gets GPUs of more than one type")
    if plan.depth is not None and (plan.depth.shape != view.depth.shape or (plan.depth < 0).any()):
        raise InvalidClusterPlan(f"depth must be {view.num_jobs} counts of layers")


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """Tenants, and what every job of a view or of a workload claims.

    Attributes
    ----------
    tenants
        Names of the tenants to whom jobs belong.
    share
        float64 [tenants]: weights that add up to 1 over the tenants; of a tree, the product down to the leaf.
    entitled
        int64 [tenants, types]: GPUs of each type that are a tenant's own.
    first_come
        bool [tenants]: whether its jobs are served one after the other rather than alike.
    tenant
        int64 [jobs]: index of every job's tenant.
    weight
        float64 [jobs]: weight within its tenant.
    deadline_s
        float64 [jobs]: time by which it must end, infinity without one.
    gpu_cost
        float64 [types]: cost of a GPU and hour.
    """

    tenants: tuple[str, ...]
    share: NDArray[np.float64]
    entitled: NDArray[np.int64]
    first_come: NDArray[np.bool_]
    tenant: NDArray[np.int64]
    weight: NDArray[np.float64]
    deadline_s: NDArray[np.float64]
    gpu_cost: NDArray[np.float64]

    def of_jobs(self, jobs: NDArray[np.int64]) -> Claims:
        """Return the claims of some jobs, in their order."""
        return Claims(
            self.tenants,
            self.share,
            self.entitled,
            self.first_come,
            self.tenant[jobs],
            self.weight[jobs],
            self.deadline_s[jobs],
            self.gpu_cost,
        )


def claims_of(view: ClusterView) -> Claims:
    """Return the claims of a view; where nobody claims anything, all jobs are of one tenant that owns all."""
    if view.claims is not None:
        return view.claims
    jobs = view.num_jobs
    return Claims(
        ("everybody",),
        np.ones(1),
        view.nodes.gpus_by_type[None, :],
        np.zeros(1, dtype=np.bool_),
        np.zeros(jobs, dtype=np.int64),
        np.ones(jobs),
        np.full(jobs, np.inf),
        np.ones(len(view.nodes.types)),
    )
