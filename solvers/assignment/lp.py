"""The linear relaxation of a model by HiGHS, with row duals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models.linear import LinearModel

__all__ = ["Relaxation", "relax"]


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """An optimal basic solution of a linear relaxation.

    Attributes
    ----------
    point
        float64 [columns].
    duals
        float64 [rows]: what the objective gains per unit of each row's bound.
    objective
        Its objective.
    """

    point: NDArray[np.float64]
    duals: NDArray[np.float64]
    objective: float

    def of(self, model: LinearModel, name: str) -> NDArray[np.float64]:
        """Return the duals of one family of rows, empty if there is none of that name."""
        for block in model.rows:
            if block.name == name:
                return self.duals[block.start : block.stop]
        return np.zeros(0)


def relax(
    model: LinearModel, seconds: float | None = None, forbidden: NDArray[np.bool_] | None = None
) -> Relaxation | None:
    """Solve the model without its integrality; ``None`` if it is infeasible or the time is over.

    Parameters
    ----------
    model
        The model.
    seconds
        Time limit.
    forbidden
        bool [columns]: columns held at zero.
    """
    import highspy

    from apportion.solvers.assignment.quietly import new_highs

    highs = new_highs(seconds)
    upper = model.upper if forbidden is None else np.where(forbidden, 0.0, model.upper)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = model.num_columns, model.num_rows
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = model.cost, model.lower, upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.sense_ = highspy.ObjSense.kMaximize if model.sense == "maximize" else highspy.ObjSense.kMinimize
    lp.offset_ = model.offset
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = model.indptr, model.indices, model.data
    if highs.passModel(lp) == highspy.HighsStatus.kError or highs.run() == highspy.HighsStatus.kError:
        return None
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    solution = highs.getSolution()
    return Relaxation(
        np.array(solution.col_value),
        np.array(solution.row_dual),
        float(highs.getInfo().objective_function_value),
    )
