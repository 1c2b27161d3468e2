"""What the solve path asks of an instance's structured model, whether it is a knapsack or an assignment.

A bare `MultipleChoiceKnapsack` or `Assignment` is an instance kind of its own here, whose plan is an int64
array of rows, or its point. Earlier choices are repaired into a new instance: jobs that left, options that
went, capacity that shrank (`repaired`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.core.options import Choice, Multipliers, Point, SolveOptions, Start
from apportion.core.outcome import Outcome, Report
from apportion.core.solution import GoalResult
from apportion.formulations.protocol import AssignmentFormulation, KnapsackFormulation, Plan
from apportion.instances.kinds import ProblemType
from apportion.models.assignment import Assignment
from apportion.models.exact_sums import exact_sum, over_columns
from apportion.models.lagrangian import exact_lagrangian_bound
from apportion.models.linear import LinearModel
from apportion.models.lowering import Lowered, LoweredAssignment, lower, lower_assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.models.uses import by_row, with_nothing
from apportion.solving.registry import AssignmentSolver, Backend, KnapsackSolver

if TYPE_CHECKING:
    from apportion.solvers.strict_order import InOrder

__all__ = [
    "ARRAYS",
    "ASSIGNMENT",
    "AssignmentRelaxation",
    "BareAssignment",
    "BareMenus",
    "CompiledAssignment",
    "CompiledKnapsack",
    "CompiledModel",
    "FormulatedModel",
    "Lowering",
    "PlanOrPoint",
    "better",
    "repaired",
    "rows_of",
]


class BareAssignment:
    """An assignment taken as it is.

    Attributes
    ----------
    model
        The model.
    value_error
        0: values are taken as they are.
    relaxes
        False: a point is its own plan.
    """

    __slots__ = ("model", "relaxes", "value_error")

    def __init__(self, model: Assignment) -> None:
        self.model = model
        self.value_error = 0.0
        self.relaxes = False

    def plan(self, point: Point) -> Point:
        """Return the point itself."""
        return point

    def choice(self, plan: object) -> Point | None:
        """Return a plan of the right shape as it is, entries of other jobs as -1; otherwise ``None``."""
        point = np.asarray(plan)
        if self.model.divisible:
            fits = point.shape == (self.model.num_options,) and point.dtype.kind in "iuf"
            return point.astype(np.float64) if fits else None
        if point.dtype.kind not in "iu" or point.shape[-1:] != (self.model.num_jobs,) or point.ndim > 2:
            return None
        if point.ndim == 2:  # a makespan with the turns of its jobs, checked as it is
            return point.astype(np.int64) if self.model.check(point).feasible else None
        own = (point >= self.model.offsets[:-1]) & (point < self.model.offsets[1:])
        return np.where(own, point, -1).astype(np.int64)

    def lowered(self) -> LoweredAssignment:
        """Return the linear model, its columns numbered."""
        return lower_assignment(self.model)

    def job_names(self) -> list[str]:
        """Return the jobs' positions as text."""
        return [str(job) for job in range(self.model.num_jobs)]

    def option_name(self, row: int) -> str:
        """Return an entry's machine as text."""
        return str(self.model.machine[row])


def _check_assignment(model: Assignment, plan: ArrayLike) -> Report:
    return model.check(plan)


def _exact_assignment_objective(model: Assignment, plan: object) -> Fraction:
    """Return the objective in fractions; of pools, whose packing is of doubles, that of the packing."""
    point = np.asarray(plan)
    if model.goal != "makespan":
        return exact_sum(model.values[point[point >= 0]])
    if model.divisible or (model.counts != 1).any():
        return Fraction(model.objective(point))
    taken = point[point >= 0]
    ends = [Fraction(0)] * model.num_machines
    for machine, time in zip(model.machine[taken].tolist(), model.values[taken].tolist(), strict=True):
        ends[machine] += Fraction(time)
    return max(ends, default=Fraction(0))


def _no_exact_bound(model: Assignment, multipliers: Mapping[str, float]) -> Fraction | None:
    """Return ``None``: bare arrays are certified vectorised or not at all."""
    return None


ASSIGNMENT = ProblemType(
    "matching",
    Assignment,
    lambda model: bool(model.goal == "value"),
    _check_assignment,
    _exact_assignment_objective,
    _no_exact_bound,
)
"""The kind of a bare assignment; it is never written to JSON."""


def repaired(model: MultipleChoiceKnapsack, rows: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return a feasible choice close to the given rows, or ``None`` if the repair does not succeed.

    Required jobs without a row get their option of least relative use. Then, while a capacity is
    exceeded, jobs move whose change loses least value per relieved relative use.

    Parameters
    ----------
    model
        The new instance's menus.
    rows
        int64 [jobs]: the earlier choice as far as it exists here, -1 elsewhere.
    """
    choice = rows.copy()
    room = np.maximum(model.capacities, 1).astype(np.float64)
    missing = np.flatnonzero(model.required & (choice < 0))
    if missing.size:
        if (np.diff(model.offsets)[missing] == 0).any():
            return None
        load = model.paid(1.0 / room)
        for job in missing:
            start, stop = model.offsets[job], model.offsets[job + 1]
            choice[job] = start + int(np.argmin(load[start:stop]))
    if (model.used(choice) <= model.capacities).all():
        return choice
    return _relieved(model, choice, room)


def _relieved(
    model: MultipleChoiceKnapsack, choice: NDArray[np.int64], room: NDArray[np.float64]
) -> NDArray[np.int64] | None:
    """Move jobs until every capacity is kept, in passes over the jobs that use what is exceeded.

    No move takes more of a capacity than is left of it, so that each brings the plan nearer.
    """
    for _ in range(32):  # each moves a job at least; two or three are the rule
        excess = np.maximum(model.used(choice) - model.capacities, 0) / room
        if not excess.any():
            return choice
        jobs, rows = _moves(model, choice, excess / room)
        if not _moved(model, choice, jobs, rows):
            return None
    return None


def _moves(
    model: MultipleChoiceKnapsack, choice: NDArray[np.int64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return jobs and what each could have instead, -1 for nothing; who loses least by relief comes first."""
    sign = 1.0 if model.sense == "maximize" else -1.0
    sizes, taken = np.diff(model.offsets), np.flatnonzero(choice >= 0)
    held = over_columns(model.matrix[choice[taken]], weights)
    jobs, held = taken[held > 0], held[held > 0]
    owner = np.repeat(np.arange(jobs.size), sizes[jobs])
    before = np.concatenate(([0], np.cumsum(sizes[jobs])))[:-1]
    rows = np.arange(owner.size) + (model.offsets[jobs] - before)[owner]
    free = np.flatnonzero(~model.required[jobs])
    relief = held[owner] - over_columns(model.matrix[rows], weights)
    relief = np.concatenate((relief, held[free]))
    worth = model.values[choice[jobs]]
    loss = np.concatenate((sign * (worth[owner] - model.values[rows]), sign * worth[free]))
    useful = np.flatnonzero(relief > 0)
    order = useful[np.argsort(np.maximum(loss[useful], 0.0) / relief[useful], kind="stable")]
    owner, rows = np.concatenate((owner, free)), np.concatenate((rows, np.full(free.size, -1)))
    return jobs[owner[order]], rows[order]


def _moved(
    model: MultipleChoiceKnapsack, choice: NDArray[np.int64], jobs: NDArray[np.int64], rows: NDArray[np.int64]
) -> bool:
    """Make those of the moves that relieve, in this order and one a job, until nothing is exceeded."""
    change: Any = with_nothing(model.matrix, rows) - model.matrix[choice[jobs]]
    first, capacities, amounts = by_row(change)
    left = (model.capacities - model.used(choice)).tolist()
    moved: set[int] = set()
    over = sum(amount < 0 for amount in left)
    for at, (job, row) in enumerate(zip(jobs.tolist(), rows.tolist(), strict=True)):
        if job in moved:
            continue
        span = slice(first[at], first[at + 1])
        takes = list(zip(capacities[span], amounts[span], strict=True))
        if any(0 < more > left[k] for k, more in takes) or not any(more < 0 > left[k] for k, more in takes):
            continue
        for k, more in takes:
            over -= left[k] < 0 <= left[k] - more
            left[k] -= more
        choice[job] = row
        moved.add(job)
        if not over:
            break
    return bool(moved)


class BareMenus:
    """Ragged menus taken as they are.

    Attributes
    ----------
    model
        The menus.
    value_error
        0: values are taken as they are.
    """

    __slots__ = ("model", "value_error")

    def __init__(self, model: MultipleChoiceKnapsack) -> None:
        self.model = model
        self.value_error = 0.0

    def exact_values(self) -> list[Fraction]:
        """Return the values themselves."""
        return list(map(Fraction, self.model.values.tolist()))

    def plan(self, choice: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the choice itself."""
        return choice

    def choice(self, plan: object) -> NDArray[np.int64] | None:
        """Return a plan of the right shape as it is, rows of other menus as -1; otherwise ``None``."""
        rows = np.asarray(plan)
        if rows.dtype.kind not in "iu" or rows.shape != (self.model.num_jobs,):
            return None
        own = (rows >= self.model.offsets[:-1]) & (rows < self.model.offsets[1:])
        return np.where(own, rows, -1).astype(np.int64)

    def present(self) -> None:
        """Return ``None``: bare arrays have no present state."""
        return

    def lowered(self) -> Lowered:
        """Return the MILP, its columns numbered."""
        return lower(self.model)

    def job_names(self) -> Sequence[str]:
        """Return the jobs' numbers, ``job 0`` first."""
        return tuple(f"job {index}" for index in range(self.model.num_jobs))

    def option_name(self, row: int) -> str:
        """Return the option's row."""
        return str(row)

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the menus themselves: they do not depend on the capacities."""
        return self.model


def _check(model: MultipleChoiceKnapsack, plan: ArrayLike) -> Report:
    return model.check(plan)


def _exact_objective(model: MultipleChoiceKnapsack, plan: object) -> Fraction:
    chosen = np.asarray(plan)
    return exact_sum(model.values[chosen[chosen >= 0]])


def _exact_bound(model: MultipleChoiceKnapsack, multipliers: Mapping[str, float]) -> Fraction | None:
    return exact_lagrangian_bound(model, np.array([multipliers[name] for name in model.capacity_names]))


ARRAYS = ProblemType(
    "multiple_choice_knapsack",
    MultipleChoiceKnapsack,
    lambda model: bool(model.sense == "maximize"),
    _check,
    _exact_objective,
    _exact_bound,
)
"""The kind of a bare model; it is never written to JSON."""


_F = TypeVar("_F", AssignmentFormulation, KnapsackFormulation)


@dataclass(frozen=True, slots=True)
class FormulatedModel(Generic[_F]):
    """The structured model of an instance; see `CompiledModel` for what every method says.

    Attributes
    ----------
    formulation
        The formulation, whose model it is.
    """

    formulation: _F

    @property
    def capacity_names(self) -> tuple[str, ...]:
        """Names of the capacities that multipliers price."""
        return self.formulation.model.capacity_names

    @property
    def value_error(self) -> float:
        """What the formulation says of its rounding."""
        return self.formulation.value_error

    def check(self, point: Point) -> Report:
        """Check a point against the model."""
        return self.formulation.model.check(point)

    def point(self, plan: object) -> Point | None:
        """Return the point of a plan, as far as it fits."""
        return self.formulation.choice(plan)


PlanOrPoint = Plan | Point
"""A plan as it stands in JSON; of a bare model, which has no names, its point."""


@dataclass(frozen=True, slots=True, eq=False)
class Lowering:
    """A structured model as a linear one, for the general solvers.

    Attributes
    ----------
    model
        The linear model.
    start
        float64 [columns]: the start's point, ``None`` without one.
    point
        Carries column values back to the structured model.
    relaxed
        Whether the linear model leaves something out: its bound holds, its optimum proves no plan optimal.
    """

    model: LinearModel
    start: NDArray[np.float64] | None
    point: Callable[[NDArray[np.float64]], Point]
    relaxed: bool = False


class CompiledModel(Protocol):
    """A structured model together with the formulation that it comes from."""

    @property
    def capacity_names(self) -> tuple[str, ...]:
        """Names of the capacities that multipliers price."""
        ...

    @property
    def model(self) -> MultipleChoiceKnapsack | Assignment:
        """The structured model."""
        ...

    @property
    def value_error(self) -> float:
        """How far rounding of the model's values may move any sum of them from what the instance says."""
        ...

    @property
    def relaxes(self) -> bool:
        """Whether the model is a relaxation that another formulation of the instance takes the place of."""
        ...

    def check(self, point: Point) -> Report:
        """Check a point against the model alone, whatever it is."""
        ...

    def objective(self, point: Point) -> float:
        """Return the objective of a feasible point in floating point."""
        ...

    def plan(self, point: Point, seconds: float | None) -> PlanOrPoint | None:
        """Return the plan of a feasible point, ``None`` if it was not placed within the seconds."""
        ...

    def point(self, plan: object) -> Point | None:
        """Return the point of a plan as far as it fits this instance; ``None`` if it is no plan."""
        ...

    def repaired(self, point: Point) -> Point | None:
        """Turn an earlier point into a feasible one; ``None`` where the greedy repair ends."""
        ...

    def greedy(self, seconds: float | None) -> Start:
        """Return a feasible point and multipliers for a general solver, as far as there are any.

        It takes about so many seconds at most, as far as its solvers look at the clock.
        """
        ...

    def bound(self, multipliers: Multipliers) -> float | None:
        """Return the weak-duality bound rounded outward, ``None`` where only exact arithmetic decides it."""
        ...

    def lowered(self, start: Point | None) -> Lowering:
        """Return the model as a linear one, with the instance's own names."""
        ...

    def ask(self, backend: Backend, options: SolveOptions, start: Start) -> Outcome:
        """Ask a backend that accepts this type of model."""
        ...


def better(
    structure: CompiledModel, maximizes: bool, first: Point | None, second: Point | None
) -> Point | None:
    """Return the feasible point with the better objective, the first of equals; one may be absent."""
    if first is None or second is None:
        return second if first is None else first
    gain = structure.objective(second) - structure.objective(first)
    return second if (gain if maximizes else -gain) > 0 else first


class CompiledAssignment(FormulatedModel[AssignmentFormulation]):
    """The assignment of an instance; see `CompiledModel` for what every method says."""

    __slots__ = ()

    @property
    def model(self) -> Assignment:
        """The assignment."""
        return self.formulation.model

    @property
    def relaxes(self) -> bool:
        """Whether a choice need not fit on the machines of a pool."""
        return self.formulation.relaxes

    def objective(self, point: Point) -> float:
        """Return the makespan, the cost or the value."""
        return self.model.objective(point)

    def plan(self, point: Point, seconds: float | None) -> PlanOrPoint | None:
        """Return the plan of a choice or of shares."""
        return self.formulation.plan(np.asarray(point, np.float64 if self.model.divisible else np.int64))

    def repaired(self, point: Point) -> Point | None:
        """Move jobs until every machine's room is kept."""
        from apportion.solvers.assignment.mip import repaired

        return repaired(self.model, point)

    def greedy(self, seconds: float | None) -> Start:
        """Return a first point and prices."""
        from apportion.solvers.matching import start

        point, prices = start(self.model)
        return Start(point, hint=prices)

    def bound(self, multipliers: Multipliers) -> float | None:
        """Return the weak-duality bound of the prices."""
        from apportion.models.assignment_bounds import weak_duality_bound

        return weak_duality_bound(self.model, multipliers)

    def lowered(self, start: Point | None) -> Lowering:
        """Return the linear model of the assignment."""
        lowered = self.formulation.lowered()
        known = None if start is None else lowered.point(start)
        pools = not self.model.divisible and bool((self.model.counts > 1).any())
        return Lowering(lowered.model, known, lowered.choice, relaxed=pools)

    def ask(self, backend: Backend, options: SolveOptions, start: Start) -> Outcome:
        """Ask an assignment solver."""
        return cast(AssignmentSolver, backend.load())(self.model, options, start)


class AssignmentRelaxation(CompiledAssignment):
    """An assignment whose jobs belong to tenants, without their limits: a relaxation of what is asked.

    Its prices bound the whole; a greedy point of it may be no plan.
    """

    __slots__ = ()

    def greedy(self, seconds: float | None) -> Start:
        """Return prices alone."""
        return replace(super().greedy(seconds), point=None)


def rows_of(point: Point) -> Choice:
    """Return a checked point as int64 rows."""
    return np.asarray(point, dtype=np.int64)


class CompiledKnapsack(FormulatedModel[KnapsackFormulation]):
    """The menus of an instance; see `CompiledModel` for what every method says."""

    __slots__ = ()

    @property
    def model(self) -> MultipleChoiceKnapsack:
        """The menus."""
        return self.formulation.model

    @property
    def relaxes(self) -> bool:
        """Return False: choices that must lie on nodes are placed while they are made."""
        return False

    def objective(self, point: Point) -> float:
        """Return the sum of the chosen values."""
        return self.model.objective(rows_of(point))

    def plan(self, point: Point, seconds: float | None) -> PlanOrPoint | None:
        """Return the plan of a choice."""
        return self.formulation.plan(rows_of(point))

    def repaired(self, point: Point) -> Point | None:
        """Move jobs until every capacity is kept."""
        return repaired(self.model, rows_of(point))

    def greedy(self, seconds: float | None) -> Start:
        """Return a greedy choice and near-optimal multipliers, after about so many seconds at most."""
        from apportion.solvers.exact import start

        choice, multipliers = start(self.model, seconds)
        return Start(choice, hint=multipliers)

    def bound(self, multipliers: Multipliers) -> float | None:
        """Return the Lagrangian bound."""
        from apportion.models.lagrangian import lagrangian_bound

        return lagrangian_bound(self.model, multipliers, self.formulation.value_error)

    def lowered(self, start: Point | None) -> Lowering:
        """Return the MILP of the menus."""
        lowered = self.formulation.lowered()
        known = None if start is None else lowered.point(rows_of(start))
        return Lowering(lowered.model, known, lowered.choice)

    def in_order(
        self, point: Point, options: SolveOptions, seconds: float, *, optimal: bool
    ) -> InOrder | None:
        """Return what is as good and better in the goals after it; ``None`` without such goals or a choice.

        Parameters
        ----------
        point, options, seconds, optimal
            See `apportion.solvers.strict_order.later_goals`.
        """
        from apportion.solvers.strict_order import later_goals

        present = self.formulation.present() if options.keep_running else None
        if (present is None and not self.model.goals) or not self.model.check(point).feasible:
            return None
        return later_goals(self.model, rows_of(point), present, options, seconds=seconds, optimal=optimal)

    def reached(self, choice: Choice, *, running: bool) -> Iterator[GoalResult]:
        """Yield what a choice has of every goal, those about running jobs where asked; without a bound."""
        from apportion.solvers.strict_order import reached

        return reached(self.model, choice, self.formulation.present() if running else None)

    def ask(self, backend: Backend, options: SolveOptions, start: Start) -> Outcome:
        """Ask a knapsack solver; who changes least is preferred."""
        solver = cast(KnapsackSolver, backend.load())
        present = self.formulation.present() if options.keep_running else None
        preferred = None if present is None else present.rows
        return solver(self.model, options, Start(start.point, preferred, start.hint, start.bound))
