"""Branch and bound by HiGHS on what is left of a model after fixing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.errors import BackendUnavailable
from apportion.models.linear import LinearModel
from apportion.models.multiple_choice import Sense
from apportion.outcome import Termination
from apportion.solvers.assignment.restricted import restricted, spread
from apportion.solvers.general.highs_call import HIGHS_ERROR, LONG, call
from apportion.solvers.general.points import Start

__all__ = ["Branched", "branch_and_bound", "trusted"]


def trusted(bound: float, sense: Sense, *, whole: bool) -> float:
    """Return what of HiGHS's bound is relied on: less by its tolerance, or the whole number beyond that.

    Parameters
    ----------
    bound
        Its dual bound.
    sense
        The sense of the model.
    whole
        Whether all objectives are whole numbers.
    """
    sign = 1.0 if sense == "maximize" else -1.0
    loose = bound + sign * HIGHS_ERROR * (max(1.0, abs(bound)) if whole else abs(bound))
    if not whole or abs(bound) >= 2.0**50:
        return loose
    return float(math.floor(loose) if sign > 0 else math.ceil(loose))


@dataclass(frozen=True, slots=True, eq=False)
class Branched:
    """How branch and bound by HiGHS ended: its best point and its dual bound.

    Attributes
    ----------
    termination
        What HiGHS's status means: ``optimal`` only with a point, ``error`` where it failed or is refused.
    point
        The best point, or ``None``.
    bound
        Its dual bound in the model's sense, or ``None``.
    nodes
        Nodes searched.
    raw
        HiGHS's own words.
    """

    termination: Termination
    point: NDArray[np.float64] | None
    bound: float | None
    nodes: int
    raw: str


def branch_and_bound(
    model: LinearModel,
    seconds: float | None,
    start: NDArray[np.float64] | None = None,
    allowed: NDArray[np.bool_] | None = None,
    gap: float = 0.0,
    seed: int = 0,
    node_limit: int | None = None,
    ceiling: float | None = None,
    quick: bool = False,
) -> Branched:
    """Solve a model over the columns that are still allowed.

    Parameters
    ----------
    model
        The model.
    seconds
        Time limit, ``None`` for none.
    start
        A feasible point.
    allowed
        bool [columns]; the others stay at zero.
    gap
        Relative gap at which to stop.
    seed
        Random seed.
    node_limit
        Limit on the nodes, ``None`` for none.
    ceiling
        Upper bound on the last column, which is the makespan.
    quick
        For small models with a good start: no restarts and next to no search for better points, which
        halves to thirds the time of OR-Library's smaller files.
    """
    keep = np.arange(model.num_columns) if allowed is None else np.flatnonzero(allowed)
    settings: dict[str, object] = {"threads": 1, "mip_rel_gap": gap, "mip_abs_gap": 0.0, "random_seed": seed}
    if seconds is not None:
        settings["time_limit"] = max(seconds, 1e-3)
    if quick:
        settings |= {"mip_allow_restart": False, "mip_heuristic_effort": 0.01}
    if node_limit is not None:
        settings["mip_max_nodes"] = node_limit
    part = restricted(model, keep, ceiling)
    known = None
    if start is not None and np.count_nonzero(start) == np.count_nonzero(start[keep]):
        known = Start(start[keep], model.objective(start))
    try:
        said = call(part, settings, known, interruptible=seconds is None or seconds > LONG)
    except BackendUnavailable as error:
        return Branched(Termination.ERROR, None, None, 0, str(error))
    if said.termination is Termination.INTERRUPTED:
        raise KeyboardInterrupt
    point = None if said.point is None else spread(said.point, keep, model.num_columns)
    lost = said.termination is Termination.OPTIMAL and point is None
    termination = Termination.ERROR if lost else said.termination
    return Branched(termination, point, said.bound, said.nodes, said.raw)
