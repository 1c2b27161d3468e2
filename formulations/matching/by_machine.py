"""A matching instance as arrays: one entry per job and machine, pools aggregated where that is no loss.

| here | meaning |
|---|---|
| p_ij, c_ij, v_ij | time, cost, value of job j on machine i |
| u_ij, C_i | use and capacity |
| g_ij, c_i | machines held by a gang, machines in a pool |

Cost and value (generalised assignment; linear assignment if every capacity is one job):
    min sum c_ij x_ij    sum_i x_ij = 1    sum_j u_ij x_ij <= C_i
Makespan (R||Cmax; Lenstra, Shmoys, Tardos 1990):
    min T                sum_i x_ij = 1    sum_j g_ij p_ij x_ij <= c_i T
Divisible (Gavel's minimum makespan, Narayanan et al. 2020, in T rather than bisected):
    the same with x_ij a share of j's work, and sum_i p_ij x_ij <= T

A pool of alike machines is one column where all its uses are alike (jobs fill slots, gangs wrap around:
McNaughton 1959), or where it is large; otherwise it is taken apart, which lets the search place every job.

`MatchingByMachine` also says which machines of a pool a job gets, and when.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.protocol import Plan
from apportion.instances.matching import MatchingInstance, MatchingMachine
from apportion.models.assignment import LARGEST_ROOM, Assignment, in_turn
from apportion.models.lowering import LoweredAssignment, OptionLabels, lower_assignment
from apportion.models.packing import pack

__all__ = ["Entries", "MatchingByMachine", "slots", "timed_slots"]


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """All entries, job by job, and what they say of every pool.

    Attributes
    ----------
    number
        The number of every pool.
    job, pool
        int64 [entries].
    value
        float64 [entries]: the time, the cost or the value.
    uses, gpus
        int64 [entries].
    step
        int64 [pools]: what all uses divide by; 0 where nothing is used.
    mixed, gang
        bool [pools]: whether uses differ (beside 0), and whether a job holds several machines.
    """

    number: dict[str, int]
    job: NDArray[np.int64]
    pool: NDArray[np.int64]
    value: NDArray[np.float64]
    uses: NDArray[np.int64]
    gpus: NDArray[np.int64]
    step: NDArray[np.int64]
    mixed: NDArray[np.bool_]
    gang: NDArray[np.bool_]

    @classmethod
    def of(cls, instance: MatchingInstance) -> Entries:
        """Return the entries of an instance."""
        number = {machine.id: k for k, machine in enumerate(instance.machines)}
        menus = [job.on for job in instance.jobs]
        entries = list(chain.from_iterable(menu.values() for menu in menus))
        job = np.repeat(
            np.arange(len(menus), dtype=np.int64), np.array([len(menu) for menu in menus], np.int64)
        )
        pool = np.fromiter(map(number.__getitem__, chain.from_iterable(menus)), np.int64, len(entries))
        value = np.fromiter(map(attrgetter(instance.field), entries), np.float64, len(entries))
        uses = np.fromiter(map(attrgetter("uses"), entries), np.int64, len(entries))
        gpus = np.fromiter(map(attrgetter("gpus"), entries), np.int64, len(entries))
        step = np.zeros(len(number), dtype=np.int64)
        np.gcd.at(step, pool, uses)
        mixed, gang = np.zeros((2, len(number)), dtype=np.bool_)
        mixed[pool[(uses != 0) & (uses != step[pool])]] = True
        gang[pool[gpus > 1]] = True
        return cls(number, job, pool, value, uses, gpus, step, mixed, gang)


def timed_slots(
    times: Sequence[float],
    uses: Sequence[int],
    gpus: Sequence[int],
    count: int,
    capacity: int | None,
    turns: Sequence[int] | None = None,
) -> tuple[list[list[int]], list[float]]:
    """Return the machines and the start of each job on a pool of `count` machines.

    Times decide where jobs go, placed in turn; where machines would then be filled beyond their capacity,
    uses do, and times decide the order.
    """
    turn = None if turns is None else np.asarray(turns, dtype=np.int64)
    places, starts, _ = pack(
        np.asarray(times, dtype=np.float64), np.asarray(gpus, dtype=np.int64), count, turn
    )
    by_time = [sorted(held) for held in places]
    if capacity is None or _fit(by_time, uses, capacity):
        return by_time, starts.tolist()
    by_use = slots(uses, gpus, min(count, sum(gpus)), capacity)
    if not _fit(by_use, uses, capacity):
        return by_time, starts.tolist()
    ends: dict[int, float] = {}
    begins = [0.0] * len(times)
    for job in sorted(range(len(times)), key=lambda j: (-gpus[j], -times[j])):
        begins[job] = max(ends.get(machine, 0.0) for machine in by_use[job])
        ends |= dict.fromkeys(by_use[job], begins[job] + times[job])
    return by_use, begins


def _fit(places: Sequence[Sequence[int]], uses: Sequence[int], capacity: int) -> bool:
    held: dict[int, int] = {}
    for machines, use in zip(places, uses, strict=True):
        for machine in machines:
            held[machine] = held.get(machine, 0) + use
    return max(held.values(), default=0) <= capacity


def slots(uses: Sequence[int], gpus: Sequence[int], count: int, capacity: int) -> list[list[int]]:
    """Return the machines of each job, none filled beyond its capacity where that is found.

    Widest gang first, largest use first, each on the emptiest machines: exact for alike uses.
    """
    left = np.full(count, capacity, dtype=np.int64)
    places: list[list[int]] = [[] for _ in uses]
    for job in sorted(range(len(uses)), key=lambda j: (-gpus[j], -uses[j])):
        held = np.argsort(-left, kind="stable")[: gpus[job]]
        left[held] -= uses[job]
        places[job] = sorted(held.tolist())
    return places


_LARGEST_EXPANSION = 40_000
"""Entries up to which pools are taken apart into machines."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """One machine of the model: a whole pool (`index` absent) or one machine of it."""

    pool: MatchingMachine
    index: int | None


class MatchingByMachine:
    """The arrays of an instance, and the way back to machine names.

    Attributes
    ----------
    instance
        What was compiled.
    model
        The arrays.
    value_error
        0: values are taken as they are.
    """

    __slots__ = ("_entries", "_found", "_units", "instance", "model", "value_error")

    def __init__(self, instance: MatchingInstance) -> None:
        self.instance = instance
        self.value_error = 0.0
        self._entries = entries = Entries.of(instance)
        self._units = units = list(_units(instance, entries))
        of_unit = np.array([entries.number[unit.pool.id] for unit in units], np.int64)
        # one row for every entry and machine of its pool; units stand in the order of their pools
        copies = np.bincount(of_unit, minlength=len(entries.number))[entries.pool]
        entry = np.repeat(np.arange(copies.size), copies)
        first = np.searchsorted(of_unit, np.arange(len(entries.number)))
        number = np.arange(entry.size) - np.repeat(np.cumsum(copies) - copies, copies)
        machine = first[entries.pool][entry] + number
        rows = np.bincount(entries.job, weights=copies, minlength=len(instance.jobs))
        whole = np.array([unit.index is None and not instance.divisible for unit in units], np.bool_)
        in_sum = np.ones(entry.size, np.bool_) if instance.objective != "makespan" else whole[machine]
        held = np.where(in_sum, entries.gpus[entry], 1)
        self.model = Assignment.from_arrays(
            instance.objective,
            entries.value[entry],
            machine,
            np.concatenate(([0], np.cumsum(rows))).astype(np.int64),
            len(units),
            uses=np.minimum(entries.uses[entry], LARGEST_ROOM // held) * held,
            gpus=entries.gpus[entry],
            counts=np.array([1 if unit.index is not None else unit.pool.count for unit in units], np.int64),
            capacities=np.array([_room(unit, entries) for unit in units], np.int64),
            limited=np.array([unit.pool.capacity is not None for unit in units], np.bool_),
            required=np.array([job.required for job in instance.jobs], np.bool_),
            pool=of_unit,
            pool_names=tuple(entries.number),
            divisible=instance.divisible,
            job_names=[job.id for job in instance.jobs],
        )
        self._found: dict[tuple[str, str, int], int] | None = None

    @property
    def relaxes(self) -> bool:
        """Whether a pool is kept in sum though its jobs differ: a choice may then not fit on its machines."""
        if self.instance.objective == "makespan":
            return False  # there is no finer model; what was chosen is packed as far as capacities let it
        entries = self._entries
        summed = [unit.pool for unit in self._units if unit.index is None and unit.pool.capacity is not None]
        return any(
            entries.mixed[k] or entries.step[k] > (pool.capacity or 0)
            for pool in summed
            for k in (entries.number[pool.id],)
        )

    @property
    def sums_pools(self) -> bool:
        """Whether machines of a pool end together on average in the model, and one by one in a schedule."""
        whole = self.instance.objective == "makespan" and not self.instance.divisible
        return whole and any(unit.index is None and unit.pool.count > 1 for unit in self._units)

    def plan(self, point: NDArray[Any]) -> Plan:
        """Return the plan of a choice, pools packed; of a divisible instance, the shares of time."""
        if self.instance.divisible:
            return self._fractions(point)
        choice, turns = in_turn(point)
        jobs = [job.id for job in self.instance.jobs]
        taken = {job: row for job, row in zip(jobs, choice.tolist(), strict=True) if row >= 0}
        turn = None if turns is None else dict(zip(jobs, turns.tolist(), strict=True))
        plan: Plan = {"assignment": {job: self._unit(row).pool.id for job, row in taken.items()}}
        index, start = self._placed(taken, turn)
        if index:
            plan["machine_index"] = index
        if start:
            plan["start_s"] = start
        return plan

    def choice(self, plan: Any) -> NDArray[Any] | None:
        """Return the point of a plan as far as it fits; ``None`` if it is no plan."""
        if not isinstance(plan, Mapping):
            return None
        if self.instance.divisible:
            return self._shares(plan.get("fractions"))
        named = plan.get("assignment")
        if not isinstance(named, Mapping):
            return None
        placed = plan.get("machine_index")
        rows = np.full(len(self.instance.jobs), -1, dtype=np.int64)
        row_of = self._rows()
        for number, job in enumerate(self.instance.jobs):
            pool = named.get(job.id)
            at = placed.get(job.id, 0) if isinstance(placed, Mapping) else 0
            if isinstance(pool, str):
                single = row_of.get((job.id, pool, at)) if isinstance(at, int) else None
                rows[number] = row_of.get((job.id, pool, 0), -1) if single is None else single
        return self._turned(rows, plan.get("start_s"))

    def _turned(self, rows: NDArray[np.int64], starts: Any) -> NDArray[np.int64]:
        """Return a choice with the turns that its starts state, where there are gangs that keep them."""
        gangs = self.instance.objective == "makespan" and (self.model.gpus[rows[rows >= 0]] > 1).any()
        if not gangs or not isinstance(starts, Mapping):
            return rows
        begin = [starts.get(job.id, 0.0) for job in self.instance.jobs]
        if not all(isinstance(at, int | float) and math.isfinite(at) for at in begin):
            return rows
        # a job that takes no time holds no machine: first, it does not wait for one
        lasting = self.model.values[rows] > 0
        turns = np.empty_like(rows)
        turns[np.lexsort((begin, lasting))] = np.arange(rows.size)
        return np.stack((rows, turns))

    def lowered(self) -> LoweredAssignment:
        """Return the linear model, its columns named ``x[job,machine]``."""
        jobs = self.job_names()
        names = [self.option_name(row) for row in range(self.model.num_options)]
        return lower_assignment(self.model, OptionLabels(self.model.offsets, jobs, names), jobs)

    def job_names(self) -> list[str]:
        """Return the jobs' names."""
        return [job.id for job in self.instance.jobs]

    def _unit(self, row: int) -> _Unit:
        return self._units[int(self.model.machine[row])]

    def _rows(self) -> Mapping[tuple[str, str, int], int]:
        """Return the row of a job, a pool and a machine of it (0 for a whole pool)."""
        if self._found is None:
            names, units = self.job_names(), self._units
            owner, machine = self.model.job_of_option().tolist(), self.model.machine.tolist()
            self._found = {
                (names[job], units[k].pool.id, units[k].index or 0): row
                for row, (job, k) in enumerate(zip(owner, machine, strict=True))
            }
        return self._found

    def option_name(self, row: int) -> str:
        """Return the machine of an entry: ``v100``, or ``v100[3]`` of a pool taken apart."""
        unit = self._unit(row)
        apart = unit.index is not None and unit.pool.count > 1
        return f"{unit.pool.id}[{unit.index}]" if apart else unit.pool.id

    def _placed(
        self, taken: Mapping[str, int], turn: Mapping[str, int] | None
    ) -> tuple[dict[str, Any], dict[str, float]]:
        """Return machine indices and starts where the plan must say them."""
        timed = self.instance.objective == "makespan"
        index: dict[str, Any] = {}
        start: dict[str, float] = {}
        placed: dict[str, list[str]] = {pool.id: [] for pool in self.instance.machines}
        for job, row in taken.items():
            placed[self._unit(row).pool.id].append(job)
        for pool in self.instance.machines:
            jobs = placed[pool.id]
            if pool.count == 1 or not jobs or not (timed or pool.capacity is not None):
                continue
            units = [self._unit(taken[job]) for job in jobs]
            gpus = [int(self.model.gpus[taken[job]]) for job in jobs]
            times = [float(self.model.values[taken[job]]) for job in jobs]
            if units[0].index is not None:
                index |= {job: unit.index for job, unit in zip(jobs, units, strict=True)}
                if timed:
                    start |= _one_after_another(jobs, units, times)
            elif timed:
                turns = None if turn is None else [turn[job] for job in jobs]
                uses = [int(self.model.uses[taken[job]]) // g for job, g in zip(jobs, gpus, strict=True)]
                places, starts = timed_slots(times, uses, gpus, pool.count, pool.capacity, turns)
                index |= {
                    job: held if len(held) > 1 else held[0] for job, held in zip(jobs, places, strict=True)
                }
                start |= dict(zip(jobs, starts, strict=True))
            else:
                uses = [int(self.model.uses[taken[job]]) // g for job, g in zip(jobs, gpus, strict=True)]
                places = slots(uses, gpus, min(pool.count, sum(gpus)), pool.capacity or 0)
                index |= {
                    job: held if len(held) > 1 else held[0] for job, held in zip(jobs, places, strict=True)
                }
        return index, start

    def _fractions(self, shares: NDArray[np.float64]) -> Plan:
        model = self.model
        makespan = model.objective(shares)
        time = np.asarray(shares, dtype=np.float64) * model.values / (makespan or 1.0)
        fractions: dict[str, dict[str, float]] = {job.id: {} for job in self.instance.jobs}
        names = self.job_names()
        for job, row in zip(model.job_of_option().tolist(), range(model.num_options), strict=True):
            if time[row] > 0:
                fractions[names[job]][self._unit(row).pool.id] = float(time[row])
        return {"fractions": fractions}

    def _shares(self, named: Any) -> NDArray[np.float64] | None:
        if not isinstance(named, Mapping):
            return None
        work = np.zeros(self.model.num_options)
        for job, shares in named.items():
            for pool, share in shares.items() if isinstance(shares, Mapping) else ():
                row = self._rows().get((job, pool, 0))
                if row is not None and isinstance(share, int | float) and 0 <= share <= 1:
                    work[row] = share / self.model.values[row]
        owner = self.model.job_of_option()
        done = np.bincount(owner, weights=work, minlength=self.model.num_jobs)
        return np.asarray(work / np.where(done > 0, done, 1.0)[owner], dtype=np.float64)


def _one_after_another(jobs: list[str], units: list[_Unit], times: list[float]) -> dict[str, float]:
    end: dict[int | None, float] = {}
    start: dict[str, float] = {}
    for job, unit, time in zip(jobs, units, times, strict=True):
        start[job] = end.get(unit.index, 0.0)
        end[unit.index] = start[job] + time
    return start


def _room(unit: _Unit, entries: Entries) -> int:
    if unit.pool.capacity is None:
        return 0
    step = int(entries.step[entries.number[unit.pool.id]])
    room = unit.pool.capacity - (unit.pool.capacity % step if step else 0)
    return room if unit.index is not None else min(room * unit.pool.count, LARGEST_ROOM)


def _units(instance: MatchingInstance, entries: Entries) -> Iterator[_Unit]:
    total = sum(machine.count for machine in instance.machines)
    small = total * len(instance.jobs) <= _LARGEST_EXPANSION
    timed = instance.objective == "makespan"
    for k, machine in enumerate(instance.machines):
        apart = not instance.divisible and not entries.gang[k] and small
        if machine.capacity is None and not timed:
            apart = False
        if not timed and not entries.mixed[k]:
            apart = False
        if machine.count == 1 and not instance.divisible:
            yield _Unit(machine, 0)
        elif apart:
            yield from (_Unit(machine, index) for index in range(machine.count))
        else:
            yield _Unit(machine, None)
