"""The first incumbents: near a start that does not fit any more, and near what the multipliers choose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .incumbent import BestChoice
from .option_table import OptionTable
from .repair import cheapest, filled, repaired

__all__ = ["near_choices", "near_start"]


def near_start(
    menus: OptionTable,
    weights: NDArray[np.float64],
    start: NDArray[np.int64],
    best: BestChoice,
    late: Callable[[], bool],
) -> None:
    """Offer a choice near a start, int64 [jobs] of rows; what the weights prefer stands in for others."""
    place = menus.locate(start)
    place = np.where(place >= 0, place, menus.best_choice(menus.scores(weights)))
    fitting = repaired(menus, weights, place, late)
    if fitting is not None:
        best.take(menus.rows[filled(menus, weights, fitting, late)])


def near_choices(
    menus: OptionTable,
    top: OptionTable,
    weights: NDArray[np.float64],
    choices: tuple[NDArray[np.int64], ...],
    best: BestChoice,
    late: Callable[[], bool],
) -> None:
    """Offer what choices among the menus `top` are repaired to, the last one first; else any that is found.

    Parameters
    ----------
    menus
        All options.
    top
        Those that the choices are from.
    weights
        float64 [capacities]: near-optimal multipliers.
    choices
        int64 [jobs] each.
    best
        The incumbent.
    late
        Whether the time is over.
    """
    for choice in reversed(choices):
        if best.close or best.proven or (late() and best.point is not None):
            break
        fitting = repaired(top, weights, choice, late)
        if fitting is not None:
            best.take(top.rows[filled(top, weights, fitting, late)])
    if best.point is None:
        # Nothing near the top could be repaired: begin at the smallest uses.
        least = cheapest(menus)
        if (menus.used(least) > menus.capacities).any():
            repair = repaired(menus, weights, least, late)
            least = least if repair is None else repair
        best.take(menus.rows[filled(menus, weights, least, late)])
