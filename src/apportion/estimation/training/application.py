"""One training application as measured: epochs, batches, progress, gradient statistics, step times.

Definitions follow the published Pollux simulator (Qiao et al., OSDI 2021).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.estimation.training.step_times import StepTimes

__all__ = ["Application"]


@dataclass(frozen=True, slots=True, eq=False)
class Application:
    """The measurements of one application: step times, batches and progress.

    Attributes
    ----------
    name
        The application's name.
    epochs
        Epochs until it is done.
    batches
        int64 [batches]: the total batch sizes that were validated, increasing; the first is the initial one.
    progress
        float64 [epochs + 1]: progress at the start of every epoch, in steps of the initial batch.
    iteration, grad_sqr, grad_var
        float64 [batches, epochs]: iterations so far, and the gradient's squared norm and variance, by epoch.
    step_times
        Measured step times by GPU type.
    min_local, max_local
        Bounds of the samples per GPU.
    """

    name: str
    epochs: int
    batches: NDArray[np.int64]
    progress: NDArray[np.float64]
    iteration: NDArray[np.float64]
    grad_sqr: NDArray[np.float64]
    grad_var: NDArray[np.float64]
    step_times: Mapping[str, StepTimes]
    min_local: int
    max_local: int

    @property
    def initial_batch(self) -> int:
        """The smallest validated batch; statistical efficiency is relative to it."""
        return int(self.batches[0])

    @property
    def max_batch(self) -> int:
        """The greatest validated batch."""
        return int(self.batches[-1])

    def iterations_to(self, batch: int, epoch: int) -> float:
        """Return the iterations at `batch` that the table gives for `epoch`."""
        return self._at(self.iteration, batch, epoch)

    def gradient(self, batch: int, epoch: int) -> tuple[float, float]:
        """Return the gradient's squared norm and its variance at `batch` in `epoch`."""
        return self._at(self.grad_sqr, batch, epoch), self._at(self.grad_var, batch, epoch)

    def gain(self, batch: int, epoch: int) -> float:
        """Return AdaScale's gain of a step at `batch` over one at the initial batch.

        (var + sqr) / (var / scale + sqr), scale = batch / initial batch (Johnson et al., ICML 2020; Pollux).
        """
        sqr, var = self.gradient(batch, epoch)
        scale = batch / self.initial_batch
        return (var + sqr) / (var / scale + sqr)

    def _at(self, table: NDArray[np.float64], batch: int, epoch: int) -> float:
        """Interpolate between the two validated batches around `batch`; the outermost pair beyond them."""
        if self.batches.size == 1:
            return float(table[0, epoch])
        high = min(max(bisect_right(self.batches.tolist(), batch), 1), self.batches.size - 1)
        low_batch, high_batch = int(self.batches[high - 1]), int(self.batches[high])
        low, above = float(table[high - 1, epoch]), float(table[high, epoch])
        return low + (above - low) / (high_batch - low_batch) * (batch - low_batch)
