"""Give jobs back the option they have now, wherever that costs nothing and fits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["least_change"]

_TOGETHER = 1_024
"""Jobs looked at together: the clock is asked between."""


def least_change(
    model: MultipleChoiceKnapsack,
    choice: NDArray[np.int64],
    preferred: NDArray[np.int64],
    late: Callable[[], bool] = lambda: False,
) -> NDArray[np.int64]:
    """Return a choice of the same objective that keeps at least as many jobs at their preferred option.

    Jobs that use no more at their preferred option go back first. The others are asked in order, twice,
    because one that goes back can make room for another. This is a local rule: an optimum that keeps more
    jobs but differs in several of them at once is not looked for.

    Parameters
    ----------
    model
        The menus.
    choice
        A feasible choice.
    preferred
        int64 [jobs]: the row every job has now, -1 for none.
    late
        Whether the time is over: the rest keep what was chosen.
    """
    kept = choice.copy()
    room = model.capacities - model.used(kept)
    jobs = np.flatnonzero((preferred >= 0) & (kept != preferred))
    jobs = jobs[model.values[preferred[jobs]] == np.where(kept[jobs] >= 0, model.values[kept[jobs]], 0.0)]
    change = model.uses[preferred[jobs]] - np.where(kept[jobs, None] >= 0, model.uses[kept[jobs]], 0)
    free = (change <= 0).all(axis=1)
    kept[jobs[free]] = preferred[jobs[free]]
    room = room - change[free].sum(axis=0)
    jobs, change = jobs[~free], change[~free]
    for _ in range(2):
        waiting = np.ones(jobs.size, dtype=np.bool_)
        for first in range(0, jobs.size, _TOGETHER):
            if late():
                return kept
            look = np.arange(first, min(first + _TOGETHER, jobs.size))
            total = np.cumsum(change[look], axis=0)
            if (total <= room).all():
                waiting[look], room = False, room - total[-1]
            else:
                # one that frees something may let the next one in
                frees = (change[look] < 0).any()
                for at in look if frees else look[(change[look] <= room).all(axis=1)]:
                    if (change[at] <= room).all():
                        waiting[at], room = False, room - change[at]
            back = jobs[look[~waiting[look]]]
            kept[back] = preferred[back]
        jobs, change = jobs[waiting], change[waiting]
    return kept
