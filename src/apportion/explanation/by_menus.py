"""Explain an instance by its menus and prices: the way of every kind whose answers are choices from menus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.choices import did_you_mean
from apportion.errors import InvalidInstance, InvalidOption, Problem
from apportion.explanation import conflict, relaxation
from apportion.explanation.capacities import capacity_worths
from apportion.explanation.jobs import job_worth
from apportion.explanation.notes import MOST_JOBS, unlisted, unproven
from apportion.explanation.parts import JobWorth, Relaxation
from apportion.explanation.plan_view import PlanView
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import Explanation, explanation_of
from apportion.explanation.subject import Subject
from apportion.formulations.protocol import KnapsackFormulation
from apportion.instances import edits
from apportion.outcome import Termination
from apportion.solution import Solution
from apportion.solving.certify import usable

__all__ = ["LEFT_OUT", "Remarked", "explain_by_menus", "explain_infeasible"]

LEFT_OUT = "-"
"""What the option of leaving a job out is called when it is asked about."""

Remarked = Callable[[JobWorth, PlanView, int, Resolver | None, float], JobWorth]
"""``remarked(worth, view, job, resolver, share)``: a job's worth with what only its kind knows."""


def _unremarked(
    worth: JobWorth, view: PlanView, job: int, resolver: Resolver | None, share: float
) -> JobWorth:
    return worth


def explain_by_menus(
    subject: Subject,
    solution: Solution | None,
    job: str | None,
    option: str | None,
    resolver: Resolver,
    exact_jobs: int,
    remarked: Remarked = _unremarked,
) -> Explanation:
    """Return the explanation of an instance that has menus.

    Parameters
    ----------
    subject
        The instance.
    solution, job, option, exact_jobs
        As in `apportion.explanation.explain`.
    resolver
        Solves the instance where there is no solution yet, and variants of it.
    remarked
        Adds to the worth of every job what only its kind knows.
    """
    names = list(subject.menus.job_names())
    index = _index(names, job)
    if solution is None:
        solution = resolver.first(subject.instance)
    menus = subject.priced_menus(solution.certificate.multipliers)
    rows = _rows(menus, solution)
    if rows is None:
        return explain_infeasible(subject, names, solution, resolver)
    view = PlanView(subject, menus, solution, rows, _prices(subject, menus, solution))
    asked = None if index is None or option is None else _row(view, index, names[index], option)
    notes = unproven(solution)
    jobs = _Jobs(view, names, resolver, remarked)
    if index is None:
        capacities = capacity_worths(view, resolver, notes)
        worths = jobs.all(exact_jobs, notes)
    else:  # whoever asks for a job gets it before the time is up
        worths = (jobs.one(index, asked, 0.5),)
        capacities = capacity_worths(view, resolver, notes)
    return explanation_of(subject, solution, True, notes, capacities=capacities, jobs=worths)


def _index(names: Sequence[str], job: str | None) -> int | None:
    if job is None:
        return None
    if job not in names:
        raise InvalidInstance(Problem("$.jobs", f"there is no job {job!r}{did_you_mean(job, names)}"))
    return names.index(job)


def _row(view: PlanView, job: int, name: str, option: str) -> int:
    for row in view.choices(job):
        if (LEFT_OUT if row < 0 else view.structure.option_name(row)) == option:
            return row
    menu = [LEFT_OUT if row < 0 else view.structure.option_name(row) for row in view.choices(job)]
    shown = ", ".join(menu[:10]) + (", ..." if len(menu) > 10 else "")
    raise InvalidOption(f"job {name!r} cannot get {option!r}; it can get {shown}")


def _rows(structure: KnapsackFormulation, solution: Solution) -> NDArray[np.int64] | None:
    """Return the chosen rows of a solution's plan, ``None`` without a plan."""
    if solution.plan is None:
        return None
    rows = structure.choice(solution.plan)
    if rows is None or not structure.model.check(rows).feasible:
        raise InvalidOption("the solution is not one of this instance")
    return rows


def _prices(subject: Subject, menus: KnapsackFormulation, solution: Solution) -> NDArray[np.float64] | None:
    """Return the certificate's multipliers, or our own where a backend has given none."""
    if solution.certificate.multipliers is not None:
        return subject.prices(menus, solution.certificate.multipliers)
    from apportion.solvers.exact import start

    _, multipliers = start(menus.model)
    return multipliers if usable(multipliers, menus.model.num_capacities) else None


@dataclass(frozen=True, slots=True)
class _Jobs:
    """The jobs of a plan, and what is needed to say why each got what it got."""

    view: PlanView
    names: Sequence[str]
    resolver: Resolver
    remarked: Remarked

    def one(self, job: int, asked: int | None, share: float, exact: bool = True) -> JobWorth:
        """Return one job's worth; `asked` is a row that was asked about."""
        resolver = self.resolver if exact else None
        worth = job_worth(self.view, job, self.names[job], asked, resolver, share)
        return self.remarked(worth, self.view, job, resolver, share)

    def all(self, exact_jobs: int, notes: list[str]) -> tuple[JobWorth, ...]:
        """Return the worth of every job, exact figures if there are few enough, and note what is left out."""
        count = min(len(self.names), MOST_JOBS)
        exact = len(self.names) <= exact_jobs
        notes += unlisted(len(self.names))
        if not exact:
            notes.append(
                "what a runner-up would need is estimated from the prices; ask for one job to have it exactly"
            )
        found = list[JobWorth]()
        for job in range(count):
            if job >= exact_jobs and self.resolver.exhausted:
                notes.append(f"{count - job} jobs more are not listed: the limit came first")
                break
            found.append(self.one(job, None, 1.0 / (count - job), exact))
        return tuple(found)


def explain_infeasible(
    subject: Subject,
    names: Sequence[str],
    solution: Solution,
    resolver: Resolver,
) -> Explanation:
    """Return why there is no plan: conflicts of jobs and capacities, and the cheapest ways out.

    Where the menus do not settle what can be placed, a conflict of theirs need not be the smallest.
    """
    demand = subject.menus.demand()
    found, feasible = conflict.find(demand, names, resolver)
    notes: list[str] = []
    if feasible and not subject.settles and solution.termination is Termination.INFEASIBLE:
        notes.append("the capacities alone leave room: what is chosen cannot be placed on the machines")
    elif feasible is not False:
        state = "no plan was found and none is ruled out" if feasible is None else "there are feasible plans"
        notes.append(f"{state}; the solve ended with {solution.termination.value}")
        return explanation_of(subject, solution, None, notes)

    def verify(add: Mapping[str, int], ids: Sequence[str]) -> bool:
        answer = resolver.solve(subject.with_more(add).without(ids).instance, share=0.5)
        return answer is not None and answer.plan is not None

    relaxations: list[Relaxation] = []
    for way, why in (
        relaxation.more_capacity(demand, resolver, verify),
        relaxation.leave_out(demand, names, resolver, verify),
    ):
        if way is not None:
            relaxations.append(_edited(subject, way, demand.num_capacities))
        else:
            notes.append(why)
    if not subject.settles:
        found = tuple(
            replace(one, irreducible=not one.capacities, smallest=not one.capacities) for one in found
        )
    return explanation_of(subject, solution, False, notes, conflicts=found, relaxations=tuple(relaxations))


def _edited(subject: Subject, way: Relaxation, capacities: int) -> Relaxation:
    """Return a relaxation by the names and in the units that an edit takes.

    What is the least in the menus stays the least only of one capacity: others are weighed otherwise.
    """
    add = subject.changes(way.add)
    if add == way.add:
        return way
    present = edits.capacities(subject.instance)
    cost = sum(amount / max(present.get(name, 1), 1) for name, amount in add.items())
    return replace(way, add=add, cost=cost, minimal=way.minimal and capacities == 1)
