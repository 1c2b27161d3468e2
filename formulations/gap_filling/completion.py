"""From node counts to nodes: a growing job keeps its nodes, a shrinking one a subset, nobody migrates.

Nodes are interchangeable, so any counts that fit the idle nodes can be completed this way; this is why the
node-indexed MILP of BFTrainer collapses to counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from apportion.instances.gap_filling import GapFillingInstance

__all__ = ["complete"]


def complete(instance: GapFillingInstance, counts: Sequence[int]) -> dict[str, list[str]]:
    """Return the nodes of every job that gets any.

    Parameters
    ----------
    instance
        Idle nodes and current holders.
    counts
        Nodes per job, in job order; their sum is at most the number of idle nodes.

    Returns
    -------
    dict
        Job id to node names. Kept nodes come first in their present order; new ones follow in the order
        of the instance's node list, so the same counts always give the same nodes.
    """
    kept = [list(job.current_nodes[:count]) for job, count in zip(instance.jobs, counts, strict=True)]
    taken = {node for nodes in kept for node in nodes}
    free: Iterator[str] = (node for node in instance.nodes if node not in taken)
    allocation: dict[str, list[str]] = {}
    for job, nodes, count in zip(instance.jobs, kept, counts, strict=True):
        missing = count - len(nodes)
        if missing > 0:
            nodes.extend(islice(free, missing))
        if nodes:
            allocation[job.id] = nodes
    return allocation
