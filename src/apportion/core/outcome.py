"""What a solver says before anybody believes it, what a check says of it, and the gap between both.

One rule says for all when a gap counts as none (`meets`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from apportion.core.display import Displayable

if TYPE_CHECKING:  # reports are read where no array is
    import numpy as np
    from numpy.typing import NDArray

    from apportion.core.options import Multipliers, Point

__all__ = [
    "Cover",
    "Outcome",
    "Report",
    "SearchTree",
    "Termination",
    "Violation",
    "absolute_gap",
    "figure",
    "meets",
    "relative_gap",
]


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule.

    Attributes
    ----------
    rule
        The rule's name, for instance ``capacity`` or ``no_migration``.
    subject
        The job, node, capacity or row it concerns, in the instance's own names.
    message
        The rule in words with the numbers that break it.
    """

    rule: str
    subject: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule}[{self.subject}]: {self.message}"


@dataclass(frozen=True, slots=True)
class Report(Displayable):
    """The verdict of a checker that shares no code with any formulation or solver.

    Attributes
    ----------
    objective
        The objective recomputed from the plan, in the instance's own sense; ``None`` if the plan is
        so malformed that it has none.
    violations
        Every broken rule found; empty if the plan is feasible.
    """

    objective: float | None
    violations: tuple[Violation, ...] = field(default=())

    def __repr__(self) -> str:
        objective = "no objective" if self.objective is None else f"objective {self.objective:.10g}"
        if self.feasible:
            return f"<Report: feasible, {objective}>"
        return f"<Report: {len(self.violations)} violations, {objective}; first {self.violations[0]}>"

    def to_dict(self) -> dict[str, Any]:
        """Return verdict, objective and violations as plain dicts, lists, numbers and strings."""
        return {
            "feasible": self.feasible,
            "objective": self.objective,
            "violations": list(map(str, self.violations)),
        }

    def table(self) -> dict[str, list[Any]]:
        """Return the violations as columns; none of them has a row where the plan is feasible."""
        rows = [asdict(violation) for violation in self.violations]
        return {name: [row[name] for row in rows] for name in ("rule", "subject", "message")}

    @property
    def feasible(self) -> bool:
        """Whether no rule is broken."""
        return not self.violations


_LEAST = 1e-9
"""What a gap is relative to where the objective is nearer to zero than this."""
_NONE = 1e-9
"""Relative difference that counts as none."""
_LEAST_FLOAT = 5e-324
"""Two neighbouring doubles next to zero differ by this, which no part of theirs can show."""


def relative_gap(objective: float, bound: float) -> float:
    """Return ``|bound - objective| / max(|objective|, 1e-9)``."""
    return abs(bound - objective) / max(abs(objective), _LEAST)


def absolute_gap(objective: float, relative: float) -> float:
    """Return how far a bound may lie from the objective: ``relative * max(|objective|, 1e-9)``.

    >>> absolute_gap(-200.0, 0.25), relative_gap(-200.0, -150.0)
    (50.0, 0.25)
    """
    return relative * max(abs(objective), _LEAST)


def meets(objective: float, bound: float) -> bool:
    """Return whether a bound shows an objective to be optimal: they differ by at most 1e-9 of the objective.

    Unlike the gap, this has no floor under the objective, below which any plan of tiny values was optimal,
    and no allowance for what was added up on the way: objectives are rounded once, from exact sums.

    >>> meets(5.0, 5.0), meets(1e-12, 1.5e-12), meets(0.0, 0.0)
    (True, False, True)
    """
    return abs(bound - objective) <= max(_NONE * abs(objective), _LEAST_FLOAT)


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


@dataclass(frozen=True, slots=True)
class Cover:
    """Jobs of which only so many can use so much of a capacity.

    Attributes
    ----------
    capacity
        Its position.
    thresholds
        What one of these jobs must use to count, by position of the job.
    others
        What every other job must use; at least any of `thresholds`.
    most
        How many jobs can count together.
    """

    capacity: int
    thresholds: Mapping[int, int]
    others: int
    most: int


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
        int64 [vectors, capacities and covers], at least 0.
    unit
        One unit of price in units of value for one unit of use.
    order
        int64 [jobs].
    nodes
        Nodes that our own search of this tree looked at.
    covers
        Rows behind those of the capacities.
    """

    prices: NDArray[np.int64]
    unit: Fraction
    order: NDArray[np.int64]
    nodes: int
    covers: tuple[Cover, ...] = ()


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
