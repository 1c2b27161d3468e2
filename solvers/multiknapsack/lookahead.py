"""What the jobs that are still to be decided will use, before each layer of a beam search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .option_table import OptionTable
from .tilt import Tilt

__all__ = ["Ahead", "lookahead"]


@dataclass(frozen=True, slots=True, eq=False)
class Ahead:
    """What is to come, before each layer.

    Attributes
    ----------
    steer
        float64 [layers + 1, capacities, capacities]: a root of T/2 S^-1.
    centre, least
        float64 [layers + 1, capacities]: the mean and the smallest use to come.
    spread
        float64 [layers + 1, capacities, capacities]: S, the covariance of the use to come.
    """

    steer: NDArray[np.float64]
    centre: NDArray[np.float64]
    least: NDArray[np.float64]
    spread: NDArray[np.float64]


def lookahead(menus: OptionTable, tilt: Tilt, live: NDArray[np.bool_], order: NDArray[np.int64]) -> Ahead:
    """Return what the jobs of `order` will use, from each of them on; `live` is bool [options]."""
    num_caps, layers = menus.capacities.size, order.size
    covariance = np.zeros((layers + 1, num_caps, num_caps))
    centre = np.zeros((layers + 1, num_caps))
    least = np.zeros((layers + 1, num_caps))
    covariance[layers] = np.diag(np.maximum(tilt.slack, 1e-6) ** 2)
    centre[layers] = tilt.slack
    weighted = menus.uses * tilt.probability
    uses = menus.uses if live.all() else np.where(live, menus.uses, np.inf)
    for layer, job in enumerate(order):
        part = slice(menus.offsets[job], menus.offsets[job + 1])
        covariance[layer] = weighted[:, part] @ menus.uses[:, part].T
    mean = tilt.mean[:, order].T
    covariance[:layers] -= mean[:, :, None] * mean[:, None, :]
    centre[:layers] = mean
    if layers:
        least[:layers] = np.minimum.reduceat(uses, menus.offsets[:-1], axis=1)[:, order].T
    covariance = np.cumsum(covariance[::-1], axis=0)[::-1]
    covariance += np.eye(num_caps) * (1e-12 * max(1.0, float(covariance[0].max())))
    steer = _steering(covariance, tilt.temperature)
    to_come = np.cumsum(centre[::-1], axis=0)[::-1]
    return Ahead(steer, to_come, np.cumsum(least[::-1], axis=0)[::-1], covariance)


def _steering(covariance: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return R with ``R R' = temperature / 2 x covariance^-1``: distances become plain sums of squares.

    Where rounding leaves a matrix without a Cholesky factor (uses of very unlike sizes), capacities count
    apart.
    """
    inverse = np.linalg.inv(covariance) * (temperature / 2)
    try:
        return np.linalg.cholesky((inverse + inverse.transpose(0, 2, 1)) / 2).astype(np.float64)
    except np.linalg.LinAlgError:
        spread = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 1e-300)
        apart = np.sqrt(temperature / 2 / spread)
        return np.asarray(apart[:, :, None] * np.eye(covariance.shape[1]), dtype=np.float64)
