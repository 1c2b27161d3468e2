"""Solve the menus of one round: by work alone, so that a busy machine simulates what a quiet one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from apportion.interruption import uninterrupted
from apportion.models.multiple_choice import MultipleChoiceKnapsack

if TYPE_CHECKING:
    from apportion.solution import Solution

__all__ = ["solved"]


def solved(
    model: MultipleChoiceKnapsack, gap: float, warm_start: NDArray[np.int64] | None = None
) -> Solution[NDArray[np.int64]]:
    """Return the answer to a round's menus; no clock has a part in it.

    One capacity needs no turns by time: its search depends on the arrays alone. With several the exact
    search, beams and HiGHS take turns, which deterministic mode gives them by estimated work.

    Parameters
    ----------
    model
        The menus; a capacity a GPU type.
    gap
        Relative optimality gap asked for.
    warm_start
        int64 [jobs]: rows to begin with, preferred among equal optima; -1 for none.
    """
    from apportion.api import solve

    counted = model.num_capacities > 1
    return uninterrupted(
        solve(model, backend="exact", time_limit=None, gap=gap, warm_start=warm_start, deterministic=counted)
    )
