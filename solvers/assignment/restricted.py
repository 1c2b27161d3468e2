"""A linear model over some of its columns, the others held at zero."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.models.linear import Block, LinearModel

__all__ = ["restricted", "spread"]


def restricted(model: LinearModel, keep: NDArray[np.int64], ceiling: float | None = None) -> LinearModel:
    """Return the model over the columns `keep`; plain names.

    Parameters
    ----------
    model
        The model.
    keep
        int64: the columns that stay, ascending.
    ceiling
        Upper bound on the last column, which is the makespan.
    """
    upper = model.upper
    if ceiling is not None:
        upper = upper.copy()
        upper[-1] = min(float(upper[-1]), ceiling)
    place = np.full(model.num_columns, -1, dtype=np.int64)
    place[keep] = np.arange(keep.size)
    kept = place[model.indices] >= 0
    row = np.repeat(np.arange(model.num_rows), np.diff(model.indptr))
    ends = np.cumsum(np.bincount(row[kept], minlength=model.num_rows))
    return replace(
        model,
        cost=model.cost[keep],
        lower=model.lower[keep],
        upper=upper[keep],
        integer=model.integer[keep],
        indptr=np.concatenate(([0], ends)).astype(np.int32),
        indices=place[model.indices[kept]].astype(np.int32),
        data=model.data[kept],
        variables=(Block("column", 0, (int(keep.size),)),),
        rows=(Block("row", 0, (model.num_rows,)),),
    )


def spread(point: NDArray[np.float64], keep: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Return a point of the restricted model in all `size` columns."""
    whole = np.zeros(size)
    whole[keep] = point
    return whole
