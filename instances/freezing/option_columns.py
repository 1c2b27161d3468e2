"""The options of a layer-freezing round in vectors: the twin of `meaning.offered`, for speed.

A *place* is a row of a job's menu, a GPU type and a count; an *entry* is a place at one depth. What an entry
is worth is a double by definition (`apportion.instances.freezing.check`): in the order of operations
written there and with the C library's power, which vectors of numpy need not match in the last bit, so that
is asked for one entry at a time.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.instances.columns import Columns
from apportion.instances.freezing.check import capacities_of
from apportion.instances.freezing.job import FreezingJob
from apportion.instances.freezing.nodes import nodes_of
from apportion.instances.freezing.schema import FreezingInstance

__all__ = ["Configurations", "columns", "configurations_of"]


class Configurations(NamedTuple):
    """What jobs may run on, job after job.

    Attributes
    ----------
    job, gpu_type, gpus, penalty
        int64 [configurations]: positions of the job and of the type, GPUs, millionths.
    value
        float64 [configurations].
    """

    job: NDArray[np.int64]
    gpu_type: NDArray[np.int64]
    gpus: NDArray[np.int64]
    penalty: NDArray[np.int64]
    value: NDArray[np.float64]


def columns(instance: FreezingInstance) -> Columns:
    """Return every admissible configuration; a job's last option is to wait, where it may."""
    capacities, found = capacities_of(instance), configurations_of(instance)
    waits = np.array([not job.required for job in instance.jobs], dtype=np.bool_)
    sizes = np.bincount(found.job, minlength=waits.size) + waits
    last = np.cumsum(sizes)[waits] - 1
    options = np.delete(np.arange(sizes.sum()), last)
    values = np.full(options.size + last.size, instance.queue_penalty)
    values[options] = found.value
    uses = np.zeros((values.size, len(capacities)), dtype=np.int64)
    uses[options, found.gpu_type] = found.gpus
    if instance.penalty_cap_millionths is not None:
        uses[options, len(capacities) - 1] = found.penalty
    return Columns(
        "maximize" if instance.power > 0 else "minimize",
        [job.id for job in instance.jobs],
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        values,
        uses,
        list(capacities),
        list(capacities.values()),
        nodes={name: nodes_of(instance, name) for name in instance.gpus},
        sections=("capacities", "cuts"),
    )


def configurations_of(instance: FreezingInstance) -> Configurations:
    """Return every admissible configuration; without a cap, of each place only a depth worth most.

    Without a cap all depths of a place use the same, so a choice with another depth is worth no more than the
    same choice with that one.
    """
    jobs, capped = instance.jobs, instance.penalty_cap_millionths is not None
    menus = [job.menu_arrays for job in jobs]
    owner = np.arange(len(jobs)).repeat(np.array([menu.sizes.size for menu in menus], dtype=np.int64))
    types = {name: at for at, name in enumerate(instance.gpus)}
    gpu_type = np.array([types[row.gpu_type] for job in jobs for row in job.menu], dtype=np.int64)
    gpus = _joined([menu.gpus for menu in menus])
    depth = _joined([menu.depth for menu in menus])
    place = np.arange(owner.size).repeat(_joined([menu.sizes for menu in menus]))

    def by_place(numbers: list[Any], kind: type = np.int64) -> NDArray[Any]:
        return np.asarray(np.array(numbers, dtype=kind)[owner])

    node = np.array([instance.gpus_per_node.get(name, 0) for name in types], dtype=np.int64)[gpu_type]
    fills = (node == 0) | (gpus <= node) | (gpus % np.maximum(node, 1) == 0)
    deepest = by_place([_deepest(instance, job) for job in jobs])
    kept = np.flatnonzero(fills[place] & (depth <= deepest[place]))
    place, depth = place[kept], depth[kept]
    now = [job.current for job in jobs]
    here = gpu_type == by_place([types[one.gpu_type] if one else -1 for one in now])
    here &= gpus == by_place([one.gpus if one else 0 for one in now])
    moves = by_place([one is not None for one in now], np.bool_) & ~here
    factor = np.where(moves, by_place([_restart_factor(job) for job in jobs], np.float64), 1.0)[place]
    refrozen = here[place] & (depth != by_place([one.depth if one else -1 for one in now])[place])
    rebuilt = by_place([max(0.0, 1.0 - job.rebuild_s / instance.round_s) for job in jobs], np.float64)
    factor[refrozen] = rebuilt[place[refrozen]]
    reference = by_place([_reference(job) for job in jobs], np.float64)[place]
    ratio = factor * np.concatenate([np.zeros(0), *(menu.progress for menu in menus)])[kept] / reference
    runs = np.flatnonzero(ratio)
    value = np.zeros(ratio.size)
    power = map(math.pow, ratio[runs].tolist(), repeat(instance.power))
    value[runs] = by_place([job.weight for job in jobs], np.float64)[place[runs]] * np.fromiter(
        power, np.float64, runs.size
    )
    if instance.power < 0:  # without progress it is worth infinitely much
        kept, place, value = kept[runs], place[runs], value[runs]
    if not capped and place.size:
        firsts = np.flatnonzero(np.diff(place, prepend=-1))
        best = np.maximum if instance.power > 0 else np.minimum
        kept, place, value = kept[firsts], place[firsts], best.reduceat(value, firsts)
    penalties = _joined(
        [np.zeros_like(menu.depth) if menu.penalty is None else menu.penalty for menu in menus if capped]
    )
    penalty = penalties[kept] if capped else np.zeros_like(kept)
    return Configurations(owner[place], gpu_type[place], gpus[place], penalty, value)


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _deepest(instance: FreezingInstance, job: FreezingJob) -> int:
    """Return the deepest depth within the gate and the accuracy budget of a round."""
    gate = job.layers if job.max_depth is None else min(job.max_depth, job.layers)
    if job.budget_frozen_s is None:
        return gate
    return min(gate, math.floor(Fraction(job.budget_frozen_s) * job.layers / Fraction(instance.round_s)))


def _reference(job: FreezingJob) -> float:
    """Return the progress that counts as 1: as given, else the least positive one of the menu, else 1."""
    least = job.menu_arrays.least if job.reference_progress is None else job.reference_progress
    return 1.0 if least is None else least


def _restart_factor(job: FreezingJob) -> float:
    """Return what a change of GPU type or count leaves of a job's progress."""
    lived, lost = job.age_s, job.restart_s
    return 1.0 if lived + lost == 0.0 else max(0.0, (lived - job.restarts * lost) / (lived + lost))
