"""Ask a backend, and check what it returns against the instance; whatever it does, the incumbent survives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import ApportionError, BackendUnavailable
from apportion.core.interruption import released
from apportion.core.options import Incumbent, SolveOptions, Start
from apportion.core.outcome import Outcome, Termination
from apportion.formulations.protocol import LinearFormulation
from apportion.models.assignment import Assignment
from apportion.models.linear import LinearModel
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving.call import Call
from apportion.solving.compiled_model import CompiledKnapsack, CompiledModel, better
from apportion.solving.judge import DECIDED, Attempt, Checked, checked_plan
from apportion.solving.on_nodes import PlacedStructure, chosen_on_nodes
from apportion.solving.registry import Backend, LinearSolver

if TYPE_CHECKING:
    from apportion.models.uses import Uses

__all__ = ["ask", "ask_linear", "attempt", "begun"]


_FIRST = 0.8
"""Share of the time in which the objective is to be decided where there are goals after it."""
_BEFORE_NODES = 0.8
"""Share of the limit for a choice over bundles of nodes."""
_SHARE_TO_BEGIN = 0.25
"""Share of the time left in which a first plan and prices are looked for."""


def ask(
    call: Call, backend: Backend, structure: CompiledModel, known: Start, seconds: float | None = None
) -> Attempt:
    """Ask a backend about a structured model, as it is or lowered, for so many seconds at most.

    Goals after the objective have what is left of the call where it is decided in that time.
    """
    began, whole = perf_counter(), call
    call = call if seconds is None else call.within(seconds)
    if backend.accepts != "linear":
        outcome = _guarded(
            call, backend, lambda limits: structure.ask(backend, _first(structure, limits), known)
        )
        asked = Attempt(outcome, structure, known, outcome.point)
        optimal = outcome.termination is Termination.OPTIMAL
        return _with_later_goals(whole if optimal else call, asked, optimal, began)
    if not _fits_doubles(structure.model):
        raise BackendUnavailable(
            f"backend {backend.name!r} computes in doubles, which do not hold these uses or capacities "
            "beyond 2**53 exactly; use the exact backend"
        )
    known = begun(call, structure, known)
    lowering = structure.lowered(known.point)
    outcome, columns = ask_linear(call, backend, lowering.model, lowering.start)
    if lowering.relaxed and outcome.termination in (Termination.OPTIMAL, Termination.GAP_REACHED):
        outcome = replace(outcome, termination=Termination.SOLUTION_LIMIT)
        call.log.note("the linear model is a relaxation: its bound holds, its optimum was packed into a plan")
    point = None if columns is None else lowering.point(columns)
    asked = Attempt(outcome, structure, known, point)
    decided = outcome.termination in DECIDED
    return _with_later_goals(whole if decided else call, asked, decided, began)


def _with_later_goals(call: Call, asked: Attempt, optimal: bool, began: float) -> Attempt:
    """Return an answer that is as good and better in what is wanted after the objective, in strict order."""
    structure, point = asked.structure, asked.point
    if point is None or not isinstance(structure, CompiledKnapsack) or call.is_late():
        return asked
    try:
        with released():
            found = structure.in_order(point, call.remaining(), perf_counter() - began, optimal=optimal)
    except KeyboardInterrupt:
        return replace(asked, outcome=replace(asked.outcome, termination=Termination.INTERRUPTED))
    return asked if found is None else replace(asked, point=found.choice, goals=found.goals)


def _first(structure: CompiledModel, options: SolveOptions) -> SolveOptions:
    """Return the options of the search for the objective: a part of the time is left to what follows."""
    if not isinstance(structure, CompiledKnapsack) or not options.time_limit:
        return options
    places = isinstance(structure, PlacedStructure) and structure.places_near
    later = any(goal.worth.any() for goal in structure.model.goals)
    share = _BEFORE_NODES if places else _FIRST if later else 1.0
    return options.within(share * options.time_limit)


def _fits_doubles(model: MultipleChoiceKnapsack | Assignment) -> bool:
    """Return whether doubles hold every use exactly, and every capacity that the uses can reach."""
    matrix: Uses = model.uses if isinstance(model, Assignment) else model.matrix
    uses, capacities = matrix if isinstance(matrix, np.ndarray) else matrix.data, model.capacities
    # where no sum comes to where doubles have gaps
    if not uses.size or int(uses.max()) < 2**53 // model.num_options:
        return True
    numbers = np.concatenate((uses.ravel(), capacities[capacities < 2**62]))
    return bool((numbers.astype(np.float64).astype(np.int64) == numbers).all())


def begun(call: Call, structure: CompiledModel, known: Start) -> Start:
    """Return what is known together with a greedy incumbent and multipliers, for a general solver."""
    left = call.seconds_left
    with released():
        greedy = structure.greedy(None if left is None else _SHARE_TO_BEGIN * left)
    point = better(structure, call.maximizes, known.point, greedy.point)
    return Start(point, hint=known.hint if greedy.hint is None else greedy.hint)


def ask_linear(
    call: Call, backend: Backend, model: LinearModel, start: NDArray[np.float64] | None
) -> tuple[Outcome, NDArray[np.float64] | None]:
    """Ask a general solver about a linear model; return its outcome, and its point if that is well formed."""
    call.log.lap("start")

    def solved(options: SolveOptions) -> Outcome:
        solver = cast(LinearSolver, backend.load())  # says here what is missing or refused
        if backend.general and isinstance(backend.solve, str) and options.time_limit is not None:
            from apportion.solvers.isolation.isolated import solve as isolated

            return isolated(backend.solve, model, options, start, backend.extra)
        return solver(model, options, start)

    outcome = _guarded(call, backend, solved)
    if outcome.point is None:
        return outcome, None
    point = np.asarray(outcome.point)
    if point.dtype.kind in "fiu" and point.shape == (model.num_columns,) and np.isfinite(point).all():
        return outcome, np.asarray(point, dtype=np.float64)
    call.log.note(f"the backend's point is not {model.num_columns} finite numbers")
    return outcome, None


def _guarded(call: Call, backend: Backend, solved: Callable[[SolveOptions], Outcome]) -> Outcome:
    """Call a backend; its failures become outcomes, the caller's own exceptions pass through."""
    options = call.remaining()
    relay = _Relay(options.on_incumbent)
    if options.on_incumbent is not None:
        options = replace(options, on_incumbent=relay)
    try:
        with released():
            return solved(options)
    except KeyboardInterrupt:
        return Outcome(termination=Termination.INTERRUPTED, raw_status="KeyboardInterrupt")
    except MemoryError:
        return Outcome(termination=Termination.MEMORY_LIMIT, raw_status="MemoryError")
    except ApportionError:
        raise
    except Exception as error:
        if relay.raised is not None:
            raise relay.raised from None
        call.log.note(f"backend {backend.name} failed: {type(error).__name__}: {error}")
        return Outcome(termination=Termination.ERROR, raw_status=repr(error))


class _Relay:
    """The caller's callback, remembering the exception it raised."""

    def __init__(self, target: Callable[[Incumbent], None] | None) -> None:
        self._target = target
        self.raised: BaseException | None = None

    def __call__(self, incumbent: Incumbent) -> None:
        if self._target is None:
            return
        try:
            self._target(incumbent)
        except BaseException as error:
            self.raised = error
            raise


def attempt(
    call: Call, backend: Backend, structure: CompiledModel, known: Start, linear: LinearFormulation | None
) -> Attempt:
    """Ask the backend about a linear formulation, or without one about the structured model itself."""
    if linear is not None:
        return _by_formulation(call, backend, structure, known, linear)
    if isinstance(structure, PlacedStructure):
        asked = chosen_on_nodes(call, structure, known, partial(ask, call, backend))
    else:
        asked = ask(call, backend, structure, known)
    call.log.lap("solve")
    return replace(asked, checked=_checked_point(call, asked))


def _by_formulation(
    call: Call, backend: Backend, structure: CompiledModel, known: Start, linear: LinearFormulation
) -> Attempt:
    known = begun(call, structure, known)
    plan = None if known.point is None else structure.plan(known.point, call.seconds_left)
    start = None if plan is None else linear.point(plan)
    outcome, columns = ask_linear(call, backend, linear.model, start)
    call.log.lap("solve")
    checked = None if columns is None else checked_plan(call, linear.plan(columns), None)
    return Attempt(outcome, structure, known, checked=checked, restricted=not linear.exact)


def _checked_point(call: Call, asked: Attempt) -> Checked | None:
    """Check a point against its model, then its plan against the instance, where these are not the same."""
    if asked.point is None:
        return None
    report = asked.structure.check(asked.point)
    if not report.feasible:
        call.log.note(f"the backend's point fails the check: {report.violations[0]}")
        return Checked(report)
    plan = asked.plan
    if plan is None:
        plan = asked.structure.plan(asked.point, call.seconds_left)
    if plan is asked.point and asked.structure.model is call.instance:
        return Checked(report, plan, asked.point)
    return None if plan is None else checked_plan(call, plan, asked.point)
