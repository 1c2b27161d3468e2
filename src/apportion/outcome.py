"""What a solver says: why it stopped and what it has, before anybody believes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.options import Multipliers, Point

__all__ = ["Outcome", "SearchTree", "Termination", "figure"]


def figure(value: float | None) -> str:
    """Return a number as people read it, ``none`` where it is absent."""
    return "none" if value is None else f"{value:.10g}"


class Termination(StrEnum):
    """Why a solve ended. Whether there is a solution is a separate question."""

    OPTIMAL = "optimal"
    GAP_REACHED = "gap_reached"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    INFEASIBLE_OR_UNBOUNDED = "infeasible_or_unbounded"
    TIME_LIMIT = "time_limit"
    NODE_LIMIT = "node_limit"
    MEMORY_LIMIT = "memory_limit"
    SOLUTION_LIMIT = "solution_limit"
    INTERRUPTED = "interrupted"
    NUMERICAL_ERROR = "numerical_error"
    ERROR = "error"


@dataclass(frozen=True, slots=True, eq=False)
class SearchTree:
    """The exhaustive tree behind an optimum or an infeasibility of a `MultipleChoiceKnapsack`.

    Deciding the jobs in this order, with every option, a node may be closed when for one vector of prices
    the value so far, the price of what is left of the capacities and the best priced option of every open
    job do not exceed the incumbent (without prices, once all jobs are decided), or when no completion fits.
    Then nothing is left open.

    Attributes
    ----------
    prices
        int64 [vectors, capacities], at least 0.
    unit
        One unit of price in units of value for one unit of use.
    order
        int64 [jobs].
    nodes
        Nodes that our own search of this tree looked at.
    """

    prices: NDArray[np.int64]
    unit: Fraction
    order: NDArray[np.int64]
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A solver's claim about one model.

    Nothing here is believed: `apportion.solve` checks the point, recomputes the objective and re-derives
    what it can of the bound. Absent is ``None``, never infinity or zero.

    Attributes
    ----------
    termination
        Why the solver stopped.
    raw_status
        The solver's own words.
    point
        The best point: float64 column values for a `LinearModel`, int64 chosen rows (-1: none) for a
        `MultipleChoiceKnapsack`; ``None`` without one.
    objective
        Claimed objective of the point, in the model's own sense.
    bound
        Claimed dual bound on the optimum (above it when maximising, below it when minimising).
    bound_source
        Where the bound comes from: ``dynamic_programming``, ``enumeration``, ``branch_and_bound``,
        ``solver`` or ``multipliers``.
    multipliers
        One Lagrange multiplier >= 0 per capacity of a `MultipleChoiceKnapsack`, if the solver has them.
    row_multipliers
        float64 [jobs], of any sign: what a search that relaxed the rows "one machine a job" took them to be
        worth, to be maximised (costs are negated).
    seconds
        Wall-clock seconds by phase (``hand_over``, ``solve``, ...).
    counters
        Whatever the solver counts (``nodes``, ``iterations``, ``core_jobs``, ...).
    start_used
        Whether the given start was accepted; ``None`` if there was none or the solver does not say.
    tree
        The tree that proves the claim, where our exact search ended.
    """

    termination: Termination
    raw_status: str
    point: Point | None = None
    objective: float | None = None
    bound: float | None = None
    bound_source: str | None = None
    multipliers: Multipliers | None = None
    row_multipliers: NDArray[np.float64] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    start_used: bool | None = None
    tree: SearchTree | None = None

    def __repr__(self) -> str:
        point = "no point" if self.point is None else f"a point of {len(self.point)} numbers"
        return (
            f"<Outcome: {self.termination} ({self.raw_status}), objective {figure(self.objective)}, "
            f"bound {figure(self.bound)}, {point}>"
        )
