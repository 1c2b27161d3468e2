"""The figures of fairness of one simulation of a cluster."""

from __future__ import annotations

import msgspec
import numpy as np

from apportion.simulation.cluster.fairness_account import FairnessAccount
from apportion.simulation.cluster.rounds import ClusterRun

__all__ = ["FairnessSummary", "TenantFigures", "summarise_fairness"]


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
