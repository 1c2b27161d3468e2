"""Whether a re-scale earns back what it costs before its nodes are wanted by others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.policies.gap_filling_view import GapFillingView

__all__ = ["earned", "unearned"]


def earned(
    rate_before: float, rate_after: float, up_s: float, down_s: float, stays_s: float, horizon_s: float
) -> bool:
    """Return whether growing pays before the first of the new nodes goes.

    Until then the job makes `rate_after` but for the standstill of growing; once the node is gone it stands
    still again, as long as shrinking takes, and goes on as before. Beyond the horizon the policy judges.
    """
    if stays_s >= horizon_s:
        return True
    return rate_after * max(stays_s - up_s, 0.0) > rate_before * (stays_s + down_s)


def unearned(
    view: GapFillingView, plan: NDArray[np.int64], stays_s: NDArray[np.float64], horizon_s: float
) -> dict[int, int]:
    """Return, for every job of which a growth is not earned back, the largest count that is.

    Parameters
    ----------
    view
        The instant.
    plan
        int64 [nodes]: the job that gets a node.
    stays_s
        float64 [nodes]: in how many seconds a node is wanted by others; infinite where nothing is known.
    horizon_s
        Forward-looking time, seconds.
    """
    found: dict[int, int] = {}
    soon = stays_s < horizon_s
    if not soon.any():
        return found
    held = view.held()
    running = view.running_rate(held)
    for job in np.unique(plan[soon & (plan >= 0) & (plan != view.holder)]).tolist():
        added = np.sort(stays_s[(plan == job) & (view.holder != job)])[::-1]
        before = int(np.count_nonzero((plan == job) & (view.holder == job)))
        costs = float(running[job]), float(view.up_s[job]), float(view.down_s[job])
        for more in range(added.size, 0, -1):
            rate = float(view.rates[job, before + more])
            if earned(costs[0], rate, *costs[1:], float(added[more - 1]), horizon_s):
                break
        else:
            more = 0
        if more < added.size:
            found[int(job)] = before + more
    return found
