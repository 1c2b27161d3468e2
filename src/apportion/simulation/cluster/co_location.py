"""What jobs lose by whom they run beside: distributed jobs on one node, or two jobs on one GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.cluster_view import Nodes
from apportion.policies.cluster.packing import PairSpeeds

__all__ = ["CoLocation", "DistributedNeighbours", "SharedGpus"]

CoLocation = Callable[[NDArray[np.int64], Sequence[tuple[int, ...]]], NDArray[np.float64]]
"""Given jobs in rising order and the nodes of each, float64 [jobs]: the share of its rate that each loses."""


@dataclass(frozen=True, slots=True)
class DistributedNeighbours:
    """Distributed jobs that share a node with another distributed one are slower.

    Attributes
    ----------
    lost
        Share of the rate, 0 to 1.
    """

    lost: float

    def __call__(self, jobs: NDArray[np.int64], held: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
        """Return the share that every job loses."""
        spread = [frozenset(nodes) if len(set(nodes)) > 1 else frozenset() for nodes in held]
        tenants = np.bincount([node for nodes in spread for node in nodes], minlength=1)
        crowded = [any(tenants[node] > 1 for node in nodes) for nodes in spread]
        return np.where(np.array(crowded, dtype=np.bool_), self.lost, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class SharedGpus:
    """Two jobs on one GPU run as fast as they were measured together.

    A node is one GPU with two slots: a job that holds one of them lets another in.

    Attributes
    ----------
    nodes
        The GPUs.
    pairs
        Measured speeds of pairs.
    """

    nodes: Nodes
    pairs: PairSpeeds

    def __call__(self, jobs: NDArray[np.int64], held: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
        """Return the share that every job loses; all of it beside one it does not fit with."""
        lost = np.zeros(jobs.size)
        single = np.array(
            [position for position, nodes in enumerate(held) if len(nodes) == 1], dtype=np.int64
        )
        gpu = np.array([held[position][0] for position in single.tolist()], dtype=np.int64)
        order = np.argsort(gpu, kind="stable")
        gpu, single = gpu[order], single[order]
        first = np.flatnonzero(gpu[1:] == gpu[:-1])
        one, two = single[first], single[first + 1]
        kind = self.nodes.kind[gpu[first]]
        for this, other in ((one, two), (two, one)):
            speed = self.pairs.relative_to_alone(kind, jobs[this], jobs[other])
            lost[this] = 1.0 - np.where(np.isnan(speed), 0.0, speed)
        return lost
