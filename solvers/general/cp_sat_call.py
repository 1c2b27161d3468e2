"""The one door to CP-SAT: a model to write into, and one call that configures, solves and reads.

Nothing else imports ``ortools.sat``. Models of intervals and counts (`makespan.gangs`, `packing.few_moves`)
write their own constraints; the parameters and the status table are here alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from apportion.core.outcome import Termination
from apportion.solvers.general.guard import check_engines, interruptibly, native_output_to_stderr

__all__ = ["Answer", "Limits", "call", "new_model", "preload", "weighted_sum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to stop.

    Attributes
    ----------
    seconds
        Wall-clock limit, ``None`` for none.
    work
        Limit in CP-SAT's deterministic seconds, ``None`` for none.
    gap
        Relative gap that is enough.
    seed, threads
        Random seed, workers.
    interleaved
        Whether several workers take turns in a fixed order.
    """

    seconds: float | None = None
    work: float | None = None
    gap: float = 0.0
    seed: int = 0
    threads: int = 1
    interleaved: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What CP-SAT said.

    Attributes
    ----------
    termination
        Its status by a total table; a search that Ctrl-C ended is ``interrupted``.
    raw
        Its own name of the status.
    value
        Returns the value of a variable; ``None`` without a solution.
    bound
        Its bound on the objective as written; ``None`` without a solution.
    interrupted
        Whether Ctrl-C was pressed.
    branches, conflicts
        What it counted.
    seconds
        Of the search.
    """

    termination: Termination
    raw: str
    value: Callable[[Any], int] | None
    bound: float | None
    interrupted: bool
    branches: int
    conflicts: int
    seconds: float


def preload() -> None:
    """Import the solver ahead of the first solve."""
    check_engines("ortools")
    from ortools.sat.python import cp_model  # noqa: F401


def new_model() -> Any:
    """Return an empty ``cp_model.CpModel``.

    Raises
    ------
    BackendUnavailable
        If the installed OR-Tools must not be used.
    """
    check_engines("ortools")
    from ortools.sat.python import cp_model

    return cp_model.CpModel()


def weighted_sum(variables: Sequence[Any], weights: Sequence[int]) -> Any:
    """Return the linear expression of variables and whole weights."""
    from ortools.sat.python import cp_model

    return cp_model.LinearExpr.weighted_sum(variables, weights)


def call(
    native: Any, limits: Limits, listen: Callable[[Callable[[Any], int], float], bool] | None = None
) -> Answer:
    """Let CP-SAT solve a model.

    Parameters
    ----------
    native
        What `new_model` returned, written into.
    limits
        When to stop.
    listen
        ``listen(value, bound)`` with every improvement; True stops the search.
    """
    from ortools.sat.python import cp_model

    solver = _configured(limits)
    began = time.perf_counter()
    with native_output_to_stderr():
        status, interrupted = interruptibly(
            lambda: solver.solve(native, None if listen is None else _listener(listen)), solver.stop_search
        )
    seconds = time.perf_counter() - began
    solved = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    open_still = status in (cp_model.FEASIBLE, cp_model.UNKNOWN)
    known = {
        cp_model.OPTIMAL: Termination.OPTIMAL,
        cp_model.INFEASIBLE: Termination.INFEASIBLE,
        cp_model.MODEL_INVALID: Termination.ERROR,
        cp_model.FEASIBLE: _limit(limits.seconds, seconds),
        cp_model.UNKNOWN: _limit(limits.seconds, seconds),
    }
    return Answer(
        termination=Termination.INTERRUPTED
        if interrupted and open_still
        else known.get(status, Termination.ERROR),
        raw=solver.status_name(status),
        value=solver.value if solved else None,
        bound=float(solver.best_objective_bound) if solved else None,
        interrupted=interrupted,
        branches=int(solver.num_branches),
        conflicts=int(solver.num_conflicts),
        seconds=seconds,
    )


def _configured(limits: Limits) -> Any:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = limits.threads
    parameters.random_seed = limits.seed
    parameters.relative_gap_limit = float(limits.gap)
    parameters.absolute_gap_limit = 0.0
    parameters.catch_sigint_signal = False  # it would leave SIGINT at its default action
    parameters.presolve_inclusion_work_limit = 0  # google/or-tools issue 5293: it may cut the optimum off
    parameters.interleave_search = limits.interleaved
    if limits.seconds is not None:
        parameters.max_time_in_seconds = limits.seconds
    if limits.work is not None:
        parameters.max_deterministic_time = float(limits.work)
    return solver


def _listener(listen: Callable[[Callable[[Any], int], float], bool]) -> Any:
    from ortools.sat.python import cp_model

    class Listener(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            if listen(self.value, self.best_objective_bound):
                self.stop_search()

    return Listener()


def _limit(time_limit: float | None, solved: float) -> Termination:
    """Say which limit ended a search that CP-SAT calls feasible or unknown."""
    if time_limit is not None and solved >= 0.9 * time_limit - 0.05:
        return Termination.TIME_LIMIT
    # its own limit or the caller's; whoever interrupts it is heard elsewhere
    return Termination.NODE_LIMIT
