"""Bounds on a matching that anybody can recompute: weak duality and counting, in whole-number arithmetic.

Cost and value, prices lambda_i >= 0 of the pools with a capacity (value; cost is the mirror image):

    lambda . C + sum_j max_i (v_ji - lambda_i u_ji)        with 0 among the choices of an optional job

where C_i = count_i * (capacity_i rounded down to a multiple of what all uses there divide by).

Makespan, weights w_i >= 0 of the pools, g machines held by a job, c machines in a pool: no schedule ends
before the least T with

    sum_j min over pools with p_ij <= T of (w_i p_ij g_ij / c_i)  <=  T sum_i w_i

(Lenstra, Shmoys, Tardos 1990, with their filter p_ij <= T), nor before the least T for which the machines,
each filled with its shortest jobs, hold all jobs (it implies ceil(n/m) times the shortest time). Whole times
make whole makespans. Divisible: T sum (w + a) >= sum_j min_i p_ij (a_j + w_i g_ij / c_i), a_j >= 0 per job.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.matching.schema import MatchingInstance, MatchingJob

__all__ = ["Placed", "exact_bound", "machine_name", "parts", "price_names", "schedule"]


class Placed(NamedTuple):
    """Where and when a job runs.

    Attributes
    ----------
    pool
        The pool.
    machines
        Indices of the machines it holds, from 0.
    begin, end
        Seconds; where costs or values are weighed, what is used of a machine before it and with it.
    """

    pool: str
    machines: tuple[int, ...]
    begin: float
    end: float


def schedule(instance: MatchingInstance, plan: Mapping[str, Any]) -> dict[str, Placed]:
    """Return where the jobs of a feasible plan run; those that are left out are not there.

    Jobs whose start the plan does not say run one after another, in the order of the instance.
    """
    counts = {machine.id: machine.count for machine in instance.machines}
    timed = instance.objective == "makespan"
    starts, indices = plan.get("start_s", {}), plan.get("machine_index", {})
    filled: dict[tuple[str, int], float] = {}
    placed: dict[str, Placed] = {}
    for job in instance.jobs:
        pool = plan["assignment"].get(job.id)
        if pool is None:
            continue
        entry = job.on[pool]
        index = indices.get(job.id, list(range(entry.gpus)) if entry.gpus == counts[pool] else 0)
        machines = tuple(index) if isinstance(index, list | tuple) else (index,)
        timed_start = timed and job.id in starts
        begin = float(starts[job.id]) if timed_start else max(filled.get((pool, k), 0.0) for k in machines)
        end = begin + (float(entry.time_s or 0.0) if timed else float(entry.uses))
        filled.update(((pool, k), end) for k in machines)
        placed[job.id] = Placed(pool, machines, begin, end)
    return placed


def machine_name(pool: str, index: int, count: int) -> str:
    """Return ``v100[3]``, or ``v100`` of a pool with one machine."""
    return pool if count == 1 else f"{pool}[{index}]"


def parts(instance: MatchingInstance, plan: Mapping[str, Any]) -> dict[str, tuple[str | None, float]]:
    """Return the pool of every job and its part of the objective; of a makespan, when the job ends."""
    if instance.divisible:
        return {job.id: _shared(job, plan["fractions"][job.id]) for job in instance.jobs}
    if instance.objective == "makespan":
        placed = schedule(instance, plan)
        return {job.id: (placed[job.id].pool, placed[job.id].end) for job in instance.jobs}
    chosen = plan["assignment"]
    return {
        job.id: (None, 0.0)
        if (pool := chosen.get(job.id)) is None
        else (pool, float(getattr(job.on[pool], instance.field)))
        for job in instance.jobs
    }


def _shared(job: MatchingJob, shares: Mapping[str, float]) -> tuple[str | None, float]:
    held = {pool: part for pool, part in shares.items() if part > 0}
    speed = sum(part / float(job.on[pool].time_s or 1.0) for pool, part in held.items())
    parts = " and ".join(f"{100 * part:.3g} % of {pool}" for pool, part in sorted(held.items()))
    return parts or None, 1.0 / speed if speed else 0.0


def price_names(instance: MatchingInstance) -> list[str]:
    """Return what a certificate prices: pools; of a divisible instance ``machine:ID`` and ``job:ID``."""
    if instance.objective != "makespan":
        return [machine.id for machine in instance.machines if machine.capacity is not None]
    if instance.divisible:
        return [f"machine:{pool.id}" for pool in instance.machines] + [f"job:{j.id}" for j in instance.jobs]
    return [machine.id for machine in instance.machines]


def exact_bound(instance: MatchingInstance, multipliers: Mapping[str, float]) -> Fraction | None:
    """Return the bound of given prices, exactly; ``None`` if a required job can run nowhere.

    Raises
    ------
    InvalidInstance
        If the multipliers are not one finite number >= 0 for every priced name.
    """
    names = price_names(instance)
    for name, price in multipliers.items():
        if not math.isfinite(price) or price < 0:
            raise InvalidInstance(
                Problem(f"$.certificate.multipliers.{name}", "must be a finite number >= 0")
            )
    if set(multipliers) != set(names):
        raise InvalidInstance(
            Problem("$.certificate.multipliers", f"must name exactly what is priced ({len(names)} names)")
        )
    if any(job.required and not job.on for job in instance.jobs):
        return None
    if instance.objective != "makespan":
        return _lagrangian(instance, multipliers)
    return _makespan(instance, multipliers)


def _lagrangian(instance: MatchingInstance, multipliers: Mapping[str, float]) -> Fraction:
    sign = 1 if instance.objective == "value" else -1
    unit, prices = _whole([multipliers[name] for name in multipliers])
    price = dict(zip(multipliers, prices, strict=True))
    total = 0
    for machine in instance.machines:
        if machine.capacity is not None:
            step = math.gcd(*(job.on[machine.id].uses for job in instance.jobs if machine.id in job.on))
            room = machine.capacity - (machine.capacity % step if step else 0)
            total += price[machine.id] * machine.count * room
    worths = [getattr(entry, instance.field) for job in instance.jobs for entry in job.on.values()]
    scale, whole = _whole(worths)
    total *= scale
    position = 0
    for job in instance.jobs:
        best = None if job.required else 0
        for name, entry in job.on.items():
            paid = price.get(name, 0) * entry.uses * entry.gpus
            worth = sign * whole[position] * unit - paid * scale
            best = worth if best is None or worth > best else best
            position += 1
        total += best or 0
    return Fraction(sign * total, unit * scale)


def _makespan(instance: MatchingInstance, multipliers: Mapping[str, float]) -> Fraction:
    scale, times = _whole([entry.time_s or 0.0 for job in instance.jobs for entry in job.on.values()])
    if not times:
        return Fraction(0)
    rows: list[list[tuple[str, int, int]]] = []
    position = 0
    for job in instance.jobs:
        rows.append(
            [(name, times[position + k], entry.gpus) for k, (name, entry) in enumerate(job.on.items())]
        )
        position += len(job.on)
    counts = {machine.id: machine.count for machine in instance.machines}
    common = math.lcm(*counts.values())
    _, prices = _whole(list(multipliers.values()))
    price = dict(zip(multipliers, prices, strict=True))
    weight = sum(prices) * common
    if instance.divisible:
        fastest = max(min(p for _, p, _ in row) for row in rows)
        share = {name: price[f"machine:{name}"] * common // counts[name] for name in counts}
        work = sum(
            min(p * (price[f"job:{job.id}"] * common + share[name] * gpus) for name, p, gpus in row)
            for job, row in zip(instance.jobs, rows, strict=True)
        )
        least = Fraction(fastest) if not weight else max(Fraction(fastest), Fraction(work, weight))
        return least / scale
    share = {name: price[name] * (common // counts[name]) for name in counts}
    least = max(_weighted(rows, share, weight), Fraction(_by_count(rows, counts)))
    least = least / scale
    return Fraction(math.ceil(least)) if scale == 1 else least


def _weighted(rows: list[list[tuple[str, int, int]]], share: Mapping[str, int], weight: int) -> Fraction:
    """Return the least T whose filtered weighted work fits into T times the weight."""
    levels = sorted({p for row in rows for _, p, _ in row})
    fastest = max(min(p for _, p, _ in row) for row in rows)
    if not weight:
        return Fraction(fastest)
    by_time = [sorted((p, p * gpus * share[name]) for name, p, gpus in row) for row in rows]
    times = [[p for p, _ in row] for row in by_time]
    least = [list(accumulate((cost for _, cost in row), min)) for row in by_time]  # of those up to a time

    def work(level: int) -> int:
        return sum(costs[bisect_right(ends, level) - 1] for ends, costs in zip(times, least, strict=True))

    low, high = bisect_right(levels, fastest) - 1, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        if work(levels[middle]) <= levels[middle + 1] * weight:
            high = middle
        else:
            low = middle + 1
    return max(Fraction(levels[low]), Fraction(work(levels[low]), weight))


def _by_count(rows: list[list[tuple[str, int, int]]], counts: Mapping[str, int]) -> int:
    """Return the least T for which the machines, filled with their shortest jobs, hold them all."""
    needed = sum(min(gpus for _, _, gpus in row) for row in rows)
    filled: dict[str, list[int]] = {name: [] for name in counts}
    for row in rows:
        for name, p, _ in row:
            filled[name].append(p)
    ends = {name: _running(sorted(times)) for name, times in filled.items()}
    candidates = sorted({end for pool in ends.values() for end in pool})
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        held = sum(counts[name] * bisect_right(pool, candidates[middle]) for name, pool in ends.items())
        if held >= needed:
            high = middle
        else:
            low = middle + 1
    return candidates[low]


def _running(times: Sequence[int]) -> list[int]:
    ends, total = [], 0
    for time in times:
        total += time
        ends.append(total)
    return ends


def _whole(numbers: Sequence[float]) -> tuple[int, list[int]]:
    """Return a common scale and the numbers times it, both whole: doubles are wholes over powers of 2."""
    ratios = [float(number).as_integer_ratio() for number in numbers]
    scale = max((denominator for _, denominator in ratios), default=1)
    return scale, [numerator * (scale // denominator) for numerator, denominator in ratios]
