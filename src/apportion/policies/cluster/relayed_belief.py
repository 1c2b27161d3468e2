"""A belief that stands before another one and changes what is believed of speeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.belief import Belief, JobBelief

__all__ = ["Rate", "RateRule", "relayed", "typical"]

Rate = Callable[[Sequence[int], str], float]
"""Progress per second on a placement of a GPU type, as `Belief.rate`."""
RateRule = Callable[[Rate, Sequence[int], str], float]
"""What is believed instead, given what was."""


@dataclass(slots=True)
class _Relayed:
    """A belief that asks another one, and answers with the rate that a rule makes of its own."""

    inner: Belief
    rule: RateRule

    @property
    def remaining_progress(self) -> float:
        return self.inner.remaining_progress

    @property
    def max_gpus(self) -> int:
        return self.inner.max_gpus

    def rate(self, placement: Sequence[int], gpu_type: str) -> float:
        return self.rule(self.inner.rate, placement, gpu_type)


@dataclass(slots=True, kw_only=True)
class _RelayedJob(JobBelief):
    """The same for a belief with a measured profile, which policies that need a profile still find."""

    inner: JobBelief
    rule: RateRule

    def rate(self, placement: Sequence[int], gpu_type: str) -> float:
        """Return what the rule makes of the inner belief."""
        return self.rule(self.inner.rate, placement, gpu_type)

    def speed_by_depth(self, placement: Sequence[int], gpu_type: str) -> NDArray[np.float64]:
        """Return the inner belief's."""
        return self.inner.speed_by_depth(placement, gpu_type)


def relayed(belief: Belief, rule: RateRule) -> Belief:
    """Return a belief whose rate is what a rule makes of the given belief's rate."""
    if not isinstance(belief, JobBelief):
        return _Relayed(belief, rule)
    known = {one.name: getattr(belief, one.name) for one in fields(JobBelief)}
    return _RelayedJob(**known, inner=belief, rule=rule)


def typical(rate: Rate, placement: Sequence[int], types: Sequence[str]) -> float:
    """Return the geometric mean of the rates on those types where the job runs; there is at least one."""
    rates = [one for name in types if (one := rate(placement, name)) > 0]
    return math.exp(sum(map(math.log, rates)) / len(rates))
