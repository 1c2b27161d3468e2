"""The one door to HiGHS: open, configure, scale, hand over, run, and read what it answers.

Every return code is looked at, every status listed. HiGHS's tolerances are absolute and its ``infeasible`` is
a word, not a proof: what it says comes back in the model's own units as an `Answer` to be judged, and a call
that failed says so. Programmes that grow come by `apportion.solvers.general.highs`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.core.errors import BackendUnavailable
from apportion.core.outcome import Termination
from apportion.models.linear import LinearModel
from apportion.solvers.general.guard import check_engines, interruptibly, native_output_to_stderr
from apportion.solvers.general.points import Start, rounded
from apportion.solvers.general.scaling import Scaling, scaling_of

__all__ = [
    "CUTOFF",
    "HIGHS_ERROR",
    "LONG",
    "Answer",
    "Listen",
    "Said",
    "answer_of",
    "call",
    "doubted",
    "dual_ray",
    "finite",
    "is_optimal",
    "is_well",
    "opened",
    "outward",
    "preload",
    "run",
    "set_option",
]


CUTOFF = 1e-6
"""By how much HiGHS lowers its cutoff below an incumbent (`mip_feasibility_tolerance`), in scaled units."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What HiGHS said, in the model's own units.

    Attributes
    ----------
    termination
        Its status by a total table; ``error`` where a call failed.
    raw
        Its own words.
    point
        float64 [columns], or ``None`` where it has no feasible point.
    duals
        float64 [rows]: what the objective gains per unit of each row's side; of an optimal linear program.
    ray
        float64 [rows]: multipliers of the rows that no point within the columns' bounds keeps together; of a
        linear program that it calls infeasible.
    bound
        Its dual bound, loosened by `CUTOFF` where costs are not whole; ``None`` without one.
    nodes, iterations
        What it counted.
    start_taken
        Whether the start was handed over; ``None`` without one.
    seconds
        Of handing over and of running.
    """

    termination: Termination
    raw: str
    point: NDArray[np.float64] | None = None
    duals: NDArray[np.float64] | None = None
    ray: NDArray[np.float64] | None = None
    bound: float | None = None
    nodes: int = 0
    iterations: int = 0
    start_taken: bool | None = None
    seconds: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Said:
    """What HiGHS said of a model that it was handed scaled, in its own numbers.

    Attributes
    ----------
    termination, raw
        Its status by the table of the door, and in its own words.
    is_optimal
        Whether that is its status for an optimum, of which it also knows an objective.
    values
        By column; ``None`` where it calls no point feasible.
    prices
        By row, of an optimal linear program; ``None`` without them.
    weights
        By row: its ray of an infeasible linear program; ``None`` without one.
    objective, dual_bound
        Of the point, and of the search for whole numbers.
    nodes, iterations
        What it counted.
    """

    termination: Termination
    raw: str
    is_optimal: bool
    values: ArrayLike | None
    prices: ArrayLike | None
    weights: ArrayLike | None
    objective: float
    dual_bound: float
    nodes: int
    iterations: int


def answer_of(
    model: LinearModel, scaling: Scaling, said: Said, taken: bool | None, seconds: tuple[float, float]
) -> Answer:
    """Return what HiGHS said in the model's own units; numbers that are not finite are left out.

    Parameters
    ----------
    model, scaling
        The model, and how it was handed over.
    said
        What HiGHS said.
    taken, seconds
        See `Answer`.
    """
    whole = bool(model.integer.any())
    value = finite(said.values, model.num_columns)
    price = finite(said.prices, model.num_rows)
    weights = finite(said.weights, model.num_rows)
    bound = None
    if whole and said.termination not in (
        Termination.INFEASIBLE,
        Termination.UNBOUNDED,
        Termination.ERROR,
    ):
        bound = outward(model, scaling, said.dual_bound)
    elif said.is_optimal:
        bound = outward(model, scaling, said.objective)
    return Answer(
        termination=said.termination,
        raw=said.raw,
        point=None if value is None else rounded(model, value * scaling.columns),
        duals=None if price is None else price * scaling.rows / scaling.objective,
        ray=None if weights is None else weights * scaling.rows,
        bound=bound,
        nodes=max(said.nodes, 0),
        iterations=said.iterations,
        start_taken=taken,
        seconds=seconds,
    )


def finite(numbers: ArrayLike | None, size: int) -> NDArray[np.float64] | None:
    """Return so many finite numbers, ``None`` for anything else."""
    if numbers is None:
        return None
    array = np.array(numbers, dtype=np.float64)
    return array if array.shape == (size,) and np.isfinite(array).all() else None


def doubted(model: LinearModel, first: Answer, second: Answer) -> Answer:
    """Return the better of two answers with the weaker bound: with the start, and without.

    HiGHS 1.13 with a start cuts off in presolve by more than its tolerances: it has called a start optimal,
    without a node, that was 3e-8 of the objective below the optimum. Where presolve decides all, asking again
    costs next to nothing.
    """
    if second.point is None or second.termination is not Termination.OPTIMAL:
        return replace(
            first, termination=Termination.NUMERICAL_ERROR, raw=f"{first.raw}; without the start {second.raw}"
        )
    sign = 1.0 if model.sense == "maximize" else -1.0
    points = [answer.point for answer in (first, second) if answer.point is not None]
    bounds = [answer.bound for answer in (first, second) if answer.bound is not None]
    weaker = max(bounds, key=lambda bound: sign * bound) if len(bounds) == 2 else None
    best = max(points, key=lambda point: sign * model.objective(point))
    return replace(second, point=best, bound=weaker, start_taken=True)


def outward(model: LinearModel, scaling: Scaling, native: float) -> float | None:
    """Return HiGHS's bound in the model's unit, loosened by what its cutoff may have thrown away.

    A point better than its incumbent by less than `CUTOFF` is pruned, so ``bound = incumbent`` shows the
    optimum to within `CUTOFF` only. An objective that moves by steps far larger than that lies on the last
    step within the loosened bound.
    """
    if not np.isfinite(native):
        return None
    sign = 1.0 if model.sense == "maximize" else -1.0
    slack = CUTOFF / scaling.objective
    bound = native / scaling.objective + sign * slack
    steps = sign * (bound - model.offset) / scaling.step if scaling.step > 16.0 * slack else np.inf
    if abs(steps) < 2.0**40:
        return sign * float(np.floor(steps + 2.0**-10)) * scaling.step + model.offset
    return bound


HIGHS_ERROR = 1e-6
"""What HiGHS's tolerances may add to a bound, relative to it: near ties of 1e-9 have been called decided."""

LONG = 1.0
"""Seconds from which a call is worth a thread, so that Ctrl-C is heard while it lasts."""

Listen = Callable[[NDArray[np.float64] | None, float | None], bool]
"""``listen(point, bound)``; a point with every improvement, a bound alone now and then. True stops HiGHS."""


def preload() -> None:
    """Import the solver ahead of the first solve."""
    check_engines("highspy")
    try:
        import highspy  # noqa: F401
    except ImportError as error:
        raise BackendUnavailable(f"highspy cannot be imported: {error}") from error


def call(
    model: LinearModel,
    settings: Mapping[str, Any],
    start: Start | None = None,
    *,
    listen: Listen | None = None,
    interruptible: bool = False,
) -> Answer:
    """Let HiGHS solve a model.

    Parameters
    ----------
    model
        The model; without integer columns its duals are returned as well.
    settings
        HiGHS's own options by name.
    start
        A judged start.
    listen
        Called on the way with what HiGHS finds.
    interruptible
        Whether Ctrl-C stops HiGHS; the call then runs it in a thread.

    Raises
    ------
    BackendUnavailable
        If the installed highspy must not be used.
    """
    began = time.perf_counter()
    highs = opened()
    import highspy

    scaling = scaling_of(model)
    with native_output_to_stderr():
        for name, value in settings.items():
            if set_option(highs, name, value) == highspy.HighsStatus.kError:
                return Answer(Termination.ERROR, f"HiGHS refused the option {name} = {value!r}")
        if _passed(highs, model, scaling) == highspy.HighsStatus.kError:
            return Answer(Termination.ERROR, "HiGHS refused the model")
        taken = _pass_start(highs, start, scaling)
        if listen is not None:
            _subscribe(highs, model, scaling, listen)
        handed_over = time.perf_counter()
        status = run(highs, interruptible)
        ended = time.perf_counter()
    seconds = (handed_over - began, ended - handed_over)
    if status == highspy.HighsStatus.kError:
        raw = highs.modelStatusToString(highs.getModelStatus())
        return Answer(Termination.ERROR, f"HiGHS failed: {raw}", start_taken=taken, seconds=seconds)
    answer = _read(highs, model, scaling, taken, seconds)
    if taken and answer.termination is Termination.OPTIMAL and answer.nodes == 0 and model.integer.any():
        return doubted(model, answer, call(model, settings, listen=listen, interruptible=interruptible))
    return answer


def opened() -> Any:
    """Return a silent HiGHS.

    Raises
    ------
    BackendUnavailable
        If the installed highspy must not be used.
    """
    preload()
    import highspy

    with native_output_to_stderr():
        highs = highspy.Highs()
        set_option(highs, "output_flag", False)
    return highs


def set_option(highs: Any, name: str, value: Any) -> Any:
    """Set one of HiGHS's own options; return its status."""
    return highs.setOptionValue(name, value)


def is_well(status: Any) -> bool:
    """Return whether a call of HiGHS's returned without a warning or an error."""
    import highspy

    return bool(status == highspy.HighsStatus.kOk)


def is_optimal(highs: Any) -> bool:
    """Return whether HiGHS calls what it has an optimum."""
    import highspy

    return bool(highs.getModelStatus() == highspy.HighsModelStatus.kOptimal)


def _passed(highs: Any, model: LinearModel, scaling: Scaling) -> Any:
    import highspy

    maximize = model.sense == "maximize"
    return highs.passModel(
        model.num_columns,
        model.num_rows,
        model.num_nonzeros,
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMaximize if maximize else highspy.ObjSense.kMinimize),
        model.offset * scaling.objective,
        scaling.cost(model),
        np.ascontiguousarray(model.lower / scaling.columns),
        np.ascontiguousarray(model.upper / scaling.columns),
        np.ascontiguousarray(model.row_lower * scaling.rows),
        np.ascontiguousarray(model.row_upper * scaling.rows),
        np.ascontiguousarray(model.indptr, dtype=np.int32),
        np.ascontiguousarray(model.indices, dtype=np.int32),
        scaling.data(model),
        np.ascontiguousarray(model.integer, dtype=np.int32),
    )


def _pass_start(highs: Any, start: Start | None, scaling: Scaling) -> bool | None:
    """Hand the start over; ``None`` without one, False if it was not passed on or not taken."""
    import highspy

    if start is None:
        return None
    if start.point is None:
        return False
    point = start.point / scaling.columns
    if start.complete:
        solution = highspy.HighsSolution()
        solution.col_value = point.tolist()
        return bool(highs.setSolution(solution) == highspy.HighsStatus.kOk)
    hinted = np.flatnonzero(~np.isnan(point)).astype(np.int32)
    return bool(highs.setSolution(int(hinted.size), hinted, point[hinted]) == highspy.HighsStatus.kOk)


def _subscribe(highs: Any, model: LinearModel, scaling: Scaling, listen: Listen) -> None:
    stopped = False

    def improved(event: Any) -> None:
        nonlocal stopped
        point = np.array(event.data_out.mip_solution, dtype=np.float64) * scaling.columns
        bound = outward(model, scaling, float(event.data_out.mip_dual_bound))
        stopped = listen(rounded(model, point), bound) or stopped

    def pulse(event: Any) -> None:
        nonlocal stopped
        bound = outward(model, scaling, float(event.data_out.mip_dual_bound))
        stopped = listen(None, bound) or stopped
        if stopped:
            event.interrupt()

    highs.cbMipImprovingSolution.subscribe(improved)
    highs.cbMipInterrupt.subscribe(pulse)


def run(highs: Any, interruptible: bool = False) -> Any:
    """Run HiGHS, whatever number of threads ran before; return its status."""
    import highspy

    def once() -> Any:
        return interruptibly(highs.run, highs.cancelSolve)[0] if interruptible else highs.run()

    if interruptible:
        highs.HandleUserInterrupt = True  # HiGHS's own handler of Ctrl-C prints on standard output
    status = once()
    if status == highspy.HighsStatus.kError:
        # another thread count was used in this thread before: the scheduler must be made anew
        highspy.Highs.resetGlobalScheduler(True)
        status = once()
    if status == highspy.HighsStatus.kError:
        # presolve of HiGHS 1.13 fails where uses lie 1e11 apart (a case is kept in `tests.hunted`)
        highs.setOptionValue("presolve", "off")
        status = once()
    return status


def _read(
    highs: Any, model: LinearModel, scaling: Scaling, taken: bool | None, seconds: tuple[float, float]
) -> Answer:
    import highspy

    info = highs.getInfo()
    native = highs.getModelStatus()
    optimal, whole = native == highspy.HighsModelStatus.kOptimal, bool(model.integer.any())
    solution = highs.getSolution()
    feasible = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    infeasible = native == highspy.HighsModelStatus.kInfeasible and not whole
    said = Said(
        termination=_terminations().get(native, Termination.ERROR),
        raw=highs.modelStatusToString(native),
        is_optimal=optimal,
        values=solution.col_value if feasible else None,
        prices=solution.row_dual if optimal and not whole else None,
        weights=dual_ray(highs) if infeasible else None,
        objective=float(info.objective_function_value),
        dual_bound=float(info.mip_dual_bound),
        nodes=int(info.mip_node_count),
        iterations=int(info.simplex_iteration_count),
    )
    return answer_of(model, scaling, said, taken, seconds)


def dual_ray(highs: Any) -> Any:
    """Return what rows weigh in HiGHS's proof that no point keeps all; ``None`` if it has none."""
    _, exists, found = highs.getDualRay()
    return found if exists else None


def _terminations() -> dict[Any, Termination]:
    """Return the status table, total over the native statuses of the pinned version."""
    import highspy

    status = highspy.HighsModelStatus
    return {
        status.kNotset: Termination.ERROR,
        status.kLoadError: Termination.ERROR,
        status.kModelError: Termination.ERROR,
        status.kPresolveError: Termination.ERROR,
        status.kSolveError: Termination.ERROR,
        status.kPostsolveError: Termination.ERROR,
        status.kModelEmpty: Termination.OPTIMAL,
        status.kOptimal: Termination.OPTIMAL,
        status.kInfeasible: Termination.INFEASIBLE,
        status.kUnboundedOrInfeasible: Termination.INFEASIBLE_OR_UNBOUNDED,
        status.kUnbounded: Termination.UNBOUNDED,
        status.kObjectiveBound: Termination.SOLUTION_LIMIT,
        status.kObjectiveTarget: Termination.SOLUTION_LIMIT,
        status.kTimeLimit: Termination.TIME_LIMIT,
        status.kIterationLimit: Termination.NODE_LIMIT,
        status.kUnknown: Termination.NUMERICAL_ERROR,
        status.kSolutionLimit: Termination.NODE_LIMIT,
        status.kInterrupt: Termination.INTERRUPTED,
        status.kHighsInterrupt: Termination.INTERRUPTED,
        status.kMemoryLimit: Termination.MEMORY_LIMIT,
    }
