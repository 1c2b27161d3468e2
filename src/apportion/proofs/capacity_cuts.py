"""Cuts of capacities, which every plan keeps; the reason of each is checked first.

* ``{"capacity": position, "divisor": l}``: jobs use at most R of a capacity, the greatest sum within it that
  one option a job can reach; and of whole numbers u that add up to at most R the ``floor(u / l)`` add up to
  at most ``floor(R / l)`` (the rounding of Chvatal and Gomory with 1 / l);
* ``{"capacity": position, "thresholds": {position of job: t, ..}, "others": t}``: a job counts if it uses at
  least its t of a capacity, and at most n jobs count together, where n + 1 of the least t need more than
  there is of it;
* ``{"node_weights": [w(1), .., w(R)], "gpu_type": name}``: no plan that lies on nodes exceeds the sum of W
  over them, whatever the weights are (`apportion.instances.freezing.nodes`);
* ``{"excluded": {position of job: GPUs, ..}, "gpu_type": name}``: those jobs with that many GPUs or more do
  not lie on the nodes together, which is shown by packing them exhaustively; so at most all but one of them
  get as many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.instances.columns import Columns
from apportion.instances.freezing.nodes import NodeWeights, TypeNodes
from apportion.proofs.certificate import MalformedProof, Proof
from apportion.proofs.integer_menus import IntegerArray, as_int64

__all__ = ["CoverCut", "DividedCapacity", "NodeCut", "exceed_nodes", "greatest_sum", "read"]

_MOST_PACKINGS = 200_000
"""Partial packings that are tried for all cuts together before an exclusion counts as not shown."""
_NODES_A_PACKING = 64
"""Nodes of a packing that count as one more."""
_MOST_USES = 5_000_000
"""Node cuts times options, and pairs of weights of all of them, up to which they are looked at."""
_MOST_WORDS = 20_000_000
"""Words of 64 bits up to which sums of all divided capacities together are listed."""


def read(given: Columns, proof: Proof) -> list[NodeCut | DividedCapacity | CoverCut]:
    """Return the cuts of a proof, the reason of each checked."""
    left, words = [_MOST_PACKINGS], [_MOST_WORDS]
    cuts = [cut for cut in proof.cuts if "capacity" not in cut]
    pairs = sum(len(cut["node_weights"]) ** 2 for cut in cuts if isinstance(cut.get("node_weights"), list))
    if pairs > _MOST_USES:
        raise MalformedProof(f"more than {_MOST_USES} pairs of node weights")
    sums: dict[int, int] = {}
    found = [
        CoverCut.read(given, cut)
        if "thresholds" in cut
        else DividedCapacity.read(given, cut, sums, words)
        if "capacity" in cut
        else NodeCut.read(given, cut, left)
        for cut in proof.cuts
    ]
    if len(cuts) * given.uses.shape[0] > _MOST_USES:
        raise MalformedProof(f"more than {_MOST_USES} uses of cuts")
    return found


class DividedCapacity:
    """A capacity in whole multiples of a divisor, as far as a choice can reach it."""

    def __init__(self, capacity: int, divisor: int, room: int) -> None:
        self._capacity, self._divisor, self.room = capacity, divisor, room

    @classmethod
    def read(
        cls, given: Columns, cut: dict[str, Any], sums: dict[int, int], words: list[int]
    ) -> DividedCapacity:
        """Return a cut as a proof says it; `sums` keeps what can be reached, `words` counts down."""
        capacity, divisor = _capacity(given, cut), cut.get("divisor")
        if len(cut) != 2:
            raise MalformedProof("a divided capacity must stand beside a divisor alone")
        if type(divisor) is not int or not 0 < divisor < 1 << 62:
            raise MalformedProof("a divisor must be a whole number from 1 to 2**62")
        if capacity not in sums:
            reached = greatest_sum(given, capacity, words)
            if reached is None:
                raise MalformedProof("the sums of divided capacities are too many to be listed")
            sums[capacity] = reached
        return cls(capacity, divisor, sums[capacity] // divisor)

    def amounts(self, given: Columns, kept: NDArray[np.int64], times: IntegerArray) -> IntegerArray:
        """Return what options take of it."""
        return np.asarray(given.uses[kept, self._capacity] // self._divisor)


class CoverCut:
    """How many jobs can use so much of a capacity together, each at least what its threshold says."""

    def __init__(self, capacity: int, thresholds: NDArray[np.int64], room: int) -> None:
        self._capacity, self._thresholds, self.room = capacity, thresholds, room

    @classmethod
    def read(cls, given: Columns, cut: dict[str, Any]) -> CoverCut:
        """Return a cut as a proof says it; how many fit together is derived."""
        capacity, others, own = _capacity(given, cut), cut.get("others"), cut["thresholds"]
        if len(cut) != 3 or not _is_threshold(others) or not isinstance(own, dict):
            raise MalformedProof("a cover must have thresholds, and one for all others from 1 to 2**62")
        thresholds = np.full(len(given.jobs), others, dtype=np.int64)
        for key, threshold in own.items():
            job = int(key[:12]) if key.isascii() and key.isdecimal() else -1
            if key != str(job) or job >= thresholds.size or not _is_threshold(threshold):
                raise MalformedProof("thresholds must be whole numbers from 1 to 2**62 by position of a job")
            thresholds[job] = threshold
        most, left = 0, given.rooms[capacity]
        values, counts = np.unique(thresholds, return_counts=True)
        for threshold, count in zip(values.tolist(), counts.tolist(), strict=True):
            together = max(0, min(count, left // threshold))
            most, left = most + together, left - together * threshold
            if together < count:
                break
        return cls(capacity, thresholds, most)

    def amounts(self, given: Columns, kept: NDArray[np.int64], times: IntegerArray) -> IntegerArray:
        """Return what options take of it."""
        enough = given.uses[kept, self._capacity] >= self._thresholds[given.owner[kept]]
        return np.asarray(enough, dtype=np.int64)


def _capacity(given: Columns, cut: dict[str, Any]) -> int:
    capacity = cut.get("capacity")
    if type(capacity) is not int or not 0 <= capacity < len(given.rooms):
        raise MalformedProof("a cut of a capacity must name the position of one")
    return capacity


def _is_threshold(given: Any) -> bool:
    return type(given) is int and 0 < given < 1 << 62


def greatest_sum(given: Columns, capacity: int, words: list[int]) -> int | None:
    """Return the greatest sum of uses of a capacity, of at most one option a job, that lies within it.

    Bit s of a number says whether the jobs so far reach the sum s: an option of use u shifts it by u.

    Parameters
    ----------
    given
        The options.
    capacity
        Its position.
    words
        A count of words of 64 bits, which is taken down.

    Returns
    -------
    int or None
        ``None`` where more words would be needed than are left, or the capacity is below 0.
    """
    room, own = given.rooms[capacity], given.uses[:, capacity]
    rows = np.flatnonzero((own > 0) & (own <= min(room, (1 << 62) - 1)))
    pairs = np.unique(np.stack((given.owner[rows], own[rows])), axis=1)
    words[0] -= pairs.shape[1] * (1 + room // 64)
    if room < 0 or words[0] < 0:
        return None
    before = sums = 1
    job, within = -1, (1 << (room + 1)) - 1 if rows.size else 1
    for owner, use in pairs.T.tolist():
        if owner != job:
            job, before = owner, sums
        sums |= (before << use) & within
    return sums.bit_length() - 1


class NodeCut:
    """What the nodes of a GPU type hold, in weights or as jobs that do not lie on them together."""

    def __init__(
        self, capacity: int, weights: NodeWeights | None, excluded: dict[int, int], room: int
    ) -> None:
        self._capacity, self._weights, self._excluded, self.room = capacity, weights, excluded, room

    @classmethod
    def read(cls, given: Columns, cut: dict[str, Any], left: list[int]) -> NodeCut:
        """Return a cut as a proof says it, once its reason holds; `left` counts packings down."""
        gpu_type = cut.get("gpu_type")
        if not isinstance(gpu_type, str) or (nodes := (given.nodes or {}).get(gpu_type)) is None:
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
            if not exceed_nodes(nodes, list(excluded.values()), left):
                raise MalformedProof("an excluded choice is not shown to exceed the nodes")
            return cls(capacity, None, excluded, len(excluded) - 1)
        raise MalformedProof("a cut must have node_weights or excluded beside gpu_type")

    def amounts(self, given: Columns, kept: NDArray[np.int64], times: IntegerArray) -> IntegerArray:
        """Return what options take of it."""
        gpus = given.uses[kept, self._capacity]
        if self._weights is not None:
            sizes, place = np.unique(gpus, return_inverse=True)
            weighed: IntegerArray = as_int64([self._weights.of(one) if one else 0 for one in sizes.tolist()])
            return weighed[place]
        least = np.zeros(len(given.jobs), dtype=np.int64)
        least[list(self._excluded)] = list(self._excluded.values())
        least = least[given.owner[kept]]
        forbidden: IntegerArray = ((least > 0) & (gpus >= least)).astype(np.int64)
        return forbidden


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
