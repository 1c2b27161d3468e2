"""Place jobs on GPUs of the type chosen for each; who keeps its type keeps its GPUs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.cluster_view import ClusterView
from apportion.policies.cluster.placing import free_gpus, place_on_freest, run_lengths

__all__ = ["place_by_type"]


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
