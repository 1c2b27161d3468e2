"""Explain an instance by its menus and prices: the way of every kind whose answers are choices from menus.

What a capacity is worth at the plan is its price, and one unit more and one fewer by solving again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import ApportionError, InvalidInstance, InvalidOption, Problem, did_you_mean
from apportion.core.outcome import Termination
from apportion.core.solution import Solution
from apportion.explanation import conflict
from apportion.explanation.parts import CapacityWorth, Conflict, Difference, JobWorth, Relaxation
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import Explanation, explanation_of
from apportion.explanation.subject import LEFT_OUT, PlanView, Subject, difference, job_worth, rival
from apportion.formulations.protocol import KnapsackFormulation
from apportion.instances import edits
from apportion.models.lagrangian import lagrangian_bound
from apportion.solving.judge import usable

__all__ = ["MOST_JOBS", "capacity_worths", "explain_by_menus", "explain_infeasible", "unlisted", "unproven"]

_MOST_PINS = 8
"""Pins of a conflict that are lifted one by one, where each is a solve."""


MOST_JOBS = 1000
"""Jobs that are listed unless one is asked for."""


def unproven(solution: Solution) -> list[str]:
    """Return a note that worths are bounds, unless the plan is proven optimal."""
    if solution.termination is Termination.OPTIMAL:
        return []
    return [f"the plan is not proven optimal ({solution.termination.value}): worths are given as bounds"]


def unlisted(num_jobs: int) -> list[str]:
    """Return a note that not all jobs are listed, where there are too many of them."""
    if num_jobs <= MOST_JOBS:
        return []
    return [f"{num_jobs - MOST_JOBS} of {num_jobs} jobs are not listed; ask for one by its name"]


def capacity_worths(view: PlanView, resolver: Resolver, notes: list[str]) -> tuple[CapacityWorth, ...]:
    """Return the worth of every capacity.

    One unit more changes the instance (for gap filling a node is added, and longer menus with it); one unit
    fewer leaves the menus as they are, so a job that gives up a node pays for its rescaling.

    Parameters
    ----------
    view
        The plan.
    resolver
        Re-solves; each of its questions may take an equal share of the seconds left.
    notes
        Gets a line for what could not be shown.
    """
    model = view.model
    used = model.used(view.rows)
    worths = []
    for k, name in enumerate(model.capacity_names):
        if not view.subject.shown(name):
            continue
        share = 1.0 / (2 * (model.num_capacities - k))
        capacity = int(model.capacities[k])
        varied = view.subject.has_amounts
        one_more, at_most = _one_more(view, k, resolver, share, notes) if varied else (None, None)
        worths.append(
            CapacityWorth(
                name=name,
                capacity=capacity,
                used=int(used[k]),
                free=capacity - int(used[k]),
                price=None if view.prices is None else float(view.prices[k]),
                one_more=one_more,
                one_more_at_most=at_most,
                one_fewer=_one_fewer(view, k, resolver, 2 * share, notes) if varied else None,
            )
        )
    return tuple(worths)


def _one_more(
    view: PlanView, k: int, resolver: Resolver, share: float, notes: list[str]
) -> tuple[Difference | None, float | None]:
    name = view.model.capacity_names[k]
    if resolver.exhausted:  # forming the variant alone reads a large instance once more
        notes.append(f"one more unit of {name} was not solved within the limit")
        return None, None
    try:
        wider = view.subject.wider(view.structure, k)
    except ApportionError as error:
        notes.append(f"one more unit of {name}: {error}")
        return None, None
    answer = resolver.solve(wider.instance, view.solution, share)
    worth = None
    if answer is None or answer.plan is None:
        notes.append(f"one more unit of {name} was not solved within the limit")
    else:
        worth = difference(answer, view.solution, view.sign, _least(view))
    return worth, _at_most(view, wider)


def _at_most(view: PlanView, wider: Subject) -> float | None:
    """Return the bound of the same multipliers with the wider instance, less the objective."""
    if view.prices is None or view.solution.objective is None:
        return None
    if wider.menus.model.capacity_names != view.model.capacity_names:
        return None
    bound = lagrangian_bound(wider.menus.model, view.prices, wider.menus.value_error)
    return None if bound is None else max(view.sign * (bound - view.solution.objective), 0.0)


def _one_fewer(
    view: PlanView, k: int, resolver: Resolver, share: float, notes: list[str]
) -> Difference | None:
    capacities = view.model.capacities.copy()
    if capacities[k] == 0:
        return None
    capacities[k] -= 1
    name = view.model.capacity_names[k]
    if resolver.exhausted:
        notes.append(f"one unit fewer of {name} was not solved within the limit")
        return None
    still_fits = bool((view.model.used(view.rows) <= capacities).all())
    start = view.subject.start(view.solution, view.rows) if still_fits else None
    try:
        answer = resolver.solve(view.subject.fewer(view.structure, k), start, share)
    except ApportionError as error:
        notes.append(f"one unit fewer of {name}: {error}")
        return None
    if answer is None or answer.plan is None:
        infeasible = answer is not None and answer.termination.value == "infeasible"
        outcome = "leaves nothing feasible" if infeasible else "was not solved within the limit"
        notes.append(f"one unit fewer of {name} {outcome}")
        return None
    return difference(view.solution, answer, view.sign, _least(view), view.rounding(answer))


def _least(view: PlanView) -> float | None:
    """Return what a unit is worth at least, where that is known."""
    return 0.0 if view.subject.gains_with_more else None


def explain_by_menus(
    subject: Subject,
    solution: Solution | None,
    job: str | None,
    option: str | None,
    resolver: Resolver,
    exact_jobs: int,
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
    jobs = _Jobs(view, names, resolver)
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
    """Return the certificate's multipliers, or our own where it has none or, of tenants, those of places."""
    given = solution.certificate.multipliers
    if given is not None and not (subject.tenants and given.keys() - {*menus.model.capacity_names}):
        return subject.prices(menus, given)
    from apportion.solvers.exact import start

    _, multipliers = start(menus.model)
    return multipliers if usable(multipliers, menus.model.num_capacities) else None


@dataclass(frozen=True, slots=True)
class _Jobs:
    """The jobs of a plan, and what is needed to say why each got what it got."""

    view: PlanView
    names: Sequence[str]
    resolver: Resolver

    def one(self, job: int, asked: int | None, share: float, exact: bool = True) -> JobWorth:
        """Return one job's worth; `asked` is a row that was asked about."""
        resolver = self.resolver if exact else None
        worth = job_worth(self.view, job, self.names[job], asked, resolver, share)
        remarks, other = self.view.subject.remarks(job, self.view.solution.plan)
        remarks = (*remarks, *self._way_in(job, share if exact else 0.0))
        menu = range(*self.view.model.offsets[job : job + 2].tolist())
        at = next((row for row in menu if self.view.structure.option_name(row) == other), None)
        beside = at is not None and at != int(self.view.rows[job])
        unfrozen = rival(self.view, job, at, resolver, share) if beside and at is not None else None
        return replace(worth, remarks=remarks, unfrozen=unfrozen)

    def _way_in(self, job: int, share: float) -> Iterator[str]:
        """Yield who would make room for a job that has nothing, the fewest that were found."""
        way = self.view.subject.way_in(job, self.view.solution.plan) if share else None
        found = None if way is None else self.resolver.solve(way.instance, share=share)
        if way is not None and found is not None and found.plan is not None:
            fewest = found.termination == Termination.OPTIMAL and all(goal.proven for goal in found.goals)
            yield way.said(found.plan) + ("" if fewest else "; perhaps fewer would do")
        elif found is not None and found.termination == Termination.INFEASIBLE:
            yield "under the rules it cannot be placed, whoever makes room"

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
        conflict.more_capacity(demand, resolver, verify),
        conflict.leave_out(demand, names, resolver, verify),
    ):
        if way is not None:
            if way.verified and not (way.minimal and subject.changes(way.add) == way.add):
                way = _no_more_than_needed(way, verify, resolver)
            relaxations.append(_edited(subject, way, demand.num_capacities))
        else:
            notes.append(why)
    pinned = _pinned(subject)
    if pinned and (way := _unpinned(subject, found, pinned, resolver)) is not None:
        relaxations.append(way)
    found = tuple(_with_pins(one, pinned) for one in found)
    if not subject.settles:
        found = tuple(
            replace(one, irreducible=not one.capacities, smallest=not one.capacities) for one in found
        )
    return explanation_of(subject, solution, False, notes, conflicts=found, relaxations=tuple(relaxations))


def _pinned(subject: Subject) -> tuple[str, ...]:
    """Return the jobs that are pinned, where a pin can be lifted."""
    field = None if subject.kind.edits is None else subject.kind.edits.pin_field
    if field is None:
        return ()
    return tuple(job.id for job in subject.instance.jobs if getattr(job, field) is not None)


def _with_pins(found: Conflict, pinned: Sequence[str]) -> Conflict:
    """Return a conflict whose reason says which of its jobs are pinned."""
    own = [job for job in found.jobs if job in set(pinned)]
    if not own:
        return found
    verb = "is" if len(own) == 1 else "are"
    return replace(found, reason=f"{found.reason}; {', '.join(own)} {verb} pinned")


def _unpinned(
    subject: Subject, found: Sequence[Conflict], pinned: Sequence[str], resolver: Resolver
) -> Relaxation | None:
    """Return the pin, or the pins of a conflict, or all, without which there is a plan."""
    inside = [job for job in pinned if any(job in one.jobs for one in found)]
    tried = dict.fromkeys([*((job,) for job in inside[:_MOST_PINS]), tuple(inside), tuple(pinned)])
    for some in tried:
        if some and not resolver.exhausted:
            answer = resolver.solve(edits.unpin(subject.instance, some), share=0.3)
            if answer is not None and answer.plan is not None:
                return Relaxation("unpin", {}, (), float(len(some)), len(some) == 1, True, unpin=some)
    return None


def _no_more_than_needed(
    way: Relaxation, verify: Callable[[Mapping[str, int], Sequence[str]], bool], resolver: Resolver
) -> Relaxation:
    """Return a relaxation in which no addition alone can be smaller, as far as the seconds reach.

    The menus count what is added to a pool; a plan on machines may need less on each of them.
    """
    add = dict(way.add)
    for name in add:
        helps, less = add[name], 0
        while helps - less > 1 and not resolver.exhausted:
            middle = (helps + less) // 2
            helps, less = (middle, less) if verify({**add, name: middle}, ()) else (helps, middle)
        add[name] = helps
    return replace(way, add=add)


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
