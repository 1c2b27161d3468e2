"""Synthetic regression data by sample number: who draws it, and in which order, makes no difference."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["INPUTS", "draw", "share", "targets"]

INPUTS = 8
_DRAWS_A_BLOCK = 4  # doubles per block of Philox


def draw(seed: int, begin: int, end: int) -> NDArray[np.float64]:
    """Return float64 [end - begin, INPUTS] in (-1, 1): the inputs of samples `begin` to `end`."""
    source = np.random.Philox(key=seed)
    source.advance(begin * INPUTS // _DRAWS_A_BLOCK)
    return 2.0 * np.random.Generator(source).random((end - begin, INPUTS)) - 1.0


def targets(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64 [samples, 1]: a smooth function of the inputs that a linear model cannot be."""
    return np.asarray(
        np.sin(2.0 * inputs[:, :1]) + inputs[:, 1:2] * inputs[:, 2:3] + 0.5 * np.cos(3.0 * inputs[:, 3:4])
    )


def share(begin: int, end: int, rank: int, world_size: int) -> tuple[int, int]:
    """Return the part of samples `begin` to `end` that a rank takes; sizes differ by one at most."""
    count = end - begin
    return begin + rank * count // world_size, begin + (rank + 1) * count // world_size
