"""What can be left out before searching: dominated and hopeless options; and the grid of values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .menus import Menus

__all__ = ["grid", "within_reach", "without_dominated"]

_LARGEST_PAIRWISE = 40_000_000
"""Comparisons of options within menus that dominance removal may cost at most."""


def grid(values: NDArray[np.float64]) -> float:
    """Return a step such that all sums of the values are multiples of it, 0 if none is evident.

    Values with at most three decimals count; whoever can beat an incumbent then does so by one step at least.
    """
    for decimals in range(4):
        scaled = values * 10.0**decimals
        whole = np.round(scaled)
        if np.abs(whole).max(initial=0.0) > 2.0**40:
            return 0.0
        if (np.abs(scaled - whole) <= 1e-9 * np.maximum(1.0, np.abs(whole))).all():
            step = int(np.gcd.reduce(whole.astype(np.int64))) if whole.size else 0
            return step / 10.0**decimals
    return 0.0


def within_reach(menus: Menus, weights: NDArray[np.float64], bound: float, floor: float) -> Menus:
    """Drop the options no choice worth at least `floor` can contain (reduced-cost fixing).

    A choice with option i is worth at most ``L(lambda) - loss_i``.
    """
    slack = bound - floor + 1e-9 * max(1.0, abs(bound))
    return menus.keep(menus.loss(weights) <= max(slack, 0.0))


def without_dominated(menus: Menus) -> Menus:
    """Drop options that another of the same menu beats: worth at most as much, using at least as much of all.

    Menus are compared pairwise in blocks; where that would cost too many comparisons nothing is dropped.
    """
    width = int(np.diff(menus.offsets).max(initial=0))
    num_jobs, num_caps = menus.num_jobs, menus.num_capacities
    if num_jobs * width * width * (num_caps + 1) > _LARGEST_PAIRWISE:
        return menus
    position = np.arange(menus.num_options) - menus.offsets[:-1][menus.job]
    value = np.full((num_jobs, width), -np.inf)
    value[menus.job, position] = menus.values
    padded = np.full((num_caps, num_jobs, width), np.inf)
    padded[:, menus.job, position] = menus.uses
    beaten = np.zeros((num_jobs, width), dtype=np.bool_)
    block = max(1, 1_000_000 // (width * width))
    earlier = np.tri(width, k=-1, dtype=np.bool_)[None]
    for start in range(0, num_jobs, block):
        part = slice(start, start + block)
        # [j, a, b]: b is at least as good as a in everything; of equals the first stays.
        good = value[part, None, :] >= value[part, :, None]
        equal = value[part, None, :] == value[part, :, None]
        for k in range(num_caps):
            mine, other = padded[k, part, :, None], padded[k, part, None, :]
            good &= other <= mine
            equal &= other == mine
        beaten[part] = (good & (~equal | earlier)).any(axis=2)
    return menus.keep(~beaten[menus.job, position])
