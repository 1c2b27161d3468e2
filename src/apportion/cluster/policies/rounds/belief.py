"""What a scheduler believes of one training job: its application, its batch, how far it is.

A relayed belief stands before another one and changes what is believed of speeds; a remembered one knows what
was believed of jobs alike, and may misjudge throughput.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.training.application import (
    Application,
    BatchSplit,
    GoodputTable,
    split_batch,
)
from apportion.cluster.estimation.training.freezing_profile import LEVELS, FreezingProfile
from apportion.core.errors import InvalidOption

__all__ = [
    "Belief",
    "BelievedFreezing",
    "JobBelief",
    "Rate",
    "RateRule",
    "RememberedBelief",
    "SpeedBelief",
    "price_by_attained",
    "profiled",
    "relayed",
    "remaining_draws",
    "typical",
    "with_work",
]


class Belief(Protocol):
    """What every policy may ask about a job."""

    @property
    def remaining_progress(self) -> float:
        """Progress still to make."""

    @property
    def max_gpus(self) -> int:
        """The most GPUs it can use."""

    def rate(self, placement: Sequence[int], gpu_type: str) -> float:
        """Return the progress per second on GPUs of one type, by node; NaN where it cannot run."""


@dataclass(frozen=True, slots=True)
class SpeedBelief:
    """A job known by its speed on every GPU type, on the GPUs it asked for.

    Attributes
    ----------
    speeds
        Progress per second by GPU type; a missing one cannot run it.
    gpus
        The GPUs it runs on.
    remaining_progress
        Progress still to make.
    """

    speeds: Mapping[str, float]
    gpus: int
    remaining_progress: float

    @property
    def max_gpus(self) -> int:
        """The GPUs it asked for."""
        return self.gpus

    def rate(self, placement: Sequence[int], gpu_type: str) -> float:
        """Return the believed speed of that type."""
        return self.speeds.get(gpu_type, float("nan")) if sum(placement) == self.gpus else float("nan")


@dataclass(frozen=True, slots=True)
class BelievedFreezing:
    """What a scheduler believes freezing does to a job.

    Attributes
    ----------
    profile
        Savings and costs by depth.
    theta
        Believed scale of the frozen penalty.
    """

    profile: FreezingProfile
    theta: float


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
        The epoch that the job is in, and its progress in all.
    goodput
        Where the job chooses its batch by itself, the table it chooses from; ``None``: the batch is fixed.
    freezing
        What freezing is believed to do; ``None``: this job is not to be frozen.
    asked
        Progress that its user asked for, which the job may end short of; ``None``: the application's.
    """

    application: Application
    batch: int
    epoch: int
    progress: float
    goodput: GoodputTable | None = None
    freezing: BelievedFreezing | None = None
    asked: float | None = None

    @property
    def remaining_progress(self) -> float:
        """Progress still to make, in steps of the initial batch."""
        return float(self.application.progress[-1]) - self.progress

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
        split = self._split(placement, gpu_type)
        if split is None or split.local < 1:
            return float("nan")
        step, sync = self.application.step_times[gpu_type].seconds(placement, split.local)
        return self.application.gain(split.total(sum(placement)), self.epoch) / split.seconds(step, sync)

    @property
    def phase(self) -> float:
        """Progress over the progress of the whole training."""
        return self.progress / float(self.application.progress[-1])

    def speed_by_depth(self, placement: Sequence[int], gpu_type: str) -> NDArray[np.float64]:
        """Return float64 [depths]: how many times faster a step is than with nothing frozen."""
        split = self._split(placement, gpu_type)
        if self.freezing is None or split is None:
            return np.ones(LEVELS)
        step, sync = self.application.step_times[gpu_type].seconds(placement, split.local)
        frozen = self.freezing.profile.seconds(step, sync, split.accumulation, sum(placement))
        return split.seconds(step, sync) / frozen

    def retained_by_depth(self) -> NDArray[np.float64]:
        """Return float64 [depths]: share of the statistical progress believed to remain now."""
        if self.freezing is None:
            return np.concatenate(([1.0], np.zeros(LEVELS - 1)))
        psi = self.freezing.profile.retained_at(self.phase)
        return np.maximum(0.0, 1.0 - self.freezing.theta * (1.0 - psi))

    def _split(self, placement: Sequence[int], gpu_type: str) -> BatchSplit | None:
        if gpu_type not in self.application.step_times:
            return None
        if self.goodput is None:
            return split_batch(self.application, self.batch, sum(placement))
        best = self.goodput.best(placement, gpu_type, self.epoch)
        return None if best is None else best[1]


def profiled(belief: Belief) -> JobBelief:
    """Return a belief that rests on a measured profile, for policies that need one.

    Raises
    ------
    InvalidOption
        If it does not.
    """
    if not isinstance(belief, JobBelief):
        raise InvalidOption("this policy needs jobs with measured profiles, these are known by speed alone")
    return belief


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
        return cls(**_profiled_fields(belief), known=known, errors=errors)

    def rate(self, placement: Sequence[int], gpu_type: str) -> float:
        """Return the progress per second as believed, NaN where the job cannot run."""
        key = (placement if type(placement) is tuple else tuple(placement), gpu_type, self.epoch)
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
class _AskingJob(JobBelief):
    """A belief with a measured profile that asks another one, where policies still find the profile."""

    inner: JobBelief

    def rate(self, placement: Sequence[int], gpu_type: str) -> float:
        """Return the inner belief's."""
        return self.inner.rate(placement, gpu_type)

    def speed_by_depth(self, placement: Sequence[int], gpu_type: str) -> NDArray[np.float64]:
        """Return the inner belief's."""
        return self.inner.speed_by_depth(placement, gpu_type)


@dataclass(slots=True, kw_only=True)
class _RelayedJob(_AskingJob):
    """The belief that answers with a rate of its own, for jobs with a measured profile."""

    rule: RateRule

    def rate(self, placement: Sequence[int], gpu_type: str) -> float:
        """Return what the rule makes of the inner belief."""
        return self.rule(self.inner.rate, placement, gpu_type)


def relayed(belief: Belief, rule: RateRule) -> Belief:
    """Return a belief whose rate is what a rule makes of the given belief's rate."""
    if not isinstance(belief, JobBelief):
        return _Relayed(belief, rule)
    return _RelayedJob(**_profiled_fields(belief), inner=belief, rule=rule)


_NAMES = tuple(one.name for one in fields(JobBelief))


def _profiled_fields(belief: JobBelief) -> dict[str, Any]:
    return {name: getattr(belief, name) for name in _NAMES}


@dataclass(slots=True)
class _Worked:
    """A belief that asks another one for speeds, and knows remaining work by draws."""

    inner: Belief
    draws: NDArray[np.float64]
    by_attained: float | None

    @property
    def remaining_progress(self) -> float:
        return float(self.draws.mean())

    @property
    def max_gpus(self) -> int:
        return self.inner.max_gpus

    def rate(self, placement: Sequence[int], gpu_type: str) -> float:
        return self.inner.rate(placement, gpu_type)


@dataclass(slots=True, kw_only=True)
class _WorkedJob(_AskingJob):
    """The same for a belief with a measured profile, whose phase is what is expected of it."""

    draws: NDArray[np.float64]
    by_attained: float | None

    @property
    def remaining_progress(self) -> float:
        """Progress still to make, as expected."""
        return float(self.draws.mean())

    @property
    def phase(self) -> float:
        """Progress over the expected progress of the whole training."""
        return self.progress / (self.progress + self.remaining_progress)


def with_work(belief: Belief, draws: NDArray[np.float64], by_attained: float | None = None) -> Belief:
    """Return a belief whose remaining progress is known by draws.

    Parameters
    ----------
    belief
        What is believed otherwise.
    draws
        float64 [draws]: equally likely.
    by_attained
        What `price_by_attained` returns.
    """
    if not isinstance(belief, JobBelief):
        return _Worked(belief, draws, by_attained)
    return _WorkedJob(**_profiled_fields(belief), inner=belief, draws=draws, by_attained=by_attained)


def price_by_attained(belief: Belief) -> float | None:
    """Return the price of a unit of a job's work by what it has attained; ``None``: more is known of it."""
    return belief.by_attained if isinstance(belief, _Worked | _WorkedJob) else None


def remaining_draws(belief: Belief) -> NDArray[np.float64]:
    """Return float64 [draws]: what is known of remaining progress, one number where it is certain."""
    if isinstance(belief, _Worked | _WorkedJob):
        return belief.draws
    return np.array([belief.remaining_progress])


def typical(rate: Rate, placement: Sequence[int], types: Sequence[str]) -> float:
    """Return the geometric mean of the rates on those types where the job runs; there is at least one."""
    rates = [one for name in types if (one := rate(placement, name)) > 0]
    return math.exp(sum(map(math.log, rates)) / len(rates))
