"""What a matching plan means: the rules and the objective, recomputed from the plan alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

from apportion.core.outcome import Report, Violation
from apportion.instances.matching.bounds import exact_bound
from apportion.instances.matching.schema import MatchingEntry, MatchingInstance, MatchingMachine

__all__ = ["check", "exact_bound", "exact_objective"]

_SLACK = 1e-9
"""Relative overlap of time that counts as rounding."""
_Place = tuple[str, int]


def check(instance: MatchingInstance, plan: Any) -> Report:
    """Check a plan and recompute its objective.

    Parameters
    ----------
    instance
        The instance.
    plan
        ``{"assignment": {job: machine}}``. Where a pool has several machines, ``"machine_index"`` gives each
        job's machine from 0 (a list of distinct ones for a job that holds several), if times or capacities
        depend on it. ``"start_s"`` gives starts; without it the jobs of a machine run one after another.
        Divisible: ``{"fractions": {job: {machine: share of all time}}}``.
    """
    if instance.divisible:
        return _check_fractions(instance, plan)
    known = {"assignment", "machine_index", "start_s"}
    if (
        not isinstance(plan, Mapping)
        or not set(plan) <= known
        or not all(isinstance(plan.get(part, {}), Mapping) for part in known)
        or "assignment" not in plan
    ):
        message = 'must be {"assignment": {job: machine}, "machine_index": {...}, "start_s": {...}}'
        return Report(None, (Violation("shape", "plan", message),))
    violations = list(_assignment_violations(instance, plan))
    if violations:
        return Report(None, tuple(violations))
    places, violations = _places(instance, plan)
    entries = _entries(instance, plan)
    if violations:
        return Report(None, tuple(violations))
    violations = list(_capacity_violations(instance, entries, places))
    if instance.objective != "makespan":
        chosen = [getattr(entry, instance.field) for entry in entries.values()]
        return Report(math.fsum(chosen), tuple(violations))
    starts = plan.get("start_s", {})
    violations += _schedule_violations(entries, places, starts)
    return Report(float(_makespan(entries, places, starts)), tuple(violations))


def exact_objective(instance: MatchingInstance, plan: Mapping[str, Any]) -> Fraction:
    """Return the objective of a feasible plan in rational arithmetic."""
    if instance.divisible:
        return max((_finish(job.on, plan["fractions"][job.id]) for job in instance.jobs), default=Fraction(0))
    entries = _entries(instance, plan)
    if instance.objective != "makespan":
        return sum((Fraction(getattr(entry, instance.field)) for entry in entries.values()), Fraction(0))
    return _makespan(entries, _places(instance, plan)[0], plan.get("start_s", {}))


def _entries(instance: MatchingInstance, plan: Mapping[str, Any]) -> dict[str, MatchingEntry]:
    chosen = plan["assignment"]
    return {job.id: job.on[chosen[job.id]] for job in instance.jobs if chosen.get(job.id) is not None}


def _assignment_violations(instance: MatchingInstance, plan: Mapping[str, Any]) -> Iterator[Violation]:
    known = {job.id for job in instance.jobs}
    for part in ("assignment", "machine_index", "start_s"):
        for job_id in plan.get(part, {}):
            if job_id not in known:
                yield Violation(
                    "known_job", str(job_id), f"stands in {part} but is not a job of the instance"
                )
    for job in instance.jobs:
        named = plan["assignment"].get(job.id)
        if named is None:
            if job.required:
                yield Violation("required", job.id, "must run on one of its machines")
        elif not isinstance(named, str) or named not in job.on:
            yield Violation("forbidden", job.id, f"cannot run on {named!r}")


def _places(
    instance: MatchingInstance, plan: Mapping[str, Any]
) -> tuple[dict[str, list[_Place]], list[Violation]]:
    """Return the machines every job holds, as (pool, index), where it makes a difference."""
    pools = {machine.id: machine for machine in instance.machines}
    places: dict[str, list[_Place]] = {}
    violations: list[Violation] = []
    for job in instance.jobs:
        named = plan["assignment"].get(job.id)
        if named is None:
            continue
        pool, gpus = pools[named], job.on[named].gpus
        index = plan.get("machine_index", {}).get(job.id)
        if index is None and pool.count == gpus:
            index = list(range(pool.count))
        if index is None and instance.objective != "makespan" and pool.capacity is None:
            continue
        listed = index if isinstance(index, list | tuple) else [index]
        wrong = _index_problem(listed, pool, gpus)
        if wrong is None:
            places[job.id] = [(named, int(position)) for position in listed]
        else:
            violations.append(Violation("machine_index", job.id, wrong))
    return places, violations


def _index_problem(listed: Any, pool: MatchingMachine, gpus: int) -> str | None:
    for position in listed:
        if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < pool.count:
            return f"{position!r} is no machine of {pool.id!r}, which has {pool.count} counted from 0"
    if len(set(listed)) != len(listed) or len(listed) != gpus:
        return f"holds {len(set(listed))} machines of {pool.id!r}, needs {gpus}"
    return None


def _capacity_violations(
    instance: MatchingInstance, entries: Mapping[str, MatchingEntry], places: Mapping[str, list[_Place]]
) -> Iterator[Violation]:
    used: dict[_Place, int] = {}
    for job_id, held in places.items():
        for place in held:
            used[place] = used.get(place, 0) + entries[job_id].uses
    limits = {machine.id: machine for machine in instance.machines}
    for (name, index), total in used.items():
        limit = limits[name].capacity
        if limit is not None and total > limit:
            subject = name if limits[name].count == 1 else f"{name}[{index}]"
            yield Violation("capacity", subject, f"uses {total} of {limit}")


def _schedule_violations(
    entries: Mapping[str, MatchingEntry], places: Mapping[str, list[_Place]], starts: Mapping[str, Any]
) -> Iterator[Violation]:
    for job_id, start in starts.items():
        if not _is_amount(start):
            yield Violation("start_s", str(job_id), f"must be a finite number >= 0, not {start!r}")
            return
    for job_id, entry in entries.items():
        if entry.gpus > 1 and job_id not in starts:
            yield Violation("start_s", job_id, f"is needed: the job holds {entry.gpus} machines at once")
    for place, jobs in _by_place(places).items():
        timed = [job_id for job_id in jobs if job_id in starts]
        if timed and len(timed) != len(jobs):
            rest = next(job_id for job_id in jobs if job_id not in starts)
            yield Violation("start_s", rest, f"is needed: other jobs on {place[0]}[{place[1]}] have a start")
            continue
        timed.sort(key=lambda job_id: (starts[job_id], starts[job_id] + _time(entries[job_id])))
        for first, second in pairwise(timed):
            end = starts[first] + _time(entries[first])
            if starts[second] < end - _SLACK * end:
                message = f"starts at {starts[second]:g} on {place[0]}[{place[1]}], {first!r} ends at {end:g}"
                yield Violation("overlap", second, message)


def _makespan(
    entries: Mapping[str, MatchingEntry], places: Mapping[str, list[_Place]], starts: Mapping[str, Any]
) -> Fraction:
    last = Fraction(0)
    for job_id, start in starts.items():
        if job_id in entries and _is_amount(start):
            last = max(last, Fraction(start) + Fraction(_time(entries[job_id])))
    for jobs in _by_place(places).values():
        if not any(job_id in starts for job_id in jobs):
            last = max(last, sum((Fraction(_time(entries[job_id])) for job_id in jobs), Fraction(0)))
    return last


def _by_place(places: Mapping[str, list[_Place]]) -> dict[_Place, list[str]]:
    jobs: dict[_Place, list[str]] = {}
    for job_id, held in places.items():
        for place in held:
            jobs.setdefault(place, []).append(job_id)
    return jobs


def _time(entry: MatchingEntry) -> float:
    return 0.0 if entry.time_s is None else entry.time_s


def _check_fractions(instance: MatchingInstance, plan: Any) -> Report:
    named = plan.get("fractions") if isinstance(plan, Mapping) else None
    if not isinstance(named, Mapping) or set(plan) != {"fractions"}:
        message = 'must be {"fractions": {job: {machine: share of time}}}'
        return Report(None, (Violation("shape", "plan", message),))
    violations: list[Violation] = []
    known = {job.id for job in instance.jobs}
    violations += [
        Violation("known_job", str(j), "is not a job of the instance") for j in named if j not in known
    ]
    load = {machine.id: 0.0 for machine in instance.machines}
    finishes: list[float] = []
    for job in instance.jobs:
        shares = named.get(job.id)
        if not isinstance(shares, Mapping) or not all(_is_amount(share) for share in shares.values()):
            violations.append(Violation("required", job.id, "must have shares of time >= 0 by machine"))
            continue
        foreign = [name for name in shares if name not in job.on]
        if foreign:
            violations.append(Violation("forbidden", job.id, f"cannot run on {foreign[0]!r}"))
            continue
        total = math.fsum(shares.values())
        if total > 1 + _SLACK:
            violations.append(Violation("one_at_a_time", job.id, f"runs {total:.12g} of the time"))
        if not any(shares.values()):
            violations.append(Violation("required", job.id, "gets no time"))
            continue
        for name, share in shares.items():
            load[name] += share * job.on[name].gpus
        finishes.append(_rounded_finish(job.on, shares))
    for machine in instance.machines:
        if load[machine.id] > machine.count * (1 + _SLACK):
            message = f"{load[machine.id]:.12g} of {machine.count} machines are busy"
            violations.append(Violation("machine_time", machine.id, message))
    complete = len(finishes) == len(instance.jobs)
    return Report(max(finishes, default=0.0) if complete else None, tuple(violations))


def _finish(on: Mapping[str, MatchingEntry], shares: Mapping[str, float]) -> Fraction:
    speed = sum((Fraction(share) / Fraction(_time(on[name])) for name, share in shares.items()), Fraction(0))
    return 1 / speed


def _rounded_finish(on: Mapping[str, MatchingEntry], shares: Mapping[str, float]) -> float:
    """Return the double nearest to when a job ends; on one machine that is one division."""
    given = [name for name, share in shares.items() if share]
    return _time(on[given[0]]) / shares[given[0]] if len(given) == 1 else float(_finish(on, shares))


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
