"""What is believed of every job's finish-time ratio: shared finish over the finish in isolation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.believed_speeds import shares_problem
from apportion.policies.cluster.cluster_view import ClusterView
from apportion.policies.time_shares.isolated_time import IsolatedTime

__all__ = ["FinishTimesNow", "FinishTimesTracker"]


@dataclass(frozen=True, slots=True, eq=False)
class FinishTimesNow:
    """What is believed now of the finish times of a view's jobs, shared and in isolation.

    Attributes
    ----------
    speeds
        float64 [jobs, types]: progress per second on the GPUs asked for.
    isolated
        float64 [jobs]: progress per second with one part in all jobs of the cluster.
    remaining
        float64 [jobs]: progress still to make.
    since_s
        float64 [jobs]: seconds since submission.
    alone_s
        float64 [jobs]: seconds from submission to the end in isolation.
    """

    speeds: NDArray[np.float64]
    isolated: NDArray[np.float64]
    remaining: NDArray[np.float64]
    since_s: NDArray[np.float64]
    alone_s: NDArray[np.float64]

    def after(self, seconds: float, progress: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the finish-time ratios of jobs that make some progress now and then go on as in isolation.

        Parameters
        ----------
        seconds
            How long.
        progress
            float64 [jobs, ...]: what they make meanwhile; who would be done ends within those seconds.
        """
        shape = (-1,) + (1,) * (progress.ndim - 1)
        remaining, isolated = self.remaining.reshape(shape), self.isolated.reshape(shape)
        left = np.maximum(0.0, remaining - progress)
        with np.errstate(divide="ignore", invalid="ignore"):
            used = np.where(progress > remaining, seconds * remaining / progress, seconds)
        finish = self.since_s.reshape(shape) + used + left / isolated
        return np.asarray(finish / self.alone_s.reshape(shape))


class FinishTimesTracker:
    """Adds up the isolated time of every job from round to round."""

    def __init__(self) -> None:
        self._isolated = IsolatedTime()

    def now(self, view: ClusterView) -> FinishTimesNow:
        """Return the finish times of a view's jobs; to be asked every round."""
        problem = shares_problem(view)
        isolated = np.maximum(problem.isolated, 1e-12)
        remaining = np.array([max(belief.remaining_progress, 1e-9) for belief in view.beliefs])
        used = self._isolated.upto(view.jobs.tolist(), remaining, isolated)
        since = view.time_s - view.submitted_s
        return FinishTimesNow(problem.throughput, isolated, remaining, since, used + remaining / isolated)
