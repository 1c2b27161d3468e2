"""What can be left out before searching: dominated and hopeless options."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.products import over_rows

from .option_table import OptionTable

__all__ = ["noise", "within_reach", "without_dominated"]

_LARGEST_PAIRWISE = 40_000_000
"""Comparisons of options within menus that dominance removal may cost at most."""


def within_reach(menus: OptionTable, weights: NDArray[np.float64], bound: float, floor: float) -> OptionTable:
    """Drop the options no choice worth at least `floor` can contain (reduced-cost fixing).

    A choice with option i is worth at most ``L(lambda) - loss_i``. L and the losses are sums of products in
    float64: `noise` bounds what they are off by.
    """
    slack = bound - floor + 1e-9 * abs(bound) + noise(menus, weights)
    return menus.keep(menus.loss(weights) <= max(slack, 0.0))


def noise(menus: OptionTable, weights: NDArray[np.float64]) -> float:
    """Return what the rounding of L at some multipliers, of values and of losses over the menus stays below.

    A score is a sum of ``K + 1`` terms and off by at most ``(K + 2) eps / 2`` of their magnitudes, a loss by
    twice that; over the jobs they add up, and the sum over jobs adds ``log2(n)`` roundings (numpy adds in
    pairs). The magnitudes are those of each menu's largest option.
    """
    size = np.abs(menus.values) + over_rows(weights, menus.uses)
    total = float(menus.largest(size).sum()) + float(weights @ menus.capacities)
    roundings = 2.0 * (menus.num_capacities + 2) + float(np.log2(menus.num_jobs + 1)) + 4.0
    return roundings * 2.0**-52 * total


def without_dominated(menus: OptionTable) -> OptionTable:
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
