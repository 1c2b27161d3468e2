"""Equal share: the baseline that splits the idle nodes without looking at throughput or rescale costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apportion.instances.gap_filling.equal_share import equal_share
from apportion.policies.completion import complete
from apportion.policies.view import GapFillingView, Plan

__all__ = ["EqualShare", "published_equal_share"]


def published_equal_share(num_nodes: int, min_nodes: Sequence[int], max_nodes: Sequence[int]) -> list[int]:
    """Return the shares of the rule as BFTrainer's replayer has it.

    As `apportion.instances.gap_filling.equal_share.equal_share`, save that a job whose minimum equals the
    quota gets nothing in the first pass, and waits for what is left over.

    Examples
    --------
    >>> published_equal_share(3, [1, 1, 1], [64, 64, 64])
    [3, 0, 0]
    """
    if not min_nodes:
        return []
    quota = num_nodes // len(min_nodes)
    share = [min(quota, high) if quota > low else 0 for low, high in zip(min_nodes, max_nodes, strict=True)]
    left = num_nodes - sum(share)
    for job, (low, high) in enumerate(zip(min_nodes, max_nodes, strict=True)):
        more = min(left, high - share[job])
        if share[job] + more >= low:
            share[job] += more
            left -= more
    return share


@dataclass(frozen=True, slots=True)
class EqualShare:
    """Share idle nodes equally, what is left over first come first served.

    Attributes
    ----------
    as_published
        Whether a job whose minimum equals the quota gets none in the first pass, as in the published code.
    """

    as_published: bool = False

    def __call__(self, view: GapFillingView) -> Plan:
        """Return the equal shares of this instant."""
        rule = published_equal_share if self.as_published else equal_share
        share = rule(view.nodes.size, view.min_nodes.tolist(), view.max_nodes.tolist())
        return complete(view, np.array(share, dtype=np.int64), view.held())
