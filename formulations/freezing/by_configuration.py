"""Layer freezing by configuration: a multiple-choice multidimensional knapsack.

The round problem of section 3.3 of Sia (SOSP 2023) with one more dimension, the frozen depth; for one depth
per job it is Sia's problem itself.

==================  ===============================================================================
here                meaning
==================  ===============================================================================
EP_j(g, k)          effective progress on a place g (GPU type and count) with k layers frozen
ref_j               reference progress
r_j(g, k)           restart factor, from the job's current configuration
p, lambda           power and queue penalty
u_j(k), Gamma       frozen penalty in millionths and its cluster-wide cap
f_j(k) = k / L_j    frozen fraction; f_j(k) round_s <= budget_j keeps a job's accuracy budget
==================  ===============================================================================

    maximise (p > 0) or minimise (p < 0)
                sum_j sum_(g,k) w_j (r_j EP_j / ref_j)^p x_jgk + lambda sum_j (1 - sum_(g,k) x_jgk)
    subject to  sum_(g,k) x_jgk <= 1;   sum_jgk g x_jgk <= G per GPU type;   sum_jgk u_j x_jgk <= Gamma

A job's accuracy budget, its eligibility gate and the whole-node rule concern one configuration alone, so what
breaks them is no option. Without a cap nothing but GPUs couples the jobs, and all depths of a place use the
same GPUs: only k*(g), the best of them, can be in an optimal plan, and the others are dropped exactly. Under
a cap all depths stay and the cap is one more capacity, in whole millionths.

All configurations of a layer-freezing instance as arrays: worth, uses, and which may be chosen.

A *place* is a GPU type and count of one job: a row of its menu; an *entry* is a place with a depth. There are
many entries to a place, so all but the best depth of each are dropped before anything else is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.protocol import Plan
from apportion.instances.draft import with_jobs
from apportion.instances.freezing import FreezingInstance, FreezingJob
from apportion.instances.freezing.check import value_of
from apportion.instances.freezing.schema import PENALTY
from apportion.models.lowering import Lowered, OptionLabels, lower
from apportion.models.multiple_choice import MultipleChoiceKnapsack, Present
from apportion.models.splice import difference

__all__ = ["ConfigurationTable", "FreezingByConfiguration"]


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


_ROUNDING = 32 * float(np.finfo(np.float64).eps)
"""Relative difference between two libraries' powers, amply."""


class FreezingByConfiguration:
    """The knapsack of a layer-freezing instance, and the way back to configurations.

    Parameters
    ----------
    instance
        What to compile.
    separate_depth
        Drop depths that cannot be optimal where no cap couples them.

    Attributes
    ----------
    instance
        What was compiled.
    model
        The admissible configurations and, for a job that may wait, waiting as its first option.
    largest
        float64 [jobs]: the largest magnitude of a value of the job, 0 without options.
    value_error
        Bound on how much the rounding of powers can move a sum of chosen values.
    """

    __slots__ = (
        "_current",
        "_depth",
        "_gpus",
        "_separate_depth",
        "_types",
        "instance",
        "largest",
        "model",
        "value_error",
    )

    def __init__(self, instance: FreezingInstance, separate_depth: bool = True) -> None:
        self.instance = instance
        self._separate_depth = separate_depth
        separated = separate_depth and instance.penalty_cap_millionths is None
        table = ConfigurationTable(instance, best_depth_only=separated)
        self._types, self._depth, self._gpus = table.gpu_type, table.depth, table.gpus
        self._current = table.is_current
        capacities = list(instance.gpus.values())
        uses = np.zeros((table.value.size, len(capacities)), dtype=np.int64)
        placed = np.flatnonzero(table.gpus)
        uses[placed, table.gpu_type[placed]] = table.gpus[placed]
        names = list(instance.gpus)
        if instance.penalty_cap_millionths is not None:
            capacities.append(instance.penalty_cap_millionths)
            uses = np.column_stack((uses, table.penalty))
            names.append(PENALTY)
        num_jobs = len(instance.jobs)
        sizes = np.bincount(table.job, minlength=num_jobs)
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        starts = offsets[:-1][sizes > 0]
        self.largest = np.zeros(num_jobs)
        if starts.size:
            self.largest[sizes > 0] = np.maximum.reduceat(np.abs(table.value), starts)
        self.value_error = _ROUNDING * float(self.largest.sum())
        self.model = MultipleChoiceKnapsack.from_arrays(
            table.value,
            np.ascontiguousarray(uses),
            offsets.astype(np.int64),
            np.array(capacities, dtype=np.int64),
            sense="maximize" if instance.power > 0 else "minimize",
            capacity_names=tuple(names),
        )

    def patched(self, instance: FreezingInstance) -> Self | None:
        """Return the formulation of a changed instance, made of this one; ``None`` where little stays.

        This one is given up: its arrays may be written to.
        """
        if _frame(instance) != _frame(self.instance):
            return None
        splice = difference(self.instance.jobs, instance.jobs)
        if len(splice.fresh) > len(instance.jobs) // 2:
            return None
        part = with_jobs(instance, [instance.jobs[at] for at in splice.fresh])
        fresh = type(self)(part, self._separate_depth)
        other = copy(self)
        other.instance = instance
        offsets = self.model.offsets, fresh.model.offsets
        for name in ("_current", "_depth", "_gpus", "_types"):
            setattr(other, name, splice.rows(getattr(self, name), getattr(fresh, name), *offsets))
        other.largest = splice.jobs(self.largest, fresh.largest)
        other.value_error = _ROUNDING * float(other.largest.sum())
        other.model = self.model.spliced(splice, fresh.model, fresh.model.capacities)
        return other

    def exact_values(self) -> list[Fraction]:
        """Return the value of every configuration as the double that defines it, of waiting the penalty."""
        types, values = list(self.instance.gpus), []
        for row, job in enumerate(self.model.job_of_option().tolist()):
            place = (types[self._types[row]], int(self._gpus[row]), int(self._depth[row]))
            value = value_of(self.instance, self.instance.jobs[job], *place) if self._gpus[row] else None
            values.append(Fraction(self.instance.queue_penalty if value is None else value))
        return values

    def plan(self, choice: NDArray[np.int64]) -> Plan:
        """Return ``{"configuration": {job: {...}}}``; a job that waits does not stand there."""
        types = list(self.instance.gpus)
        return {
            "configuration": {
                job.id: {
                    "gpu_type": types[self._types[row]],
                    "gpus": int(self._gpus[row]),
                    "depth": int(self._depth[row]),
                }
                for job, row in zip(self.instance.jobs, choice.tolist(), strict=True)
                if row >= 0 and self._gpus[row]
            }
        }

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the options of a plan: its GPUs, at the same depth if that is still an option.

        A job that is absent waits; -1 stands where the plan's place is in no option of the job.
        """
        configurations = plan.get("configuration") if isinstance(plan, Mapping) else None
        if not isinstance(configurations, Mapping):
            return None
        types = {name: index for index, name in enumerate(self.instance.gpus)}
        offsets, rows = self.model.offsets, np.full(len(self.instance.jobs), -1, dtype=np.int64)
        for index, job in enumerate(self.instance.jobs):
            wanted = configurations.get(job.id)
            start, end = int(offsets[index]), int(offsets[index + 1])
            if wanted is None or wanted == {}:
                if end > start and not self._gpus[start]:
                    rows[index] = start  # waiting is the first option
                continue
            place = _place(wanted, types)
            if place is None:
                continue
            gpu_type, gpus, depth = place
            found = np.flatnonzero((self._gpus[start:end] == gpus) & (self._types[start:end] == gpu_type))
            if found.size == 1:
                rows[index] = start + found[0]
            elif found.size:
                rows[index] = start + found[np.argmin(np.abs(self._depth[start + found] - depth))]
        return rows

    def present(self) -> Present | None:
        """Return the options with each job's current GPUs; ``None`` where no job has any."""
        jobs = self.instance.jobs
        if not any(job.current for job in jobs):
            return None
        types = {name: index for index, name in enumerate(self.instance.gpus)}
        held = [job.current for job in jobs]
        here = [(types.get(one.gpu_type, -1), one.gpus) if one else (-1, -1) for one in held]
        owner = self.model.job_of_option()
        place = np.array(here, dtype=np.int64).reshape(-1, 2)[owner]
        current = (self._types == place[:, 0]) & (self._gpus == place[:, 1])
        rows, running = np.full(len(jobs), -1, dtype=np.int64), np.zeros(len(jobs), dtype=np.bool_)
        running[owner[current]] = True
        rows[owner[self._current]] = np.flatnonzero(self._current)
        return Present(rows, running, current, self._gpus == 0)

    def lowered(self) -> Lowered:
        """Return the MILP, its columns named ``x[job,configuration]``."""
        jobs = [job.id for job in self.instance.jobs]
        return lower(self.model, OptionLabels(self.model.offsets, jobs, _Names(self)), jobs)

    def job_names(self) -> Sequence[str]:
        """Return the jobs' ids."""
        return tuple(job.id for job in self.instance.jobs)

    def option_name(self, row: int) -> str:
        """Return the configuration in words."""
        if not self._gpus[row]:
            return "waiting"
        kind = list(self.instance.gpus)[self._types[row]]
        return f"{self._gpus[row]}x{kind}, {self._depth[row]} layers frozen"

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the menus themselves: they do not depend on the capacities."""
        return self.model


def _frame(instance: FreezingInstance) -> tuple[Any, ...]:
    """Return all that menus depend on beside their jobs; the amounts of the capacities do not matter."""
    capped = instance.penalty_cap_millionths is None
    sizes = instance.gpus_per_node
    return list(instance.gpus), instance.round_s, instance.power, instance.queue_penalty, sizes, capped


def _place(wanted: Any, types: Mapping[str, int]) -> tuple[int, int, int] | None:
    """Return type index, GPUs and depth of a configuration in a plan, ``None`` if it names none."""
    if not isinstance(wanted, Mapping):
        return None
    gpu_type, gpus, depth = wanted.get("gpu_type"), wanted.get("gpus"), wanted.get("depth", 0)
    if not isinstance(gpu_type, str) or gpu_type not in types or not isinstance(gpus, int) or gpus < 1:
        return None
    return types[gpu_type], gpus, depth if isinstance(depth, int) else 0


class _Names(Sequence[str]):
    """Names of the options, formed when asked for."""

    def __init__(self, formulation: FreezingByConfiguration) -> None:
        self._formulation = formulation

    def __len__(self) -> int:
        return int(self._formulation.model.values.size)

    def __getitem__(self, row: Any) -> Any:
        return self._formulation.option_name(row)
