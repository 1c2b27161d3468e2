"""What of a solver's claim survives: termination, bound and its source, from checked facts only.

The verified bound is computed vectorised and rounded outward, or exactly where rounding would show. What an
answer leaves open, another formulation may close: `closed` keeps the better of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np

from apportion.core.options import KnownBound, Multipliers, Point, Start
from apportion.core.outcome import Outcome, Report, Termination, meets, relative_gap
from apportion.core.solution import GoalResult, Solution
from apportion.instances.kinds import ProblemType
from apportion.solving.call import Call, Log, Subject
from apportion.solving.compiled_model import CompiledModel, PlanOrPoint

__all__ = [
    "DECIDED",
    "Attempt",
    "Checked",
    "Verdict",
    "certified_bound",
    "checked_plan",
    "closed",
    "is_decided",
    "is_open",
    "judge",
    "outward",
]


DECIDED = (Termination.OPTIMAL, Termination.GAP_REACHED)
"""How a search ends that leaves nothing open."""
_LARGEST = 10**300
"""Bounds beyond this are of no use, and no double holds them much further."""


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A plan that passed the instance's own check, or the report on what did not.

    Attributes
    ----------
    report
        The checker's verdict.
    plan
        The plan, ``None`` where the verdict withholds it.
    point
        The point it comes from, where that is known.
    """

    report: Report
    plan: PlanOrPoint | None = None
    point: Point | None = None

    @property
    def objective(self) -> float | None:
        """The plan's recomputed objective, ``None`` without a plan."""
        return None if self.plan is None else self.report.objective


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """What came of asking a backend, its plan checked or not yet.

    Attributes
    ----------
    outcome
        What the backend said.
    structure
        The structured model that was asked about last; of one that is checked the capacities are those that a
        certificate can name.
    known
        The incumbent and the multipliers that there are beside the answer.
    point
        The backend's point, carried back to the structured model; ``None`` without one.
    plan
        The plan of the point, where asking has found it already.
    checked
        Its plan after the check; ``None`` if there was nothing to check.
    restricted
        Whether the formulation restricts the instance: its bound then proves nothing.
    exact
        Whether the bound is of the instance's own values, not of the model's, which are rounded.
    goals
        What became of the goals after the objective in the plan.
    """

    outcome: Outcome
    structure: CompiledModel
    known: Start
    point: Point | None = None
    plan: PlanOrPoint | None = None
    checked: Checked | None = None
    restricted: bool = False
    exact: bool = False
    goals: tuple[GoalResult, ...] = ()


def checked_plan(call: Call, plan: PlanOrPoint, point: Point | None) -> Checked:
    """Check a plan against the instance; one that fails is withheld, and a note says so."""
    report = call.kind.check(call.instance, plan)
    if report.feasible:
        return Checked(report, plan, point)
    call.log.note(f"the backend's plan fails the check: {report.violations[0]}")
    return Checked(report)


def certified_bound(
    kind: ProblemType, instance: Subject, structure: CompiledModel, multipliers: Multipliers | None
) -> float | None:
    """Return the weak-duality bound of multipliers, never tighter than its exact value.

    Returns
    -------
    float or None
        ``None`` if the multipliers are unusable, their bound is beyond 1e300, or some required job has no
        admissible option.
    """
    names = structure.capacity_names
    if not usable(multipliers, len(names)):
        return None
    quick = structure.bound(multipliers)
    if quick is not None:
        return quick
    named = dict(zip(names, multipliers.tolist(), strict=True))
    exact = kind.exact_bound(instance, named)
    if exact is None or abs(exact) > _LARGEST:
        return None
    return outward(exact, upper=kind.maximizes(instance))


def usable(multipliers: Multipliers | None, num_capacities: int) -> TypeGuard[Multipliers]:
    """Return whether multipliers are an array of one finite number >= 0 per capacity."""
    return (
        isinstance(multipliers, np.ndarray)
        and multipliers.dtype == np.float64
        and multipliers.shape == (num_capacities,)
        and bool(np.isfinite(multipliers).all())
        and not bool((multipliers < 0).any())
    )


def outward(exact: Fraction, *, upper: bool) -> float:
    """Return the nearest double that is not below (`upper`) or not above an exact value."""
    near = float(exact)
    if upper:
        return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
    return near if Fraction(near) <= exact else math.nextafter(near, -math.inf)


_PROOF = 1e-9
"""Relative gap that counts as zero: what double arithmetic leaves between equal numbers."""
_MIP_TOLERANCE = 1e-6
"""Relative gap at which general solvers say optimal."""
_LIMITS = frozenset(
    {
        Termination.TIME_LIMIT,
        Termination.NODE_LIMIT,
        Termination.MEMORY_LIMIT,
        Termination.SOLUTION_LIMIT,
        Termination.INTERRUPTED,
        Termination.NUMERICAL_ERROR,
        Termination.ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What may be said to the caller.

    Attributes
    ----------
    termination
        Why the solve ended, as far as it is shown.
    bound
        The best surviving bound, ``None`` without one.
    source
        Where that bound comes from.
    notes
        What was refused, and why.
    """

    termination: Termination
    bound: float | None
    source: str | None
    notes: tuple[str, ...]


def judge(
    *,
    maximizes: bool,
    objective: float | None,
    claimed: Termination,
    claimed_bound: float | None,
    claimed_source: str | None,
    verified_bound: float | None,
    asked_gap: float,
) -> Verdict:
    """Weigh a claim against the checked objective and the verified bound.

    Parameters
    ----------
    maximizes
        Sense of the instance.
    objective
        The recomputed objective of a plan that passed its check, its exact value rounded once; ``None``
        without such a plan.
    claimed, claimed_bound, claimed_source
        What the solver says.
    verified_bound
        The bound of the stored multipliers, rounded outward.
    asked_gap
        The relative gap the caller asked for.
    """
    sign = 1.0 if maximizes else -1.0
    notes: list[str] = []
    bound, source = _usable(claimed_bound, claimed_source, notes)
    if source == "multipliers" and bound is not None:
        # the verified bound is what the multipliers prove: it replaces the claim, and refutes a tighter one
        if verified_bound is None or sign * (verified_bound - bound) > _PROOF * abs(bound):
            notes.append(f"the multipliers do not prove the bound {bound:.12g} that is claimed of them")
        bound, source = None, None
    if objective is not None and bound is not None:
        shortfall = sign * (objective - bound)
        if shortfall > 0 and not meets(objective, bound):
            notes.append(f"claimed bound {bound:.12g} is refuted by the plan's objective {objective:.12g}")
            bound, source = None, None
        elif shortfall > 0 or abs(shortfall) <= 1e-12 * abs(objective):
            bound = objective
    if verified_bound is not None and (bound is None or sign * (verified_bound - bound) < 0):
        bound, source = verified_bound, "multipliers"
    if objective is None:
        ended = _without_plan(claimed, notes)
        if ended is Termination.INFEASIBLE and source is None:
            source = claimed_source
        return Verdict(ended, bound, source, tuple(notes))
    if claimed is Termination.INTERRUPTED:  # whoever pressed Ctrl-C wants to see that it worked
        return Verdict(claimed, bound, source, tuple(notes))
    if bound is not None:
        gap = relative_gap(objective, bound)
        if meets(objective, bound):
            return Verdict(Termination.OPTIMAL, bound, source, tuple(notes))
        if gap <= asked_gap:
            return Verdict(Termination.GAP_REACHED, bound, source, tuple(notes))
        near = (_MIP_TOLERANCE + _PROOF) * abs(objective)  # the solver's own objective was rounded
        if claimed is Termination.OPTIMAL and abs(bound - objective) <= near:
            notes.append(f"claimed optimal; shown is a gap of {gap:.2g}")
            return Verdict(Termination.GAP_REACHED, bound, source, tuple(notes))
    if claimed in _LIMITS:
        return Verdict(claimed, bound, source, tuple(notes))
    notes.append(f"the claim {claimed.value!r} is not supported by its bound and plan")
    return Verdict(Termination.NUMERICAL_ERROR, bound, source, tuple(notes))


def _usable(bound: float | None, source: str | None, notes: list[str]) -> tuple[float | None, str | None]:
    if bound is None:
        return None, None
    if not isinstance(bound, int | float) or not math.isfinite(bound):
        notes.append(f"claimed bound {bound!r} is not a finite number")
        return None, None
    return float(bound), source or "solver"


def _without_plan(claimed: Termination, notes: list[str]) -> Termination:
    if claimed in (Termination.OPTIMAL, Termination.GAP_REACHED):
        notes.append(f"the claim {claimed.value!r} comes without a plan that passes the check")
        return Termination.ERROR
    return claimed


def is_open(solution: Solution) -> bool:
    """Return whether a search has come to an end that decides less than all goals."""
    if solution.termination is Termination.OPTIMAL:
        return not all(goal.proven for goal in solution.goals)
    return solution.termination in (Termination.NODE_LIMIT, Termination.SOLUTION_LIMIT)


def is_decided(solution: Solution) -> bool:
    """Return whether nothing is left to ask: all goals are decided, or there is no plan, or it was ended."""
    ended = (Termination.INFEASIBLE, Termination.INTERRUPTED)
    return solution.termination in ended or (
        solution.termination in (Termination.OPTIMAL, Termination.GAP_REACHED)
        and all(goal.proven for goal in solution.goals)
    )


def closed(found: Solution, call: Call, by: Callable[[Call, Any, KnownBound | None], Solution]) -> Solution:
    """Return the better of an answer and another one that begins with its plan and its bound.

    Parameters
    ----------
    found
        The answer.
    call
        The call, in what is left of which the other one is found.
    by
        ``by(call, start, bound)``: the other answer.
    """
    bound, source = found.certificate.bound, found.certificate.source
    # what prices show of one model is the claim of a search about another one
    claim = "branch_and_bound" if source == "multipliers" else source
    known = None if bound is None or claim is None else KnownBound(bound, claim)
    again = by(replace(call, options=call.remaining(), log=Log()), found, known)
    notes, times = (*found.notes, *again.notes), {**again.times, "total": call.log.elapsed}
    if _rank(again, call) < _rank(found, call):
        best = found
    elif found.termination is Termination.OPTIMAL and again.objective == found.objective:
        best = replace(found, plan=again.plan, report=again.report, goals=again.goals)
    else:
        best = again
    ended = again if again.termination is Termination.INTERRUPTED else best
    return replace(best, notes=tuple(dict.fromkeys(notes)), times=times, termination=ended.termination)


def _rank(solution: Solution, call: Call) -> tuple[float, ...]:
    """Return what makes an answer better than another, in this order."""
    if solution.objective is None:
        return (-math.inf,)
    signs = (-1 if goal.sense == "minimize" else 1 for goal in solution.goals)
    goals = (sign * goal.value for sign, goal in zip(signs, solution.goals, strict=True))
    proven = sum(goal.proven for goal in solution.goals)
    worth = float(f"{solution.objective:.12g}")  # equal sums of doubles differ in the last digits
    optimal = solution.termination is Termination.OPTIMAL
    return (worth if call.maximizes else -worth, *goals, optimal, proven)
