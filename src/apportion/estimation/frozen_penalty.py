"""What freezing a prefix costs in learning: the frozen penalty from per-layer gradient statistics.

One SGD step at learning rate e on a loss of curvature h gains e S - e^2 h (S + V / B) / 2, with S the squared
norm of the gradient and V the trace of its covariance over the layers that are trained. At the best e it
gains S^2 / (2 h (S + V / B)). Freezing the first k of L layers leaves S_u and V_u, hence the share

    psi(k) = [S_u^2 / (S_u + V_u / B)] / [S^2 / (S + V / B)],      penalty = theta (1 - psi)

clipped to at most 1 and made non-increasing in k. For nothing frozen and two batch sizes the same expression
is Pollux's statistical efficiency (OSDI 2021), so that throughput x efficiency x psi generalises its goodput.

psi measures slower progress at one instant, not the accuracy at the end, and is pessimistic about layers that
have converged; theta scales it (1 as derived, about 0.5 fits what the freezing literature reports).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.errors import InvalidOption

__all__ = ["retained_progress"]

Floats = NDArray[np.float64]


def retained_progress(
    layer_grad_sqr: ArrayLike, layer_grad_var: ArrayLike, batch_ratio: float = 1.0
) -> Floats:
    """Return psi(k) for k = 0..L.

    Parameters
    ----------
    layer_grad_sqr
        float64 [L]: estimates of the squared gradient norm of every layer; negative estimates count as 0.
    layer_grad_var
        float64 [L]: variance of the gradient of every layer at the batch it was measured with.
    batch_ratio
        The batch asked about over the one measured with: variance falls by it.

    Raises
    ------
    InvalidOption
        If the arrays differ in length or hold what is no number, or `batch_ratio` is not above 0.
    """
    square, noise = _layers(layer_grad_sqr), _layers(layer_grad_var)
    if square.shape != noise.shape or not (np.isfinite(batch_ratio) and batch_ratio > 0):
        raise InvalidOption("need as many variances as squared norms, and batch_ratio > 0")
    left, noise_left = _suffix_sums(square), _suffix_sums(noise) / batch_ratio
    gain = _gain(left, noise_left)
    psi = gain / gain[0] if gain[0] > 0 else np.zeros(gain.size)
    psi[0] = 1.0
    return np.minimum.accumulate(np.minimum(psi, 1.0))


def _layers(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InvalidOption("per-layer statistics must be one finite number per layer")
    return np.maximum(array, 0.0)


def _suffix_sums(values: Floats) -> Floats:
    """Return the sums over layers beyond k, for k = 0..L."""
    return np.concatenate((np.cumsum(values[::-1])[::-1], [0.0]))


def _gain(square: Floats, noise: Floats) -> Floats:
    """Return S^2 / (S + V): S times its share, which neither overflows nor divides by 0."""
    total = square + noise
    return square * np.divide(square, total, out=np.zeros(total.size), where=total > 0)
