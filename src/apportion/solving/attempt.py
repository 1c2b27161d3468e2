"""Ask a backend, and check what it returns against the instance; whatever it does, the incumbent survives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from apportion.formulations.protocol import LinearFormulation
from apportion.options import Point, Start
from apportion.outcome import Outcome
from apportion.registry import Backend
from apportion.report import Report
from apportion.solving.asking import Asked, ask, ask_linear, begun
from apportion.solving.call import Call
from apportion.solving.placement import PlacedStructure, chosen_on_nodes
from apportion.solving.structure import PlanOrPoint, Structure

__all__ = ["Attempt", "Checked", "attempt", "checked_plan"]


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
    """What came of asking a backend.

    Attributes
    ----------
    outcome
        What the backend said.
    structure
        The structured model, its capacities those that a certificate can name.
    known
        The incumbent and the multipliers that there are beside the answer.
    checked
        Its plan after the check; ``None`` if there was nothing to check.
    restricted
        Whether the formulation restricts the instance: its bound then proves nothing.
    exact
        Whether the bound is of the instance's own values, not of the model's, which are rounded.
    """

    outcome: Outcome
    structure: Structure
    known: Start
    checked: Checked | None
    restricted: bool = False
    exact: bool = False


def attempt(
    call: Call, backend: Backend, structure: Structure, known: Start, linear: LinearFormulation | None
) -> Attempt:
    """Ask the backend about a linear formulation, or without one about the structured model itself."""
    if linear is not None:
        return _by_formulation(call, backend, structure, known, linear)
    question = partial(ask, call, backend)
    if isinstance(structure, PlacedStructure):
        asked = chosen_on_nodes(call, structure, known, question)
    else:
        asked = question(structure, known)
    call.log.lap("solve")
    return Attempt(asked.outcome, asked.structure, asked.known, _checked_point(call, asked))


def _by_formulation(
    call: Call, backend: Backend, structure: Structure, known: Start, linear: LinearFormulation
) -> Attempt:
    known = begun(call, structure, known)
    plan = None if known.point is None else structure.plan(known.point, call.seconds_left)
    start = None if plan is None else linear.point(plan)
    outcome, columns = ask_linear(call, backend, linear.model, start)
    call.log.lap("solve")
    checked = None if columns is None else checked_plan(call, linear.plan(columns), None)
    return Attempt(outcome, structure, known, checked, restricted=not linear.exact)


def _checked_point(call: Call, asked: Asked) -> Checked | None:
    """Check a point against its model, then its plan against the instance, where these are not the same."""
    if asked.point is None:
        return None
    report = asked.structure.check(asked.point)
    if not report.feasible:
        call.log.note(f"the backend's point fails the check: {report.violations[0]}")
        return Checked(report)
    plan = asked.plan
    if plan is None:
        plan = asked.structure.plan(asked.point, call.seconds_left)
    if plan is asked.point and asked.structure.model is call.instance:
        return Checked(report, plan, asked.point)
    return None if plan is None else checked_plan(call, plan, asked.point)


def checked_plan(call: Call, plan: PlanOrPoint, point: Point | None) -> Checked:
    """Check a plan against the instance; one that fails is withheld, and a note says so."""
    report = call.kind.check(call.instance, plan)
    if report.feasible:
        return Checked(report, plan, point)
    call.log.note(f"the backend's plan fails the check: {report.violations[0]}")
    return Checked(report)
