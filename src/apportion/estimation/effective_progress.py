"""Effective progress: throughput x statistical efficiency x (1 - frozen penalty).

The objective of layer-freezing schedulers (IceFrog, TPDS 36(6), 2025, names it; its exact form is not public,
this one is derived). For nothing frozen it is Pollux's goodput.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.errors import InvalidOption

__all__ = ["effective_progress"]

Floats = NDArray[np.float64]


def effective_progress(throughput: ArrayLike, efficiency: ArrayLike, penalty: ArrayLike) -> Floats:
    """Return samples per second, counted as what they teach at the reference batch with nothing frozen.

    Parameters
    ----------
    throughput
        Samples per second, not negative; the arguments broadcast.
    efficiency
        Statistical efficiency at the batch, at most 1 beyond the reference batch.
    penalty
        Frozen penalty, 0 to 1.

    Raises
    ------
    InvalidOption
        If an argument is out of its range.
    """
    x, phi, lost = (np.asarray(part, dtype=np.float64) for part in (throughput, efficiency, penalty))
    if not ((x >= 0).all() and (phi >= 0).all() and ((lost >= 0) & (lost <= 1)).all()):
        raise InvalidOption("need throughput >= 0, efficiency >= 0 and penalty from 0 to 1")
    return np.asarray(x * phi * (1.0 - lost), dtype=np.float64)
