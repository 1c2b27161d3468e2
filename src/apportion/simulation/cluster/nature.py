"""What the simulated jobs really do, apart from what any scheduler believes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from apportion.estimation.training.application import Application
from apportion.estimation.training.batch_split import BatchSplit, split_batch
from apportion.estimation.training.freezing_profile import LEVELS, FreezingProfile
from apportion.estimation.training.goodput import GoodputTable

__all__ = ["MeasuredTraining", "Nature", "SplitRule", "fixed_batches", "most_goodput"]

_LEAST_KEPT = 0.01

SplitRule = Callable[[int, tuple[int, ...], str, int], BatchSplit | None]
"""How a job, given its placement, GPU type and epoch, splits its batch; ``None`` where it cannot run."""


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
        """Return the progress per second; NaN where nothing was measured."""


def fixed_batches(applications: Sequence[Application], batches: Sequence[int]) -> SplitRule:
    """Return the rule of jobs that keep their user's batch."""
    return lambda job, placement, gpu_type, epoch: split_batch(
        applications[job], batches[job], sum(placement)
    )


def most_goodput(tables: Sequence[GoodputTable]) -> SplitRule:
    """Return the rule of jobs that choose by themselves (Pollux's agent), each from its own table."""

    def rule(job: int, placement: tuple[int, ...], gpu_type: str, epoch: int) -> BatchSplit | None:
        best = tables[job].best(placement, gpu_type, epoch)
        return None if best is None else best[1]

    return rule


class MeasuredTraining:
    """Jobs with measured step times and gradient statistics.

    Parameters
    ----------
    applications
        The measured profile of every job.
    splits
        How the jobs split their batch into local batches and accumulation steps.
    freezing
        What freezing really does, by application; one that is not there does not gain and loses nothing.
    theta
        Scale of the frozen penalty: 1 - theta (1 - psi) of the statistical progress remains, but never less
        than a hundredth: a scheduler that trusts a wrong penalty shall lose much, not wait for ever.
    slowdowns
        By how much jobs of an application run slower than was measured, 1 where it is not told: what Sia's
        simulator calls calibration.
    """

    def __init__(
        self,
        applications: Sequence[Application],
        splits: SplitRule,
        freezing: Mapping[str, FreezingProfile] = MappingProxyType({}),
        theta: float = 1.0,
        slowdowns: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._applications, self._splits = applications, splits
        self._freezing, self._theta = freezing, theta
        self._slowdowns = [slowdowns.get(application.name, 1.0) for application in applications]

    def epochs(self, job: int) -> int:
        """Return how many epochs the job trains."""
        return self._applications[job].epochs

    def layers(self, job: int) -> int:
        """Return the number of depths that are told apart."""
        return LEVELS

    def progress_at(self, job: int, epoch: int) -> float:
        """Return the progress at which `epoch` starts."""
        return float(self._applications[job].progress[epoch])

    def rate(
        self, job: int, epoch: int, progress: float, placement: tuple[int, ...], gpu_type: str, depth: int
    ) -> float:
        """Return AdaScale's gain over the seconds of a step, less the frozen penalty."""
        application = self._applications[job]
        split, times = self._splits(job, placement, gpu_type, epoch), application.step_times.get(gpu_type)
        if split is None or split.local < 1 or times is None:
            return float("nan")
        step, sync = times.seconds(placement, split.local)
        gain = application.gain(split.total(sum(placement)), epoch)
        gain /= self._slowdowns[job]
        profile = self._freezing.get(application.name)
        if depth == 0 or profile is None:
            return gain / split.seconds(step, sync)
        frozen_s = float(profile.seconds(step, sync, split.accumulation, sum(placement))[depth])
        return self.retained(job, progress, depth) * gain / frozen_s

    def retained(self, job: int, progress: float, depth: int) -> float:
        """Return the share of its statistical progress that a job keeps when frozen to `depth`."""
        application = self._applications[job]
        profile = self._freezing.get(application.name)
        if depth == 0 or profile is None:
            return 1.0
        psi = float(profile.retained_at(progress / float(application.progress[-1]))[depth])
        return max(_LEAST_KEPT, 1.0 - self._theta * (1.0 - psi))
