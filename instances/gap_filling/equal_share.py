"""Equal share: the baseline rule that splits idle nodes among jobs without looking at throughput."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["equal_share"]


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
