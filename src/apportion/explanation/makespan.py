"""Why a makespan is what it is: what every pool is worth, and why each job runs where it does.

A makespan has no prices per unit: what one more machine, one fewer, or another machine for a job would mean
is found by solving again. What a job would meet on another pool is read off the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from apportion.errors import ApportionError, InvalidInstance, InvalidOption, Problem
from apportion.explanation.plan_view import difference
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import (
    CapacityWorth,
    Conflict,
    Difference,
    Explanation,
    JobWorth,
    OptionWorth,
    Relaxation,
    Rival,
)
from apportion.explanation.words import seconds
from apportion.instances import edits
from apportion.instances.matching import MatchingInstance, MatchingJob
from apportion.instances.matching.schedule import Placed, machine_name, schedule
from apportion.outcome import Termination
from apportion.solution import Solution

__all__ = ["explain_makespan"]

_MOST_JOBS = 1000
_LATE = 1e-9


def explain_makespan(
    instance: MatchingInstance,
    solution: Solution,
    job: str | None,
    option: str | None,
    resolver: Resolver,
    exact_jobs: int,
) -> Explanation:
    """Return the explanation of a makespan; see `explain` for the parameters."""
    jobs = {one.id: one for one in instance.jobs}
    if job is not None and job not in jobs:
        raise InvalidInstance(Problem("$.jobs", f"there is no job {job!r}"))
    if option is not None and job is not None and option not in jobs[job].on:
        there = ", ".join(list(jobs[job].on)[:10]) or "no machine"
        raise InvalidOption(f"job {job!r} cannot get {option!r}; it can get {there}")
    if solution.plan is None:
        return _infeasible(instance, solution, resolver)
    if not _belongs(instance, solution):
        raise InvalidOption("the solution is not one of this instance")
    notes: list[str] = []
    if solution.termination is not Termination.OPTIMAL:
        told = f"the plan is not proven optimal ({solution.termination.value}): worths are given as bounds"
        notes.append(told)
    asked = [jobs[job]] if job is not None else list(instance.jobs[:_MOST_JOBS])
    if job is None and len(asked) < len(jobs):
        notes.append(f"{len(jobs) - len(asked)} of {len(jobs)} jobs are not listed; ask for one by its name")
    exact = job is not None or len(jobs) <= exact_jobs
    if not exact:
        notes.append("what another machine for a job would mean is solved only for a job that is asked for")
    pools = tuple(
        _pool(instance, solution, number, resolver, notes) for number in range(len(instance.machines))
    )
    plan: Any = solution.plan
    if instance.divisible:
        worths = [_shared(one, plan["fractions"][one.id]) for one in asked]
    else:
        view = _View(instance, solution, schedule(instance, plan))
        worths = [
            _job(view, one, option, resolver if exact else None, 1.0 / (len(asked) - number))
            for number, one in enumerate(asked)
        ]
    return _told(instance, solution, True, notes, capacities=pools, jobs=tuple(worths))


def _belongs(instance: MatchingInstance, solution: Solution) -> bool:
    """Return whether a solution's plan is one of the instance."""
    from apportion.api import check

    return check(instance, solution.plan).feasible


class _View:
    """A plan and when every machine of it is done."""

    def __init__(self, instance: MatchingInstance, solution: Solution, placed: Mapping[str, Placed]) -> None:
        self.instance, self.solution, self.placed = instance, solution, placed
        self.count = {machine.id: machine.count for machine in instance.machines}
        self.done = {name: np.zeros(count) for name, count in self.count.items()}
        for where in placed.values():
            held = list(where.machines)
            self.done[where.pool][held] = np.maximum(self.done[where.pool][held], where.end)
        self.makespan = float(solution.objective or 0.0)

    def behind(self, job: MatchingJob, pool: str) -> tuple[float, float]:
        """Return when a job could start behind everything that runs on a pool, and when it would end."""
        entry = job.on[pool]
        begin = float(np.sort(self.done[pool])[entry.gpus - 1])
        return begin, begin + float(entry.time_s or 0.0)


def _pool(
    instance: MatchingInstance, solution: Solution, number: int, resolver: Resolver, notes: list[str]
) -> CapacityWorth:
    pool = instance.machines[number]
    share = 1.0 / (2 * (len(instance.machines) - number) + 1)
    more = _changed(instance, solution, pool.id, 1, resolver, share, notes)
    fewer = _changed(instance, solution, pool.id, -1, resolver, share, notes)
    plan: Any = solution.plan
    makespan = float(solution.objective or 0.0)
    if instance.divisible:
        busy = sum(
            shares.get(pool.id, 0.0) * job.on[pool.id].gpus
            for job in instance.jobs
            if (shares := plan["fractions"][job.id]).get(pool.id)
        )
        used = min(int(np.ceil(busy - _LATE)), pool.count)
        part = busy / pool.count
    else:
        held = [where for where in schedule(instance, plan).values() if where.pool == pool.id]
        used = len({machine for where in held for machine in where.machines})
        work = sum((where.end - where.begin) * len(where.machines) for where in held)
        part = work / (pool.count * makespan) if makespan else 0.0
    return CapacityWorth(
        name=pool.id,
        capacity=pool.count,
        used=used,
        free=pool.count - used,
        price=None,
        one_more=more,
        one_more_at_most=None,
        one_fewer=fewer,
        busy=float(part),
    )


def _changed(
    instance: MatchingInstance,
    solution: Solution,
    pool: str,
    delta: int,
    resolver: Resolver,
    share: float,
    notes: list[str],
) -> Difference | None:
    """Return by how much earlier (one more) or later (one fewer) everything ends."""
    words = f"one machine {'more' if delta > 0 else 'fewer'} of {pool}"
    try:
        changed = edits.change_capacity(instance, f"{pool}.count", delta)
    except ApportionError as error:
        notes.append(f"{words}: {error}")
        return None
    answer = resolver.solve(changed, solution, share)
    if answer is None or answer.plan is None:
        infeasible = answer is not None and answer.termination is Termination.INFEASIBLE
        notes.append(f"{words} {'leaves nothing feasible' if infeasible else 'was not solved in time'}")
        return None
    better, worse = (answer, solution) if delta > 0 else (solution, answer)
    return difference(better, worse, -1.0)


def _job(
    view: _View, job: MatchingJob, asked: str | None, resolver: Resolver | None, share: float
) -> JobWorth:
    where = view.placed[job.id]
    rivals = [pool for pool in job.on if pool != where.pool]
    # the runner-up: where it would end first behind what runs there anyway
    runner_up = min(rivals, key=lambda pool: (view.behind(job, pool)[1], pool), default=None)
    return JobWorth(
        job=job.id,
        chosen=_worth(job, where.pool),
        runner_up=None if runner_up is None else _rival(view, job, runner_up, resolver, share),
        asked=None if asked is None else _rival(view, job, asked, resolver, share),
        step_up=None,
        step_down=None,
        enters_at=None,
        enters_at_price=None,
        idle=False,
        remarks=tuple(_remarks(view, job, where, asked or runner_up)),
    )


def _worth(job: MatchingJob, pool: str) -> OptionWorth:
    entry = job.on[pool]
    return OptionWorth(pool, float(entry.time_s or 0.0), {pool: entry.gpus}, None, None)


def _rival(view: _View, job: MatchingJob, pool: str, resolver: Resolver | None, share: float) -> Rival:
    worth = _worth(job, pool)
    if resolver is None:
        return Rival(worth, None)
    if pool == view.placed[job.id].pool:
        return Rival(worth, None, difference(view.solution, view.solution, -1.0), True)
    answer = resolver.solve(edits.pin(view.instance, {job.id: pool}), view.solution, share)
    if answer is None or answer.plan is None:
        return Rival(worth, None)
    return Rival(worth, None, difference(view.solution, answer, -1.0), True)


def _remarks(view: _View, job: MatchingJob, where: Placed, other: str | None) -> list[str]:
    count = view.count[where.pool]
    machines = ", ".join(machine_name(where.pool, k, count) for k in where.machines[:8])
    machines += f" and {len(where.machines) - 8} more" if len(where.machines) > 8 else ""
    last = ", when everything ends" if where.end >= view.makespan * (1 - _LATE) else ""
    told = [f"on {machines} from {seconds(where.begin)} to {seconds(where.end)}{last}"]
    times = {pool: float(entry.time_s or 0.0) for pool, entry in job.on.items()}
    quickest = min(times, key=lambda pool: (times[pool], pool))
    own = times[where.pool]
    if len(times) == 1:
        told.append("no other pool can run it")
    elif own <= times[quickest]:
        told.append("nothing is quicker for it")
    elif times[quickest] > 0:
        ratio = own / times[quickest]
        told.append(
            f"{quickest} is its quickest: {seconds(times[quickest])}, here it takes {ratio:.3g} times as long"
        )
    for pool in dict.fromkeys((quickest, other)):
        if pool is None or pool == where.pool:
            continue
        begin, end = view.behind(job, pool)
        gang = job.on[pool].gpus
        busy = f"{gang} machines of it are" if gang > 1 else "a machine of it is"
        late = end - view.makespan
        if late > _LATE * view.makespan:
            tail = f"it would end at {seconds(end)}, {seconds(late)} after everything else"
        else:
            tail = f"it would end at {seconds(end)}, no later than everything does"
        told.append(f"on {pool} as planned {busy} free from {seconds(begin)} on: behind that {tail}")
    return told


def _shared(job: MatchingJob, shares: Mapping[str, float]) -> JobWorth:
    """Return what a job that runs by shares of time gets."""
    speed = sum(share / float(job.on[pool].time_s or 1.0) for pool, share in shares.items())
    held = {pool: share for pool, share in shares.items() if share > 0}
    parts = ", ".join(f"{100 * share:.4g} % on {pool}" for pool, share in held.items())
    times = {pool: float(entry.time_s or 0.0) for pool, entry in job.on.items()}
    quickest = min(times, key=lambda pool: (times[pool], pool))
    remarks = [f"its time: {parts}; done after {seconds(1.0 / speed)}" if speed else "gets no time"]
    if set(held) != {quickest}:
        remarks.append(f"{quickest} is its quickest: {seconds(times[quickest])} if it had it all the time")
    largest = max(held, key=lambda pool: held[pool], default=quickest)
    return JobWorth(
        job=job.id,
        chosen=OptionWorth(largest, times[largest], {pool: job.on[pool].gpus for pool in held}, None, None),
        runner_up=None,
        asked=None,
        step_up=None,
        step_down=None,
        enters_at=None,
        enters_at_price=None,
        idle=False,
        remarks=tuple(remarks),
    )


def _infeasible(instance: MatchingInstance, solution: Solution, resolver: Resolver) -> Explanation:
    """Return why there is no schedule: only a job that can run nowhere makes it impossible."""
    lost = [job.id for job in instance.jobs if not job.on]
    if not lost:
        told = f"no plan was found and none is ruled out; the solve ended with {solution.termination.value}"
        return _told(instance, solution, None, [told])
    conflicts = tuple(
        Conflict((name,), (), {}, {}, True, True, (), "it can run on no machine")
        for name in lost[:_MOST_JOBS]
    )
    answer = resolver.solve(edits.remove_jobs(instance, lost), share=0.5)
    verified = answer is not None and answer.plan is not None
    note = "" if verified else "the rest was not solved in time"
    way = Relaxation("leave_out", {}, tuple(lost), float(len(lost)), True, verified, note)
    return _told(instance, solution, False, [], conflicts=conflicts, relaxations=(way,))


def _told(
    instance: MatchingInstance,
    solution: Solution,
    feasible: bool | None,
    notes: Sequence[str],
    **parts: Any,
) -> Explanation:
    sense: Literal["minimize"] = "minimize"
    certificate = solution.certificate
    return Explanation(
        kind="matching",
        name=instance.name,
        sense=sense,
        termination=solution.termination.value,
        feasible=feasible,
        objective=certificate.objective,
        bound=certificate.bound,
        verified_bound=certificate.verified_bound,
        notes=tuple(notes),
        solution=solution,
        measure="makespan",
        **parts,
    )
