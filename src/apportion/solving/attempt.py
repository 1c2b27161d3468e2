"""Ask a backend, and check what it returns against the instance; whatever it does, the incumbent survives.

Ask a backend about a model: its failures become outcomes, a general solver runs under a hard deadline.

Plans on nodes: place what was chosen, and where that fails tighten the model and choose again.

The model of a `PlacedFormulation` says what is chosen, not where it lies, and so is a
relaxation. Its choice goes to the packing engine; one that cannot be placed comes back as a capacity that it
exceeds and no plan that can be placed does. Every model on the way is a relaxation, so the last bound is the
instance's; every capacity excludes at least the choice it came from, of which there are finitely many. This
lives with the solve call because only here formulation and solvers meet, and so it serves every backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import ApportionError, BackendUnavailable
from apportion.core.interruption import released
from apportion.core.options import Choice, Incumbent, Multipliers, Point, SolveOptions, Start
from apportion.core.outcome import Outcome, Report, Termination
from apportion.core.solution import GoalResult
from apportion.formulations.protocol import (
    KnapsackFormulation,
    LinearFormulation,
    NearPlacingFormulation,
    Packing,
    PlacedFormulation,
)
from apportion.models.assignment import Assignment
from apportion.models.linear import LinearModel
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.models.packing import FormulatedPacking, MachinePacking
from apportion.models.pods import PodPacking
from apportion.solving.call import Call
from apportion.solving.compiled_model import (
    CompiledKnapsack,
    CompiledModel,
    PlanOrPoint,
    better,
    repaired,
    rows_of,
)
from apportion.solving.registry import Backend, LinearSolver

if TYPE_CHECKING:
    from apportion.models.uses import Uses
    from apportion.solvers.packing.few_moves import Placement

__all__ = [
    "Asked",
    "Attempt",
    "Checked",
    "PlacedStructure",
    "ask",
    "ask_linear",
    "attempt",
    "begun",
    "checked_plan",
    "chosen_on_nodes",
]


_FIRST = 0.8
"""Share of the time in which the objective is to be decided where there are goals after it."""
_SHARE_TO_BEGIN = 0.25
"""Share of the time left in which a first plan and prices are looked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A backend's answer about a structured model, not checked yet.

    Attributes
    ----------
    outcome
        What the backend said.
    point
        Its point, carried back to the structured model; ``None`` without one.
    structure
        The model that was asked about last.
    known
        What is known beside the answer: the incumbent, and multipliers.
    plan
        The plan of the point, where asking has found it already.
    goals
        What became of the goals after the objective.
    """

    outcome: Outcome
    point: Point | None
    structure: CompiledModel
    known: Start
    plan: PlanOrPoint | None = None
    goals: tuple[GoalResult, ...] = ()


def ask(call: Call, backend: Backend, structure: CompiledModel, known: Start) -> Asked:
    """Ask a backend about a structured model, as it is or lowered."""
    began = perf_counter()
    if backend.accepts != "linear":
        outcome = _guarded(
            call, backend, lambda limits: structure.ask(backend, _first(structure, limits), known)
        )
        asked = Asked(outcome, outcome.point, structure, known)
        return _with_later_goals(call, asked, outcome.termination is Termination.OPTIMAL, began)
    if not _fits_doubles(structure.model):
        raise BackendUnavailable(
            f"backend {backend.name!r} computes in doubles, which do not hold these uses or capacities "
            "beyond 2**53 exactly; use the exact backend"
        )
    known = begun(call, structure, known)
    lowering = structure.lowered(known.point)
    outcome, columns = ask_linear(call, backend, lowering.model, lowering.start)
    if lowering.relaxed and outcome.termination in (Termination.OPTIMAL, Termination.GAP_REACHED):
        outcome = replace(outcome, termination=Termination.SOLUTION_LIMIT)
        call.log.note("the linear model is a relaxation: its bound holds, its optimum was packed into a plan")
    point = None if columns is None else lowering.point(columns)
    asked = Asked(outcome, point, structure, known)
    return _with_later_goals(call, asked, outcome.termination in _DECIDED, began)


def _with_later_goals(call: Call, asked: Asked, optimal: bool, began: float) -> Asked:
    """Return an answer that is as good and better in what is wanted after the objective, in strict order."""
    structure, point = asked.structure, asked.point
    if point is None or not isinstance(structure, CompiledKnapsack) or call.is_late():
        return asked
    try:
        with released():
            found = structure.in_order(point, call.remaining(), perf_counter() - began, optimal=optimal)
    except KeyboardInterrupt:
        return replace(asked, outcome=replace(asked.outcome, termination=Termination.INTERRUPTED))
    return asked if found is None else replace(asked, point=found.choice, goals=found.goals)


def _first(structure: CompiledModel, options: SolveOptions) -> SolveOptions:
    """Return the options of the search for the objective: a part of the time is left to what follows."""
    if not isinstance(structure, CompiledKnapsack) or not options.time_limit:
        return options
    places = isinstance(structure, PlacedStructure) and structure.places_near
    later = any(goal.worth.any() for goal in structure.model.goals)
    share = _BEFORE_NODES if places else _FIRST if later else 1.0
    return options.within(share * options.time_limit)


def _fits_doubles(model: MultipleChoiceKnapsack | Assignment) -> bool:
    """Return whether doubles hold every use exactly, and every capacity that the uses can reach."""
    matrix: Uses = model.uses if isinstance(model, Assignment) else model.matrix
    uses, capacities = matrix if isinstance(matrix, np.ndarray) else matrix.data, model.capacities
    # where no sum comes to where doubles have gaps
    if not uses.size or int(uses.max()) < 2**53 // model.num_options:
        return True
    numbers = np.concatenate((uses.ravel(), capacities[capacities < 2**62]))
    return bool((numbers.astype(np.float64).astype(np.int64) == numbers).all())


def begun(call: Call, structure: CompiledModel, known: Start) -> Start:
    """Return what is known together with a greedy incumbent and multipliers, for a general solver."""
    left = call.seconds_left
    with released():
        greedy = structure.greedy(None if left is None else _SHARE_TO_BEGIN * left)
    point = better(structure, call.maximizes, known.point, greedy.point)
    return Start(point, hint=known.hint if greedy.hint is None else greedy.hint)


def ask_linear(
    call: Call, backend: Backend, model: LinearModel, start: NDArray[np.float64] | None
) -> tuple[Outcome, NDArray[np.float64] | None]:
    """Ask a general solver about a linear model; return its outcome, and its point if that is well formed."""
    call.log.lap("start")

    def solved(options: SolveOptions) -> Outcome:
        solver = cast(LinearSolver, backend.load())  # says here what is missing or refused
        if backend.general and isinstance(backend.solve, str) and options.time_limit is not None:
            from apportion.solvers.isolation.isolated import solve as isolated

            return isolated(backend.solve, model, options, start, backend.extra)
        return solver(model, options, start)

    outcome = _guarded(call, backend, solved)
    if outcome.point is None:
        return outcome, None
    point = np.asarray(outcome.point)
    if point.dtype.kind in "fiu" and point.shape == (model.num_columns,) and np.isfinite(point).all():
        return outcome, np.asarray(point, dtype=np.float64)
    call.log.note(f"the backend's point is not {model.num_columns} finite numbers")
    return outcome, None


def _guarded(call: Call, backend: Backend, solved: Callable[[SolveOptions], Outcome]) -> Outcome:
    """Call a backend; its failures become outcomes, the caller's own exceptions pass through."""
    options = call.remaining()
    relay = _Relay(options.on_incumbent)
    if options.on_incumbent is not None:
        options = replace(options, on_incumbent=relay)
    try:
        with released():
            return solved(options)
    except KeyboardInterrupt:
        return Outcome(termination=Termination.INTERRUPTED, raw_status="KeyboardInterrupt")
    except MemoryError:
        return Outcome(termination=Termination.MEMORY_LIMIT, raw_status="MemoryError")
    except ApportionError:
        raise
    except Exception as error:
        if relay.raised is not None:
            raise relay.raised from None
        call.log.note(f"backend {backend.name} failed: {type(error).__name__}: {error}")
        return Outcome(termination=Termination.ERROR, raw_status=repr(error))


class _Relay:
    """The caller's callback, remembering the exception it raised."""

    def __init__(self, target: Callable[[Incumbent], None] | None) -> None:
        self._target = target
        self.raised: BaseException | None = None

    def __call__(self, incumbent: Incumbent) -> None:
        if self._target is None:
            return
        try:
            self._target(incumbent)
        except BaseException as error:
            self.raised = error
            raise


_DECIDED = (Termination.OPTIMAL, Termination.GAP_REACHED)
_MOST_ROUNDS = 500
_MOST_REPAIRS = 100
_PATTERNS, _ROUNDED, _BEFORE_NODES = 0.4, 0.7, 0.8
"""Shares of the time left for patterns and for rounding them, and of the limit for a choice over bundles."""


@dataclass(frozen=True, slots=True)
class PlacedStructure(CompiledKnapsack):
    """Menus whose choices must also lie on nodes."""

    formulation: PlacedFormulation

    @property
    def places_near(self) -> bool:
        """Whether the formulation itself finds choices close by that lie on the nodes."""
        return hasattr(self.formulation, "placed_near")

    def plan(self, point: Point, seconds: float | None) -> PlanOrPoint | None:
        """Return the plan of a choice, its nodes included; ``None`` if it was not placed."""
        found = self.packed(rows_of(point), seconds)
        return None if any(placed.nodes is None for placed in found.values()) else self.on(point, found)

    def on(self, point: Point, found: dict[str, Placement]) -> PlanOrPoint:
        """Return the plan of a choice that was packed."""
        nodes = {gpu_type: placed.nodes for gpu_type, placed in found.items() if placed.nodes is not None}
        return self.formulation.plan_on(rows_of(point), nodes)

    def packed(self, choice: Choice, seconds: float | None) -> dict[str, Placement]:
        """Return where a choice lies on the nodes of every GPU type, or why it cannot."""
        packings = self.formulation.packings(choice)
        found = {name: _packed(packing, seconds) for name, packing in packings.items()}
        nodes = {name: one.nodes for name, one in found.items() if one.nodes is not None}
        if not self.places_near:
            return found
        near = cast(NearPlacingFormulation, self.formulation)
        if len(nodes) == len(found) and not near.moves_few(choice, nodes):
            return {name: replace(one, nodes=None, proven=False) for name, one in found.items()}
        return {name: replace(one, proven=one.proven and not near.narrows) for name, one in found.items()}

    def without(self, choice: Choice, found: dict[str, Placement], *, proven: bool) -> PlacedStructure | None:
        """Return the same without a choice that could not be placed, ``None`` if that is not shown.

        Without `proven` what was not found counts as what is not there: for repair, never for a bound.
        """
        failed = {gpu_type: placed for gpu_type, placed in found.items() if placed.nodes is None}
        tighter = self.formulation
        for gpu_type, placed in failed.items():
            if placed.weights is not None:
                tighter = tighter.bounded(gpu_type, placed.weights)
        if tighter is self.formulation:
            shown = [gpu_type for gpu_type, placed in failed.items() if placed.proven or not proven]
            if not shown:
                return None
            for gpu_type in shown:
                core = failed[gpu_type].core
                kept = choice if core is None else np.where(np.isin(np.arange(choice.size), core), choice, -1)
                tighter = tighter.excluding(gpu_type, kept)
        return PlacedStructure(tighter)

    def placeable(self, point: Point | None, call: Call) -> Point | None:
        """Repair a choice until it can be placed on nodes; ``None`` where no repair achieves that."""
        if self.places_near and point is not None:
            kept = repaired(self.formulation.provable().model, rows_of(point))
            return None if kept is None else cast(NearPlacingFormulation, self.formulation).placed_near(kept)
        structure, near = self, None if point is None else repaired(self.model, rows_of(point))
        for _ in range(_MOST_REPAIRS):
            if near is None:
                return None
            found = structure.packed(near, call.seconds_left)
            if all(placed.nodes is not None for placed in found.values()):
                return near
            tighter = structure.without(near, found, proven=False)
            if tighter is None:
                return None
            structure, near = tighter, repaired(tighter.model, near)
        return None

    def by_patterns(self, call: Call, known: Start) -> tuple[PlacedStructure, Start, Point | None]:
        """Return the same under weights of pods, what is known there, and a choice that can be placed."""
        near = cast(NearPlacingFormulation, self.formulation)
        menus = near.pod_menus() if self.places_near else None
        if menus is None:
            return self, known, None
        from apportion.solvers.packing.patterns import relaxed, rounded

        def begin() -> Mapping[int, tuple[int, ...]]:
            before = self.placeable(known.point, call)
            return {} if before is None else near.lying(rows_of(before))

        left, deterministic = call.seconds_left, call.options.deterministic
        try:
            with released():
                found = relaxed(menus, None if left is None else _PATTERNS * left)
                if found is None or not found.within:
                    return self, known, None
                seconds = None if left is None else _ROUNDED * left
                rows, nodes = rounded(
                    menus, found, seconds, near.keeps, begin, gap=call.options.gap, again=not deterministic
                )
        except KeyboardInterrupt:  # remembered by whoever deferred it
            return self, known, None
        other, multipliers = near.weighted(found.weights, found.prices)
        return PlacedStructure(other), Start(known.point, hint=multipliers), other.placed_on(rows, nodes)


def chosen_on_nodes(
    call: Call, structure: PlacedStructure, known: Start, ask: Callable[[CompiledModel, Start], Asked]
) -> Asked:
    """Return the backend's answer, asked again with tighter models until its choice can be placed.

    Parameters
    ----------
    call
        The call; it takes a note where the best choice found could not be placed.
    structure
        The menus; those of the answer have the capacities only that a certificate can name.
    known
        What is known before; its point need not lie on the nodes.
    ask
        Asks the backend about a structured model.
    """
    structure, known, best = structure.by_patterns(call, known)
    best, prices = better(structure, call.maximizes, best, structure.placeable(known.point, call)), known.hint
    sharper: Outcome | None = None
    for round_ in range(_MOST_ROUNDS + 1):
        asked = ask(structure, Start(best, hint=prices))
        prices = asked.known.hint
        if asked.known.point is not best:  # a greedy one, before a general solver
            near = structure.placeable(asked.known.point, call)
            best = better(structure, call.maximizes, best, near)
        outcome = sharper = _sharper(call, sharper, asked.outcome)
        if asked.point is None and outcome.termination is not Termination.INFEASIBLE:
            break
        if asked.point is None or not structure.check(asked.point).feasible:
            return _certifiable(structure, outcome, asked.point, Start(best, hint=prices))
        choice = rows_of(asked.point)
        if structure.places_near and outcome.termination not in _DECIDED:
            # a tighter model would be left as open: the time goes into a choice near this one
            best = better(structure, call.maximizes, best, structure.placeable(choice, call))
            break
        found = structure.packed(choice, call.seconds_left)
        if all(placed.nodes is not None for placed in found.values()):
            plan = structure.on(choice, found)
            placed = _certifiable(structure, outcome, choice, Start(best, hint=prices), plan)
            return replace(placed, goals=asked.goals)
        tighter = structure.without(choice, found, proven=True)
        near = (structure if tighter is None else tighter).placeable(choice, call)
        best = better(structure, call.maximizes, best, near)
        stopped = outcome.termination is Termination.INTERRUPTED
        if tighter is None or round_ == _MOST_ROUNDS or stopped or call.is_late():
            call.log.note("the best choice found cannot be placed on the nodes: one near it was placed")
            break
        prices, structure = _carried(prices, structure, tighter), tighter
    ended = outcome.termination
    if ended in (Termination.OPTIMAL, Termination.GAP_REACHED):
        ended = Termination.TIME_LIMIT if call.is_late() else Termination.NODE_LIMIT
    source = None if outcome.bound is None else "solver"
    outcome = replace(outcome, termination=ended, point=None, bound_source=source)
    return _certifiable(structure, outcome, None, Start(best, hint=prices))


def _sharper(call: Call, before: Outcome | None, now: Outcome) -> Outcome:
    """Return an answer with the bound of an earlier one where that is better, which had more time."""
    if before is None or before.bound is None or now.termination is Termination.INFEASIBLE:
        return now
    worse = now.bound is None or (now.bound > before.bound if call.maximizes else now.bound < before.bound)
    if not worse:
        return now
    return replace(now, bound=before.bound, bound_source=before.bound_source, multipliers=before.multipliers)


def _packed(packing: Packing, seconds: float | None) -> Placement:
    if isinstance(packing, MachinePacking):
        from apportion.solvers.packing.machines import pack_machines

        return pack_machines(packing)
    if isinstance(packing, PodPacking):
        from apportion.solvers.packing.pods import pack_pods

        return pack_pods(packing, seconds)
    if isinstance(packing, FormulatedPacking):
        return _packed_as_formulated(packing, seconds)
    from apportion.solvers.packing.few_moves import pack

    return pack(packing, seconds)


def _packed_as_formulated(packing: FormulatedPacking, seconds: float | None) -> Placement:
    """Return the nodes of jobs in a plan; where there is none, jobs that have none together."""
    from apportion.solvers.packing.few_moves import Placement

    until = math.inf if seconds is None else perf_counter() + seconds
    plan = _placed_plan(packing.formulation(packing.jobs), until)
    if plan is not None and plan is not False:
        return Placement([*map(tuple, packing.nodes(plan))], proven=False)
    core = list(packing.jobs)
    for job in packing.jobs if plan is False and packing.parts else ():
        fewer = [one for one in core if one != job]
        if perf_counter() < until and _placed_plan(packing.formulation(fewer), until) is False:
            core = fewer
    return Placement(None, plan is False, core=tuple(core) if packing.parts else None)


def _placed_plan(formulation: KnapsackFormulation, until: float) -> PlanOrPoint | Literal[False] | None:
    """Return any plan of a formulation; false where there is none, ``None`` where that is not known."""
    from apportion.solvers.exact import solve

    placed = hasattr(formulation, "packings")
    for _ in range(_MOST_REPAIRS):
        left = None if until == math.inf else until - perf_counter()
        if left is not None and left <= 0:
            return None
        found = solve(formulation.model, SolveOptions(time_limit=left), Start())
        if found.point is None:
            return False if found.termination is Termination.INFEASIBLE else None
        if not placed:
            return formulation.plan(rows_of(found.point))
        structure = PlacedStructure(cast(PlacedFormulation, formulation))
        there = structure.packed(rows_of(found.point), left)
        if all(one.nodes is not None for one in there.values()):
            return structure.on(found.point, there)
        tighter = structure.without(rows_of(found.point), there, proven=True)
        if tighter is None:
            return None
        formulation = tighter.formulation
    return None


def _carried(
    prices: Multipliers | None, structure: PlacedStructure, tighter: PlacedStructure
) -> Multipliers | None:
    """Return the multipliers for a tighter model: those of the same capacities, 0 for a new one."""
    if prices is None:
        return None
    named = dict(zip(structure.capacity_names, prices.tolist(), strict=True))
    return np.array([named.get(name, 0.0) for name in tighter.capacity_names])


def _certifiable(
    structure: PlacedStructure,
    outcome: Outcome,
    point: Point | None,
    known: Start,
    plan: PlanOrPoint | None = None,
) -> Asked:
    """Drop the capacities that no certificate can name from the structure and the multipliers."""
    provable = PlacedStructure(structure.formulation.provable())
    kept = provable.model.num_capacities
    if known.hint is not None:
        known = replace(known, hint=known.hint[:kept])
    if outcome.multipliers is not None:
        outcome = replace(outcome, multipliers=np.asarray(outcome.multipliers)[:kept])
    return Asked(outcome, point, provable, known, plan)


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
    goals
        What became of the goals after the objective in the plan that was checked.
    """

    outcome: Outcome
    structure: CompiledModel
    known: Start
    checked: Checked | None
    restricted: bool = False
    exact: bool = False
    goals: tuple[GoalResult, ...] = ()


def attempt(
    call: Call, backend: Backend, structure: CompiledModel, known: Start, linear: LinearFormulation | None
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
    checked = _checked_point(call, asked)
    return Attempt(asked.outcome, asked.structure, asked.known, checked, goals=asked.goals)


def _by_formulation(
    call: Call, backend: Backend, structure: CompiledModel, known: Start, linear: LinearFormulation
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
