"""Cuts of capacities that lie on nodes, which every placed plan keeps; the reason of each is checked first.

* ``{"node_weights": [w(1), .., w(R)], "gpu_type": name}``: no plan exceeds the sum of W over the nodes,
whatever the
  weights are (`apportion.instances.freezing.nodes`);
* ``{"excluded": {position of job: GPUs, ..}, "gpu_type": name}``: those jobs with that many GPUs or more do
not lie on
  the nodes together, which is shown by packing them exhaustively; so at most all but one of them get as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.instances.columns import Columns
from apportion.instances.freezing.nodes import NodeWeights, TypeNodes
from apportion.proofs.certificate import MalformedProof, Proof
from apportion.proofs.integer_menus import IntegerArray

__all__ = ["NodeCut", "exceed_nodes", "read"]

_MOST_PACKINGS = 200_000
"""Partial packings that are tried for all cuts together before an exclusion counts as not shown."""
_NODES_A_PACKING = 64
"""Nodes of a packing that count as one more."""
_MOST_USES = 5_000_000
"""Cuts times options, and pairs of weights of all cuts, up to which they are looked at."""


def read(given: Columns, proof: Proof) -> list[NodeCut]:
    """Return the cuts of a proof, the reason of each checked."""
    cuts, left = proof.cuts, [_MOST_PACKINGS]
    pairs = sum(len(cut["node_weights"]) ** 2 for cut in cuts if isinstance(cut.get("node_weights"), list))
    if pairs > _MOST_USES:
        raise MalformedProof(f"more than {_MOST_USES} pairs of node weights")
    found = [NodeCut.read(given, cut, left) for cut in cuts]
    if len(cuts) * given.uses.shape[0] > _MOST_USES:
        raise MalformedProof(f"more than {_MOST_USES} uses of cuts")
    return found


class NodeCut:
    """One further capacity, its reason checked."""

    def __init__(
        self, capacity: int, weights: NodeWeights | None, excluded: dict[int, int], room: int
    ) -> None:
        self._capacity, self._weights, self._excluded, self.room = capacity, weights, excluded, room

    @classmethod
    def read(cls, given: Columns, cut: dict[str, Any], left: list[int]) -> NodeCut:
        """Return a cut as a proof says it, once its reason holds; `left` counts packings down."""
        gpu_type = cut.get("gpu_type")
        nodes = (given.nodes or {}).get(gpu_type) if isinstance(gpu_type, str) else None
        if nodes is None or not isinstance(gpu_type, str):
            raise MalformedProof(f"a cut names {gpu_type!r}, which is no GPU type with nodes")
        capacity = list(given.capacities).index(gpu_type)
        if set(cut) == {"gpu_type", "node_weights"}:
            weights = cut["node_weights"]
            if (
                not isinstance(weights, list)
                or len(weights) != nodes.size
                or not all(map(_is_count, weights))
            ):
                raise MalformedProof(f"node_weights must be {nodes.size} whole numbers from 0 to 10**9")
            one = NodeWeights(gpu_type, tuple(weights))
            return cls(capacity, one, {}, one.capacity(given.rooms[capacity]))
        if set(cut) == {"gpu_type", "excluded"} and isinstance(cut["excluded"], dict):
            excluded = _positions(len(given.jobs), cut["excluded"])
            if not excluded or not exceed_nodes(nodes, list(excluded.values()), left):
                raise MalformedProof("an excluded choice is not shown to exceed the nodes")
            return cls(capacity, None, excluded, len(excluded) - 1)
        raise MalformedProof("a cut must have node_weights or excluded beside gpu_type")

    def amounts(self, given: Columns, kept: NDArray[np.int64], times: IntegerArray) -> Iterator[int]:
        """Yield what options take of it."""
        jobs, gpus = given.owner[kept].tolist(), given.uses[kept, self._capacity].tolist()
        for job, own in zip(jobs, gpus, strict=True):
            if not own:
                yield 0
            elif self._weights is not None:
                yield self._weights.of(own)
            else:
                yield int(job in self._excluded and own >= self._excluded[job])


def _is_count(given: Any) -> bool:
    return type(given) is int and 0 <= given <= 10**9


def _positions(jobs: int, given: dict[str, Any]) -> dict[int, int]:
    found = {}
    for key, gpus in given.items():
        if not (key.isascii() and key.isdecimal() and int(key[:12]) < jobs and _is_count(gpus) and gpus):
            raise MalformedProof("excluded must give GPUs, at least 1, by position of a job")
        found[int(key)] = gpus
    return found


def exceed_nodes(nodes: TypeNodes, gpus: list[int], left: list[int] | None = None) -> bool:
    """Return whether packing exhaustively shows that jobs of so many GPUs do not lie on the nodes together.

    Counts that lie on no nodes at all are in no plan, but here they count as not shown.

    Parameters
    ----------
    nodes
        The nodes of their type.
    gpus
        What every job holds.
    left
        A count of packings, which is taken down; below 0 nothing is shown.
    """
    left = [_MOST_PACKINGS] if left is None else left
    sizes, filled = [], 0
    for one in gpus:
        needed = nodes.needed(one)
        if needed is None:
            return False
        filled += needed if needed > 1 else 0
        if filled > nodes.whole:
            return True
        sizes.extend([min(one, nodes.size)] * needed)
    sizes.sort(reverse=True)
    seen: set[tuple[int, tuple[int, ...]]] = set()
    stack = [(0, tuple(sorted(nodes.room())))]
    each = 1 + len(stack[0][1]) // _NODES_A_PACKING
    while stack:
        at, room = stack.pop()
        if at == len(sizes):
            return False
        for index, free in enumerate(room):
            if free >= sizes[at] and (index == 0 or room[index - 1] != free):
                after = (at + 1, tuple(sorted((*room[:index], free - sizes[at], *room[index + 1 :]))))
                if after not in seen:
                    seen.add(after)
                    stack.append(after)
                    left[0] -= each
        if left[0] < 0:
            return False
    return True
