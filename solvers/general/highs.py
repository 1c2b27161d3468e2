"""HiGHS through highspy's array interface: every return code checked, every status listed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ApportionError
from apportion.models.linear import LinearModel
from apportion.options import SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solvers.general.guard import check_engines
from apportion.solvers.general.observer import Observe, Observer
from apportion.solvers.general.points import (
    Start,
    answered_at_sight,
    judged_start,
    kept,
    power_of_two_scale,
    rounded,
    seconds_left,
    settled,
)
from apportion.solvers.general.quiet import native_output_to_stderr

__all__ = ["NativeError", "loaded", "preload", "refuses", "solve"]


class NativeError(ApportionError):
    """A native call returned an error code; the message names the call."""


def preload() -> None:
    """Import the solver ahead of the first solve."""
    check_engines("highspy")
    import highspy  # noqa: F401


def refuses(model: LinearModel) -> str | None:
    """Return ``None``: HiGHS takes every linear model."""
    return None


def solve(
    model: LinearModel,
    options: SolveOptions,
    start: NDArray[np.float64] | None = None,
    observe: Observe | None = None,
) -> Outcome:
    """Solve a mixed-integer linear model with HiGHS.

    Parameters
    ----------
    model
        The model.
    options
        Limits; `work_limit` counts branch-and-bound nodes.
    start
        float64 [columns]; NaN where there is no hint.
    observe
        Called with every incumbent's point and, now and then, with the bound.

    Raises
    ------
    BackendUnavailable
        If the installed highspy must not be used.
    NativeError
        If HiGHS refuses an option or the model.
    """
    if (answer := answered_at_sight(model)) is not None:
        return answer
    began = time.perf_counter()
    check_engines("highspy")
    scale = power_of_two_scale(model.cost)
    given = judged_start(model, start)
    observer = Observer(model.sense == "maximize", options, observe)
    with native_output_to_stderr():
        highs = loaded(model, scale)
        _configure(highs, options, seconds_left(options, began))
        start_used = _pass_start(highs, given)
        _listen(highs, model, scale, observer)
        handed_over = time.perf_counter()
        _run(highs, options)
        ended = time.perf_counter()
    observer.finish()
    seconds = (handed_over - began, ended - handed_over)
    return _outcome(highs, model, options, scale, given, start_used, seconds)


def loaded(model: LinearModel, scale: float = 1.0) -> Any:
    """Return a ``highspy.Highs`` that holds the model, its objective multiplied by `scale`."""
    import highspy

    highs = highspy.Highs()
    _set(highs, "output_flag", False)
    maximize = highspy.ObjSense.kMaximize if model.sense == "maximize" else highspy.ObjSense.kMinimize
    status = highs.passModel(
        model.num_columns,
        model.num_rows,
        model.num_nonzeros,
        int(highspy.MatrixFormat.kRowwise),
        int(maximize),
        model.offset * scale,
        np.ascontiguousarray(model.cost * scale),
        np.ascontiguousarray(model.lower),
        np.ascontiguousarray(model.upper),
        np.ascontiguousarray(model.row_lower),
        np.ascontiguousarray(model.row_upper),
        np.ascontiguousarray(model.indptr, dtype=np.int32),
        np.ascontiguousarray(model.indices, dtype=np.int32),
        np.ascontiguousarray(model.data),
        np.ascontiguousarray(model.integer, dtype=np.int32),
    )
    _demand(status, "passModel")
    return highs


def _configure(highs: Any, options: SolveOptions, time_limit: float | None) -> None:
    _set(highs, "threads", options.threads)
    _set(highs, "random_seed", options.seed)
    _set(highs, "mip_rel_gap", float(options.gap))
    _set(highs, "mip_abs_gap", 0.0)
    if time_limit is not None:
        _set(highs, "time_limit", time_limit)
    if options.work_limit is not None:
        _set(highs, "mip_max_nodes", math.ceil(min(options.work_limit, 2**31 - 1)))


def _set(highs: Any, name: str, value: Any) -> None:
    _demand(highs.setOptionValue(name, value), f"setOptionValue({name!r}, {value!r})")


def _demand(status: Any, call: str) -> None:
    import highspy

    if status == highspy.HighsStatus.kError:
        raise NativeError(f"HiGHS refused {call}")


def _pass_start(highs: Any, given: Start | None) -> bool | None:
    """Hand the start over; ``None`` without one, False if it was not passed on or not taken."""
    import highspy

    if given is None:
        return None
    if given.point is None:
        return False
    if given.complete:
        solution = highspy.HighsSolution()
        solution.col_value = given.point.tolist()
        return bool(highs.setSolution(solution) == highspy.HighsStatus.kOk)
    hinted = np.flatnonzero(~np.isnan(given.point)).astype(np.int32)
    taken = highs.setSolution(int(hinted.size), hinted, given.point[hinted])
    return bool(taken == highspy.HighsStatus.kOk)


def _listen(highs: Any, model: LinearModel, scale: float, observer: Observer) -> None:
    if not observer.active or not model.integer.any():
        return

    def improved(event: Any) -> None:
        data = event.data_out
        point = rounded(model, np.array(data.mip_solution, dtype=np.float64))
        bound = float(data.mip_dual_bound) / scale
        observer.incumbent(point, model.objective(point), bound if np.isfinite(bound) else None)

    def pulse(event: Any) -> None:
        if observer.wants_bounds and np.isfinite(event.data_out.mip_dual_bound):
            observer.bound(float(event.data_out.mip_dual_bound) / scale)
        if observer.raised is not None:
            event.interrupt()

    highs.cbMipImprovingSolution.subscribe(improved)
    highs.cbMipInterrupt.subscribe(pulse)


def _run(highs: Any, options: SolveOptions) -> None:
    import highspy

    main = threading.current_thread() is threading.main_thread()
    if main:
        highs.HandleKeyboardInterrupt = True
    call: Callable[[], Any] = highs.solve if main else highs.run
    if call() == highspy.HighsStatus.kError and options.threads:
        # another thread count was used in this thread before: the scheduler must be made anew
        highspy.Highs.resetGlobalScheduler(True)
        _demand(call(), "run")


def _outcome(
    highs: Any,
    model: LinearModel,
    options: SolveOptions,
    scale: float,
    given: Start | None,
    start_used: bool | None,
    seconds: tuple[float, float],
) -> Outcome:
    info = highs.getInfo()
    native = highs.getModelStatus()
    termination = _terminations().get(native, Termination.ERROR)
    point = None
    if info.primal_solution_status == 2:  # kSolutionStatusFeasible
        point = rounded(model, np.array(highs.getSolution().col_value, dtype=np.float64))
        if point.shape != (model.num_columns,) or not np.isfinite(point).all():
            point = None
    point, objective = kept(model, given, point)
    bound = None
    if termination not in (Termination.INFEASIBLE, Termination.UNBOUNDED, Termination.ERROR):
        bound = _bound(highs, model, info, scale, native)
    return Outcome(
        termination=settled(termination, objective, bound, options.gap),
        raw_status=highs.modelStatusToString(native),
        point=point,
        objective=objective,
        bound=bound,
        bound_source=None if bound is None else "solver",
        seconds={"hand_over": seconds[0], "solve": seconds[1]},
        counters={
            "nodes": float(max(info.mip_node_count, 0)),
            "iterations": float(info.simplex_iteration_count),
        },
        start_used=start_used,
    )


def _bound(highs: Any, model: LinearModel, info: Any, scale: float, native: Any) -> float | None:
    import highspy

    if model.integer.any():
        claimed = float(info.mip_dual_bound) / scale
    elif native == highspy.HighsModelStatus.kOptimal:
        claimed = float(info.objective_function_value) / scale
    else:
        return None
    return claimed if np.isfinite(claimed) else None


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
