"""What frozen layers cost the jobs of a run in statistical progress."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.belief import profiled
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView
from apportion.cluster.simulation.rounds.job_states import MeasuredTraining

__all__ = ["FrozenAccount"]


class FrozenAccount:
    """Adds up, round by round, what every job's work was worth with nothing frozen.

    Of work that made progress p while a share q of it was kept, p / q is what it was worth.

    Parameters
    ----------
    nature
        The truth.
    jobs
        How many there are.
    """

    def __init__(self, ground_truth: MeasuredTraining, jobs: int) -> None:
        self._nature = ground_truth
        self._progress = np.zeros(jobs)
        self._kept = np.ones(jobs)
        self._worth = np.zeros(jobs)

    def __call__(self, view: ClusterView, plan: ClusterPlan) -> None:
        """Note a decision: the account of the round before is closed."""
        for position, job in enumerate(view.jobs.tolist()):
            progress = profiled(view.beliefs[position]).progress
            self._worth[job] += (progress - self._progress[job]) / self._kept[job]
            self._progress[job] = progress
            depth = 0 if plan.depth is None else int(plan.depth[position])
            self._kept[job] = self._nature.retained(job, progress, depth)

    def lost(self, totals: NDArray[np.float64]) -> float:
        """Return 1 - (progress made) / (what the work was worth), jobs weighing alike.

        Parameters
        ----------
        totals
            float64 [jobs]: progress of the whole training; all jobs are complete.
        """
        worth = self._worth + (totals - self._progress) / self._kept
        return float(np.mean(1.0 - totals / worth))
