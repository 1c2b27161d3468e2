"""HiGHS: the backend with the caller's limits, start and callbacks, and a programme that grows.

The programme of `GrowingProgramme` has its columns in portions; the simplex goes on from where it stood:

    maximise  cost . x    subject to  row_lower <= A x <= row_upper,  0 <= x <= 1

What it says is an answer to be judged, as that of `apportion.solvers.general.highs_call.call`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome
from apportion.models.linear import LinearModel
from apportion.solvers.general.guard import native_output_to_stderr
from apportion.solvers.general.highs_call import (
    Listen,
    call,
    dual_ray,
    finite,
    is_optimal,
    is_well,
    opened,
    preload,
    run,
    set_option,
)
from apportion.solvers.general.linear_call import LinearCall
from apportion.solvers.general.points import Observe, Observer, answered_at_sight
from apportion.solvers.general.scaling import power_of_two_scale

__all__ = [
    "GrowingProgramme",
    "Relaxed",
    "preload",
    "refuses",
    "solve",
]


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

    See `LinearCall.begun` for the parameters. `work_limit` counts branch-and-bound nodes; `observe` is called
    with every incumbent's point and, now and then, with the bound.

    Raises
    ------
    BackendUnavailable
        If the installed highspy must not be used.
    """
    if (answer := answered_at_sight(model)) is not None:
        return answer
    asked = LinearCall.begun(model, options, start, observe)
    observer = asked.observer
    listen = _listener(model, observer) if observer.active and model.integer.any() else None
    said = call(model, _settings(options, asked.seconds), asked.start, listen=listen, interruptible=True)
    return asked.outcome(
        said.termination,
        said.raw,
        said.point,
        said.bound,
        seconds=said.seconds,
        counters={"nodes": float(said.nodes), "iterations": float(said.iterations)},
        start_used=said.start_taken,
    )


def _settings(options: SolveOptions, time_limit: float | None) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "threads": options.threads,
        "random_seed": options.seed,
        "mip_rel_gap": float(options.gap),
        "mip_abs_gap": 0.0,
    }
    if time_limit is not None:
        settings["time_limit"] = time_limit
    if options.work_limit is not None:
        settings["mip_max_nodes"] = math.ceil(min(options.work_limit, 2**31 - 1))
    return settings


def _listener(model: LinearModel, observer: Observer) -> Listen:
    def listen(point: NDArray[np.float64] | None, bound: float | None) -> bool:
        if point is not None:
            observer.incumbent(point, model.objective(point), bound)
        elif bound is not None and observer.wants_bounds:
            observer.bound(bound)
        return observer.raised is not None

    return listen


_DUAL, _PRIMAL = 1, 4
"""HiGHS's numbers of the simplex methods: columns that come later leave the point feasible, not the prices,
and rows that come later the prices."""


class Relaxed(NamedTuple):
    """An optimum that HiGHS claims.

    Attributes
    ----------
    objective
        Its value.
    point
        float64 [columns], in the order in which they were added.
    duals
        float64 [rows].
    """

    objective: float
    point: NDArray[np.float64]
    duals: NDArray[np.float64]


class GrowingProgramme:
    """A programme that has its rows, and as yet no columns.

    Parameters
    ----------
    row_lower, row_upper
        float64 [rows].
    costs
        Every cost that may come, to scale them alike.

    Raises
    ------
    BackendUnavailable
        If the installed highspy must not be used.
    """

    def __init__(
        self, row_lower: NDArray[np.float64], row_upper: NDArray[np.float64], costs: NDArray[np.float64]
    ) -> None:
        # HiGHS minimises: what is worth much costs little
        self._scale = -power_of_two_scale(costs, stepped=False)
        self._rows, self._columns = row_lower.size, 0
        none, nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        self._highs = opened()
        with native_output_to_stderr():
            for name, value in {"presolve": "off", "threads": 1}.items():
                set_option(self._highs, name, value)
            starts = np.zeros(self._rows, dtype=np.int32)
            self._well = is_well(
                self._highs.addRows(self._rows, row_lower, row_upper, 0, starts, none, nothing)
            )

    def add(
        self,
        cost: NDArray[np.float64],
        indptr: NDArray[np.int64],
        rows: NDArray[np.int64],
        data: NDArray[np.float64],
    ) -> None:
        """Add columns: column ``c`` owns the entries ``indptr[c]:indptr[c + 1]``."""
        num = cost.size
        arrays = indptr[:-1].astype(np.int32), rows.astype(np.int32), data.astype(np.float64)
        with native_output_to_stderr():
            status = self._highs.addCols(
                num, cost * self._scale, np.zeros(num), np.ones(num), data.size, *arrays
            )
        self._well = self._well and is_well(status)
        self._columns += num

    def add_rows(
        self,
        upper: NDArray[np.float64],
        indptr: NDArray[np.int64],
        columns: NDArray[np.int64],
        data: NDArray[np.float64],
    ) -> None:
        """Add rows of at most so much: row ``r`` owns the entries ``indptr[r]:indptr[r + 1]``."""
        arrays = indptr[:-1].astype(np.int32), columns.astype(np.int32), data.astype(np.float64)
        with native_output_to_stderr():
            status = self._highs.addRows(upper.size, np.full(upper.size, -np.inf), upper, data.size, *arrays)
            set_option(self._highs, "simplex_strategy", _DUAL)
        self._well = self._well and is_well(status)
        self._rows += upper.size

    def leave_out(self, columns: NDArray[np.int64]) -> None:
        """Fix columns at 0."""
        none = np.zeros(columns.size)
        with native_output_to_stderr():
            status = self._highs.changeColsBounds(columns.size, columns.astype(np.int32), none, none)
        self._well = self._well and is_well(status)

    def solved(self, seconds: float | None) -> Relaxed | None:
        """Return the optimum over the columns so far; ``None`` where HiGHS does not find it in time."""
        if not self._well:
            return None
        highs = self._highs
        with native_output_to_stderr():
            if seconds is not None:  # its clock goes on from run to run
                set_option(highs, "time_limit", highs.getRunTime() + max(0.0, seconds))
            status = run(highs)
            set_option(highs, "simplex_strategy", _PRIMAL)
        if not (is_well(status) and is_optimal(highs)):
            return None
        solution = highs.getSolution()
        point, duals = finite(solution.col_value, self._columns), finite(solution.row_dual, self._rows)
        if point is None or duals is None:
            return None
        value = float(highs.getInfo().objective_function_value)
        return Relaxed(value / self._scale, point, duals / self._scale)

    def ray(self) -> NDArray[np.float64] | None:
        """Return what rows weigh in HiGHS's proof that no point keeps all, ``None`` if it has none."""
        if not self._well:
            return None
        with native_output_to_stderr():
            return finite(dual_ray(self._highs), self._rows)
