"""Explain an instance: why nothing is feasible, or why everybody got what they got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, InvalidOption, Problem
from apportion.explanation import conflict, relaxation
from apportion.explanation.capacities import capacity_worths
from apportion.explanation.freezing_depth import cut_by_nodes, with_depth
from apportion.explanation.jobs import job_worth
from apportion.explanation.makespan import explain_makespan
from apportion.explanation.matching_menus import MatchingMenus
from apportion.explanation.plan_view import PlanView
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import Explanation, JobWorth, Relaxation
from apportion.explanation.variants import compiled, kind_for, with_more, without
from apportion.formulations.protocol import KnapsackFormulation
from apportion.instances.freezing import FreezingInstance
from apportion.instances.matching import MatchingInstance
from apportion.outcome import Termination
from apportion.registry import Backend
from apportion.solution import Solution
from apportion.solving.certify import usable

__all__ = ["LEFT_OUT", "explain"]

LEFT_OUT = "-"
"""What the option of leaving a job out is called when it is asked about."""
_MOST_JOBS = 1000
"""Jobs that are listed unless one is asked for."""


def explain(
    instance: Any,
    solution: Solution | None = None,
    job: str | None = None,
    option: str | None = None,
    *,
    backend: str | Backend = "auto",
    time_limit: float | None = 30.0,
    threads: int = 1,
    seed: int = 0,
    exact_jobs: int = 20,
) -> Explanation:
    """Say why nothing is feasible and what would help, or why the plan is as it is.

    Parameters
    ----------
    instance
        An instance, or a bare `MultipleChoiceKnapsack`.
    solution
        Its solution, if it has been solved already.
    job
        Explain this job only, with exact figures.
    option
        An option of `job` to ask about, by its id or node count; ``"-"`` for leaving it out.
    backend, threads, seed
        As in `apportion.solve`, for every solve.
    time_limit
        Seconds for everything together, at most half of them for the first solve; ``None`` for no limit.
    exact_jobs
        Up to so many jobs get exact figures without being asked for.

    Returns
    -------
    Explanation
        Conflicts and relaxations, or capacities and jobs; ``str()`` of it is the readable form.

    Raises
    ------
    InvalidInstance
        If there is no such job.
    InvalidOption
        If the job has no such option, or the solution is not one of this instance.

    Examples
    --------
    >>> import apportion
    >>> from apportion.explanation import explain
    >>> model = apportion.MultipleChoiceKnapsack.from_arrays(
    ...     values=[3.0, 4.0, 2.0], uses=[2, 4, 2], offsets=[0, 2, 3], capacities=[3]
    ... )
    >>> explanation = explain(model)
    >>> explanation.feasible, explanation.conflicts[0].jobs, explanation.relaxations[0].add
    (False, ('job 0', 'job 1'), {'capacity_0': 1})
    """
    if option is not None and job is None:
        raise InvalidOption("option needs a job to belong to")
    resolver = Resolver(backend, time_limit, threads, seed)
    if isinstance(instance, MatchingInstance) and instance.objective == "makespan":
        if solution is None:
            solution = resolver.solve(instance, share=0.5)
            assert solution is not None
        return explain_makespan(instance, solution, job, option, resolver, exact_jobs)
    structure = compiled(instance)
    names = list(structure.job_names())
    index = _index(names, job)
    if solution is None:
        solution = resolver.solve(instance, share=0.5)
        assert solution is not None
    structure = cut_by_nodes(structure, instance, solution.certificate.multipliers)
    rows = _rows(structure, solution)
    if rows is None:
        return _infeasible(instance, structure, names, solution, resolver)
    view = PlanView(instance, structure, solution, rows, _prices(structure, solution))
    asked = None if index is None or option is None else _row(view, index, names[index], option)
    notes: list[str] = []
    if solution.termination is not Termination.OPTIMAL:
        notes.append(
            f"the plan is not proven optimal ({solution.termination.value}): worths are given as bounds"
        )
    if index is None:
        capacities = capacity_worths(view, resolver, notes)
        jobs = _jobs(view, names, index, asked, exact_jobs, resolver, notes)
    else:  # whoever asks for a job gets it before the time is up
        jobs = _jobs(view, names, index, asked, exact_jobs, resolver, notes, 0.5)
        capacities = capacity_worths(view, resolver, notes)
    return _told(instance, structure, solution, True, notes, capacities=capacities, jobs=jobs)


def _index(names: Sequence[str], job: str | None) -> int | None:
    if job is None:
        return None
    if job not in names:
        raise InvalidInstance(Problem("$.jobs", f"there is no job {job!r}"))
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


def _prices(structure: KnapsackFormulation, solution: Solution) -> NDArray[np.float64] | None:
    """Return the certificate's multipliers, or our own where a backend has given none."""
    knapsack = structure.model
    if solution.certificate.multipliers is not None:
        if isinstance(structure, MatchingMenus):
            return structure.prices(solution.certificate.multipliers)
        given = [solution.certificate.multipliers.get(name, 0.0) for name in knapsack.capacity_names]
        return np.array(given, dtype=np.float64)
    from apportion.solvers.exact import start

    _, multipliers = start(knapsack)
    return multipliers if usable(multipliers, knapsack.num_capacities) else None


def _jobs(
    view: PlanView,
    names: Sequence[str],
    index: int | None,
    asked: int | None,
    exact_jobs: int,
    resolver: Resolver,
    notes: list[str],
    share: float = 1.0,
) -> tuple[JobWorth, ...]:
    if index is not None:
        return (_worth(view, index, names[index], asked, resolver, share),)
    count = min(len(names), _MOST_JOBS)
    exact = len(names) <= exact_jobs
    if count < len(names):
        notes.append(f"{len(names) - count} of {len(names)} jobs are not listed; ask for one by its name")
    if not exact:
        notes.append(
            "what a runner-up would need is estimated from the prices; ask for one job to have it exactly"
        )
    return tuple(
        _worth(view, job, names[job], None, resolver if exact else None, 1.0 / (count - job))
        for job in range(count)
    )


def _worth(
    view: PlanView, job: int, name: str, asked: int | None, resolver: Resolver | None, share: float
) -> JobWorth:
    worth = job_worth(view, job, name, asked, resolver, share)
    if isinstance(view.instance, FreezingInstance):
        return with_depth(worth, view, job, resolver, share)
    return worth


def _infeasible(
    instance: Any,
    structure: KnapsackFormulation,
    names: Sequence[str],
    solution: Solution,
    resolver: Resolver,
) -> Explanation:
    demand = structure.demand()
    found, feasible = conflict.find(demand, names, resolver)
    notes: list[str] = []
    if feasible is not False:
        told = "no plan was found and none is ruled out" if feasible is None else "there are feasible plans"
        notes.append(f"{told}; the solve ended with {solution.termination.value}")
        return _told(instance, structure, solution, None, notes)

    def verify(add: Mapping[str, int], ids: Sequence[str]) -> bool:
        answer = resolver.solve(without(with_more(instance, add), ids), share=0.5)
        return answer is not None and answer.plan is not None

    relaxations: list[Relaxation] = []
    for way, why in (
        relaxation.more_capacity(demand, resolver, verify),
        relaxation.leave_out(demand, names, resolver, verify),
    ):
        if way is not None:
            relaxations.append(way)
        else:
            notes.append(why)
    return _told(instance, structure, solution, False, notes, conflicts=found, relaxations=tuple(relaxations))


def _told(
    instance: Any,
    structure: KnapsackFormulation,
    solution: Solution,
    feasible: bool | None,
    notes: Sequence[str],
    **parts: Any,
) -> Explanation:
    certificate = solution.certificate
    return Explanation(
        kind=kind_for(instance).name,
        name=str(getattr(instance, "name", "")),
        sense=structure.model.sense,
        termination=solution.termination.value,
        feasible=feasible,
        objective=certificate.objective,
        bound=certificate.bound,
        verified_bound=certificate.verified_bound,
        notes=tuple(notes),
        solution=solution,
        measure=instance.objective if isinstance(instance, MatchingInstance) else "objective",
        **parts,
    )
