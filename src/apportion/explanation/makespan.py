"""Why a makespan is what it is: what every pool is worth, and why each job runs where it does.

A makespan has no prices per unit: what one more machine, one fewer, or another machine for a job would mean
is found by solving again. What a job would meet on another pool is read off the plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from msgspec import UNSET
from msgspec.structs import replace

from apportion.core.errors import ApportionError, InvalidInstance, InvalidOption, Problem, did_you_mean
from apportion.core.outcome import Termination
from apportion.core.solution import Solution
from apportion.explanation.by_menus import MOST_JOBS, explain_infeasible, unlisted, unproven
from apportion.explanation.parts import (
    CapacityWorth,
    Conflict,
    Difference,
    JobWorth,
    OptionWorth,
    Relaxation,
    Rival,
    seconds,
)
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import Explanation, explanation_of
from apportion.explanation.subject import Subject, difference
from apportion.instances import edits
from apportion.instances.matching import MatchingInstance, MatchingJob
from apportion.instances.matching.bounds import Placed, machine_name, schedule

__all__ = ["MakespanView", "explain_makespan", "shared_worth", "timed_worth"]


_LATE = 1e-9


class MakespanView:
    """A plan and when every machine of it is done.

    Parameters
    ----------
    instance, solution
        The instance and its solution.
    placed
        Where and when every job runs.
    """

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


def timed_worth(
    view: MakespanView, job: MatchingJob, asked: str | None, resolver: Resolver | None, share: float
) -> JobWorth:
    """Return why a job runs where it does; `asked` is another pool that was asked about."""
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


def _rival(view: MakespanView, job: MatchingJob, pool: str, resolver: Resolver | None, share: float) -> Rival:
    worth = _worth(job, pool)
    if resolver is None:
        return Rival(worth, None)
    if pool == view.placed[job.id].pool:
        return Rival(worth, None, difference(view.solution, view.solution, -1.0), True)
    answer = resolver.solve(edits.pin(view.instance, {job.id: pool}), view.solution, share)
    if answer is None or answer.plan is None:
        return Rival(worth, None)
    return Rival(worth, None, difference(view.solution, answer, -1.0), True)


def _remarks(view: MakespanView, job: MatchingJob, where: Placed, other: str | None) -> list[str]:
    count = view.count[where.pool]
    machines = ", ".join(machine_name(where.pool, k, count) for k in where.machines[:8])
    machines += f" and {len(where.machines) - 8} more" if len(where.machines) > 8 else ""
    last = ", when everything ends" if where.end >= view.makespan * (1 - _LATE) else ""
    remarks = [f"on {machines} from {seconds(where.begin)} to {seconds(where.end)}{last}"]
    times = {pool: float(entry.time_s or 0.0) for pool, entry in job.on.items()}
    quickest = min(times, key=lambda pool: (times[pool], pool))
    own = times[where.pool]
    if len(times) == 1:
        remarks.append("no other pool can run it")
    elif own <= times[quickest]:
        remarks.append("nothing is quicker for it")
    elif times[quickest] > 0:
        ratio = own / times[quickest]
        remarks.append(
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
        remarks.append(f"on {pool} as planned {busy} free from {seconds(begin)} on: behind that {tail}")
    return remarks


def shared_worth(job: MatchingJob, shares: Mapping[str, float]) -> JobWorth:
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


_MOST_POOLS = 20
_LATE = 1e-9


class _Rooms(Subject):
    """An infeasible makespan as a matching of its jobs to room on machines, where conflicts show."""

    @classmethod
    def of(cls, instance: MatchingInstance) -> _Rooms:
        """Return a makespan without times and shares: whether all jobs find room does not hang on these."""
        jobs = (
            replace(job, on={name: replace(entry, time_s=None, cost=0.0) for name, entry in job.on.items()})
            for job in instance.jobs
        )
        return cls(replace(instance, objective="cost", jobs=tuple(jobs), fairness=UNSET))

    @property
    def measure(self) -> str:
        """What the objective is called."""
        return "makespan"

    def changes(self, additions: Mapping[str, int]) -> Mapping[str, int]:
        """Return additions to the room on every machine of a pool, each named ``POOL.capacity``."""
        return {f"{pool}.capacity": amount for pool, amount in super().changes(additions).items()}


def explain_makespan(
    subject: Subject,
    solution: Solution | None,
    job: str | None,
    option: str | None,
    resolver: Resolver,
    exact_jobs: int,
) -> Explanation:
    """Return the explanation of a makespan; see `explain` for the parameters."""
    instance: MatchingInstance = subject.instance
    if solution is None:
        solution = resolver.first(instance)
    jobs = {one.id: one for one in instance.jobs}
    if job is not None and job not in jobs:
        raise InvalidInstance(Problem("$.jobs", f"there is no job {job!r}{did_you_mean(job, jobs)}"))
    if option is not None and job is not None and option not in jobs[job].on:
        there = ", ".join(list(jobs[job].on)[:10]) or "no machine"
        raise InvalidOption(f"job {job!r} cannot get {option!r}; it can get {there}")
    if solution.plan is None:
        return _infeasible(subject, solution, resolver)
    if not _belongs(instance, solution):
        raise InvalidOption("the solution is not one of this instance")
    notes = unproven(solution)
    placed = {} if instance.divisible else schedule(instance, cast(dict[str, Any], solution.plan))
    worths = _jobs(instance, solution, placed, job, option, resolver, exact_jobs, notes)
    pools = _pools(instance, solution, placed, resolver, notes)
    return explanation_of(subject, solution, True, notes, capacities=pools, jobs=worths)


def _jobs(
    instance: MatchingInstance,
    solution: Solution,
    placed: Mapping[str, Placed],
    job: str | None,
    option: str | None,
    resolver: Resolver,
    exact_jobs: int,
    notes: list[str],
) -> tuple[JobWorth, ...]:
    """Return why jobs run where they do: of one job with exact figures, or of all."""
    if job is None:
        asked, exact = list(instance.jobs[:MOST_JOBS]), len(instance.jobs) <= exact_jobs
        notes += unlisted(len(instance.jobs))
    else:
        asked, exact = [one for one in instance.jobs if one.id == job], True
    if not exact:
        notes.append("what another machine for a job would mean is solved only for a job that is asked for")
    if instance.divisible:
        shares = cast(dict[str, Any], solution.plan)["fractions"]
        return tuple(shared_worth(one, shares[one.id]) for one in asked)
    view = MakespanView(instance, solution, placed)
    return tuple(
        timed_worth(view, one, option, resolver if exact else None, 0.5 / (len(asked) - number))
        for number, one in enumerate(asked)
    )


def _pools(
    instance: MatchingInstance,
    solution: Solution,
    placed: Mapping[str, Placed],
    resolver: Resolver,
    notes: list[str],
) -> tuple[CapacityWorth, ...]:
    """Return what every pool is worth, of the busiest ones by solving with one machine more or fewer."""
    busy = _busy(instance, solution, placed)
    order = sorted(range(len(busy)), key=lambda number: -busy[number][1])
    solved = set(order[:_MOST_POOLS])
    if len(solved) < len(busy):
        which = f"for the {_MOST_POOLS} busiest of {len(busy)} pools"
        notes.append(f"what one machine more or fewer means is solved {which}")
    return tuple(
        _pool(instance, solution, number, busy[number], resolver if number in solved else None, left, notes)
        for left, number in zip(range(len(busy), 0, -1), range(len(busy)), strict=True)
    )


def _belongs(instance: MatchingInstance, solution: Solution) -> bool:
    """Return whether a solution's plan is one of the instance."""
    from apportion.solving.api import check

    return check(instance, solution.plan).feasible


def _busy(
    instance: MatchingInstance, solution: Solution, placed: Mapping[str, Placed]
) -> list[tuple[int, float]]:
    """Return how many machines of each pool run something, and which part of its time is used."""
    plan: Any = solution.plan
    makespan = float(solution.objective or 0.0)
    number = {machine.id: k for k, machine in enumerate(instance.machines)}
    work = [0.0] * len(number)
    machines: list[set[int]] = [set() for _ in number]
    if instance.divisible:
        for job in instance.jobs:
            for pool, share in plan["fractions"][job.id].items():
                work[number[pool]] += share * job.on[pool].gpus
        return [
            (min(math.ceil(total - _LATE), pool.count), total / pool.count)
            for total, pool in zip(work, instance.machines, strict=True)
        ]
    for where in placed.values():
        machines[number[where.pool]].update(where.machines)
        work[number[where.pool]] += (where.end - where.begin) * len(where.machines)
    return [
        (len(held), total / (pool.count * makespan) if makespan else 0.0)
        for held, total, pool in zip(machines, work, instance.machines, strict=True)
    ]


def _pool(
    instance: MatchingInstance,
    solution: Solution,
    number: int,
    busy: tuple[int, float],
    resolver: Resolver | None,
    left: int,
    notes: list[str],
) -> CapacityWorth:
    pool = instance.machines[number]
    more = fewer = None
    if resolver is not None:
        more = _changed(instance, solution, pool.id, 1, resolver, 1.0 / (2 * left), notes)
        fewer = _changed(instance, solution, pool.id, -1, resolver, 1.0 / max(2 * left - 1, 1), notes)
    return CapacityWorth(
        name=pool.id,
        capacity=pool.count,
        used=busy[0],
        free=pool.count - busy[0],
        price=None,
        one_more=more,
        one_more_at_most=None,
        one_fewer=fewer,
        busy=busy[1],
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
    """Return by how much earlier everything ends with one machine more, or later with one fewer."""
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


def _infeasible(subject: Subject, solution: Solution, resolver: Resolver) -> Explanation:
    """Return why there is no schedule: a job can run nowhere, or there is too little room."""
    instance: MatchingInstance = subject.instance
    lost = [job.id for job in instance.jobs if not job.on]
    if not lost and solution.termination is Termination.INFEASIBLE:
        return explain_infeasible(_Rooms.of(instance), [job.id for job in instance.jobs], solution, resolver)
    if not lost:
        message = (
            f"no plan was found and none is ruled out; the solve ended with {solution.termination.value}"
        )
        return explanation_of(subject, solution, None, [message])
    conflicts = tuple(
        Conflict((name,), (), {}, {}, True, True, (), "it can run on no machine") for name in lost[:MOST_JOBS]
    )
    answer = resolver.solve(edits.remove_jobs(instance, lost), share=0.5)
    verified = answer is not None and answer.plan is not None
    note = "" if verified else "the rest was not solved in time"
    way = Relaxation("leave_out", {}, tuple(lost), float(len(lost)), True, verified, note)
    return explanation_of(subject, solution, False, [], conflicts=conflicts, relaxations=(way,))
