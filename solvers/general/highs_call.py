"""The door to HiGHS: open, configure, scale, hand over, run, and take what it says.

`apportion.solvers.general.highs_columns` comes by it for programmes that grow, and what it says is read and
judged in `apportion.solvers.general.highs_answer`.

Every return code is looked at, every status listed. HiGHS's tolerances are absolute and its ``infeasible`` is
a word, not a proof: what it answers is an `Answer` to be judged, and a call that failed says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.errors import BackendUnavailable
from apportion.models.linear import LinearModel
from apportion.outcome import Termination
from apportion.solvers.general.guard import check_engines
from apportion.solvers.general.highs_answer import Answer, Said, answer_of, doubted, outward
from apportion.solvers.general.interrupting import interruptibly
from apportion.solvers.general.points import Start, rounded
from apportion.solvers.general.quiet import native_output_to_stderr
from apportion.solvers.general.scaling import Scaling, scaling_of

__all__ = [
    "HIGHS_ERROR",
    "LONG",
    "Answer",
    "Listen",
    "call",
    "is_optimal",
    "is_well",
    "opened",
    "preload",
    "set_option",
]

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
        status = _run(highs, interruptible)
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


def _run(highs: Any, interruptible: bool) -> Any:
    import highspy

    def run() -> Any:
        return interruptibly(highs.run, highs.cancelSolve)[0] if interruptible else highs.run()

    if interruptible:
        highs.HandleUserInterrupt = True  # HiGHS's own handler of Ctrl-C prints on standard output
    status = run()
    if status == highspy.HighsStatus.kError:
        # another thread count was used in this thread before: the scheduler must be made anew
        highspy.Highs.resetGlobalScheduler(True)
        status = run()
    if status == highspy.HighsStatus.kError:
        # presolve of HiGHS 1.13 fails where uses lie 1e11 apart (a case is kept in `tests.hunted`)
        highs.setOptionValue("presolve", "off")
        status = run()
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
    weights = None
    if native == highspy.HighsModelStatus.kInfeasible and not whole:
        _, told, found = highs.getDualRay()
        weights = found if told else None
    said = Said(
        termination=_terminations().get(native, Termination.ERROR),
        raw=highs.modelStatusToString(native),
        is_optimal=optimal,
        values=solution.col_value if feasible else None,
        prices=solution.row_dual if optimal and not whole else None,
        weights=weights,
        objective=float(info.objective_function_value),
        dual_bound=float(info.mip_dual_bound),
        nodes=int(info.mip_node_count),
        iterations=int(info.simplex_iteration_count),
    )
    return answer_of(model, scaling, said, taken, seconds)


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
