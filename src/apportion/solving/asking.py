"""Ask a backend about a model: its failures become outcomes, a general solver runs under a hard deadline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ApportionError, BackendUnavailable
from apportion.interruption import released
from apportion.models.linear import LinearModel
from apportion.options import Incumbent, Point, SolveOptions, Start
from apportion.outcome import Outcome, Termination
from apportion.registry import Backend
from apportion.registry.calls import LinearSolver
from apportion.solving.call import Call
from apportion.solving.structure import PlanOrPoint, Structure, better

__all__ = ["Asked", "ask", "ask_linear", "begun"]

_SHARE_TO_BEGIN = 0.25
"""Share of the time left in which a first plan and prices are looked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A backend's answer about a structured model, not checked yet.

    Attributes
    ----------
    outcome
        What the backend said.
    point
        Its point, carried back to the structured model; ``None`` without one.
    structure
        The model that was asked about last.
    known
        What is known beside the answer: the incumbent, and multipliers.
    plan
        The plan of the point, where asking has found it already.
    """

    outcome: Outcome
    point: Point | None
    structure: Structure
    known: Start
    plan: PlanOrPoint | None = None


def ask(call: Call, backend: Backend, structure: Structure, known: Start) -> Asked:
    """Ask a backend about a structured model, as it is or lowered."""
    if backend.accepts != "linear":
        outcome = _guarded(call, backend, lambda options: structure.ask(backend, options, known))
        return Asked(outcome, outcome.point, structure, known)
    if not fits_doubles(structure.model.uses, structure.model.capacities):
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
    return Asked(outcome, None if columns is None else lowering.point(columns), structure, known)


def fits_doubles(uses: NDArray[np.int64], capacities: NDArray[np.int64]) -> bool:
    """Return whether doubles hold every use exactly, and every capacity that the uses can reach."""
    if not uses.size or int(uses.max()) < 2**53 // len(uses):  # no sum comes to where doubles have gaps
        return True
    numbers = np.concatenate((uses.ravel(), capacities[capacities < 2**62]))
    return bool((numbers.astype(np.float64).astype(np.int64) == numbers).all())


def begun(call: Call, structure: Structure, known: Start) -> Start:
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
