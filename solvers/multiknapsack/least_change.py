"""Give jobs back the option they have now, wherever that costs nothing and fits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["least_change"]


def least_change(
    model: MultipleChoiceKnapsack, choice: NDArray[np.int64], preferred: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return a choice of the same objective that keeps at least as many jobs at their preferred option.

    Jobs are asked in order, twice, because one that goes back can make room for another. This is a local
    rule: an optimum that keeps more jobs but differs in several of them at once is not looked for.

    Parameters
    ----------
    model
        The menus.
    choice
        A feasible choice.
    preferred
        int64 [jobs]: the row every job has now, -1 for none.
    """
    kept = choice.copy()
    room = model.capacities - model.used(kept)
    for _ in range(2):
        for job in np.flatnonzero((preferred >= 0) & (kept != preferred)):
            held, wanted = int(kept[job]), int(preferred[job])
            value = float(model.values[held]) if held >= 0 else 0.0
            if float(model.values[wanted]) != value:
                continue
            freed = model.uses[held] if held >= 0 else np.zeros_like(room)
            left = room + freed - model.uses[wanted]
            if (left >= 0).all():
                kept[job], room = wanted, left
    return kept
