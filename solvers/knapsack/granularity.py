"""How much better than a known choice the next better one must be, when values lie on a grid.

Every choice the core still holds is worth the base choice plus a sum of gains. If these are whole multiples
of a grid g, so is that sum, and a better choice beats the known one by at least the rest up to the next
multiple.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.knapsack.menus import Columns, Menus
from apportion.solvers.knapsack.reduction import Core

__all__ = ["improvement_step"]

_SCALE = 1024.0
"""Values are looked at in units of 1/1024, so that halves and quarters count as a grid too."""
_LARGEST = 2.0**52


def improvement_step(core: Core, menus: Menus, incumbent: Columns, loss: float) -> float:
    """Return a positive amount by which any better choice in the core beats `incumbent`, or 0.0 if unknown.

    Parameters
    ----------
    core
        The core; `loss` is at least that of every option it dropped.
    menus
        All the menus.
    incumbent
        Columns of the known choice.
    loss
        Its total loss; the step leaves room for the rounding of losses of this size.
    """
    units = _units(core.value)
    if units is None or not units.size:
        return 0.0
    grid = _grid(units - np.repeat(units[core.start[:-1]], np.diff(core.start)))
    ahead = 0
    for block, column, base in zip(menus.blocks, incumbent, core.base, strict=True):
        moved = np.flatnonzero(column != base)
        if moved.size:
            at = moved * block.width
            to, origin = (_units(block.value.ravel().take(at + pick[moved])) for pick in (column, base))
            if to is None or origin is None:
                return 0.0
            ahead += int((to - origin).sum())
    if grid == 0:
        return 0.0
    step = (grid - ahead % grid) / _SCALE
    rounding = core.rounding + 2.0**-49 * (loss + core.multiplier * abs(core.room))
    return step - 2.0 * rounding if rounding < 0.125 * step else 0.0


def _units(values: NDArray[np.float64]) -> NDArray[np.int64] | None:
    scaled = values * _SCALE
    if not ((np.abs(scaled) < _LARGEST) & (scaled == np.rint(scaled))).all():
        return None
    return scaled.astype(np.int64)


def _grid(gains: NDArray[np.int64]) -> int:
    """Return the greatest common divisor of the gains."""
    whole = int(_SCALE)
    if not (gains % whole).any():
        gains = gains // whole
    else:
        whole = 1
    if (np.abs(gains) == 1).any():
        return whole
    return int(np.gcd.reduce(gains)) * whole
