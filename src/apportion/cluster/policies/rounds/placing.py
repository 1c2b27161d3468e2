"""GPU counts of the jobs of a view put on nodes, and the speeds that are believed of jobs there.

`place_whole` never splits partial nodes and moves nobody without need, by the rules of Sia (SOSP 2023): up to
a node's size all GPUs on one node, beyond it whole nodes. The other ways take the node with most free GPUs,
as the published Pollux simulator does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import ClusterView
from apportion.cluster.policies.rounds.shares_problem import SharesProblem
from apportion.core.errors import InvalidOption

__all__ = [
    "believed_speeds",
    "filled",
    "free_gpus",
    "place_by_type",
    "place_counts",
    "place_on_freest",
    "place_rest",
    "place_whole",
    "run_lengths",
    "shares_problem",
]


def place_whole(
    view: ClusterView, gpu_type: NDArray[np.int64], gpus: NDArray[np.int64]
) -> list[tuple[int, ...]]:
    """Return the nodes of every job of the view.

    Whoever keeps type and count keeps its nodes, unless others then find no room: then the smallest keepers
    of that type give way one after another, and are placed anew.

    Parameters
    ----------
    view
        The round.
    gpu_type, gpus
        int64 [jobs]: wanted type and count; 0 GPUs to wait. Counts within a node are powers of two, others
        multiples of its size; a job that fits nowhere even on an empty cluster waits.
    """
    nodes: list[tuple[int, ...]] = [()] * view.num_jobs
    kinds = view.nodes.kind
    for kind in np.unique(gpu_type[gpus > 0]).tolist():
        wanted = {int(job): int(gpus[job]) for job in np.flatnonzero((gpu_type == kind) & (gpus > 0))}
        keep = {
            job: held
            for job, count in wanted.items()
            if len(held := view.held[job]) == count and int(kinds[held[0]]) == kind
        }
        placed = _place(view, kind, wanted, keep)
        while placed is None and keep:
            # a whole node is freed soonest by moving the smallest
            del keep[min(keep, key=lambda job: (wanted[job], -job))]
            placed = _place(view, kind, wanted, keep)
        if placed is None:
            placed = _place(view, kind, wanted, {}, drop=True) or {}
        for job, found in placed.items():
            nodes[job] = found
    return nodes


def _place(
    view: ClusterView,
    kind: int,
    wanted: dict[int, int],
    keep: dict[int, tuple[int, ...]],
    drop: bool = False,
) -> dict[int, tuple[int, ...]] | None:
    """Place the largest first on the fullest node that has room; ``None`` if somebody finds none."""
    size = np.where(view.nodes.kind == kind, view.nodes.gpus, 0)
    free = size - np.bincount([node for held in keep.values() for node in held], minlength=size.size)
    largest = int(size.max())
    placed = dict(keep)
    # stable: of equals the first in the workload's order is placed first
    for job in sorted(wanted.keys() - keep.keys(), key=lambda job: (-wanted[job], job)):
        found = _room(free, size, largest, wanted[job])
        if found is None:
            if not drop:
                return None
            continue
        for node in found:
            free[node] -= 1
        placed[job] = found
    return placed


def _room(
    free: NDArray[np.int64], size: NDArray[np.int64], largest: int, count: int
) -> tuple[int, ...] | None:
    if count < largest:
        fitting = np.flatnonzero(free >= count)
        if not fitting.size:
            return None
        return (int(fitting[np.argmin(free[fitting])]),) * count
    whole = np.flatnonzero((free == size) & (size == largest))
    needed: Sequence[int] = whole[: -(-count // largest)].tolist()
    if len(needed) * largest != count:
        return None
    return tuple(node for node in needed for _ in range(largest))


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


def believed_speeds(view: ClusterView) -> NDArray[np.float64]:
    """Return float64 [jobs, types]: progress per second on the requested GPUs, 0 where it cannot run."""
    speeds = np.zeros((view.num_jobs, len(view.nodes.types)))
    for kind, name in enumerate(view.nodes.types):
        own = view.nodes.gpus[view.nodes.of_type(kind)]
        for job, belief in enumerate(view.beliefs):
            gpus = int(view.requested_gpus[job])
            if gpus <= int(own.sum()):
                rate = belief.rate(filled(gpus, int(own.max())), name)
                speeds[job, kind] = rate if rate > 0 else 0.0
    return speeds


def shares_problem(view: ClusterView) -> SharesProblem:
    """Return the jobs of a view as a problem over shares of time."""
    return SharesProblem(
        believed_speeds(view),
        view.requested_gpus.astype(np.float64),
        view.nodes.gpus_by_type.astype(np.float64),
    )


def place_counts(view: ClusterView, counts: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the nodes of every job as the published Pollux simulator places Optimus' counts.

    Whoever keeps its count stays; the others are placed in increasing order of it (stable).

    Raises
    ------
    InvalidOption
        If there are several GPU types: counts say nothing of them.
    """
    if len(view.nodes.types) > 1:
        raise InvalidOption(
            f"this policy counts GPUs of one type, the machines have {', '.join(view.nodes.types)}; "
            "take one that knows types, such as sia or costate"
        )
    nodes = [held if len(held) == count else () for held, count in zip(view.held, counts, strict=True)]
    free = free_gpus(view.nodes.gpus, nodes)
    moved = [position for position, held in enumerate(view.held) if len(held) != counts[position]]
    for position in sorted(moved, key=counts.__getitem__):
        nodes[position] = place_on_freest(free, counts[position])
    return nodes


def place_rest(
    view: ClusterView, nodes: Sequence[tuple[int, ...]], counts: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return `nodes` with whoever has none yet split over the freest ones, the largest first."""
    placed = list(nodes)
    free = free_gpus(view.nodes.gpus, placed)
    left_out = [position for position, held in enumerate(placed) if not held and counts[position]]
    for position in sorted(left_out, key=lambda position: -counts[position]):
        placed[position] = place_on_freest(free, counts[position])
    return placed


def place_by_type(view: ClusterView, gpu_type: NDArray[np.int64]) -> list[tuple[int, ...]]:
    """Return the nodes of every job, on the GPUs it asked for.

    Who would be spread over nodes in a way that it is not known to run in waits until nodes are free.

    Parameters
    ----------
    view
        The round.
    gpu_type
        int64 [jobs]: index of the type, -1 to wait. The GPUs asked for on a type must not exceed what it has.
    """
    kinds = view.nodes.kind
    nodes = [
        held if held and kinds[held[0]] == kind else ()
        for held, kind in zip(view.held, gpu_type.tolist(), strict=True)
    ]
    free = free_gpus(view.nodes.gpus, nodes)
    starting = [job for job in np.flatnonzero(gpu_type >= 0).tolist() if not nodes[job]]
    # the widest first, so that few are spread over more nodes than they need
    for job in sorted(starting, key=lambda job: -int(view.requested_gpus[job])):
        own = np.where(kinds == gpu_type[job], free, 0)
        found = place_on_freest(own, int(view.requested_gpus[job]))
        if view.beliefs[job].rate(run_lengths(found), view.nodes.types[gpu_type[job]]) > 0:
            nodes[job] = found
            free = np.where(kinds == gpu_type[job], own, free)
    return nodes
