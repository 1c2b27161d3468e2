"""What a scheduler believes of one training job: its application, its batch, how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.estimation.training.application import Application
from apportion.estimation.training.batch_split import split_batch

__all__ = ["JobBelief"]


@dataclass(slots=True)
class JobBelief:
    """A job as its scheduler sees it.

    Attributes
    ----------
    application
        The profile believed; an oracle is given the one the job really follows.
    batch
        Samples of an optimiser step that the user fixed.
    epoch, progress
        How far it is.
    """

    application: Application
    batch: int
    epoch: int
    progress: float

    @property
    def remaining_progress(self) -> float:
        """Progress still to make, in steps of the initial batch."""
        return float(self.application.progress[-1]) - self.progress

    def rate(self, placement: Sequence[int], gpu_type: str) -> float:
        """Return the progress per second at the fixed batch: AdaScale's gain over the seconds of a step.

        Parameters
        ----------
        placement
            GPUs on each of the job's nodes.
        gpu_type
            Name of their type.
        """
        replicas = sum(placement)
        split = split_batch(self.application, self.batch, replicas)
        step, sync = self.application.step_times[gpu_type].seconds(placement, split.local)
        return self.application.gain(split.total(replicas), self.epoch) / split.seconds(step, sync)
