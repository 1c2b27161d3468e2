"""What the simulated jobs really do, apart from what any scheduler believes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from apportion.estimation.training.application import Application
from apportion.estimation.training.batch_split import split_batch

__all__ = ["MeasuredTraining", "Nature"]


class Nature(Protocol):
    """The truth about every job of a workload; jobs are numbered in its order."""

    def epochs(self, job: int) -> int:
        """Return how many epochs the job trains."""

    def layers(self, job: int) -> int:
        """Return how many layers there are to freeze."""

    def progress_at(self, job: int, epoch: int) -> float:
        """Return the progress at which `epoch` starts."""

    def rate(
        self, job: int, epoch: int, progress: float, placement: tuple[int, ...], gpu_type: str, depth: int
    ) -> float:
        """Return the progress per second; it holds until the epoch ends or the configuration changes."""


class MeasuredTraining:
    """Jobs that train at their user's batch, with measured times and gradient statistics; none is frozen.

    Parameters
    ----------
    applications
        The measured profile of every job.
    batches
        Samples of an optimiser step of every job.
    """

    def __init__(self, applications: Sequence[Application], batches: Sequence[int]) -> None:
        self._applications = applications
        self._batches = batches

    def epochs(self, job: int) -> int:
        """Return how many epochs the job trains."""
        return self._applications[job].epochs

    def layers(self, job: int) -> int:
        """Return 1: depth is not modelled."""
        return 1

    def progress_at(self, job: int, epoch: int) -> float:
        """Return the progress at which `epoch` starts."""
        return float(self._applications[job].progress[epoch])

    def rate(
        self, job: int, epoch: int, progress: float, placement: tuple[int, ...], gpu_type: str, depth: int
    ) -> float:
        """Return AdaScale's gain over the seconds of a step; NaN where nothing was measured."""
        application = self._applications[job]
        replicas = sum(placement)
        split = split_batch(application, self._batches[job], replicas)
        step, sync = application.step_times[gpu_type].seconds(placement, split.local)
        return application.gain(split.total(replicas), epoch) / split.seconds(step, sync)
