"""A belief that remembers what jobs alike were believed to do, and may misjudge throughput."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.belief import JobBelief

__all__ = ["RememberedBelief"]

_MOST = 1 << 16


@dataclass(slots=True)
class RememberedBelief(JobBelief):
    """A belief with a memory: every round asks the same of the same few configurations.

    Attributes
    ----------
    known
        Rates and speeds so far, shared by the jobs of one application and batch; cleared when it grows large.
    errors
        float64 [GPUs + 1]: believed over true throughput, by GPU count; ``None``: believed is true.
    """

    known: dict[Any, Any] = field(default_factory=dict)
    errors: NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls, belief: JobBelief, known: dict[Any, Any], errors: NDArray[np.float64] | None
    ) -> RememberedBelief:
        """Return a belief with a memory."""
        values = {one.name: getattr(belief, one.name) for one in fields(belief)}
        return cls(**values, known=known, errors=errors)

    def rate(self, placement: Sequence[int], gpu_type: str) -> float:
        """Return the progress per second as believed, NaN where the job cannot run."""
        key = (tuple(placement), gpu_type, self.epoch)
        found = self.known.get(key)
        if found is None:
            # a class with slots is made anew, which super() without arguments does not know
            found = self._remember(key, JobBelief.rate(self, placement, gpu_type))
        return float(found) if self.errors is None else float(found * self.errors[sum(placement)])

    def speed_by_depth(self, placement: Sequence[int], gpu_type: str) -> NDArray[np.float64]:
        """Return float64 [depths]: how many times faster a step is than with nothing frozen."""
        key = (tuple(placement), gpu_type, self.epoch, self.freezing and id(self.freezing.profile))
        found = self.known.get(key)
        if found is None:
            found = self._remember(key, JobBelief.speed_by_depth(self, placement, gpu_type))
        return np.asarray(found)

    def _remember(self, key: Any, value: Any) -> Any:
        if len(self.known) >= _MOST:
            self.known.clear()
        self.known[key] = value
        return value
