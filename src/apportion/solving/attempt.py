"""Run a backend, decode and check what it returns; whatever it does, the incumbent survives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion import registry
from apportion.errors import ApportionError
from apportion.formulations.protocol import LinearFormulation
from apportion.options import Incumbent
from apportion.outcome import Outcome, Termination
from apportion.solving.placement import chosen_on_nodes, plan_of
from apportion.solving.run import Run
from apportion.solving.structure import point_type, start
from apportion.solving.subject import compiled

__all__ = ["attempt"]


def attempt(run: Run, chosen: registry.Backend, instance: Any, entry: registry.FormulationEntry) -> Outcome:
    """Run the backend, decode and check what it returns; whatever it does, the incumbent survives."""
    if entry.produces != "linear":
        outcome, choice = chosen_on_nodes(run, lambda: _answer(run, chosen))
        run.lap("solve")
        _accept_choice(run, choice)
        return outcome
    _begin(run)
    linear: LinearFormulation = compiled(instance, run.kind, entry.name)
    run.restricted = not linear.exact
    known = None if run.incumbent is None else run.structure.plan(run.incumbent)
    start = None if known is None else linear.point(known)
    run.lap("start")
    outcome = _guarded(run, chosen, linear.model, start)
    run.lap("solve")
    if _well_formed(run, outcome.point, linear.model.num_columns):
        _accept_plan(run, linear.plan(np.asarray(outcome.point, dtype=np.float64)))
    return outcome


def _answer(run: Run, chosen: registry.Backend) -> tuple[Outcome, NDArray[Any] | None]:
    """Ask a backend about the structured model, as it is or lowered, and return the point for it."""
    if chosen.accepts != "linear":
        outcome = _guarded(run, chosen, run.model, run.incumbent)
        return outcome, outcome.point
    _begin(run)
    lowered = run.structure.lowered()
    start = None if run.incumbent is None else lowered.point(run.incumbent)
    run.lap("start")
    outcome = _guarded(run, chosen, lowered.model, start)
    if not _well_formed(run, outcome.point, lowered.model.num_columns):
        return outcome, None
    return outcome, lowered.choice(np.asarray(outcome.point, dtype=np.float64))


def _begin(run: Run) -> None:
    """Find a greedy incumbent and multipliers before a general solver starts."""
    greedy, multipliers = start(run.model)
    run.incumbent = _better(run, run.incumbent, greedy)
    if multipliers is not None:
        run.multipliers = multipliers


def _better(run: Run, first: NDArray[Any] | None, second: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return the incumbent with the better objective, the first of equals."""
    if first is None or second is None:
        return second if first is None else first
    sign = 1.0 if run.kind.maximizes(run.instance) else -1.0
    worse = sign * run.model.objective(second) > sign * run.model.objective(first)
    return second if worse else first


def _guarded(run: Run, chosen: registry.Backend, model: Any, start: Any) -> Outcome:
    """Call a backend; its failures become outcomes, the caller's own exceptions pass through."""
    solve_model = chosen.load()
    relay = _Relay(run.options.on_incumbent)
    options = run.remaining()
    if run.options.on_incumbent is not None:
        options = replace(options, on_incumbent=relay)
    try:
        if chosen.name == "exact" and chosen.accepts == "knapsack":
            return solve_model(
                model, options, start, preferred=run.structure.preferred(), hint=run.multipliers
            )
        if chosen.general and isinstance(chosen.solve, str) and options.time_limit is not None:
            from apportion.solvers.isolation.isolated import solve as isolated

            return isolated(chosen.solve, model, options, start, chosen.extra)
        if chosen.extra:
            return solve_model(model, options, start, *chosen.extra)
        return solve_model(model, options, start)
    except KeyboardInterrupt:
        return Outcome(termination=Termination.INTERRUPTED, raw_status="KeyboardInterrupt")
    except MemoryError:
        return Outcome(termination=Termination.MEMORY_LIMIT, raw_status="MemoryError")
    except ApportionError:
        raise
    except Exception as error:
        if relay.raised is not None:
            raise relay.raised from None
        run.notes.append(f"backend {chosen.name} failed: {type(error).__name__}: {error}")
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


def _well_formed(run: Run, point: Any, length: int) -> bool:
    if point is None:
        return False
    array = np.asarray(point)
    if array.dtype.kind in "fiu" and array.shape == (length,) and np.isfinite(array).all():
        return True
    run.notes.append(f"the backend's point is not {length} finite numbers")
    return False


def _accept_choice(run: Run, point: Any) -> None:
    if point is None:
        return
    report = run.model.check(point)
    if report.feasible:
        plan = plan_of(run, np.asarray(point, dtype=point_type(run.model)))
        if plan is not None:
            _accept_plan(run, plan)
    else:
        run.report = report
        run.notes.append(f"the backend's point fails the check: {report.violations[0]}")


def _accept_plan(run: Run, plan: Any) -> None:
    report = run.kind.check(run.instance, plan)
    run.report = report
    if report.feasible:
        run.plan = plan
    else:
        run.notes.append(f"the backend's plan fails the check: {report.violations[0]}")
