"""What is explained: an instance with its menus and prices, a plan beside them, and what a job got and why.

Nothing here knows a kind: menus say whether a choice must also be placed (`relaxes`) and what of an instance
stands behind a capacity of theirs (`behind`, `more`), a kind what only it can say of a job (`remarks`).

Every question about a plan is answered from the numbers of one `PlanView`: a job's options at the prices, the
runner-up, and what it would take to win.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.core.outcome import Termination
from apportion.core.solution import Solution
from apportion.explanation.parts import Difference, JobWorth, OptionWorth, Rival
from apportion.explanation.resolver import Resolver, held_to, with_capacities
from apportion.formulations.protocol import KnapsackFormulation
from apportion.formulations.tenants import TenantedMenus
from apportion.instances import edits
from apportion.instances.edits import wider
from apportion.instances.kind import WayIn
from apportion.instances.tenants.check import ledger_of
from apportion.instances.tenants.ledger import shares_are_due, under_floors
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving import registry
from apportion.solving.call import kind_of_any
from apportion.solving.compiled_model import BareMenus
from apportion.solving.pipeline import menus_of_tenants

__all__ = ["LEFT_OUT", "PlanView", "Subject", "difference", "job_worth", "rival", "zero_if_rounding"]


LEFT_OUT = "-"
"""What the option of leaving a job out is called when it is asked about."""


class Subject:
    """An instance whose answers are explained by its menus.

    Parameters
    ----------
    instance
        The instance, or a bare model.
    tenants
        Whether its menus stand under the limits of its tenants.
    floors
        The shares that its plan keeps; what is solved again finds its own.
    """

    def __init__(
        self, instance: Any, *, tenants: bool = False, floors: Mapping[str, int] | None = None
    ) -> None:
        self.instance, self.tenants, self.floors = instance, tenants, floors
        self.kind = kind_of_any(instance)

    def _with(self, instance: Any) -> Self:
        return type(self)(instance, tenants=self.tenants)

    @property
    def name(self) -> str:
        """The instance's name, empty if it has none."""
        return str(getattr(self.instance, "name", ""))

    @property
    def sense(self) -> Literal["maximize", "minimize"]:
        """Whether more of the objective is better."""
        return "maximize" if self.kind.maximizes(self.instance) else "minimize"

    @property
    def measure(self) -> str:
        """What the objective is called."""
        return self.kind.measure(self.instance)

    @cached_property
    def menus(self) -> KnapsackFormulation:
        """The menus of the instance; `InvalidOption` if its kind has no formulation as menus."""
        if isinstance(self.instance, MultipleChoiceKnapsack):
            return BareMenus(self.instance)
        if self.tenants:
            under = under_floors(self.instance, self.floors)
            return cast(KnapsackFormulation, menus_of_tenants(under, None))
        entry = registry.formulation(self.kind.name, None)
        entry = entry if self.kind.bare else entry.explained or entry
        if entry.produces != "knapsack":
            raise InvalidOption(f"instances of kind {self.kind.name} cannot be explained: they have no menus")
        return cast(KnapsackFormulation, entry.compile(self.instance))

    def shown(self, capacity: str) -> bool:
        """Return whether a capacity is one of the instance's own: limits of tenants are told with them."""
        if not isinstance(self.menus, TenantedMenus):
            return True
        return capacity in self.menus.capacities or capacity in self.menus.ledger.unshared

    @property
    def has_amounts(self) -> bool:
        """Whether capacities are amounts that an edit changes, not what nodes have together."""
        return self.kind.bare or bool(edits.capacities(self.instance))

    @property
    def keeps(self) -> bool:
        """Whether the menus hold shares that are due: what they refute is refuted beside these alone."""
        return bool(self.floors)

    @property
    def gains_with_more(self) -> bool:
        """Whether more of a capacity never makes the objective worse: nothing else is due before it."""
        return not self.tenants or not shares_are_due(self.instance)

    @property
    def settles(self) -> bool:
        """Whether every choice that keeps the capacities is a plan: nothing is left to place."""
        return not getattr(self.menus, "relaxes", False)

    @property
    def _varied(self) -> bool:
        """Whether variants are instances: what must be placed, or what other solvers know more of."""
        return not self.settles or getattr(self.menus, "own_solvers", False)

    def changes(self, additions: Mapping[str, int]) -> Mapping[str, int]:
        """Return additions to capacities of the menus by the names and in the units that an edit takes."""
        more = getattr(self.menus, "more", None)
        if more is None:
            return additions
        found: dict[str, int] = {}
        for name, amount in additions.items():
            edit, own = more(name, amount)
            found[edit] = max(found.get(edit, 0), own)
        return found

    def priced_menus(self, multipliers: Mapping[str, float] | None) -> KnapsackFormulation:
        """Return the menus with every capacity that a certificate's multipliers name.

        Without those of places a choice that lies on none would count as the better one.
        """
        menus, option_set = self.menus, self.kind.option_set
        for name in multipliers or ():
            if option_set is None or name in menus.model.capacity_names or not hasattr(menus, "bounded"):
                continue
            derived = option_set.derived(self.instance, name)
            if derived is not None:
                menus = menus.bounded(*derived.cut)
        return menus

    def prices(self, menus: KnapsackFormulation, multipliers: Mapping[str, float]) -> NDArray[np.float64]:
        """Return float64 [capacities]: the price of each, from a certificate's multipliers."""
        given = [multipliers.get(name, 0.0) for name in self._behind(menus)]
        return np.array(given, dtype=np.float64)

    def _behind(self, menus: KnapsackFormulation) -> Sequence[str]:
        """Return what of the instance stands behind every capacity of the menus."""
        found: Sequence[str] = getattr(menus, "behind", menus.model.capacity_names)
        return found

    def shares(self, plan: Any) -> Mapping[str, tuple[str | None, float]]:
        """Return the option of every job in a plan and its part of the objective, or when it ends."""
        if self.kind.parts is not None:
            return self.kind.parts(self.instance, plan)
        rows = self.menus.choice(plan)
        assert rows is not None
        values = self.menus.model.values
        return {
            name: (None, 0.0) if row < 0 else (self.menus.option_name(row), float(values[row]))
            for name, row in zip(self.menus.job_names(), rows.tolist(), strict=True)
        }

    def remarks(self, job: int, plan: Any) -> tuple[tuple[str, ...], str | None]:
        """Return what only the kind knows of a job's option, and the option to compare it with."""
        if self.tenants or self.kind.remarks is None or plan is None:
            return (), None
        return self.kind.remarks(self.instance, self.instance.jobs[job], plan)

    def way_in(self, job: int, plan: Any) -> WayIn | None:
        """Return how a job that has nothing in a plan would have, as far as the kind says it."""
        if self.tenants or self.kind.way_in is None or plan is None:
            return None
        return self.kind.way_in(self.instance, self.instance.jobs[job], plan)

    def with_more(self, additions: Mapping[str, int]) -> Self:
        """Return the subject with more of some capacities, or with wider limits of tenants."""
        if self.kind.bare:
            extra = [additions.get(name, 0) for name in self.instance.capacity_names]
            return self._with(with_capacities(self.instance, self.instance.capacities + np.array(extra)))
        changed = self.instance
        for name, amount in self.changes(additions).items():
            if self.shown(name):
                changed = edits.change_capacity(changed, name, amount)
            elif (more := wider(changed, self.menus.ledger, name, amount)) is not None:  # type: ignore[attr-defined]
                changed = more
            else:
                raise InvalidInstance.at("$.tenants", f"{name} is no limit of one tenant alone")
        return self._with(changed)

    def wider(self, menus: KnapsackFormulation, capacity: int) -> Self:
        """Return the subject with one unit more of a capacity of its menus."""
        name = self._behind(menus)[capacity]
        if self.kind.bare:
            return self.with_more({name: 1})
        return self._with(edits.change_capacity(self.instance, name, 1))

    def without(self, names: Sequence[str]) -> Self:
        """Return the subject without some jobs; those of a bare model keep their numbers."""
        if not self.kind.bare:
            return self._with(edits.remove_jobs(self.instance, names))
        index = {name: job for job, name in enumerate(self.menus.job_names())}
        changed = self.instance
        for name in names:
            changed = held_to(changed, index[name], -1)
        return self._with(changed)

    def with_pin(self, menus: KnapsackFormulation, job: int, row: int) -> Any:
        """Return what is solved to hold a job to a row of its menu, or to leave it out (row -1)."""
        if not self._varied:
            return held_to(menus.model, job, row)
        name = "nothing" if row < 0 else getattr(menus, "pinned", menus.option_name)(row)
        wanted = (self.kind.wording.waiting or LEFT_OUT) if name == "nothing" else name
        pinned = edits.pin(self.instance, {menus.job_names()[job]: wanted})
        if self.tenants:
            # without floors a rule of fairness that nobody asked for would ask for levels
            pinned = under_floors(pinned, self.floors or None)
            try:
                ledger_of(self.kind, pinned)
            except InvalidInstance:  # what is due is out of reach with it: the menus say so
                return held_to(menus.model, job, row)
        return pinned

    def fewer(self, menus: KnapsackFormulation, capacity: int) -> Any:
        """Return what is solved to have one unit of a capacity less; shares due are found anew."""
        if self.tenants or self._varied:
            return edits.change_capacity(self.instance, self._behind(menus)[capacity], -1)
        capacities = menus.model.capacities.copy()
        capacities[capacity] -= 1
        return with_capacities(menus.model, capacities)

    def start(self, solution: Solution, rows: NDArray[np.int64]) -> Any:
        """Return the warm start of `fewer` from a plan that still fits."""
        return solution if self.tenants or self._varied else rows


@dataclass(frozen=True, slots=True, eq=False)
class PlanView:
    """A solved instance as arrays.

    Attributes
    ----------
    subject, structure, solution
        The instance, its menus and its solution with a plan.
    rows
        int64 [jobs]: the chosen row per job, -1 for none.
    prices
        float64 [capacities], or ``None`` if there are no multipliers.
    """

    subject: Subject
    structure: KnapsackFormulation
    solution: Solution
    rows: NDArray[np.int64]
    prices: NDArray[np.float64] | None

    @property
    def model(self) -> MultipleChoiceKnapsack:
        """The menus."""
        return self.structure.model

    @property
    def sign(self) -> float:
        """1 when maximising, -1 when minimising."""
        return 1.0 if self.model.sense == "maximize" else -1.0

    def rounding(self, answer: Solution) -> float:
        """Return how far the objective of an answer may be from its optimum, where it is one of the menus."""
        of_menus = isinstance(answer.instance, MultipleChoiceKnapsack)
        return self.structure.value_error if of_menus and not self.subject.kind.bare else 0.0

    def uses(self, row: int) -> NDArray[np.int64]:
        """Return int64 [capacities]: what an option uses; row -1 is leaving the job out."""
        return self.model.used(np.array([row]))

    def worth(self, row: int) -> OptionWorth:
        """Return an option at the prices; row -1 is leaving the job out."""
        if row < 0:
            free = None if self.prices is None else 0.0
            return OptionWorth(None, 0.0, {}, free, free)
        value, uses = float(self.model.values[row]), self.uses(row)
        pays = None if self.prices is None else float(uses @ self.prices)
        return OptionWorth(
            option=self.structure.option_name(row),
            value=value,
            uses={self.model.capacity_names[k]: int(uses[k]) for k in np.flatnonzero(uses)},
            pays=pays,
            net=None if pays is None else zero_if_rounding(self.sign * value - pays, max(abs(value), pays)),
        )

    def choices(self, job: int) -> list[int]:
        """Return the rows a job may get, -1 first where it may be left out."""
        menu = range(int(self.model.offsets[job]), int(self.model.offsets[job + 1]))
        return ([] if self.model.required[job] else [-1]) + list(menu)


def zero_if_rounding(gain: float, scale: float) -> float:
    """Return a difference of sums of doubles, 0 where it is below their rounding."""
    return 0.0 if abs(gain) <= 1e-12 * scale else gain


def difference(
    better: Solution, worse: Solution, sign: float, least: float | None = 0.0, error: float = 0.0
) -> Difference:
    """Return by how much one optimum exceeds another, exactly if both are proven.

    Parameters
    ----------
    better, worse
        Two solutions with plans.
    sign
        1 when maximising, -1 when minimising.
    least
        What the difference cannot be below, where that is known.
    error
        How far the objective of one of them may be from its optimum: what is solved are menus in doubles.
    """
    high = None if better.bound is None or worse.objective is None else better.bound - worse.objective
    low = None if worse.bound is None or better.objective is None else better.objective - worse.bound
    if sign < 0:
        high, low = (None if high is None else -high), (None if low is None else -low)
    if better.termination is worse.termination is Termination.OPTIMAL:
        assert better.objective is not None
        assert worse.objective is not None
        scale = max(abs(better.objective), abs(worse.objective))
        gain = zero_if_rounding(sign * (better.objective - worse.objective), scale)
        gain = gain if least is None else max(gain, least)
        return Difference(gain, gain - error if least is None else max(gain - error, least), gain + error)
    high, low = (None if high is None else high + error), (None if low is None else low - error)
    if least is not None:
        low = least if low is None else max(low, least)
        high = None if high is None else max(high, least)
    assert low is None or math.isfinite(low)
    return Difference(None, low, high)


def job_worth(
    view: PlanView,
    job: int,
    name: str,
    asked: int | None,
    resolver: Resolver | None,
    share: float = 1.0,
) -> JobWorth:
    """Return what one job got and why.

    Parameters
    ----------
    view
        The plan.
    job, name
        The job's index and name.
    asked
        A row that was asked about (-1: leaving the job out), or ``None``.
    resolver
        Finds the exact figures; ``None`` to leave them out.
    share
        Part of the resolver's remaining seconds for this job.
    """
    chosen = int(view.rows[job])
    rivals = [row for row in view.choices(job) if row != chosen]
    runner_up = None if not rivals else max(rivals, key=lambda row: _standing(view, row))
    larger, smaller = _steps(view, chosen, rivals)
    idle = not view.uses(chosen).any()
    fraction, price = _entry(view, chosen, rivals) if idle else (None, None)
    return JobWorth(
        job=name,
        chosen=view.worth(chosen),
        runner_up=None if runner_up is None else rival(view, job, runner_up, resolver, share),
        asked=None if asked is None else rival(view, job, asked, resolver, share),
        step_up=larger,
        step_down=smaller,
        enters_at=fraction,
        enters_at_price=price,
        idle=idle,
    )


def _value(view: PlanView, row: int) -> float:
    return 0.0 if row < 0 else view.sign * float(view.model.values[row])


def _standing(view: PlanView, row: int) -> tuple[float, float, int]:
    """Order options by net worth, of equals the one that uses less, then the first."""
    if row < 0:
        return 0.0, 0.0, 0
    uses = view.uses(row)
    pays = 0.0 if view.prices is None else float(uses @ view.prices)
    return _value(view, row) - pays, -float(uses.sum()), -row


def rival(view: PlanView, job: int, row: int, resolver: Resolver | None, share: float) -> Rival:
    """Return a row that a job did not get, and what it would take to get it; see `job_worth`."""
    chosen = int(view.rows[job])
    worth, own = view.worth(row), view.worth(chosen)
    estimate = None
    if worth.net is not None and own.net is not None:
        estimate = zero_if_rounding(own.net - worth.net, max(abs(own.value), abs(worth.value)))
    if resolver is None:
        return Rival(worth, estimate)
    if row == chosen:
        return Rival(worth, estimate, difference(view.solution, view.solution, view.sign), True)
    answer = resolver.solve(view.subject.with_pin(view.structure, job, row), share=share)
    if answer is None:
        return Rival(worth, estimate)
    if answer.plan is None:
        possible = False if answer.termination is Termination.INFEASIBLE else None
        return Rival(worth, estimate, None, possible, view.subject.keeps)
    needed = difference(view.solution, answer, view.sign, error=view.rounding(answer))
    return Rival(worth, estimate, needed, True, view.subject.keeps)


def _steps(
    view: PlanView, chosen: int, rivals: Sequence[int]
) -> tuple[OptionWorth | None, OptionWorth | None]:
    """Return the options with the next larger and next smaller use of the one capacity."""
    if view.model.num_capacities != 1:
        return None, None
    own = _use(view, chosen)
    larger = [row for row in rivals if _use(view, row) > own]
    smaller = [row for row in rivals if _use(view, row) < own]
    up = min(larger, key=lambda row: (_use(view, row), -_value(view, row)), default=None)
    down = max(smaller, key=lambda row: (_use(view, row), _value(view, row)), default=None)
    return None if up is None else view.worth(up), None if down is None else view.worth(down)


def _use(view: PlanView, row: int) -> int:
    return int(view.uses(row)[0])


def _entry(view: PlanView, chosen: int, rivals: Sequence[int]) -> tuple[float | None, float | None]:
    """Return where the prices would have to fall to before some option beats using nothing.

    At ``theta lambda`` option i pays off once ``v_i - v_0 >= theta lambda . u_i``.
    """
    menu: NDArray[np.int64] = np.array([row for row in rivals if row >= 0], dtype=np.int64)
    gain = view.sign * view.model.values[menu] - _value(view, chosen)
    uses = view.model.uses_of(menu)
    fraction = None
    if view.prices is not None and menu.size:
        pays = uses @ view.prices
        paying = (pays > 0) & (gain > 0)
        fraction = float((gain[paying] / pays[paying]).max()) if paying.any() else None
    price = None
    if view.model.num_capacities == 1 and menu.size:
        using = (uses[:, 0] > 0) & (gain > 0)
        price = float((gain[using] / uses[using, 0]).max()) if using.any() else None
    return fraction, price
