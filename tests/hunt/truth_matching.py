"""Matching: jobs on machines one by one, gangs in every order; its optimum, and what a plan is worth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from tests.hunt.simplex import maximum

__all__ = ["best", "best_of_arrays", "worth", "worth_of_arrays"]

Told = dict[str, Any]
_SLACK = Fraction(1, 10**9)
"""Overlap of time that the rules allow, relative."""
_Machines = tuple[tuple[Fraction, int], ...]
"""Per machine of a pool the time it is busy until and what is used of it, sorted: machines are alike."""
_State = tuple[_Machines, ...]


def best(told: Told) -> tuple[bool, Fraction | None]:
    """Return the sense and the optimum."""
    if told.get("divisible"):
        return False, _best_divided(told)
    if told["objective"] == "makespan":
        return False, _shortest(told)
    return told["objective"] == "value", _best_sum(told)


def _start(told: Told) -> _State:
    """Return empty machines: no more of each pool than the jobs could hold."""
    pools = []
    for machine in told["machines"]:
        on = [job["on"][machine["id"]] for job in told["jobs"] if machine["id"] in job["on"]]
        most = sum(entry.get("gpus", 1) for entry in on)
        pools.append(((Fraction(0), 0),) * min(machine.get("count", 1), most))
    return tuple(pools)


def _placed(
    told: Told, state: _State, pool: int, entry: Told, seconds: Fraction
) -> Iterator[tuple[_State, Fraction]]:
    """Yield the states after a job was put on machines of a pool, and when it ends."""
    capacity, gpus, use = (
        told["machines"][pool].get("capacity"),
        entry.get("gpus", 1),
        entry.get("uses", 1),
    )
    machines, seen = state[pool], set()
    for held in itertools.combinations(range(len(machines)), gpus):
        alike = tuple(machines[k] for k in held)
        if alike in seen:
            continue
        seen.add(alike)
        if capacity is not None and any(used + use > capacity for _, used in alike):
            continue
        end = max((until for until, _ in alike), default=Fraction(0)) + seconds
        after = list(machines)
        for k in held:
            after[k] = (end, after[k][1] + (use if capacity is not None else 0))
        yield (*state[:pool], tuple(sorted(after)), *state[pool + 1 :]), end


def _best_sum(told: Told) -> Fraction | None:
    """Return the best sum of costs or values."""
    field, sign = ("value", 1) if told["objective"] == "value" else ("cost", -1)
    number = {machine["id"]: k for k, machine in enumerate(told["machines"])}
    states: dict[_State, Fraction] = {_start(told): Fraction(0)}
    for job in told["jobs"]:
        after: dict[_State, Fraction] = {}
        for state, total in states.items():
            if not job.get("required", True) and (state not in after or after[state] < total):
                after[state] = total
            for name, entry in job["on"].items():
                value = total + sign * Fraction(entry[field])
                if told["machines"][number[name]].get("capacity") is None:
                    if entry.get("gpus", 1) and (state not in after or after[state] < value):
                        after[state] = value
                    continue
                for placed, _ in _placed(told, state, number[name], entry, Fraction(0)):
                    if placed not in after or after[placed] < value:
                        after[placed] = value
        states = after
    return sign * max(states.values()) if states else None


def _shortest(told: Told) -> Fraction | None:
    """Return the least makespan: jobs in any order, each as early as its machines allow.

    Every schedule can be pushed to the left without ending later, and is then what this builds in the order
    of its starts. Without gangs the order decides nothing.
    """
    number = {machine["id"]: k for k, machine in enumerate(told["machines"])}
    jobs = told["jobs"]
    gangs = any(entry.get("gpus", 1) > 1 for job in jobs for entry in job["on"].values())
    layer: dict[tuple[int, _State], Fraction] = {(0, _start(told)): Fraction(0)}
    for depth in range(len(jobs)):
        after: dict[tuple[int, _State], Fraction] = {}
        for (done, state), last in layer.items():
            for j in range(len(jobs)) if gangs else (depth,):
                if done >> j & 1:
                    continue
                for name, entry in jobs[j]["on"].items():
                    for placed, end in _placed(told, state, number[name], entry, Fraction(entry["time_s"])):
                        key, ends = (done | 1 << j, placed), max(last, end)
                        if key not in after or ends < after[key]:
                            after[key] = ends
        layer = after
    return min(layer.values()) if layer else None


def _best_divided(told: Told) -> Fraction | None:
    """Return the least time by which all jobs are done where they run by shares: a linear programme."""
    pairs = [(j, name, entry) for j, job in enumerate(told["jobs"]) for name, entry in job["on"].items()]
    if not told["jobs"]:
        return Fraction(0)
    width = len(pairs) + 1  # the last one is the least speed
    rows: list[list[Fraction]] = []
    rights: list[Fraction] = []
    for j in range(len(told["jobs"])):
        rows.append([Fraction(int(p[0] == j)) for p in pairs] + [Fraction(0)])
        rights.append(Fraction(1))
        speeds = [-1 / Fraction(p[2]["time_s"]) if p[0] == j else Fraction(0) for p in pairs]
        rows.append([*speeds, Fraction(1)])
        rights.append(Fraction(0))
    for machine in told["machines"]:
        rows.append(
            [Fraction(p[2].get("gpus", 1) if p[1] == machine["id"] else 0) for p in pairs] + [Fraction(0)]
        )
        rights.append(Fraction(machine.get("count", 1)))
    speed = maximum(rows, rights, [Fraction(0)] * (width - 1) + [Fraction(1)])
    return None if not speed else 1 / speed


def worth(told: Told, plan: Any) -> Fraction | None:
    """Return what a plan is worth."""
    if told.get("divisible"):
        return _worth_divided(told, plan)
    chosen, held = dict(plan["assignment"]), dict(plan.get("machine_index", {}))
    starts = dict(plan.get("start_s", {}))
    if not {*held, *starts} <= {job["id"] for job in told["jobs"]}:
        return None
    pools = {machine["id"]: machine for machine in told["machines"]}
    timed, field = told["objective"] == "makespan", {"value": "value", "cost": "cost"}
    busy: dict[tuple[str, int], list[tuple[Fraction, Fraction]]] = {}
    used: dict[tuple[str, int], int] = {}
    total, begun = Fraction(0), dict[tuple[str, int], set[bool]]()
    for job in told["jobs"]:
        name = chosen.pop(job["id"], None)
        if name is None:
            if job.get("required", True):
                return None
            continue
        if name not in job["on"]:
            return None
        entry, pool = job["on"][name], pools[name]
        count, gpus = pool.get("count", 1), entry.get("gpus", 1)
        if not timed:
            total += Fraction(entry[field[told["objective"]]])
        index = held.get(job["id"])
        if index is None and count == gpus:
            index = list(range(count))
        if index is None:
            if timed or pool.get("capacity") is not None:
                return None
            continue
        on = index if isinstance(index, list) else [index]
        if any(type(k) is not int for k in on):
            return None
        if len(set(on)) != gpus or len(on) != gpus or not all(0 <= k < count for k in on):
            return None
        for k in on:
            used[name, k] = used.get((name, k), 0) + entry.get("uses", 1)
            if timed:
                begin = starts.get(job["id"])
                if "start_s" in plan and job["id"] in starts and not _is_time(begin):
                    return None
                begun.setdefault((name, k), set()).add(begin is not None)
                lasts = Fraction(entry["time_s"])
                if begin is None:
                    if gpus > 1:
                        return None
                    begin = max((end for _, end in busy.get((name, k), ())), default=Fraction(0))
                busy.setdefault((name, k), []).append((Fraction(begin), Fraction(begin) + lasts))
    if chosen or any(
        pools[name].get("capacity") is not None and amount > pools[name]["capacity"]
        for (name, _), amount in used.items()
    ):
        return None
    if not timed:
        return total
    if any(len(told_of) > 1 for told_of in begun.values()):
        return None  # on one machine all starts are told, or none
    for spans in busy.values():
        spans.sort()
        if any(b[0] < a[1] * (1 - _SLACK) for a, b in itertools.pairwise(spans)):
            return None
    return max((end for spans in busy.values() for _, end in spans), default=Fraction(0))


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf


def _worth_divided(told: Told, plan: Any) -> Fraction | None:
    if set(plan["fractions"]) != {job["id"] for job in told["jobs"]}:
        return None
    load = {machine["id"]: Fraction(0) for machine in told["machines"]}
    last = Fraction(0)
    for job in told["jobs"]:
        given = plan["fractions"][job["id"]]
        if not isinstance(given, dict) or any(
            type(share) not in (int, float) or not math.isfinite(share) for share in given.values()
        ):
            return None
        if not set(given) <= set(job["on"]):
            return None
        shares = {name: Fraction(share) for name, share in given.items()}
        if any(share < 0 for share in shares.values()) or sum(shares.values()) > 1 + 2 * _SLACK:
            return None
        speed = sum(
            (share / Fraction(job["on"][name]["time_s"]) for name, share in shares.items()), Fraction(0)
        )
        if not speed:
            return None
        for name, share in shares.items():
            load[name] += share * job["on"][name].get("gpus", 1)
        last = max(last, 1 / speed)
    if any(load[m["id"]] > m.get("count", 1) * (1 + 2 * _SLACK) for m in told["machines"]):
        return None
    return last


def best_of_arrays(told: Told) -> tuple[bool, Fraction | None]:
    """Return the sense and the optimum of arguments of ``Assignment.from_arrays``."""
    found = _as_instance(told)
    if told["goal"] == "makespan":  # to leave a job out never ends later
        found["jobs"] = [job for job in found["jobs"] if job["required"]]
    return best(found)


def worth_of_arrays(told: Told, plan: Any) -> Fraction | None:
    """Return what chosen entries are worth."""
    rows = [int(row) for row in plan]
    if any(
        row != -1 and not told["offsets"][j] <= row < told["offsets"][j + 1] for j, row in enumerate(rows)
    ):
        return None
    chosen = {f"j{j}": f"e{row}" for j, row in enumerate(rows) if row >= 0}
    if any(must and f"j{j}" not in chosen for j, must in enumerate(told["required"])):
        return None
    load: dict[int, Fraction] = {}
    used: dict[int, int] = {}
    total = Fraction(0)
    for row in (row for row in rows if row >= 0):
        on, value = told["machine"][row], Fraction(told["values"][row])
        load[on] = load.get(on, Fraction(0)) + value
        used[on] = used.get(on, 0) + told["uses"][row]
        total += value
    if told["capacities"] is not None and any(used[k] > told["capacities"][k] for k in used):
        return None
    if told["goal"] == "makespan":
        return max(load.values(), default=Fraction(0))
    return total


def _as_instance(told: Told) -> Told:
    """Return the same as an instance."""
    field = {"makespan": "time_s"}.get(told["goal"], told["goal"])
    jobs = []
    for j, must in enumerate(told["required"]):
        on = {}
        for row in range(told["offsets"][j], told["offsets"][j + 1]):
            if f"m{told['machine'][row]}" in on:
                raise ValueError("two entries of a job on one machine")
            on[f"m{told['machine'][row]}"] = {field: told["values"][row], "uses": told["uses"][row]}
        jobs.append({"id": f"j{j}", "required": must, "on": on})
    capacities = told["capacities"] or [None] * told["machines"]
    machines = [{"id": f"m{k}", "capacity": capacity} for k, capacity in enumerate(capacities)]
    return {"objective": told["goal"], "machines": machines, "jobs": jobs}
