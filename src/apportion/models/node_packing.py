"""Jobs on the nodes of one GPU type: what has to be packed, and weights that bound what can be.

A job with at most a node's GPUs takes them of one node, a larger one takes whole nodes: bin packing with few
item sizes, its bins alike but for one smaller one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["NodePacking", "heaviest"]


@dataclass(frozen=True, slots=True)
class NodePacking:
    """What has to be packed.

    Attributes
    ----------
    size
        GPUs of a whole node, at least 1.
    whole
        How many whole nodes there are, numbered from 0.
    rest
        GPUs of one smaller node, whose number is `whole`; 0 without one.
    gpus
        Per job, at least 1; at most `size` or a multiple of it.
    current
        Per job the nodes it holds now, ``None`` where it may lie anywhere.
    """

    size: int
    whole: int
    rest: int
    gpus: tuple[int, ...]
    current: tuple[tuple[int, ...] | None, ...]

    def needed(self, job: int) -> int:
        """Return how many nodes a job lies on."""
        return max(1, self.gpus[job] // self.size)

    def share(self, job: int) -> int:
        """Return how many GPUs a job takes of each of its nodes."""
        return min(self.gpus[job], self.size)

    def room(self, node: int) -> int:
        """Return the GPUs of a node, 0 for one that does not exist."""
        if 0 <= node < self.whole:
            return self.size
        return self.rest if node == self.whole else 0

    def may_stay(self, job: int) -> bool:
        """Return whether the nodes a job holds are as many and as large as it needs."""
        nodes = self.current[job]
        if nodes is None or len(set(nodes)) != len(nodes) or len(nodes) != self.needed(job):
            return False
        return all(self.room(node) >= self.share(job) for node in nodes)

    def sizes(self) -> Counter[int]:
        """Return how many pieces there are of each size; a whole node is a piece of the node's size."""
        pieces: Counter[int] = Counter()
        for job in range(len(self.gpus)):
            pieces[self.share(job)] += self.needed(job)
        return pieces

    def moved(self, nodes: Sequence[Sequence[int]]) -> int:
        """Return how many jobs that hold nodes do not stay on them."""
        held = zip(self.current, nodes, strict=True)
        return sum(now is not None and set(now) != set(then) for now, then in held)


def heaviest(weights: Sequence[int]) -> list[int]:
    """Return W(0), .., W(R): the most that pieces on n GPUs weigh, one of g GPUs `weights[g - 1]`.

    Unbounded knapsack by dynamic programming; with it any weights >= 0 bound every packing.
    """
    best = [0] * (len(weights) + 1)
    for room in range(1, len(best)):
        best[room] = max(best[room - 1], max(weights[g - 1] + best[room - g] for g in range(1, room + 1)))
    return best
