"""What a scheduler believes of one training job: its application, its batch, how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apportion.estimation.training.application import Application
from apportion.estimation.training.batch_split import split_batch
from apportion.estimation.training.goodput import GoodputTable

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
    goodput
        Where the job chooses its batch by itself, the table it chooses from; ``None``: the batch is fixed.
    """

    application: Application
    batch: int
    epoch: int
    progress: float
    goodput: GoodputTable | None = None

    @property
    def remaining_progress(self) -> float:
        """Progress still to make, in steps of the initial batch."""
        return float(self.application.progress[-1]) - self.progress

    @property
    def min_gpus(self) -> int:
        """The fewest GPUs it can run on: 1."""
        return 1

    @property
    def max_gpus(self) -> int:
        """The most GPUs whose least local batch still fits into the (greatest) batch."""
        batch = self.batch if self.goodput is None else self.application.max_batch
        return max(1, batch // self.application.min_local)

    def rate(self, placement: Sequence[int], gpu_type: str) -> float:
        """Return the progress per second, NaN where it cannot run.

        Parameters
        ----------
        placement
            GPUs on each of the job's nodes.
        gpu_type
            Name of their type.
        """
        if self.goodput is not None:
            best = self.goodput.best(placement, gpu_type, self.epoch)
            return float("nan") if best is None else best[0]
        times = self.application.step_times.get(gpu_type)
        if times is None:
            return float("nan")
        replicas = sum(placement)
        split = split_batch(self.application, self.batch, replicas)
        step, sync = times.seconds(placement, split.local)
        return self.application.gain(split.total(replicas), self.epoch) / split.seconds(step, sync)
