"""Measured optimiser steps as rows, and how well a model of layer-aware throughput predicts them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidOption
from apportion.estimation.layer_throughput import LayerThroughput

__all__ = ["Goodness", "Steps", "goodness"]

Floats = NDArray[np.float64]

_OUTLYING = 4.0
"""A row is an outlier beyond this many robust standard deviations, and at least a tenth off."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Measured optimiser steps, one row each, as arrays of one length.

    Attributes
    ----------
    gpus, nodes
        How many GPUs and nodes the job ran on in all.
    local_batch
        Samples per GPU.
    seconds
        Measured time of a whole step, above 0.
    work, parameters
        u(k) and rho(k) of the row's depth.
    cached_forward
        v(k) where the frozen prefix is cached, 0 where it is not; ``None`` if no row is cached.
    """

    gpus: Floats
    nodes: Floats
    local_batch: Floats
    seconds: Floats
    work: Floats
    parameters: Floats
    cached_forward: Floats | None = None

    def where(self, kept: NDArray[np.bool_]) -> Steps:
        """Return the measured steps that a mask keeps."""
        cached = None if self.cached_forward is None else self.cached_forward[kept]
        return Steps(
            self.gpus[kept],
            self.nodes[kept],
            self.local_batch[kept],
            self.seconds[kept],
            self.work[kept],
            self.parameters[kept],
            cached,
        )

    def predicted(self, model: LayerThroughput) -> Floats:
        """Return a model's time for every row."""
        return model.step_time(
            self.gpus,
            self.nodes,
            self.local_batch,
            self.work,
            self.parameters,
            cached_forward=self.cached_forward,
        )


@dataclass(frozen=True, slots=True)
class Goodness:
    """How well a model predicts measured step times.

    Attributes
    ----------
    rows
        Number of rows.
    mape, median_ape
        Mean and median absolute percentage error.
    rmsle
        Root mean squared difference of logarithms.
    outliers
        Rows further off than four robust standard deviations and a tenth.
    """

    rows: int
    mape: float
    median_ape: float
    rmsle: float
    outliers: int


def goodness(model: LayerThroughput, steps: Steps) -> Goodness:
    """Return how well a model predicts measured steps.

    Raises
    ------
    InvalidOption
        If there is no row, or a row needs what was not measured.
    """
    if not steps.seconds.size:
        raise InvalidOption("there is no row to judge the fit by")
    predicted = steps.predicted(model)
    error = 100.0 * np.abs(predicted / steps.seconds - 1.0)
    residual = np.log(predicted / steps.seconds)
    spread = 1.4826 * float(np.median(np.abs(residual - np.median(residual))))
    outlying = np.abs(residual) > max(_OUTLYING * spread, 0.1)
    return Goodness(
        rows=int(error.size),
        mape=float(error.mean()),
        median_ape=float(np.median(error)),
        rmsle=float(np.sqrt(np.mean(residual**2))),
        outliers=int(outlying.sum()),
    )
