"""Why a makespan is what it is: what every pool is worth, and why each job runs where it does.

A makespan has no prices per unit: what one more machine, one fewer, or another machine for a job would mean
is found by solving again. What a job would meet on another pool is read off the plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from apportion.choices import did_you_mean
from apportion.errors import ApportionError, InvalidInstance, InvalidOption, Problem
from apportion.explanation.by_menus import explain_infeasible
from apportion.explanation.matching.makespan_jobs import MakespanView, shared_worth, timed_worth
from apportion.explanation.notes import MOST_JOBS, unlisted, unproven
from apportion.explanation.parts import CapacityWorth, Conflict, Difference, JobWorth, Relaxation
from apportion.explanation.plan_view import difference
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import Explanation, explanation_of
from apportion.instances import edits
from apportion.instances.matching import MatchingInstance
from apportion.instances.matching.schedule import Placed, schedule
from apportion.outcome import Termination
from apportion.solution import Solution

if TYPE_CHECKING:
    from apportion.explanation.matching.subject import MatchingSubject

__all__ = ["explain_makespan"]

_MOST_POOLS = 20
_LATE = 1e-9


def explain_makespan(
    subject: MatchingSubject,
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
    from apportion.api import check

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


def _infeasible(subject: MatchingSubject, solution: Solution, resolver: Resolver) -> Explanation:
    """Return why there is no schedule: a job can run nowhere, or there is too little room."""
    instance: MatchingInstance = subject.instance
    lost = [job.id for job in instance.jobs if not job.on]
    if not lost and solution.termination is Termination.INFEASIBLE:
        return explain_infeasible(subject.rooms(), [job.id for job in instance.jobs], solution, resolver)
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
