"""Who of a workload is admitted when: first come first served, so many at a time."""

from __future__ import annotations

import numpy as np

from apportion.errors import InvalidOption
from apportion.simulation.admitted import Admitted
from apportion.simulation.workload import Workload

__all__ = ["Admission"]


class Admission:
    """How far the jobs of a workload have been admitted.

    Parameters
    ----------
    jobs
        The workload.
    trainers
        Most jobs admitted at a time.

    Attributes
    ----------
    next_job
        The number of the job that is admitted next, counted on through the rounds of an endless workload.
    started_s
        float64 [jobs]: when each job of a finite workload was admitted, NaN until then.
    """

    def __init__(self, jobs: Workload, trainers: int) -> None:
        if isinstance(trainers, bool) or not isinstance(trainers, int) or trainers < 1:
            raise InvalidOption(f"trainers must be a whole number of at least 1, not {trainers}")
        self.jobs, self.trainers = jobs, trainers
        self.next_job = 0
        self.started_s = np.full(jobs.num_jobs, np.nan)

    @property
    def over(self) -> bool:
        """Whether every job of a finite workload has been admitted."""
        return not self.jobs.endless and self.next_job >= self.jobs.num_jobs

    def admit(self, on: Admitted, at_s: float) -> Admitted:
        """Return the admitted jobs together with those that there is room for."""
        room = self.trainers - on.size
        if room <= 0:
            return on
        ready, last = self.jobs.submitted(at_s), self.next_job + room
        if not self.jobs.endless or ready < self.jobs.num_jobs:
            last = min(last, ready)
        if last <= self.next_job:
            return on
        new = np.arange(self.next_job, last)
        self.next_job = last
        if not self.jobs.endless:
            self.started_s[new] = at_s
        return on.joined_by(new)

    def waiting(self, at_s: float) -> int:
        """Return how many submitted jobs wait to be admitted."""
        if self.jobs.endless:
            return self.jobs.num_jobs
        return max(self.jobs.submitted(at_s) - self.next_job, 0)
