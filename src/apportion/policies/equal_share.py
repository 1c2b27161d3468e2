"""Equal share: the baseline that splits the idle nodes without looking at throughput or rescale costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion.instances.gap_filling.equal_share import equal_share
from apportion.policies.completion import complete
from apportion.policies.gap_filling_view import GapFillingView, Plan

__all__ = ["EqualShare"]


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
        least, most = view.min_nodes.tolist(), view.max_nodes.tolist()
        share = equal_share(view.nodes.size, least, most, self.as_published)
        return complete(view, np.array(share, dtype=np.int64), view.held())
