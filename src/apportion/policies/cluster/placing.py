"""Put GPU counts on nodes by the published Pollux simulator's rule: always the node with most free GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["filled", "free_gpus", "place_on_freest", "run_lengths"]


def free_gpus(gpus: NDArray[np.int64], held: Iterable[Sequence[int]]) -> NDArray[np.int64]:
    """Return int64 [nodes]: the GPUs of every node that none of the allocations `held` takes."""
    taken: list[int] = []
    for nodes in held:
        taken.extend(nodes)
    return gpus - np.bincount(np.asarray(taken, dtype=np.int64), minlength=gpus.size)


def place_on_freest(free: NDArray[np.int64], wanted: int) -> tuple[int, ...]:
    """Take `wanted` GPUs, each time from the node with most free ones, the lowest-numbered of equals.

    `free` is updated in place. Fewer are returned if there are not that many.

    Examples
    --------
    >>> free = np.array([1, 4, 4])
    >>> place_on_freest(free, 6), free.tolist()
    ((1, 1, 1, 1, 2, 2), [1, 0, 2])
    """
    nodes: list[int] = []
    while wanted > 0:
        node = int(np.argmax(free))
        given = min(int(free[node]), wanted)
        if given <= 0:
            break
        nodes.extend([node] * given)
        free[node] -= given
        wanted -= given
    return tuple(nodes)


def filled(gpus: int, per_node: int) -> tuple[int, ...]:
    """Return the placement of `gpus` GPUs on nodes that are filled one after another.

    Examples
    --------
    >>> filled(6, 4)
    (4, 2)
    """
    full, rest = divmod(gpus, per_node)
    return (per_node,) * full + ((rest,) if rest else ())


def run_lengths(nodes: Sequence[int]) -> tuple[int, ...]:
    """Return the lengths of the runs of equal node indices: the placement a list of nodes stands for.

    Examples
    --------
    >>> run_lengths([3, 3, 0, 0, 0])
    (2, 3)
    """
    lengths: list[int] = []
    before: int | None = None
    for node in nodes:
        if node == before:
            lengths[-1] += 1
        else:
            lengths.append(1)
            before = node
    return tuple(lengths)
