"""The public door: solve, by one objective or by goals in strict order, and check.

What is asked for goals, and in which order, is `apportion.solvers.strict_order`;
every question is one `solve`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from apportion.core.errors import InvalidOption
from apportion.core.extension_points import loaded
from apportion.core.options import Incumbent, SolveOptions
from apportion.core.outcome import Report, Termination
from apportion.core.solution import Planned, PlanT, Solution
from apportion.formulations.protocol import LinearFormulation
from apportion.instances import Instance
from apportion.instances.kinds import kind_of
from apportion.instances.tenants.check import exceeded_today
from apportion.instances.tenants.ledger import is_tenanted, shares_are_due
from apportion.models.multiple_choice import Goal, MultipleChoiceKnapsack
from apportion.solving import registry
from apportion.solving.call import Subject, entry_of, kind_of_any
from apportion.solving.pipeline import Compiler, compiled, solved, structured

if TYPE_CHECKING:
    from apportion.solvers.strict_order import Answer, InOrder, Integers

__all__ = ["check", "exported", "solve", "solve_compiled", "solve_in_order"]

_LARGEST = 500_000_000
"""Sums stay below this, where the billionth that a proof of optimality may leave open is less than a unit."""


def check(instance: Subject, plan: Any) -> Report:
    """Check a plan against its instance: every rule by name, and the objective recomputed.

    Parameters
    ----------
    instance
        An instance, or a bare `MultipleChoiceKnapsack` or `Assignment`.
    plan
        The plan as it stands in JSON, or the point of a bare model.

    Returns
    -------
    Report
        ``feasible``, ``objective`` and ``violations``.
    """
    return kind_of_any(instance).check(instance, plan)


def solve(
    instance: Planned[PlanT],
    backend: str | registry.Backend = "auto",
    time_limit: float | None = 10.0,
    gap: float = 0.0,
    threads: int = 1,
    seed: int = 0,
    warm_start: Any = None,
    deterministic: bool = False,
    work_limit: float | None = None,
    on_incumbent: Callable[[Incumbent], None] | None = None,
    *,
    formulation: str | None = None,
    proof: bool = False,
    keep_running: bool = True,
) -> Solution[PlanT]:
    """Decide what every job gets, and prove as much of it as can be proven.

    Parameters
    ----------
    instance
        An instance, or a `MultipleChoiceKnapsack` or `Assignment` from `from_arrays`. Type checkers know from
        it what the plan looks like: mappings by job, int64 rows, or the point of an assignment.
    backend
        ``"auto"``, a name of the registry (``exact``, ``highs``, ``cp-sat``, ``scip``, ``pyomo:NAME``), or a
        `Backend` of your own.
    time_limit
        Wall-clock seconds for the whole call; ``None`` for no limit. With `deterministic` it is not used.
    gap
        Relative gap at which to stop; 0 asks for a proof of optimality.
    threads
        Threads; see `SolveOptions`.
    seed
        Random seed.
    warm_start
        An earlier `Solution`, stored document or plan; what still fits is the first incumbent, and its
        multipliers are where the search for this instance's begins.
    deterministic
        No clock decides anything, and the order in which jobs and options were listed decides nothing: same
        content, same answer. Bound the work with `work_limit`.
    work_limit
        Limit in the solver's own deterministic units.
    on_incumbent
        Called with every improving `Incumbent`.
    formulation
        Name of the formulation; the kind's first one by default.
    proof
        Whether to write a proof of the claim and check it, within what is left of the time limit;
        `Solution.proof` holds it, or a note says why there is none.
    keep_running
        Whether, among plans of equal value, one is taken that stops the fewest jobs and then moves the
        fewest; `Solution.goals` tells how many.

    Returns
    -------
    Solution
        Its plan passed the checker; `Solution.require` raises if there is none.

    Raises
    ------
    InvalidOption
        If an option is out of range or does not fit the instance.
    BackendUnavailable
        If the backend is unknown, missing, or cannot take this formulation.

    Notes
    -----
    Ctrl-C ends the solve: its best plan comes back with the termination ``interrupted``. A loop that takes
    plans for decisions must ask for that; `apportion.core.interruption.uninterrupted` raises it again.

    Examples
    --------
    >>> import apportion
    >>> model = apportion.MultipleChoiceKnapsack.from_arrays(
    ...     values=[3.0, 4.0, 2.0], uses=[2, 4, 2], offsets=[0, 2, 3], capacities=[4]
    ... )
    >>> solution = apportion.solve(model)
    >>> solution.termination.value, solution.objective, solution.plan.tolist()
    ('optimal', 5.0, [0, 2])
    """
    options = SolveOptions(
        time_limit=None if deterministic else time_limit,
        gap=gap,
        threads=threads,
        seed=seed,
        deterministic=deterministic,
        work_limit=work_limit,
        on_incumbent=on_incumbent,
        keep_running=keep_running,
    )
    subject = cast(Subject, instance)
    return solve_compiled(subject, structured, options, backend, warm_start, formulation, proof)


def solve_compiled(
    instance: Subject,
    compiler: Compiler,
    options: SolveOptions,
    backend: str | registry.Backend = "auto",
    warm_start: Any = None,
    formulation: str | None = None,
    proof: bool = False,
) -> Solution:
    """Solve as `solve` does, with structured models from a compiler that may remember earlier ones.

    Parameters
    ----------
    compiler
        ``compiler(instance, entry)``: what `apportion.solving.pipeline.structured` returns for them.
    instance, options, backend, warm_start, formulation, proof
        See `solve`.
    """
    solve_one = loaded(registry.FAIR_SOLVER) if shares_are_due(instance) else solved
    found: Solution = solve_one(instance, compiler, options, backend, warm_start, formulation, proof=proof)
    if not is_tenanted(instance):
        return found
    exceeded = tuple(exceeded_today(kind_of(instance), instance))
    return replace(found, notes=(*exceeded, *found.notes)) if exceeded else found


def exported(instance: Instance, to: str, formulation: str | None = None) -> bytes:
    """Compile an instance and return its linear model as text, in the instance's own names.

    What the instance asks and the model does not is said in comments at the head of the text.

    Parameters
    ----------
    instance
        The instance.
    to
        ``"lp"`` or ``"mps"``.
    formulation
        Name of the formulation; the kind's first one by default.

    Raises
    ------
    InvalidOption
        If the kind has no such formulation.
    """
    from apportion.solvers.general import export

    entry = entry_of(instance, formulation)
    if entry.produces == "linear":
        made: object = compiled(instance, entry)
        model = cast(LinearFormulation, made).model
    else:
        structure = structured(instance, entry)
        made, model = getattr(structure, "formulation", structure), structure.lowered(None).model
    text: str = export.to_lp(model) if to == "lp" else export.to_mps(model)
    sign = "\\" if to == "lp" else "*"
    return "".join([*(f"{sign} {said}\n" for said in _left_out(instance, made)), text]).encode()


def _left_out(instance: Instance, made: object) -> Iterator[str]:
    """Yield what an instance asks of a plan and the model of it does not."""
    if getattr(made, "relaxes", False) or getattr(made, "sums_pools", False):
        yield "A RELAXATION: that a choice fits on nodes or machines, each whole, is not in this model."
    if shares_are_due(instance):
        yield "A RELAXATION: guarantees and fair shares of tenants come first and are not in this model."


def solve_in_order(
    model: MultipleChoiceKnapsack,
    goals: Mapping[str, ArrayLike],
    *,
    time_limit: float | None = None,
    gap: float = 0.0,
    backend: str = "auto",
) -> InOrder:
    """Choose by goals in strict order; the next one never costs the one before.

    Parameters
    ----------
    model
        The menus; its own values count for nothing.
    goals
        By name, in order, what every option is worth, int64 [options]; all are maximised, so write what is to
        be small with a minus. A job that is left out is worth 0.
    time_limit
        Wall-clock seconds for all goals; ``None`` for no limit.
    gap
        Relative gap at which every search may stop; the goals after it then keep what it has reached.
    backend
        As in `apportion.solve`.

    Raises
    ------
    InvalidInstance
        If a goal is no array of whole numbers, one an option, or their sum is beyond 2^52.
    InvalidOption
        If there is no goal.

    Examples
    --------
    >>> model = MultipleChoiceKnapsack.from_arrays([0, 0, 0], [2, 1, 1], [0, 1, 2, 3], [2], required=False)
    >>> found = solve_in_order(model, {"priority": [5, 3, 2], "jobs": [1, 1, 1]})
    >>> found.choice.tolist(), [(goal.value, goal.proven) for goal in found.goals]
    ([-1, 1, 2], [(5, True), (2, True)])
    """
    from apportion.solvers.strict_order import Answer, InOrder, solved_in_order

    if not goals:
        raise InvalidOption("goals must name one at least")
    wanted = [Goal.of(name, worth, model.num_options) for name, worth in goals.items()]
    if (model.required & (np.diff(model.offsets) == 0)).any():
        return InOrder(None, (), Termination.INFEASIBLE)
    end = math.inf if time_limit is None else perf_counter() + time_limit

    def ask(asked: MultipleChoiceKnapsack, start: Integers | None) -> Answer | None:
        left = None if time_limit is None else end - perf_counter()
        if left is not None and left <= 0.0:
            return None
        answer = solve(asked, time_limit=left, gap=gap, backend=backend, warm_start=start)
        return Answer(answer.plan, answer.bound, answer.termination)

    return solved_in_order(replace(model, goals=()), wanted, ask, lambda total, _: total <= _LARGEST)
