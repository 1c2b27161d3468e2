"""How fairly a simulated cluster was shared: finish-time ratios, and what every tenant had, round by round.

The finish-time ratio of a job is its completion time over its time in isolation: the steps of every round
over the throughput that the job would have had in that round with one part in all jobs of the cluster
(Gavel's definition). What is due to a tenant in a round is its part of the GPUs by weight, but no more than
it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.claims import Claims
from apportion.policies.cluster.cluster_view import Nodes
from apportion.policies.cluster.placing import filled
from apportion.simulation.cluster.conditions import Beliefs
from apportion.simulation.cluster.job_states import JobStates

__all__ = ["FairnessAccount", "TenantCourse"]


@dataclass(frozen=True, slots=True, eq=False)
class TenantCourse:
    """What tenants had over time.

    Attributes
    ----------
    end_s
        float64 [rounds]: when each round ended.
    seconds
        float64 [rounds]: how long it was.
    held, asked, due
        float64 [rounds, tenants]: GPUs held on average, GPUs its jobs asked for, GPUs due to it.
    """

    end_s: NDArray[np.float64]
    seconds: NDArray[np.float64]
    held: NDArray[np.float64]
    asked: NDArray[np.float64]
    due: NDArray[np.float64]

    @property
    def jain(self) -> NDArray[np.float64]:
        """float64 [rounds]: Jain's index over tenants that ask, of min(held / due, 1); NaN if none asks."""
        asks = self.due > 0
        had = np.where(asks, np.minimum(1.0, self.held / np.where(asks, self.due, 1.0)), 0.0)
        squares = asks.sum(axis=1) * (had**2).sum(axis=1)
        with np.errstate(invalid="ignore"):
            index = np.where(squares > 0, had.sum(axis=1) ** 2 / np.where(squares > 0, squares, 1.0), 1.0)
        return np.where(asks.any(axis=1), index, np.nan)


class FairnessAccount:
    """Watches a simulation; to be given to `run_cluster`.

    Parameters
    ----------
    nodes
        The machines.
    beliefs
        What is known of the jobs' speeds.
    requested_gpus
        int64 [jobs].
    claims
        Of all jobs; ``None``: all are of one tenant.
    """

    def __init__(
        self,
        nodes: Nodes,
        beliefs: Beliefs,
        requested_gpus: NDArray[np.int64],
        claims: Claims | None,
    ) -> None:
        jobs = requested_gpus.size
        self._nodes, self._beliefs, self._gpus = nodes, beliefs, requested_gpus
        self.tenants = ("everybody",) if claims is None else claims.tenants
        self.tenant = np.zeros(jobs, dtype=np.int64) if claims is None else claims.tenant
        self._share = np.ones(1) if claims is None else claims.share
        self.isolated_s = np.zeros(jobs)
        self._equal = np.zeros(jobs)
        self._epoch = np.full(jobs, -1, dtype=np.int64)
        self._progress = np.zeros(jobs)
        self._gpu_s = np.zeros(jobs)
        self._rounds: list[tuple[float, float, NDArray[np.float64], NDArray[np.float64]]] = []

    def before(self, active: NDArray[np.int64], states: JobStates) -> None:
        """Look at the jobs that are there when a round begins."""
        for job in active[states.epoch[active] != self._epoch[active]].tolist():
            self._epoch[job] = states.epoch[job]
            self._equal[job] = self._equal_share(job, states)
        self._progress[active] = states.progress[active]
        self._gpu_s[active] = states.attained_gpu_s[active]

    def after(self, now_s: float, seconds: float, active: NDArray[np.int64], states: JobStates) -> None:
        """Count what a round that ended at `now_s` brought to its jobs."""
        total = self._nodes.total_gpus
        part = np.minimum(1.0, total / (active.size * self._gpus[active]))
        isolated = self._equal[active] * part
        made = states.progress[active] - self._progress[active]
        self.isolated_s[active] += np.where(isolated > 0, made / np.where(isolated > 0, isolated, 1.0), 0.0)
        whose, tenants = self.tenant[active], len(self.tenants)
        had = np.bincount(
            whose, weights=states.attained_gpu_s[active] - self._gpu_s[active], minlength=tenants
        )
        asked = np.bincount(whose, weights=self._gpus[active], minlength=tenants).astype(np.float64)
        self._rounds.append((now_s, seconds, had / seconds, asked))

    def course(self) -> TenantCourse:
        """Return what the tenants had until now."""
        tenants = len(self.tenants)
        held = np.array([one[2] for one in self._rounds]).reshape(-1, tenants)
        asked = np.array([one[3] for one in self._rounds]).reshape(-1, tenants)
        return TenantCourse(
            np.array([one[0] for one in self._rounds]),
            np.array([one[1] for one in self._rounds]),
            held,
            asked,
            np.minimum(asked, self._nodes.total_gpus * self._share),
        )

    def ratios(
        self, submitted_s: NDArray[np.float64], completed_s: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return float64 [jobs]: the finish-time ratio of every completed job, NaN for the others."""
        known = self.isolated_s > 0
        return np.where(known, (completed_s - submitted_s) / np.where(known, self.isolated_s, 1.0), np.nan)

    def _equal_share(self, job: int, states: JobStates) -> float:
        """Return the throughput of a job that sees all GPU types in proportion, all the time."""
        belief, speed = self._beliefs(job, states), 0.0
        for kind, name in enumerate(self._nodes.types):
            own = self._nodes.gpus[self._nodes.of_type(kind)]
            if self._gpus[job] <= own.sum():
                rate = belief.rate(filled(int(self._gpus[job]), int(own.max())), name)
                speed += float(rate) * float(own.sum()) if rate > 0 else 0.0
        return speed / self._nodes.total_gpus
