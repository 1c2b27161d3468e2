"""The figures of one run of a policy on a cluster: times, and how fairly the cluster was shared.

The finish-time ratio of a job is its completion time over its time in isolation: the steps of every round
over the throughput that the job would have had in that round with one part in all jobs of the cluster
(Gavel's definition). What is due to a tenant in a round is its part of the GPUs by weight, but no more than
it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import Claims, Nodes
from apportion.cluster.policies.rounds.placing import filled
from apportion.cluster.simulation.rounds.job_states import Beliefs, JobStates
from apportion.cluster.simulation.rounds.simulator import ClusterRun
from apportion.core.display import Figures

__all__ = [
    "ClusterSummary",
    "FairnessAccount",
    "FairnessSummary",
    "TenantCourse",
    "TenantFigures",
    "summarise_cluster",
    "summarise_fairness",
]


class ClusterSummary(Figures, msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one simulation of a cluster.

    Attributes
    ----------
    policy
        Its name.
    jobs, jobs_done
        Jobs of the workload, and those complete.
    avg_jct_s, p50_jct_s, p99_jct_s
        Mean, median and 99th percentile (linear between jobs) of completion less submission; ``None`` if no
        job is complete.
    makespan_s
        From the first submission to the last completion.
    restarts
        Restarts of all jobs, first starts not counted.
    mean_frozen_fraction
        Frozen share of the layers, averaged over the seconds that jobs held GPUs.
    gpu_hours
        GPU-hours that jobs held.
    rounds, events
        Rounds in which the policy decided; submissions, reallocations and completions.
    seconds
        Wall-clock seconds of the simulation.
    """

    policy: str
    jobs: int
    jobs_done: int
    avg_jct_s: float | None
    p50_jct_s: float | None
    p99_jct_s: float | None
    makespan_s: float | None
    restarts: int
    mean_frozen_fraction: float
    gpu_hours: float
    rounds: int
    events: int
    seconds: float

    def __repr__(self) -> str:
        jct = "none" if self.avg_jct_s is None else f"{self.avg_jct_s:.6g} s"
        return f"<ClusterSummary: {self.policy}, {self.jobs_done} of {self.jobs} jobs done, mean JCT {jct}>"


def summarise_cluster(run: ClusterRun, policy: str, seconds: float) -> ClusterSummary:
    """Return the figures of a run that took `seconds`."""
    done = ~np.isnan(run.completed_s)
    jct = (run.completed_s - run.submitted_s)[done]
    held = float(run.attained_s.sum())
    return ClusterSummary(
        policy=policy,
        jobs=run.submitted_s.size,
        jobs_done=int(done.sum()),
        avg_jct_s=float(jct.mean()) if jct.size else None,
        p50_jct_s=float(np.median(jct)) if jct.size else None,
        p99_jct_s=float(np.percentile(jct, 99)) if jct.size else None,
        makespan_s=float(run.completed_s[done].max() - run.submitted_s.min()) if jct.size else None,
        restarts=int(np.maximum(run.restarts - 1, 0).sum()),
        mean_frozen_fraction=float(run.frozen_s.sum()) / held if held else 0.0,
        gpu_hours=float(run.attained_gpu_s.sum()) / 3600,
        rounds=run.rounds,
        events=run.events,
        seconds=seconds,
    )


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


class TenantFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one tenant of a simulated cluster had, and what was due to it.

    Attributes
    ----------
    tenant
        Its name.
    jobs
        Jobs it submitted.
    gpu_hours
        GPU-hours its jobs held.
    due_gpu_hours
        GPU-hours due to it: its part of the GPUs by weight, but no more than its jobs asked for.
    short_gpu_hours
        Of these, what it did not have when it was due.
    mean_finish_time_ratio
        Of its completed jobs; ``None`` without one.
    """

    tenant: str
    jobs: int
    gpu_hours: float
    due_gpu_hours: float
    short_gpu_hours: float
    mean_finish_time_ratio: float | None


class FairnessSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How fairly a simulated cluster was shared, over all jobs and tenant by tenant.

    Attributes
    ----------
    mean_finish_time_ratio, worst_finish_time_ratio
        Of the completed jobs: completion time over time in isolation; 1 or less is fair.
    share_above_1
        Part of the completed jobs with a ratio above 1.
    jain_jobs
        Jain's index of the completed jobs' 1 / ratio.
    jain_tenants
        Jain's index of what tenants had of what was due to them, averaged over the time somebody asked.
    tenants
        Every tenant.
    """

    mean_finish_time_ratio: float | None
    worst_finish_time_ratio: float | None
    share_above_1: float | None
    jain_jobs: float | None
    jain_tenants: float | None
    tenants: list[TenantFigures]


def summarise_fairness(run: ClusterRun, account: FairnessAccount) -> FairnessSummary:
    """Return the figures of a run that an account watched."""
    ratio = account.ratios(run.submitted_s, run.completed_s)
    done = ratio[np.isfinite(ratio)]
    course = account.course()
    jain = course.jain
    counted = np.isfinite(jain)
    hours = course.seconds[:, None] / 3600
    short = np.maximum(0.0, course.due - course.held)
    tenants = []
    for number, name in enumerate(account.tenants):
        own = ratio[(account.tenant == number) & np.isfinite(ratio)]
        tenants.append(
            TenantFigures(
                tenant=name,
                jobs=int((account.tenant == number).sum()),
                gpu_hours=float((course.held[:, number] * hours[:, 0]).sum()),
                due_gpu_hours=float((course.due[:, number] * hours[:, 0]).sum()),
                short_gpu_hours=float((short[:, number] * hours[:, 0]).sum()),
                mean_finish_time_ratio=float(own.mean()) if own.size else None,
            )
        )
    even = 1 / np.maximum(done, 1e-12)
    return FairnessSummary(
        mean_finish_time_ratio=float(done.mean()) if done.size else None,
        worst_finish_time_ratio=float(done.max()) if done.size else None,
        share_above_1=float((done > 1 + 1e-9).mean()) if done.size else None,
        jain_jobs=float(even.sum() ** 2 / (even.size * (even**2).sum())) if done.size else None,
        jain_tenants=float(np.average(jain[counted], weights=course.seconds[counted]))
        if counted.any()
        else None,
        tenants=tenants,
    )
