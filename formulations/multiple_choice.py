"""Multiple-choice knapsacks as ragged arrays: of their own instance, and of the options of any kind.

An instance's menus stand as they are, pins and bans applied. The options are solved where a kind brings no
formulation; one whose menus are long, or compiled again and again, brings one in vectors instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from apportion.core.solution import MAX_CHANGES
from apportion.formulations.protocol import Plan
from apportion.instances.columns import listed
from apportion.instances.draft import with_jobs
from apportion.instances.fields import remade
from apportion.instances.kinds import kind_of
from apportion.instances.multiple_choice_knapsack import KnapsackOption, MultipleChoiceKnapsackInstance
from apportion.instances.options import entries_by, uses_by
from apportion.instances.tenants.ledger import is_tenanted
from apportion.models.lowering import Lowered, OptionLabels, lower
from apportion.models.multiple_choice import Goal, MultipleChoiceKnapsack, Present
from apportion.models.splice import difference

__all__ = [
    "MenuFormulation",
    "OptionMenus",
]


class MenuFormulation:
    """The arrays of an instance, and the way back to option names.

    Attributes
    ----------
    instance
        What was compiled.
    model
        The admissible options; a pinned job is required and has one.
    menus
        The admissible options of every job.
    current
        int64 [jobs]: where the job's current option stands in its menu, -1 where it has none there.
    value_error
        0: values are taken as they are.
    names
        The options' ids, once one was asked for.
    known
        The last plan made here, and where its options stand in the menus.
    """

    __slots__ = ("current", "instance", "known", "menus", "model", "names", "value_error")

    def __init__(self, instance: MultipleChoiceKnapsackInstance) -> None:
        self.instance = instance
        self.value_error = 0.0
        self.names: list[str] | None = None
        self.known: tuple[Plan, NDArray[np.int64]] | None = None
        self.menus = [
            [
                option
                for option in job.options
                if option.id not in job.forbidden and job.pinned in (None, option.id)
            ]
            for job in instance.jobs
        ]
        free = np.array([not job.required and job.pinned is None for job in instance.jobs], dtype=np.bool_)
        if instance.max_changes is not UNSET:
            for at, job in enumerate(instance.jobs):
                if job.current is not None:
                    explicit = bool(free[at]) and self._lists_waiting
                    self.menus[at] = _counting_changes(self.menus[at], job.current, may_wait=explicit)
                    free[at] &= not explicit
        names, amounts = _capacities(instance)
        self.current = np.array(
            [_position(menu, job.current) for job, menu in zip(instance.jobs, self.menus, strict=True)],
            dtype=np.int64,
        )
        starts = [0, *accumulate(map(len, self.menus))]
        flat = [option for menu in self.menus for option in menu]
        entries = entries_by([option.uses for option in flat], {name: k for k, name in enumerate(names)})
        uses = uses_by(entries, (len(flat), len(names)))
        self.model = MultipleChoiceKnapsack.from_arrays(
            np.array([option.value for option in flat], dtype=np.float64),
            uses,
            np.array(starts, dtype=np.int64),
            amounts,
            required=~free,
            sense=instance.sense,
            capacity_names=names,
            goals=_goals(instance, flat),
        )

    @property
    def _lists_waiting(self) -> bool:
        """Whether waiting is an option of jobs that run, as it is a change; with tenants it is one anyway."""
        return self.instance.max_changes is not UNSET and not is_tenanted(self.instance)

    def patched(self, instance: MultipleChoiceKnapsackInstance) -> MenuFormulation | None:
        """Return the formulation of a changed instance, made of this one; ``None`` where little stays.

        This one is given up: its arrays may be written to.
        """
        names, amounts = _capacities(instance)
        before = self.instance
        if (instance.sense, names, instance.goals) != (before.sense, _capacities(before)[0], before.goals):
            return None
        splice = difference(self.instance.jobs, instance.jobs)
        fresh = MenuFormulation(with_jobs(instance, [instance.jobs[position] for position in splice.fresh]))
        other = copy(self)
        other.instance, other.names = instance, None
        other.model = self.model.spliced(splice, fresh.model, amounts)
        other.current = splice.jobs(self.current, fresh.current)
        other.menus = splice.spliced_list(self.menus, fresh.menus)
        if self.known is not None:
            plan, positions = self.known
            changed = fresh.choice(plan)
            assert changed is not None
            other.known = plan, splice.jobs(positions, np.maximum(changed - fresh.model.offsets[:-1], -1))
        return other

    def exact_values(self) -> list[Fraction]:
        """Return the values themselves."""
        return list(map(Fraction, self.model.values.tolist()))

    def plan(self, choice: NDArray[np.int64]) -> Plan:
        """Return ``{"choice": {job: option}}``; a job that is left out does not stand there."""
        positions = np.where(choice < 0, -1, choice - self.model.offsets[:-1])
        chosen = zip(self.instance.jobs, self.menus, positions.tolist(), strict=True)
        found = {job.id: menu[position].id for job, menu, position in chosen if position >= 0}
        if self._lists_waiting:
            found = {job: name for job, name in found.items() if name != _NOTHING}
        plan: Plan = {"choice": found}
        self.known = plan, positions
        return plan

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the rows of a plan's options; -1 where a job or its option is not in this instance."""
        if self.known is not None and plan is self.known[0]:
            return self._rows(self.known[1])
        named = plan.get("choice") if isinstance(plan, Mapping) else None
        if not isinstance(named, Mapping):
            return None
        absent = _NOTHING if self._lists_waiting else None
        if absent is not None:
            named = {job: option for job, option in named.items() if option is not None}
        jobs = zip(self.instance.jobs, self.menus, strict=True)
        return self._rows(
            np.array([_position(menu, named.get(job.id, absent)) for job, menu in jobs], dtype=np.int64)
        )

    def present(self) -> Present | None:
        """Return the jobs' current options, ``None`` if no job has one that is admissible."""
        if not (self.current >= 0).any():
            return None
        waiting = np.zeros(self.model.num_options, dtype=np.bool_)
        if self._lists_waiting:
            last = self.model.offsets[1:] - 1
            names = (menu[-1].id if menu else None for menu in self.menus)
            waiting[last[[name == _NOTHING for name in names]]] = True
        return Present.of(self._rows(self.current), waiting)

    def lowered(self) -> Lowered:
        """Return the MILP, its columns named ``x[job,option]``."""
        jobs = [job.id for job in self.instance.jobs]
        options = [option.id or _LEFT_OUT for menu in self.menus for option in menu]
        return lower(self.model, OptionLabels(self.model.offsets, jobs, options), jobs)

    def job_names(self) -> Sequence[str]:
        """Return the jobs' ids."""
        return tuple(job.id for job in self.instance.jobs)

    def option_name(self, row: int) -> str:
        """Return the option's id."""
        if self.names is None:
            self.names = [option.id or _LEFT_OUT for menu in self.menus for option in menu]
        return self.names[row]

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the menus themselves: they do not depend on the capacities."""
        return self.model

    def _rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of positions within the menus, -1 for -1."""
        return np.where(positions < 0, -1, self.model.offsets[:-1] + positions)


def _capacities(instance: MultipleChoiceKnapsackInstance) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return names and amounts of the capacities, the number of changes among them where it is limited."""
    limited = {} if instance.max_changes is UNSET else {MAX_CHANGES: instance.max_changes}
    amounts = {**instance.capacities, **limited}
    return tuple(amounts), np.array(list(amounts.values()), dtype=np.int64)


_NOTHING, _LEFT_OUT = "", "nothing"
"""The id, which no option of an instance has, of being left out where that is a change; how it is called."""


def _counting_changes(
    menu: Sequence[KnapsackOption], current: str, *, may_wait: bool
) -> list[KnapsackOption]:
    """Return the menu of a job that has something now, of which other options use a change."""
    change = {MAX_CHANGES: 1}
    found = [one if one.id == current else remade(one, uses={**one.uses, **change}) for one in menu]
    return [*found, KnapsackOption(_NOTHING, 0.0, change)] if may_wait else found


def _goals(instance: MultipleChoiceKnapsackInstance, options: Sequence[KnapsackOption]) -> list[Goal]:
    found = list[Goal]()
    for goal in () if instance.goals is UNSET else instance.goals:
        worth = [0 if option.goals is UNSET else option.goals.get(goal.name, 0) for option in options]
        found.append(Goal.of(goal.name, worth, len(options), goal.sense))
    return found


def _position(menu: Sequence[KnapsackOption], named: object) -> int:
    """Return where an option stands in a menu, -1 where it does not."""
    if named is None:
        return -1
    for position, option in enumerate(menu):
        if option.id == named:
            return position
    return -1


class OptionMenus:
    """The options of an instance; see `apportion.formulations.protocol.KnapsackFormulation`."""

    def __init__(self, instance: Any) -> None:
        kind = kind_of(instance)
        given = listed(kind, instance, tenants=False)
        names = given.names()
        named = np.array([name is not None for name in names], dtype=np.bool_)
        owner, self._jobs = given.owner, list(given.jobs)
        assert kind.option_set is not None
        self._option_set, self._instance = kind.option_set, instance
        self._names = [str(name) for name in names if name is not None]
        numbers = given.values if not isinstance(given.values, np.ndarray) else given.values.tolist()
        exact = [Fraction(*one) if isinstance(one, tuple) else Fraction(one) for one in numbers]
        self._exact = [value for value, kept in zip(exact, named.tolist(), strict=True) if kept]
        values = np.array([float(value) for value in self._exact], dtype=np.float64)
        rounded = not isinstance(given.values, np.ndarray)
        self.value_error = float(np.finfo(np.float64).eps) * float(np.abs(values).sum()) if rounded else 0.0
        sizes = np.bincount(owner[named], minlength=len(self._jobs))
        self.model = MultipleChoiceKnapsack.from_arrays(
            values,
            given.uses[named],
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            list(given.rooms),
            required=np.bincount(owner[~named], minlength=len(self._jobs)) == 0,
            sense="maximize" if kind.maximizes(instance) else "minimize",
            capacity_names=list(given.capacities),
        )

    def exact_values(self) -> list[Fraction]:
        """Return what every option is worth."""
        return self._exact

    def plan(self, choice: NDArray[np.int64]) -> Plan:
        """Return the plan of a choice."""
        taken = zip(self._jobs, choice.tolist(), strict=True)
        assert self._option_set.plan is not None
        return self._option_set.plan(
            self._instance, {job: self._names[row] for job, row in taken if row >= 0}
        )

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the choice of a plan as far as it fits; ``None`` if it is no plan."""
        try:
            taken = self._option_set.taken(self._instance, plan)
        except (AttributeError, LookupError, TypeError):
            return None
        bounds = self.model.offsets.tolist()
        rows = []
        for job, first, last in zip(self._jobs, bounds[:-1], bounds[1:], strict=True):
            own = self._names[first:last]
            rows.append(first + own.index(name) if (name := taken.get(job)) in own else -1)
        return np.array(rows, dtype=np.int64)

    def present(self) -> Present | None:
        """Return the option that every job has now, ``None`` if nobody has any."""
        options = [[*self._option_set.options(self._instance, job)] for job in self._instance.jobs]
        held = [next((option.name for option in own if option.current), None) for own in options]
        if not any(held):
            return None
        named = [option for own in options for option in own if option.name is not None]
        bounds = self.model.offsets.tolist()
        found = [
            first + self._names[first:last].index(name) if name in self._names[first:last] else -1
            for name, first, last in zip(held, bounds[:-1], bounds[1:], strict=True)
        ]
        rows = np.array(found, dtype=np.int64)
        return Present.of(rows, np.array([option.idle for option in named], dtype=np.bool_))

    def lowered(self) -> Lowered:
        """Return the MILP, its columns named ``x[job,option]``."""
        return lower(self.model, OptionLabels(self.model.offsets, self._jobs, self._names), self._jobs)

    def job_names(self) -> Sequence[str]:
        """Return the jobs' ids."""
        return self._jobs

    def option_name(self, row: int) -> str:
        """Return the option's name."""
        return self._names[row]

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the menus themselves; a kind whose menus depend on its capacities brings a formulation."""
        return self.model
