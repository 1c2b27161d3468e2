"""What freezing a prefix of an application's layers saves and costs, at tenths of its depth.

What it saves is measured by depth *and* GPUs: on several GPUs less is saved, because synchronisation stays.
What it costs is psi, the share of statistical progress that remains, by phase of the training. Profiles are
files (`freezing_file`); an application without one is never frozen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEVELS", "FreezingProfile"]

LEVELS = 10
"""Depths are tenths of the layers: 0 to 9 may be frozen."""


@dataclass(frozen=True, slots=True, eq=False)
class FreezingProfile:
    """Savings and costs by depth.

    Attributes
    ----------
    gpus
        int64 [counts]: GPU counts whose steps were measured, rising.
    relative
        float64 [counts, depths]: seconds of a step over those of the same step with nothing frozen.
    deepest
        The deepest depth that was measured; beyond it nothing is frozen.
    phases
        float64 [phases]: progress over the whole training, increasing.
    retained
        float64 [phases, depths]: psi, the share of statistical progress that remains; not rising with depth.
    """

    gpus: NDArray[np.int64]
    relative: NDArray[np.float64]
    deepest: int
    phases: NDArray[np.float64]
    retained: NDArray[np.float64]
    _known: dict[int, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    def relative_step(self, gpus: int) -> NDArray[np.float64]:
        """Return float64 [depths]: relative seconds, linear in the logarithm of the GPUs, constant beyond."""
        if gpus not in self._known:
            at, measured = np.log(gpus), np.log(self.gpus)
            self._known[gpus] = np.array([np.interp(at, measured, column) for column in self.relative.T])
        return self._known[gpus]

    def seconds(self, step: float, sync: float, accumulation: int, gpus: int) -> NDArray[np.float64]:
        """Return float64 [depths]: seconds of an optimiser step by depth.

        Accumulating passes do not synchronise, so they gain what the fewest GPUs gain. Where steps were
        measured on one GPU alone, exposed synchronisation is taken to stay as it is.

        Parameters
        ----------
        step, sync
            Measured seconds of an unfrozen step and, of these, of exposed synchronisation.
        accumulation
            Extra passes without synchronisation.
        gpus
            GPUs of the job.
        """
        passes = (step - sync) * self.relative_step(int(self.gpus[0]))
        alone = int(self.gpus[-1]) == 1 < gpus
        ending = passes + sync if alone else step * self.relative_step(gpus)
        return np.asarray(accumulation * passes + ending)

    def retained_at(self, phase: float) -> NDArray[np.float64]:
        """Return float64 [depths]: psi at a phase, linear between the measured ones, constant beyond them."""
        high = int(np.searchsorted(self.phases, phase))
        if high == 0:
            return np.asarray(self.retained[0])
        if high == self.phases.size:
            return np.asarray(self.retained[-1])
        low = self.phases[high - 1]
        share = (phase - low) / (self.phases[high] - low)
        return np.asarray((1 - share) * self.retained[high - 1] + share * self.retained[high])

    def phase_agnostic(self) -> FreezingProfile:
        """Return the same with the mean psi in every phase: what who does not look at phases believes."""
        return replace(self, phases=np.array([0.5]), retained=self.retained.mean(axis=0, keepdims=True))

    def with_penalty_of(self, other: FreezingProfile) -> FreezingProfile:
        """Return the same savings with the psi of another network."""
        return replace(self, phases=other.phases, retained=other.retained)
