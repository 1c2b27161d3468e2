"""OR-Tools CP-SAT through its own model: pure integer, bounded models only, scaled by us."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.linear import LinearModel
from apportion.options import SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solvers.general.cp_sat_call import Limits, call, new_model, preload, weighted_sum
from apportion.solvers.general.integers import IntegerModel, integers_of, refusal
from apportion.solvers.general.linear_call import LinearCall
from apportion.solvers.general.observer import Observe
from apportion.solvers.general.points import answered_at_sight

__all__ = ["preload", "refuses", "solve"]


def refuses(model: LinearModel) -> str | None:
    """Return why CP-SAT cannot take a model exactly, or ``None``."""
    reason = refusal(model)
    return None if reason is None else f"CP-SAT takes bounded integer models only, and {reason}"


def solve(
    model: LinearModel,
    options: SolveOptions,
    start: NDArray[np.float64] | None = None,
    observe: Observe | None = None,
) -> Outcome:
    """Solve a pure integer, bounded model with CP-SAT.

    See `LinearCall.begun` for the parameters. A float objective is scaled by a power of two, and the bound
    widened by the rounding; `work_limit` counts CP-SAT's deterministic seconds; `observe` is called with
    every incumbent.

    Returns
    -------
    Outcome
        ``error`` with the reason if the model cannot be written in integers exactly.
    """
    if (answer := answered_at_sight(model)) is not None:
        return answer
    if (reason := refuses(model)) is not None:
        return Outcome(termination=Termination.ERROR, raw_status=reason)
    asked = LinearCall.begun(model, options, start, observe)
    observer, hint = asked.observer, asked.hint
    native = new_model()
    whole = integers_of(model)
    columns = _write(native, model, whole)
    if hint is not None:
        for column in np.flatnonzero(~np.isnan(hint)):
            native.add_hint(columns[column], round(float(hint[column])))
    limits = Limits(
        seconds=asked.seconds,
        work=options.work_limit,
        gap=options.gap,
        seed=options.seed,
        threads=options.threads,
        interleaved=options.deterministic and options.threads > 1,
    )

    def listen(value: Callable[[Any], int], native_bound: float) -> bool:
        point = np.array([value(column) for column in columns], dtype=np.float64)
        observer.incumbent(point, model.objective(point), _outward(model, whole, native_bound))
        return observer.raised is not None

    handed_over = asked.clock.seconds
    said = call(native, limits, listen if observer.active else None)
    point, bound = None, None
    if said.value is not None and said.bound is not None:
        point = np.array([said.value(column) for column in columns], dtype=np.float64)
        bound = _outward(model, whole, said.bound)
    return asked.outcome(
        said.termination,
        said.raw,
        point,
        bound,
        seconds=(handed_over, said.seconds),
        counters={"branches": float(said.branches), "conflicts": float(said.conflicts)},
        start_used=None if asked.start is None else hint is not None,
    )


def _write(native: Any, model: LinearModel, whole: IntegerModel) -> list[Any]:
    """Write the model and return its variables."""
    bounds = zip(whole.lower.tolist(), whole.upper.tolist(), strict=True)
    columns = [native.new_int_var(low, high, "") for low, high in bounds]
    for row in range(model.num_rows):
        terms = slice(int(model.indptr[row]), int(model.indptr[row + 1]))
        expression = weighted_sum(
            [columns[index] for index in model.indices[terms]], whole.data[terms].tolist()
        )
        low, high = int(whole.row_lower[row]), int(whole.row_upper[row])
        if low > high:
            native.add_bool_or([])
        else:
            native.add_linear_constraint(expression, low, high)
    used = np.flatnonzero(whole.cost)
    objective = weighted_sum([columns[index] for index in used], whole.cost[used].tolist())
    # with the offset, so that CP-SAT's relative gap is the caller's
    objective += int(_offset(model, whole))
    if model.sense == "maximize":
        native.maximize(objective)
    else:
        native.minimize(objective)
    return columns


def _outward(model: LinearModel, whole: IntegerModel, native_bound: float) -> float | None:
    bound = (native_bound - _offset(model, whole)) / whole.scale + model.offset
    if not np.isfinite(bound):
        return None
    return bound + whole.error if model.sense == "maximize" else bound - whole.error


def _offset(model: LinearModel, whole: IntegerModel) -> float:
    """Return the offset as CP-SAT is told it: in its own unit, whole, and within its range."""
    return float(np.round(np.clip(model.offset * whole.scale, -(2.0**52), 2.0**52)))
