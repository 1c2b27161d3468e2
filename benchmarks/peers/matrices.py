"""The same problem as sparse matrices, for the peers whose natural input they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from benchmarks.peers.task import coupling_rows

__all__ = ["Matrices", "matrices_of"]


@dataclass(frozen=True, slots=True)
class Matrices:
    """``one_option_lower <= one_option x <= 1`` and ``coupling x - of_makespan T <= limits``.

    Attributes
    ----------
    one_option
        scipy CSR [jobs, options].
    one_option_lower
        float64 [jobs]: 1 where the job is required, else 0.
    coupling
        scipy CSR [rows, options].
    limits, of_makespan
        float64 [rows].
    values
        float64 [options].
    makespan
        Whether T is minimised rather than the sum of values.
    maximizes
        Whether the sum of values is maximised.
    integer
        Whether x is 0 or 1.
    """

    one_option: Any
    one_option_lower: NDArray[np.float64]
    coupling: Any
    limits: NDArray[np.float64]
    of_makespan: NDArray[np.float64]
    values: NDArray[np.float64]
    makespan: bool
    maximizes: bool
    integer: bool


def matrices_of(model: MultipleChoiceKnapsack | Assignment) -> Matrices:
    """Return the matrices of menus or of an assignment."""
    from scipy.sparse import csr_array

    size = model.values.size
    rows = list(coupling_rows(model))
    start = np.concatenate(([0], np.cumsum([row.options.size for row in rows]))).astype(np.int64)
    options = np.concatenate([row.options for row in rows] or [np.zeros(0, np.int64)])
    data = np.concatenate([row.coefficients for row in rows] or [np.zeros(0)])
    return Matrices(
        one_option=csr_array((np.ones(size), np.arange(size), model.offsets), shape=(model.num_jobs, size)),
        one_option_lower=model.required.astype(np.float64),
        coupling=csr_array((data, options, start), shape=(len(rows), size)),
        limits=np.array([row.limit for row in rows]),
        of_makespan=np.array([row.of_makespan for row in rows]),
        values=model.values,
        makespan=isinstance(model, Assignment) and model.goal == "makespan",
        maximizes=model.sense == "maximize",
        integer=not (isinstance(model, Assignment) and model.divisible),
    )
