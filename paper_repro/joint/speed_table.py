"""Jobs known by their measured speed on every GPU type, on the GPUs they asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.belief import SpeedBelief
from apportion.cluster.simulation.rounds.job_states import Beliefs, JobStates
from apportion.core.errors import InvalidInstance, Problem

__all__ = ["SpeedTable"]


@dataclass(frozen=True, slots=True, eq=False)
class SpeedTable:
    """A workload of such jobs; it is their nature too: one epoch, progress is steps.

    Attributes
    ----------
    types
        Names of the GPU types.
    speeds
        float64 [jobs, types]: steps per second; NaN where a job cannot run.
    steps
        float64 [jobs]: steps to do.
    gpus
        int64 [jobs]: GPUs it runs on, no more and no fewer.
    submitted_s
        float64 [jobs].
    slots
        Jobs that may share a GPU. With 2 a node of the cluster is one GPU with two slots, a job that takes
        both is alone, and only jobs of one GPU may take one; what sharing costs is a `CoLocation`'s to say.

    Raises
    ------
    InvalidInstance
        If shapes disagree, a number is not positive, or a job can run nowhere.
    """

    types: tuple[str, ...]
    speeds: NDArray[np.float64]
    steps: NDArray[np.float64]
    gpus: NDArray[np.int64]
    submitted_s: NDArray[np.float64]
    slots: int = 1

    def __post_init__(self) -> None:
        jobs = self.steps.size
        shapes = (self.speeds.shape, self.gpus.shape, self.submitted_s.shape)
        if shapes != ((jobs, len(self.types)), (jobs,), (jobs,)) or self.slots not in (1, 2):
            raise InvalidInstance(
                Problem("speeds", f"needs {jobs} rows, {len(self.types)} types, 1 or 2 slots")
            )
        if not ((self.steps > 0).all() and (self.gpus > 0).all()) or (self.speeds <= 0).any():
            raise InvalidInstance(Problem("speeds", "speeds, steps and gpus must be positive"))
        if np.isnan(self.speeds).all(axis=1).any():
            raise InvalidInstance(Problem("speeds", "a job was measured nowhere"))

    @property
    def requested_slots(self) -> NDArray[np.int64]:
        """int64 [jobs]: slots of a job that shares its GPUs with nobody."""
        return self.gpus * self.slots

    def epochs(self, job: int) -> int:
        """Return 1."""
        return 1

    def layers(self, job: int) -> int:
        """Return 1: nothing is frozen."""
        return 1

    def progress_at(self, job: int, epoch: int) -> float:
        """Return 0 at the start and the steps at the end."""
        return float(self.steps[job]) if epoch else 0.0

    def rate(
        self, job: int, epoch: int, progress: float, placement: tuple[int, ...], gpu_type: str, depth: int
    ) -> float:
        """Return the measured speed, NaN on other than the GPUs asked for."""
        shares = self.slots > 1 and self.gpus[job] == 1 and sum(placement) == 1
        alone = sum(placement) == self.requested_slots[job] and not any(
            count % self.slots for count in placement
        )
        return float(self.speeds[job, self.types.index(gpu_type)]) if shares or alone else float("nan")

    def believed(self, speeds: NDArray[np.float64]) -> Beliefs:
        """Return beliefs that know the steps, and these speeds, float64 [jobs, types], NaN for unknown."""
        by_job = [
            {name: speed for name, speed in zip(self.types, row, strict=True) if speed > 0}
            for row in speeds.tolist()
        ]
        slots = self.requested_slots.tolist()

        def belief(job: int, states: JobStates) -> SpeedBelief:
            return SpeedBelief(by_job[job], slots[job], float(self.steps[job] - states.progress[job]))

        return belief
