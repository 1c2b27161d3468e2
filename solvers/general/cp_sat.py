"""OR-Tools CP-SAT through its own model: pure integer, bounded models only, scaled by us.

A linear model in integers, exactly for the rows and with a stated error for the objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models.linear import LinearModel
from apportion.solvers.general.cp_sat_call import Limits, call, new_model, preload, weighted_sum
from apportion.solvers.general.linear_call import LinearCall
from apportion.solvers.general.points import Observe, answered_at_sight

__all__ = ["IntegerModel", "integers_of", "preload", "refusal", "refuses", "solve"]


_LARGEST = 2.0**52
_LARGEST_BOUND = 2.0**40


@dataclass(frozen=True, slots=True, eq=False)
class IntegerModel:
    """A linear model with the same feasible points, all of whose numbers are integers.

    Attributes
    ----------
    lower, upper
        int64 [columns].
    row_lower, row_upper
        int64 [rows], scaled and rounded inward (which cuts no integer point off); the int64 limits for none.
    data
        int64 [nonzeros], scaled exactly, row by row.
    cost
        int64 [columns]: the objective times `scale`, rounded.
    scale
        A power of two.
    error
        Bound on ``|cost . x / scale - true cost . x|`` over the box, in the model's own unit.
    """

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    row_lower: NDArray[np.int64]
    row_upper: NDArray[np.int64]
    data: NDArray[np.int64]
    cost: NDArray[np.int64]
    scale: float
    error: float


def refusal(model: LinearModel) -> str | None:
    """Return why a model cannot be written in integers exactly, or ``None``."""
    if not model.integer.all():
        return "it has continuous variables"
    if not (np.isfinite(model.lower).all() and np.isfinite(model.upper).all()):
        return "it has unbounded variables"
    if max(np.abs(model.lower).max(initial=0.0), np.abs(model.upper).max(initial=0.0)) > _LARGEST_BOUND:
        return "it has variables beyond 2**40"
    factor = _row_factors(model)
    if factor is None:
        return "its rows have coefficients that no power of two up to 2**20 makes integers"
    reach = np.maximum(np.abs(model.lower), np.abs(model.upper))
    row = np.repeat(np.arange(model.num_rows), np.diff(model.indptr))
    terms = np.abs(model.data * factor[row]) * reach[model.indices]
    if np.bincount(row, weights=terms, minlength=model.num_rows).max(initial=0.0) > _LARGEST:
        return "its rows reach beyond 2**52"
    return None


def integers_of(model: LinearModel) -> IntegerModel:
    """Return the model in integers; ask `refusal` first."""
    factor = _row_factors(model)
    assert factor is not None
    row = np.repeat(np.arange(model.num_rows), np.diff(model.indptr))
    reach = np.maximum(np.abs(model.lower), np.abs(model.upper))
    total = float(np.abs(model.cost) @ np.maximum(reach, 1.0))
    scale = 1.0 if total == 0.0 else float(2.0 ** np.floor(np.log2(_LARGEST / total)))
    if _whole(model.cost) and total < _LARGEST:
        scale = 1.0
    scaled = np.round(model.cost * scale)
    # the differences are exact; the sum of n terms is off by less than n roundings
    slack = 1.0 + model.num_columns * 2.0**-50
    error = float(np.abs(scaled - model.cost * scale) @ reach) / scale * slack
    return IntegerModel(
        lower=np.ceil(model.lower - 1e-9).astype(np.int64),
        upper=np.floor(model.upper + 1e-9).astype(np.int64),
        row_lower=_clipped(np.ceil(model.row_lower * factor - 1e-9)),
        row_upper=_clipped(np.floor(model.row_upper * factor + 1e-9)),
        data=np.round(model.data * factor[row]).astype(np.int64),
        cost=scaled.astype(np.int64),
        scale=scale,
        error=error,
    )


def _row_factors(model: LinearModel) -> NDArray[np.float64] | None:
    row = np.repeat(np.arange(model.num_rows), np.diff(model.indptr))
    factor = np.ones(model.num_rows)
    for _ in range(21):
        scaled = model.data * factor[row]
        odd = row[scaled != np.round(scaled)]
        if not odd.size:
            return factor
        factor[np.unique(odd)] *= 2.0
    return None


def _whole(values: NDArray[np.float64]) -> bool:
    return bool((values == np.round(values)).all())


def _clipped(values: NDArray[np.float64]) -> NDArray[np.int64]:
    limit = 2.0**62
    return np.clip(values, -limit, limit).astype(np.int64)


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
