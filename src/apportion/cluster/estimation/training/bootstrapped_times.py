"""Step times as a scheduler believes them that has measured an application on one GPU of every type.

How it scales is believed after Sia (Jayaram Subramanya et al., SOSP 2023, section 3): perfectly, until it was
seen on several GPUs; what was seen on one type is taken over to the others by their speeds on one GPU.

The scale of an application's frozen penalty, learnt from the progress its frozen jobs really make.

With retained progress 1 - theta (1 - psi), an observation is y = 1 - (rate seen) / (rate expected if nothing
were lost), and y = theta x + noise with x = 1 - psi. The estimate is the posterior of a normal prior and
normal noise; what was seen long ago counts less, because theta need not be the same in every phase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.training.step_times import StepTimes, smallest_rotation

__all__ = ["BootstrappedTimes", "ThetaEstimate"]


@dataclass(slots=True)
class ThetaEstimate:
    """Belief about theta, updated in place.

    Attributes
    ----------
    prior
        Theta believed before anything was seen.
    prior_sd
        Standard deviation of the first estimate.
    noise_sd
        Standard deviation of an observation y.
    memory
        Factor, at most 1, by which every further observation fades the earlier ones.
    """

    prior: float
    prior_sd: float = 0.5
    noise_sd: float = 0.1
    memory: float = 0.98
    _square: float = 0.0
    _product: float = 0.0

    def observe(self, lost: float, penalty: float) -> None:
        """Learn that a job lost the share `lost` of its progress where 1 - psi is `penalty`."""
        self._square = self.memory * self._square + penalty * penalty
        self._product = self.memory * self._product + penalty * lost

    @property
    def mean(self) -> float:
        """The estimate, at least 0."""
        return max(0.0, self._weighted() / self._precision())

    @property
    def sd(self) -> float:
        """Its standard deviation."""
        return float(self._precision() ** -0.5)

    def _precision(self) -> float:
        return float(self.prior_sd**-2 + self._square / self.noise_sd**2)

    def _weighted(self) -> float:
        return float(self.prior * self.prior_sd**-2 + self._product / self.noise_sd**2)


Seen = Mapping[str, frozenset[tuple[int, ...]]]


class BootstrappedTimes(StepTimes):
    """Believed step times on one GPU type.

    A placement that was seen has its true times. One with as many GPUs as were seen on another type takes
    that one's slow-down over one GPU; any other the step of the seen one on its own type whose count is
    nearest; without any, synchronising costs nothing. Where a job cannot run is known.

    Parameters
    ----------
    gpu_type
        The type whose times these are.
    truth
        Measured times by type.
    seen
        Placements of several GPUs that a job has run on, in their smallest rotation, by type.
    """

    __slots__ = ("_seen", "_truth", "_type")

    def __init__(self, gpu_type: str, truth: Mapping[str, StepTimes], seen: Seen) -> None:
        own = truth[gpu_type]
        self._type, self._truth, self._seen = gpu_type, truth, seen
        self.min_local, self.max_local, self.max_replicas = own.min_local, own.max_local, own.max_replicas

    def __reduce__(self) -> tuple[object, ...]:
        return (BootstrappedTimes, (self._type, self._truth, self._seen))

    def seconds(self, placement: Sequence[int], local_batch: int) -> tuple[float, float]:
        """Return the believed seconds of a step and, of these, of synchronisation."""
        step, sync = self.curve(placement, np.array([local_batch]))
        return float(step[0]), float(sync[0])

    def curve(
        self, placement: Sequence[int], local_batches: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return believed step and synchronisation seconds, float64 like `local_batches`."""
        own, asked, gpus = self._truth[self._type], smallest_rotation(placement), sum(placement)
        truth = own.curve(asked, local_batches)
        mine = self._seen.get(self._type, frozenset())
        if gpus == 1 or asked in mine:
            return truth
        alone, _ = own.curve((1,), local_batches)
        elsewhere = self._as_elsewhere(gpus, local_batches)
        if elsewhere is not None:
            step, share = alone * elsewhere[0], elsewhere[1]
        elif mine:
            nearest = min(mine, key=lambda one: (abs(sum(one) - gpus), one))
            step = np.maximum(alone, own.curve(nearest, local_batches)[0])
            share = 1.0 - alone / step
        else:
            step, share = alone, np.zeros_like(alone)
        step = np.where(np.isnan(truth[0]), np.nan, step)
        return step, step * share

    def _as_elsewhere(
        self, gpus: int, local_batches: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return slow-down over one GPU, and share of synchronisation, as seen on another type."""
        for name in sorted(self._seen):
            alike = sorted(one for one in self._seen[name] if sum(one) == gpus)
            if name != self._type and alike:
                times = self._truth[name]
                step, sync = times.curve(alike[0], local_batches)
                slowdown = step / times.curve((1,), local_batches)[0]
                if np.isfinite(slowdown).all():
                    return slowdown, sync / step
        return None
