"""Options that let what a relaxation divides come to whole amounts.

The relaxation gives half of two options to some jobs, at most as many as there are limits that bind. Where
such a limit must be met to the unit, a whole choice needs other jobs under it that take a little more or
less, whatever that loses: cores of many options without them have no choice, and with them few are enough.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .option_table import OptionTable

__all__ = ["beside_divided"]

_TIED = 1e-9
"""Part of the largest value up to which a loss counts as none."""
_EACH = 3
"""Options of least loss for every amount that is taken of a limit."""


def beside_divided(menus: OptionTable, loss: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return bool [options]: of all limits that divided jobs touch, for every amount, those of least loss.

    A job can be divided where several of its options have no loss at optimal prices.
    """
    none = loss <= _TIED * float(np.abs(menus.values).max(initial=0.0))
    tied = none & (np.bincount(menus.job[none], minlength=menus.num_jobs) > 1)[menus.job]
    capacity, option, use = menus.entries()
    limits = np.zeros(menus.num_capacities, dtype=np.bool_)
    limits[capacity[tied[option]]] = True
    at = np.flatnonzero(limits[capacity])
    capacity, option, use = capacity[at], option[at], use[at]
    order = np.lexsort((loss[option], use, capacity))
    capacity, option, use = capacity[order], option[order], use[order]
    begins = np.flatnonzero((np.diff(capacity, prepend=-1) != 0) | (np.diff(use, prepend=-1.0) != 0.0))
    rank = np.arange(option.size) - np.repeat(begins, np.diff(np.append(begins, option.size)))
    found = np.zeros(menus.num_options, dtype=np.bool_)
    found[option[rank < _EACH]] = True
    return found
