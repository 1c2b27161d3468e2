"""A policy that sees what a monitor would: noisy rates, and rescale costs only after they were paid.

The replay knows every job's rates and standstills. Behind an `Instrument` a policy is shown a rate as it was
measured, with an error, and of standstills the mean of those seen of the job so far; before any was seen
that of all jobs, and before that a first guess. The precursor's monitor and the live controller do the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from apportion.cluster.estimation.profiling import without_last_bits
from apportion.cluster.policies import GapFillingView, Plan, Policy
from apportion.cluster.policies.gap_filling_view import count_held

__all__ = ["Instrument"]


@dataclass(slots=True)
class _Seen:
    total_s: float = 0.0
    count: int = 0

    def add(self, seconds: float) -> None:
        self.total_s, self.count = self.total_s + seconds, self.count + 1


@dataclass(slots=True)
class Instrument:
    """A policy behind a monitor.

    Attributes
    ----------
    policy
        Who decides.
    noise
        Standard deviation of the logarithm of every measured rate and standstill.
    seed
        Random seed of the errors.
    guess_s
        Standstill believed before any was seen.
    """

    policy: Policy
    noise: float = 0.0
    seed: int = 0
    guess_s: float = 30.0
    _rng: np.random.Generator = field(init=False)
    _going: dict[int, bool] = field(default_factory=dict)
    _own: dict[tuple[int, bool], _Seen] = field(default_factory=dict)
    _all: dict[bool, _Seen] = field(default_factory=lambda: {True: _Seen(), False: _Seen()})

    def __post_init__(self) -> None:
        """Seed the errors."""
        self._rng = np.random.default_rng(self.seed)

    def __call__(self, view: GapFillingView) -> Plan:
        """Note what was seen since the last decision, and ask the policy."""
        jobs = view.jobs.tolist()
        error = (
            without_last_bits(np.exp(self._rng.normal(0.0, self.noise, (2, len(jobs)))))
            if self.noise
            else np.ones((2, len(jobs)))
        )
        for position, job in enumerate(jobs):
            # a job that was measured has come out of its standstill
            if job in self._going and not np.isnan(view.measured[position]):
                grew = self._going.pop(job)
                truth = view.up_s[position] if grew else view.down_s[position]
                seconds = float(truth * error[1, position])
                self._own.setdefault((job, grew), _Seen()).add(seconds)
                self._all[grew].add(seconds)
        held = view.held()
        shown = replace(
            view,
            measured=view.measured * error[0],
            up_s=np.array([self._believed(job, True) for job in jobs]),
            down_s=np.array([self._believed(job, False) for job in jobs]),
        )
        plan = self.policy(shown)
        counts = count_held(plan.holder, len(jobs))
        present = dict(zip(jobs, (counts - held).tolist(), strict=True))
        self._going = {job: grew for job, grew in self._going.items() if present.get(job) == 0}
        self._going |= {job: change > 0 for job, change in present.items() if change}
        return plan

    def _believed(self, job: int, grew: bool) -> float:
        for seen in (self._own.get((job, grew)), self._all[grew], self._all[not grew]):
            if seen is not None and seen.count:
                return seen.total_s / seen.count
        return self.guess_s
