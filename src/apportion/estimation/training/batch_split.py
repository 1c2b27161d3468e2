"""How a total batch is split over replicas and accumulation steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from apportion.estimation.training.application import Application

__all__ = ["BatchSplit", "split_batch"]

_ROUNDING = 1e-8


@dataclass(frozen=True, slots=True)
class BatchSplit:
    """Samples per GPU and step, and the steps accumulated before the one that synchronises.

    Attributes
    ----------
    local
        Samples per GPU in one forward-backward pass.
    accumulation
        Extra passes without synchronisation, at least 0.
    """

    local: int
    accumulation: int

    def total(self, replicas: int) -> int:
        """Return the samples of an optimiser step on `replicas` GPUs."""
        return replicas * self.local * (self.accumulation + 1)

    def seconds(self, step: float, sync: float) -> float:
        """Return the seconds of an optimiser step: accumulating passes skip the synchronisation."""
        return step + self.accumulation * (step - sync)


def split_batch(
    application: Application, batch: int, replicas: int, always_accumulate_alone: bool = False
) -> BatchSplit:
    """Split a fixed total batch as the published Pollux simulator does.

    On one GPU a batch beyond the initial one is accumulated at least once, so that a gradient variance can be
    measured.

    Parameters
    ----------
    application
        Whose bounds count.
    batch
        Samples of an optimiser step.
    replicas
        GPUs, at least 1.
    always_accumulate_alone
        Accumulate on one GPU whatever the batch is: what Optimus' oracle assumes.
    """
    wanted = math.ceil(batch / replicas - _ROUNDING)
    accumulation = math.ceil(wanted / application.max_local - _ROUNDING) - 1
    if replicas == 1 and (always_accumulate_alone or batch > application.initial_batch):
        accumulation = max(accumulation, 1)
    local = math.ceil(wanted / (accumulation + 1) - _ROUNDING)
    return BatchSplit(min(local, application.max_batch // (replicas * (accumulation + 1))), accumulation)
