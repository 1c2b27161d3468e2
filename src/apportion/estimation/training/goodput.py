"""The batch that makes most progress per second on a placement: Pollux's goodput, maximised.

Goodput is throughput x statistical efficiency (Qiao et al., OSDI 2021); up to the constant initial batch it
is AdaScale's gain over the seconds of a step, which is progress per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.estimation.training.application import Application
from apportion.estimation.training.batch_split import BatchSplit

__all__ = ["GoodputTable"]

_CANDIDATES = 50


@dataclass(frozen=True, slots=True, eq=False)
class _Splits:
    """Candidate splits on one placement: samples per GPU, accumulation, total batch, step seconds."""

    local: NDArray[np.int64]
    accumulation: NDArray[np.int64]
    total: NDArray[np.int64]
    seconds: NDArray[np.float64]


class GoodputTable:
    """Goodput of an application by placement and epoch; what was computed once is remembered.

    Parameters
    ----------
    application
        Whose measurements or fitted times count.
    """

    def __init__(self, application: Application) -> None:
        self.application = application
        self._splits: dict[tuple[tuple[int, ...], str], _Splits | None] = {}
        self._best: dict[tuple[tuple[int, ...], str, int], tuple[float, BatchSplit] | None] = {}

    def best(self, placement: Sequence[int], gpu_type: str, epoch: int) -> tuple[float, BatchSplit] | None:
        """Return the greatest progress per second and its split; ``None`` where it cannot run."""
        key = (tuple(placement), gpu_type, epoch)
        if key not in self._best:
            self._best[key] = self._maximised(*key)
        return self._best[key]

    def _maximised(
        self, placement: tuple[int, ...], gpu_type: str, epoch: int
    ) -> tuple[float, BatchSplit] | None:
        if (placement, gpu_type) not in self._splits:
            self._splits[placement, gpu_type] = self._candidates(placement, gpu_type)
        splits = self._splits[placement, gpu_type]
        if splits is None:
            return None
        rate = self._gain(splits.total, epoch) / splits.seconds
        most = int(np.argmax(rate))
        return float(rate[most]), BatchSplit(int(splits.local[most]), int(splits.accumulation[most]))

    def _gain(self, total: NDArray[np.int64], epoch: int) -> NDArray[np.float64]:
        application = self.application
        sqr = np.interp(total, application.batches, application.grad_sqr[:, epoch])
        var = np.interp(total, application.batches, application.grad_var[:, epoch])
        scale = total / application.initial_batch
        return np.asarray((var + sqr) / (var / scale + sqr))

    def _candidates(self, placement: tuple[int, ...], gpu_type: str) -> _Splits | None:
        """Return the splits of geometrically spaced batches that respect every bound."""
        application, replicas = self.application, sum(placement)
        times = application.step_times.get(gpu_type)
        if times is None:
            return None
        highest = min(times.max_local, application.max_local)
        lowest = min(times.min_local, highest)
        least = max(application.initial_batch, replicas * lowest)
        if least > application.max_batch:
            return None
        wished = np.geomspace(least, application.max_batch, _CANDIDATES)
        wanted = np.ceil(wished / replicas - 1e-8).astype(np.int64)
        accumulation = -(-wanted // highest) - 1
        if replicas == 1:
            # a gradient variance cannot be measured from a single pass
            grown = wished > application.initial_batch + 0.5
            accumulation = np.where(grown, np.maximum(accumulation, 1), accumulation)
        local = np.maximum(-(-wanted // (accumulation + 1)), lowest)
        total = replicas * local * (accumulation + 1)
        step, sync = times.curve(placement, local)
        seconds = step + accumulation * (step - sync)
        valid = (total <= application.max_batch) & (local <= highest) & np.isfinite(seconds) & (seconds > 0)
        if not valid.any():
            return None
        return _Splits(local[valid], accumulation[valid], total[valid], seconds[valid])
