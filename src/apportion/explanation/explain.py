"""Explain an instance: why nothing is feasible, or why every job got what it got.

The table of what explanations do differently by kind of instance; files are loaded on first use.

A kind that is not in the table is explained by the menus of its first formulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from apportion.core.errors import InvalidOption
from apportion.core.extension_points import loaded
from apportion.core.solution import Solution
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import Explanation
from apportion.explanation.subject import Subject
from apportion.instances.tenants.ledger import is_tenanted
from apportion.solving.call import kind_of_any
from apportion.solving.registry import Backend

__all__ = ["EXPLAINED", "Explain", "Explained", "explain", "explained"]


Explain = Callable[[Any, Solution | None, str | None, str | None, Resolver, int], Explanation]
"""``explain(subject, solution, job, option, resolver, exact_jobs)``; see `apportion.explanation.explain`."""


@dataclass(frozen=True, slots=True)
class Explained:
    """How one kind is explained.

    Attributes
    ----------
    subject
        ``"module:class"``, a `Subject`.
    explain
        ``"module:function"``, an `Explain`.
    """

    subject: str = "apportion.explanation.subject:Subject"
    explain: str = "apportion.explanation.by_menus:explain_by_menus"

    def of(self, instance: Any) -> Subject:
        """Return an instance as a subject."""
        return cast(type[Subject], loaded(self.subject))(instance)

    def load(self) -> Explain:
        """Return the function that explains."""
        return cast(Explain, loaded(self.explain))


EXPLAINED: Mapping[str, Explained] = MappingProxyType(
    {
        "MultipleChoiceKnapsack": Explained("apportion.explanation.subject:BareKnapsack"),
        "MatchingInstance": Explained(
            "apportion.explanation.matching:MatchingSubject",
            "apportion.explanation.matching:explain_matching",
        ),
        "FreezingInstance": Explained(
            "apportion.explanation.freezing:FreezingSubject",
            "apportion.explanation.freezing:explain_freezing",
        ),
    }
)
"""By the name of the type: a bare knapsack and an instance of one have the same name in JSON."""


def explained(instance: Any) -> Explained:
    """Return how an instance is explained; ``TypeError`` for anything that cannot be solved."""
    return EXPLAINED.get(kind_of_any(instance).type.__name__, Explained())


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
    entry = explained(instance)
    return entry.load()(entry.of(instance), solution, job, option, resolver, exact_jobs)
