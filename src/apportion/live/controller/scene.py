"""What a decision is made from, and a policy's view of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.live.controller.advisor import LiveAdvisor
from apportion.live.controller.planned import Idle
from apportion.live.controller.settings import Limits
from apportion.live.record.jobs import Job, JobState
from apportion.live.record.state import State
from apportion.policies.gap_filling_view import GapFillingView, count_held

__all__ = ["Scene", "rescale_costs", "under_first_measurement", "view_of"]

_ENDLESS = 1e15
"""Samples still to train on that are assumed of a job without a goal."""


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """What a decision is made from; `holder` is int64 [nodes]: the job that holds a node."""

    state: State
    idle: Idle
    limits: Limits
    now_s: float
    holder: NDArray[np.int64]


def view_of(
    scene: Scene, jobs: list[Job], nodes: tuple[str, ...], holder: NDArray[np.int64], advisor: LiveAdvisor
) -> GapFillingView:
    """Return what a policy sees of some jobs and nodes, `holder` by their positions."""
    state, idle, limits, now_s = scene.state, scene.idle, scene.limits, scene.now_s
    num = len(jobs)
    held = count_held(holder, num)
    low = np.array([job.spec.min_nodes for job in jobs], dtype=np.int64)
    high = np.array([job.spec.max_nodes for job in jobs], dtype=np.int64)
    reach = int(np.minimum(high, np.maximum(len(nodes), low)).max(initial=1))
    high = np.minimum(high, reach)
    for index, job in enumerate(jobs):
        if under_first_measurement(job, int(held[index]), limits, now_s):
            high[index] = held[index]
    rates = np.zeros((num, reach + 1))
    for index, job in enumerate(jobs):
        rates[index] = advisor.fitted(job, reach)
    waiting = sum(not job.ended for job in state.jobs.values()) - num
    return GapFillingView(
        time_s=now_s,
        jobs=np.array([job.number for job in jobs], dtype=np.int64),
        rates=rates,
        min_nodes=low,
        max_nodes=high,
        up_s=rescale_costs([job.up_s for job in jobs], limits),
        down_s=rescale_costs([job.down_s for job in jobs], limits),
        remaining=np.array([_remaining(job) for job in jobs], dtype=np.float64),
        nodes=np.arange(len(nodes)),
        holder=holder,
        idle_since_s=np.array([idle.since_s(node) for node in nodes], dtype=np.float64),
        departed_after_s=np.array(idle.departed_after_s, dtype=np.float64),
        waiting=max(waiting, 0),
        measured=np.full(num, np.nan),
    )


def _remaining(job: Job) -> float:
    return _ENDLESS if job.spec.samples is None else max(float(job.spec.samples - job.samples), 0.0)


def rescale_costs(measured: list[float | None], limits: Limits) -> NDArray[np.float64]:
    """Return the rescale costs, the median of the measured ones where a job has none of its own."""
    known = [cost for cost in measured if cost is not None]
    usual = float(np.median(known)) if known else limits.stall_s
    return np.array([usual if cost is None else cost for cost in measured], dtype=np.float64)


def under_first_measurement(job: Job, held: int, limits: Limits, now_s: float) -> bool:
    """Return whether a job that nothing is known of runs and is soon measured: it must not grow before."""
    known = job.curve or job.spec.curve_on(job.type)
    if known or job.state is not JobState.RUNNING or held < job.spec.min_nodes:
        return False
    patience_s = 2.0 * (limits.warm_up_s + limits.measure_s) + limits.stall_s
    return now_s - job.changed_s < patience_s
