"""Peak memory against frozen depth, hence the largest batch a job admits.

A frozen prefix keeps no activations for its backward pass, so M(k, m) = a + s(k) m with one slope per depth:
bytes per sample, non-increasing in k. Between measured depths the slope is that of the shallower one, which
is never too small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.errors import InvalidOption

__all__ = ["MemoryModel", "fit_memory"]


@dataclass(frozen=True, slots=True, eq=False)
class MemoryModel:
    """Memory of a model on one GPU.

    Attributes
    ----------
    fixed_bytes
        What does not grow with the batch.
    depths
        int64 [depths], rising, from 0.
    bytes_per_sample
        float64 [depths], non-increasing.
    mape
        Mean absolute percentage error on what it was fitted to.
    """

    fixed_bytes: float
    depths: NDArray[np.int64]
    bytes_per_sample: NDArray[np.float64]
    mape: float

    def peak_bytes(self, depth: ArrayLike, local_batch: ArrayLike) -> NDArray[np.float64]:
        """Return M(k, m); the arguments broadcast."""
        return self.fixed_bytes + self._slope(depth) * np.asarray(local_batch, dtype=np.float64)

    def largest_batch(self, depth: ArrayLike, limit_bytes: float) -> NDArray[np.int64]:
        """Return the largest samples per GPU that fit; 0 where not even one does."""
        room = max(limit_bytes - self.fixed_bytes, 0.0)
        return np.floor(room / self._slope(depth)).astype(np.int64)

    def _slope(self, depth: ArrayLike) -> NDArray[np.float64]:
        at = np.searchsorted(self.depths, np.asarray(depth), side="right") - 1
        if (at < 0).any():
            raise InvalidOption(f"no depth up to {int(np.min(depth))} was measured")
        return self.bytes_per_sample[at]


def fit_memory(depths: ArrayLike, local_batch: ArrayLike, peak_bytes: ArrayLike) -> MemoryModel:
    """Fit M(k, m) to measured peaks by non-negative least squares of relative errors.

    Parameters
    ----------
    depths
        int64 [rows]: frozen layers; depth 0 must be among them.
    local_batch
        float64 [rows]: samples per GPU.
    peak_bytes
        float64 [rows], above 0.

    Raises
    ------
    InvalidOption
        If the arrays do not fit each other, or nothing was measured without freezing.
    """
    from scipy.optimize import nnls

    k, m = np.asarray(depths, dtype=np.int64), np.asarray(local_batch, dtype=np.float64)
    peak = np.asarray(peak_bytes, dtype=np.float64)
    if k.ndim != 1 or k.shape != m.shape or k.shape != peak.shape or not ((m > 0) & (peak > 0)).all():
        raise InvalidOption("need one depth, batch and peak per row, batch and peak above 0")
    levels, index = np.unique(k, return_inverse=True)
    if not levels.size or levels[0] != 0 or np.unique(m).size < 2:
        raise InvalidOption("need depth 0 and at least two batch sizes among the measurements")
    # slope(k) is the sum of non-negative falls from k on: that makes it non-increasing
    below = (np.arange(levels.size) >= index[:, None]) * m[:, None]
    system = np.hstack((np.ones((k.size, 1)), below)) / peak[:, None]
    found, _ = nnls(system, np.ones(k.size))
    slope = np.cumsum(found[1:][::-1])[::-1]
    if slope[-1] <= 0:
        slope = np.maximum(slope, 1.0)  # a byte a sample: the batch stays bounded
    error = np.abs(system @ found - 1.0)
    return MemoryModel(float(found[0]), levels, slope, float(100.0 * error.mean()))
