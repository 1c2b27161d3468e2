"""Explain an instance: why nothing is feasible, or why every job got what it got."""

from __future__ import annotations

from typing import Any

from apportion.core.errors import InvalidOption
from apportion.core.solution import Solution
from apportion.explanation.by_menus import explain_by_menus
from apportion.explanation.makespan import explain_makespan
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import Explanation
from apportion.explanation.subject import Subject
from apportion.instances.tenants.ledger import is_tenanted
from apportion.solving.registry import Backend

__all__ = ["explain"]


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
    if is_tenanted(instance):
        from apportion.explanation.tenants import explain_tenants

        return explain_tenants(instance, solution, job, option, resolver, exact_jobs)
    subject = Subject(instance)
    explained = explain_makespan if subject.measure == "makespan" else explain_by_menus
    return explained(subject, solution, job, option, resolver, exact_jobs)
