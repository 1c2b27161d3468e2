"""How much better than a known choice the next better one must be, when values lie on a grid.

Every choice the core still holds is worth the base choice plus a sum of gains. If these are whole multiples
of a grid g, so is that sum, and a better choice beats the known one by at least the rest up to the next
multiple.
"""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.knapsack.menu_blocks import Columns, MenuBlocks
from apportion.solvers.knapsack.reduction import Core

__all__ = ["closes", "improvement_step"]

_SCALE = 1024.0
"""Values are looked at in units of 1/1024, so that halves and quarters count as a grid too."""
_LARGEST = 2.0**52
_JOBS_AT_A_TIME = 1 << 13


def improvement_step(core: Core, menus: MenuBlocks, incumbent: Columns, loss: float) -> float:
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
    ahead = _ahead(menus, incumbent, core.base)
    if grid == 0 or ahead is None:
        return 0.0
    step = (grid - ahead % grid) / _SCALE
    rounding = core.rounding + 2.0**-49 * (loss + core.multiplier * abs(core.room))
    return step - 2.0 * rounding if rounding < 0.125 * step else 0.0


def closes(menus: MenuBlocks, base: Columns, incumbent: Columns, loss: float, rounding: float) -> bool:
    """Return whether no value between the incumbent and the bound lies on the grid of all the menus' values.

    Parameters
    ----------
    menus
        All the menus.
    base, incumbent
        Columns of the base choice and of the known one.
    loss
        The known choice's gap to the Lagrangian bound.
    rounding
        What the float64 errors of `loss` stay below.
    """
    grid = 0
    for block, column in zip(menus.blocks, base, strict=True):
        origin = block.value_at(column)
        for start in range(0, block.size, _JOBS_AT_A_TIME):
            values = block.value[start : start + _JOBS_AT_A_TIME]
            first = np.broadcast_to(origin[start : start + _JOBS_AT_A_TIME, None], values.shape)
            usable = values > -np.inf
            to, since = _units(values[usable]), _units(first[usable])
            if to is None or since is None:
                return False
            grid = gcd(grid, _grid(to - since))
    ahead = _ahead(menus, incumbent, base)
    return grid > 0 and ahead is not None and (grid - ahead % grid) / _SCALE > loss + rounding


def _ahead(menus: MenuBlocks, incumbent: Columns, base: Columns) -> int | None:
    """Return the units of value by which a choice is ahead of the base, ``None`` if they are not whole."""
    ahead = 0
    for block, column, base_column in zip(menus.blocks, incumbent, base, strict=True):
        moved = np.flatnonzero(column != base_column)
        if moved.size:
            at = moved * block.width
            to, origin = (
                _units(block.value.ravel().take(at + pick[moved])) for pick in (column, base_column)
            )
            if to is None or origin is None:
                return None
            ahead += int((to - origin).sum())
    return ahead


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
