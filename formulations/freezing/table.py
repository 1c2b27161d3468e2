"""All configurations of a layer-freezing instance as arrays: worth, uses, and which may be chosen.

A *place* is a GPU type and count of one job, or its waiting; an *entry* is a place with a depth. What depends
on the place alone is computed per place, because there are many depths to one.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.instances.freezing import FreezingInstance, FreezingJob, FreezingRow

__all__ = ["ConfigurationTable"]


class ConfigurationTable:
    """The admissible configurations.

    Parameters
    ----------
    instance
        What to tabulate.
    best_depth_only
        Keep one entry of every place: the best; of equals the current one, then the shallowest.

    Attributes
    ----------
    job, gpu_type, gpus, depth, penalty
        int64 [entries]: indices of job and type, GPUs (0 for waiting), frozen layers, millionths. Jobs rise.
    value
        float64 [entries].
    is_current
        bool [entries]: whether the job runs so already.
    """

    __slots__ = ("depth", "gpu_type", "gpus", "is_current", "job", "penalty", "value")

    def __init__(self, instance: FreezingInstance, best_depth_only: bool) -> None:
        places = _Places(instance)
        place, capped = places.of_entry, instance.penalty_cap_millionths is not None
        depth = _flat((row.depths if row else (0,) for row in places.rows), np.int64, place.size)
        progress = _flat(
            (row.effective_progress if row else (0.0,) for row in places.rows), np.float64, place.size
        )
        runs_now = places.is_current_place[place]
        is_current = runs_now & (depth == places.current_depth[place])
        factor = places.factor[place]
        refrozen = np.flatnonzero(runs_now & ~is_current)
        factor[refrozen] = places.rebuild_factor[place[refrozen]]
        # in the order of the definition: r EP, over ref, to the p, times weight
        ratio = factor * progress
        ratio /= _references(instance, places.job, place, progress)[place]
        runs = ratio > 0
        power = np.power(ratio, instance.power, out=np.zeros(ratio.size), where=runs)
        value = places.weight[place] * power
        value[places.waiting[place]] = instance.queue_penalty
        allowed = places.admissible[place] & (depth <= places.deepest[place])
        allowed &= runs | (places.waiting[place] | (instance.power > 0))
        kept = np.flatnonzero(allowed)
        if best_depth_only and kept.size:
            kept = _best(kept, place, value if instance.power < 0 else -value, is_current)
        penalties = (row.penalty_millionths or (0,) * len(row.depths) if row else (0,) for row in places.rows)
        self.penalty = (
            _flat(penalties, np.int64, place.size)[kept] if capped else np.zeros(kept.size, np.int64)
        )
        owner = place[kept]
        self.job, self.gpu_type, self.gpus = places.job[owner], places.gpu_type[owner], places.gpus[owner]
        self.depth, self.value, self.is_current = depth[kept], value[kept], is_current[kept]


class _Places:
    """The places of all jobs, every job's waiting first; those without a depth are left out."""

    def __init__(self, instance: FreezingInstance) -> None:
        types = {name: index for index, name in enumerate(instance.gpus)}
        jobs = instance.jobs
        self.rows: list[FreezingRow | None] = []
        counts = []
        for job in jobs:
            before = len(self.rows)
            self.rows.append(None)
            self.rows.extend([row for row in job.menu if row.depths])
            counts.append(len(self.rows) - before)
        sizes = np.array([len(row.depths) if row else 1 for row in self.rows], dtype=np.int64)
        self.of_entry = np.repeat(np.arange(sizes.size), sizes)
        self.job = np.repeat(np.arange(len(jobs)), np.array(counts, dtype=np.int64))
        self.gpu_type = np.array([types[row.gpu_type] if row else 0 for row in self.rows], dtype=np.int64)
        self.gpus = np.array([row.gpus if row else 0 for row in self.rows], dtype=np.int64)
        self.waiting = self.gpus == 0
        now = [job.current for job in jobs]
        running = self._per_job([one is not None for one in now], np.bool_)
        same = self.gpu_type == self._per_job([types[one.gpu_type] if one else -1 for one in now], np.int64)
        same &= self.gpus == self._per_job([one.gpus if one else -1 for one in now], np.int64)
        self.is_current_place = running & same
        self.current_depth = self._per_job([one.depth if one else -1 for one in now], np.int64)
        restart = self._per_job([_restart_factor(job) for job in jobs], np.float64)
        self.factor = np.where(running & ~same, restart, 1.0)
        rebuild = [max(0.0, 1.0 - job.rebuild_s / instance.round_s) for job in jobs]
        self.rebuild_factor = self._per_job(rebuild, np.float64)
        self.weight = self._per_job([job.weight for job in jobs], np.float64)
        self.deepest = self._per_job([_deepest(job, instance.round_s) for job in jobs], np.int64)
        required = self._per_job([job.required for job in jobs], np.bool_)
        node = np.array([instance.gpus_per_node.get(name, 0) for name in types] or [0], dtype=np.int64)
        size = node[self.gpu_type]
        whole = (size == 0) | (self.gpus <= size) | (self.gpus % np.maximum(size, 1) == 0)
        self.admissible = np.where(self.waiting, ~required, whole)

    def _per_job(self, values: list[Any], dtype: Any) -> NDArray[Any]:
        return np.asarray(np.array(values, dtype=dtype)[self.job])


def _flat(parts: Iterable[tuple[Any, ...]], dtype: Any, count: int) -> NDArray[Any]:
    return np.fromiter(chain.from_iterable(parts), dtype=dtype, count=count)


def _references(
    instance: FreezingInstance,
    job: NDArray[np.int64],
    place: NDArray[np.int64],
    progress: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the reference progress of every place's job: as told, else its least positive one, else 1."""
    if not job.size:
        return np.ones(0)
    per_entry = np.where(progress > 0, progress, np.inf)
    per_place = np.minimum.reduceat(per_entry, np.searchsorted(place, np.arange(job.size)))
    # every job has a place, its waiting, so no segment is empty
    least = np.minimum.reduceat(per_place, np.searchsorted(job, np.arange(len(instance.jobs))))
    told = [job.reference_progress for job in instance.jobs]
    given = np.array([np.nan if value is None else value for value in told], dtype=np.float64)
    return np.where(np.isnan(given), np.where(np.isinf(least), 1.0, least), given)[job]


def _best(
    kept: NDArray[np.int64],
    place: NDArray[np.int64],
    cost: NDArray[np.float64],
    is_current: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Return one of the kept entries per place: least cost, of equals the current one, then the first."""
    owner, paid = place[kept], cost[kept]
    starts = np.flatnonzero(np.concatenate(([True], owner[1:] != owner[:-1])))
    segment = np.repeat(np.arange(starts.size), np.diff(np.append(starts, kept.size)))
    cheapest = np.flatnonzero(paid == np.minimum.reduceat(paid, starts)[segment])
    best = cheapest[np.concatenate(([True], segment[cheapest[1:]] != segment[cheapest[:-1]]))]
    staying = cheapest[is_current[kept[cheapest]]]
    best[segment[staying]] = staying
    return np.asarray(kept[best])


def _restart_factor(job: FreezingJob) -> float:
    """Return Sia's (T - N S) / (T + S), at least 0; 1 where nothing was lived or lost."""
    if job.age_s + job.restart_s == 0.0:
        return 1.0
    return max(0.0, (job.age_s - job.restarts * job.restart_s) / (job.age_s + job.restart_s))


def _deepest(job: FreezingJob, round_s: float) -> int:
    """Return the deepest depth within gate and accuracy budget, in exact arithmetic."""
    deepest = job.layers if job.max_depth is None else min(job.layers, job.max_depth)
    if job.budget_frozen_s is None:
        return deepest
    return min(deepest, int(Fraction(job.budget_frozen_s) * job.layers / Fraction(round_s)))
