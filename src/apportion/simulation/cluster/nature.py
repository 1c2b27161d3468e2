"""What the simulated jobs really do, apart from what any scheduler believes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from apportion.estimation.training.application import Application
from apportion.estimation.training.batch_split import split_batch
from apportion.estimation.training.goodput import GoodputTable

__all__ = ["AdaptiveTraining", "MeasuredTraining", "Nature"]


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


class AdaptiveTraining(MeasuredTraining):
    """Jobs that choose batch and accumulation by themselves, for most progress per second (Pollux's agent).

    Parameters
    ----------
    applications
        The measured profile of every job.
    tables
        What every job chooses from; a table of a fitted profile makes it choose by that belief.
    """

    def __init__(self, applications: Sequence[Application], tables: Sequence[GoodputTable]) -> None:
        super().__init__(applications, [application.initial_batch for application in applications])
        self._tables = tables

    def rate(
        self, job: int, epoch: int, progress: float, placement: tuple[int, ...], gpu_type: str, depth: int
    ) -> float:
        """Return AdaScale's gain over the measured seconds of a step at the chosen split."""
        best = self._tables[job].best(placement, gpu_type, epoch)
        if best is None:
            return float("nan")
        application, split, replicas = self._applications[job], best[1], sum(placement)
        step, sync = application.step_times[gpu_type].seconds(placement, split.local)
        return application.gain(split.total(replicas), epoch) / split.seconds(step, sync)
