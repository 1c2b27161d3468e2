"""A belief whose throughput is off by a factor for every GPU count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.belief import JobBelief

__all__ = ["MisjudgedBelief"]


@dataclass(slots=True)
class MisjudgedBelief(JobBelief):
    """A belief with errors.

    Attributes
    ----------
    errors
        float64 [GPUs + 1]: believed over true throughput, by GPU count.
    """

    errors: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, belief: JobBelief, errors: NDArray[np.float64]) -> MisjudgedBelief:
        """Return a belief with errors."""
        return cls(**{one.name: getattr(belief, one.name) for one in fields(belief)}, errors=errors)

    def rate(self, placement: Sequence[int], gpu_type: str) -> float:
        """Return the progress per second as it is misjudged, NaN where the job cannot run."""
        # slots make a class anew, so that super() without arguments would not find it
        told = JobBelief.rate(self, placement, gpu_type)
        return told if self.errors is None else told * float(self.errors[sum(placement)])
