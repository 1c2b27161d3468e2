"""A linear model in integers, exactly for the rows and with a stated error for the objective."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models.linear import LinearModel

__all__ = ["IntegerModel", "integers_of", "refusal"]

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
