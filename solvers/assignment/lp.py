"""The linear relaxation of a model by HiGHS, with row duals."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.errors import BackendUnavailable
from apportion.models.linear import LinearModel
from apportion.outcome import Termination
from apportion.solvers.general.highs_call import LONG, call

__all__ = ["Relaxation", "Unsolved", "relax"]


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


@dataclass(frozen=True, slots=True)
class Unsolved:
    """Why there is no relaxation. It proves nothing: ``infeasible`` is HiGHS's word within its tolerances.

    Attributes
    ----------
    termination
        What HiGHS's status means.
    raw
        Its own words.
    """

    termination: Termination
    raw: str

    @property
    def said_infeasible(self) -> bool:
        """Whether HiGHS says that there is no solution, which a proof of ours may confirm."""
        return self.termination in (Termination.INFEASIBLE, Termination.INFEASIBLE_OR_UNBOUNDED)


def relax(
    model: LinearModel, seconds: float | None = None, forbidden: NDArray[np.bool_] | None = None
) -> Relaxation | Unsolved:
    """Solve the model without its integrality.

    Parameters
    ----------
    model
        The model.
    seconds
        Time limit.
    forbidden
        bool [columns]: columns held at zero.
    """
    upper = model.upper if forbidden is None else np.where(forbidden, 0.0, model.upper)
    loose = replace(model, upper=upper, integer=np.zeros(model.num_columns, dtype=np.bool_))
    settings: dict[str, object] = {"threads": 1}
    if seconds is not None:
        settings["time_limit"] = max(seconds, 1e-3)
    try:
        said = call(loose, settings, interruptible=seconds is None or seconds > LONG)
    except BackendUnavailable as error:
        return Unsolved(Termination.ERROR, str(error))
    if said.termination is Termination.INTERRUPTED:
        raise KeyboardInterrupt
    if said.termination is not Termination.OPTIMAL or said.point is None or said.duals is None:
        settled = Termination.ERROR if said.termination is Termination.OPTIMAL else said.termination
        return Unsolved(settled, said.raw)
    return Relaxation(said.point, said.duals, loose.objective(said.point))
