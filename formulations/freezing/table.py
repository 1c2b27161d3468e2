"""All configurations of a layer-freezing instance as arrays: worth, uses, and which may be chosen.

A *place* is a GPU type and count of one job: a row of its menu; an *entry* is a place with a depth. There are
many entries to a place, so all but the best depth of each are dropped before anything else is computed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.instances.freezing import FreezingInstance, FreezingJob

__all__ = ["ConfigurationTable"]

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class ConfigurationTable:
    """The admissible configurations.

    Parameters
    ----------
    instance
        What to tabulate.
    best_depth_only
        Keep one entry of every place: that of most progress; of equals the current one, then the shallowest.

    Attributes
    ----------
    job, gpu_type, gpus, depth, penalty
        int64 [options]: indices of job and type, GPUs (0 for waiting), frozen layers, millionths. Jobs rise,
        and the waiting of a job is its first option.
    value
        float64 [options].
    is_current
        bool [options]: whether the job runs so already.
    """

    __slots__ = ("depth", "gpu_type", "gpus", "is_current", "job", "penalty", "value")

    def __init__(self, instance: FreezingInstance, best_depth_only: bool) -> None:
        places = _Places(instance)
        entry, place = places.best_depths() if best_depth_only else places.all_depths()
        depth, is_current = places.depth[entry], places.is_current(entry, place)
        # in the order of the definition: r EP, over ref, to the p, times weight
        ratio = places.factors(place, is_current) * places.progress[entry]
        ratio /= places.reference[place]
        runs = ratio > 0
        value = places.weight[place] * np.power(ratio, instance.power, out=np.zeros(ratio.size), where=runs)
        kept = np.flatnonzero(runs) if instance.power < 0 else np.arange(entry.size)
        waits = np.flatnonzero([not job.required for job in instance.jobs])
        owner = np.concatenate((waits, places.job[place[kept]]))
        order = np.argsort(owner, kind="stable")

        def joined(ofwaiting: Any, options: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate((np.full(waits.size, ofwaiting, options.dtype), options[kept]))[order]

        self.job = owner[order]
        self.gpu_type, self.gpus = joined(0, places.gpu_type[place]), joined(0, places.gpus[place])
        self.depth, self.is_current = joined(0, depth), joined(False, is_current)
        self.value = joined(instance.queue_penalty, value)
        capped = instance.penalty_cap_millionths is not None
        self.penalty = joined(0, places.penalties()[entry] if capped else np.zeros_like(depth))


class _Places:
    """The places of all jobs that have a depth, their entries, and what depends on the place alone."""

    def __init__(self, instance: FreezingInstance) -> None:
        types = {name: index for index, name in enumerate(instance.gpus)}
        jobs = instance.jobs
        self._menus = menus = [job.menu_arrays for job in jobs]
        sizes = _joined([menu.sizes for menu in menus])
        self.depth = _joined([menu.depth for menu in menus])
        self.progress = np.concatenate([np.zeros(0), *(menu.progress for menu in menus)])
        index = {
            names: np.array([types[name] for name in names], np.int64) for names in {m.types for m in menus}
        }
        filled = np.flatnonzero(sizes)
        self.sizes = sizes[filled]
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.gpus = _joined([menu.gpus for menu in menus])[filled]
        self.gpu_type = _joined([index[menu.types][menu.type_index] for menu in menus])[filled]
        self.job = np.repeat(np.arange(len(jobs)), [menu.sizes.size for menu in menus])[filled]
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
        self.reference = self._per_job([_reference(job) for job in jobs], np.float64)
        node = np.array([instance.gpus_per_node.get(name, 0) for name in types], dtype=np.int64)
        size = node[self.gpu_type]
        self.admissible = (size == 0) | (self.gpus <= size) | (self.gpus % np.maximum(size, 1) == 0)

    def all_depths(self) -> tuple[Integers, Integers]:
        """Return every admissible entry, and its place."""
        place = np.repeat(np.arange(self.sizes.size), self.sizes)
        kept = np.flatnonzero(self.admissible[place] & (self.depth <= self.deepest[place]))
        return kept, place[kept]

    def best_depths(self) -> tuple[Integers, Integers]:
        """Return the best admissible entry of every place, and its place.

        Worth rises or falls with progress for the whole place, but for the current place, where all depths
        except the current one pay for the rebuild.
        """
        progress = self.progress
        if not progress.size:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        last = self.depth[self.starts + self.sizes - 1]
        gated, here = np.flatnonzero(last > self.deepest), np.flatnonzero(self.is_current_place)
        if gated.size or here.size:
            progress = progress.copy()
            entry, place = self._entries_of(here)
            stays = self.depth[entry] == self.current_depth[place]
            progress[entry] *= np.where(stays, 1.0, self.rebuild_factor[place])
            entry, place = self._entries_of(gated)
            progress[entry[self.depth[entry] > self.deepest[place]]] = -1.0
        largest = np.maximum.reduceat(progress, self.starts)
        tied = np.flatnonzero(progress == np.repeat(largest, self.sizes))
        segment = np.searchsorted(self.starts, tied, side="right") - 1
        best = tied[np.concatenate(([True], segment[1:] != segment[:-1]))]
        entry, place = self._entries_of(here)
        stays = (self.depth[entry] == self.current_depth[place]) & (progress[entry] == largest[place])
        best[place[stays]] = entry[stays]
        kept = np.flatnonzero(self.admissible & (largest >= 0))
        return best[kept], kept

    def is_current(self, entry: Integers, place: Integers) -> NDArray[np.bool_]:
        """Return whether entries are what their jobs run on now, depth included."""
        found = self.is_current_place[place]
        return np.asarray(found & (self.depth[entry] == self.current_depth[place]))

    def factors(self, place: Integers, is_current: NDArray[np.bool_]) -> Floats:
        """Return r of entries: for a change of place, for a change of depth alone, or 1."""
        refrozen = self.is_current_place[place] & ~is_current
        return np.where(refrozen, self.rebuild_factor[place], self.factor[place])

    def penalties(self) -> Integers:
        """Return the penalty of every entry, in millionths; 0 where none is given."""
        penalties = ((menu.penalty, menu.depth) for menu in self._menus)
        return _joined([np.zeros_like(depth) if part is None else part for part, depth in penalties])

    def _entries_of(self, places: Integers) -> tuple[Integers, Integers]:
        """Return all entries of some places, and the place of each."""
        owner = np.repeat(places, self.sizes[places])
        ends = np.cumsum(self.sizes[places])
        within = np.arange(owner.size) - np.repeat(ends - self.sizes[places], self.sizes[places])
        return self.starts[owner] + within, owner

    def _per_job(self, values: list[Any], dtype: Any) -> NDArray[Any]:
        return np.asarray(np.array(values, dtype=dtype)[self.job])


def _joined(parts: list[Integers]) -> Integers:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _reference(job: FreezingJob) -> float:
    """Return the reference progress: as given, else the least positive one of the menu, else 1."""
    if job.reference_progress is not None:
        return job.reference_progress
    least = job.menu_arrays.least
    return 1.0 if least is None else least


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
