"""A placement as a multiple-choice knapsack: its choosers are the jobs, its rows the capacities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice, product
from typing import Any

import numpy as np
from msgspec import UNSET
from msgspec.structs import force_setattr
from numpy.typing import NDArray

from apportion.core.errors import InvalidOption
from apportion.formulations.multiple_choice import OptionMenus
from apportion.formulations.protocol import Plan
from apportion.instances.fields import remade
from apportion.instances.placement import PlacementInstance
from apportion.instances.placement.bundles import takes_bundles
from apportion.instances.placement.check import check
from apportion.instances.placement.choosers import MOST_SHAPES, program
from apportion.instances.placement.first_fit import fit_all, fit_most
from apportion.instances.placement.goals import JobsStoppedGoal, is_much, names_of
from apportion.instances.placement.kind import as_fixed, limit_tenants, maximizes, sums_options
from apportion.instances.placement.program import Form, PodsAt, Program
from apportion.instances.placement.schema import PlacementJob, PlacementOption
from apportion.instances.placement.site import Site, site_of
from apportion.instances.tenants.ledger import is_tenanted
from apportion.instances.tenants.tree import distinct
from apportion.models.lowering import Lowered, OptionLabels, lower
from apportion.models.multiple_choice import Goal, MultipleChoiceKnapsack, Sense
from apportion.models.packing import FormulatedPacking
from apportion.models.uses import beside

__all__ = ["PlacementByOption", "PlacementByShape", "PlacementMenus"]

_NODES = "nodes"
_MOST_PAIRS = 4_000
"""Pairs of a job and a node beyond which no shapes are made to place a choice: that takes seconds."""
_MOST_SIZES = 32
"""Sizes of pods that are counted."""
_Size = tuple[tuple[str, int], ...]
"""What a pod needs of every resource."""


@dataclass(slots=True)
class _Known:
    """Where choices lie, as far as that is known: what menus and those with less of them have in common.

    Attributes
    ----------
    plans
        By choice the plan that it was read from, or a plan of it.
    last
        By job its option and where its pods are, of the last choice that was placed.
    tried
        The last choice that was placed job by job, and what of it was.
    """

    plans: dict[bytes, Plan] = field(default_factory=dict)
    last: Mapping[str, Any] = field(default_factory=dict)
    tried: tuple[bytes, Plan] | None = None


class PlacementMenus(OptionMenus):
    """The menus of the jobs under what all nodes have together: in these words placements are explained.

    With tenants their shares are asked of these menus, further held to how many pods of every size fit on
    the nodes one by one; see `apportion.formulations.protocol.PlacedFormulation`.

    Attributes
    ----------
    relaxes
        True: whether what was chosen fits on the nodes, and keeps the rules, is another question.
    """

    relaxes = True

    _job_by_job = False
    """Whether no formulation is made of where the pods of a choice lie."""

    def __init__(self, instance: PlacementInstance) -> None:
        super().__init__(instance)
        self._known = _Known()
        if self._job_by_job or is_tenanted(instance):
            self._add_capacities_of_nodes(instance)

    def _add_capacities_of_nodes(self, instance: PlacementInstance) -> None:
        """Hold the menus to how many pods of every size fit on nodes, and to options that fit somewhere."""
        self._round: PlacementInstance = copy(as_fixed(instance))
        # where pods lie is asked of what keeps the limits of tenants, whatever it is worth
        for name, given in (("tenants", UNSET), ("fairness", UNSET), ("goals", (JobsStoppedGoal(),))):
            force_setattr(self._round, name, given)
        self._site = site_of(instance)
        owner = self.model.job_of_option().tolist()
        menus = [{one.id: one for one in job.options} for job in instance.jobs]
        self._options = [menus[job].get(name) for job, name in zip(owner, self._names, strict=True)]
        free = _within_reach(instance, self._site)
        sizes, taken = _pods_by_size(instance, self._site, free), set(self.model.capacity_names)
        uses = [[_pods_of_size(option, size) for option in self._options] for size in sizes]
        needs = [", ".join(f"{need} {name}" for name, need in size) for size in sizes]
        names = [distinct(f"pods of {each}", taken) for each in needs]
        rooms = list(sizes.values())
        for resource in self._site.limited:
            if (room := int(free[resource].sum())) < int(self._site.free(resource).sum()):
                uses.append([_taken(option, resource) for option in self._options])
                rooms.append(room)
                names.append(distinct(f"{resource} within reach", taken))
        nowhere = [
            int(option is not None and not _fits_alone(self._site, free, option)) for option in self._options
        ]
        if any(nowhere):
            uses, rooms, names = [*uses, nowhere], [*rooms, 0], [*names, distinct("pods of no place", taken)]
        self.model = _under(self.model, uses, rooms, names)

    def _chosen(self, choice: NDArray[np.int64]) -> list[PlacementOption | None]:
        """Return the option of every job; ``None`` for waiting, and for no row."""
        return [None if row < 0 else self._options[row] for row in choice.tolist()]

    def packings(self, choice: NDArray[np.int64]) -> dict[str, FormulatedPacking]:
        """Return the question where the pods of a choice lie."""
        number, ids = self._site.number, [job.id for job in self._round.jobs]
        chosen = {job: option for job, option in enumerate(self._chosen(choice)) if option is not None}

        def nodes(plan: Any) -> list[list[int]]:
            on = [(option.pods, plan["placement"][ids[job]]["on"]) for job, option in chosen.items()]
            each = [[there.get(one.name, {}) for one in pods] for pods, there in on]
            return [[number[node] for own in all_ for node in Counter(own).elements()] for all_ in each]

        def placing(some: Sequence[int]) -> PlacementByShape | None:
            from apportion.formulations.placement_bundles import PlacementByBundle

            if self._job_by_job:
                return None
            asked = self._asked(choice, some)
            if takes_bundles(asked):
                return PlacementByBundle(asked)
            return None if len(some) * len(number) > _MOST_PAIRS else PlacementByShape(asked)

        def fitted(late: Callable[[], bool]) -> tuple[Plan | None, tuple[int, ...]]:
            plan, keeps = self._fitted(choice, late)
            return plan if keeps else None, tuple(job for job in chosen if ids[job] not in plan["placement"])

        return {_NODES: FormulatedPacking((*chosen,), placing, nodes, not self._round.rules, fitted)}

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the choice of a plan as far as it fits; ``None`` if it is no plan."""
        found = super().choice(plan)
        if found is not None:
            self._known.plans[found.tobytes()] = plan
        return found

    def _fitted(self, choice: NDArray[np.int64], late: Callable[[], bool]) -> tuple[Plan, bool]:
        """Return what of a choice is placed, as in the plan that it was read from or job by job.

        And whether that is a plan: everything has its place, under the rules.
        """
        key, known = choice.tobytes(), self._known
        jobs = [job for job, option in enumerate(self._chosen(choice)) if option is not None]
        asked, plan = self._asked(choice, jobs), known.plans.get(key)
        if plan is None or not check(asked, plan).feasible:
            if known.tried is None or known.tried[0] != key:
                known.tried = key, {"placement": fit_all(asked, known.last, late)}
            plan = known.tried[1]
            if not check(asked, plan).feasible:
                return plan, False
            known.plans[key] = plan
        known.last = plan["placement"]
        return plan, True

    def _asked(self, choice: NDArray[np.int64], jobs: Sequence[int]) -> PlacementInstance:
        """Return the instance in which these jobs have what a choice says, and others have nothing."""
        inside, alone, placed = set(jobs), not self._round.rules, list[PlacementJob]()
        each = zip(self._round.jobs, self._chosen(choice), choice.tolist(), strict=True)
        for at, (job, option, row) in enumerate(each):
            if option is not None:
                placed += [remade(job, pinned=option.id)] if at in inside else []
            else:  # where rules speak of a job of which nothing is known, it may have anything
                placed.append(job if row < 0 and not alone else _waiting(job, absent=row < 0))
        return remade(self._round, jobs=tuple(placed))

    def plan_on(self, choice: NDArray[np.int64], placed: Mapping[str, Sequence[Sequence[int]]]) -> Plan:
        """Return the plan of a choice whose pods were placed."""
        names, found, lying = self._site.nodes, {}, iter(placed[_NODES])
        for job, option in zip(self._round.jobs, self._chosen(choice), strict=True):
            if option is not None:
                left = iter(next(lying))
                on = {one.name: Counter(names[at] for at in islice(left, one.fewest)) for one in option.pods}
                found[job.id] = {"option": option.id, "on": {name: dict(own) for name, own in on.items()}}
        return {"placement": found}

    def bounded(self, gpu_type: str, weights: tuple[int, ...]) -> PlacementMenus:
        """Return the same: no weights of sizes are found where pods are placed by a formulation."""
        del gpu_type, weights
        return self

    def excluding(self, gpu_type: str, choice: NDArray[np.int64]) -> PlacementMenus:
        """Return the same without the options of a choice together."""
        del gpu_type
        found, rows = copy(self), choice[choice >= 0]
        use = np.zeros(self.model.num_options, dtype=np.int64)
        use[rows] = 1
        found.model = _under(
            self.model, [use], [rows.size - 1], [distinct("excluded", self.model.capacity_names)]
        )
        return found

    def provable(self) -> PlacementMenus:
        """Return the menus themselves: no certificate is of them."""
        return self


class PlacementByOption(PlacementMenus):
    """The menus, and choices that are placed job by job: decided where the best choice is placed so.

    Later goals are counted in the plan. Stops are bounded by the menus, and what is not negative by 0.

    Raises
    ------
    InvalidOption
        If there are rules, or more is wanted than options say by themselves.
    """

    _job_by_job = True
    narrows = False
    """Whether `packings` have less than the nodes."""

    def __init__(self, instance: PlacementInstance) -> None:
        super().__init__(instance)
        if not sums_options(instance):
            raise InvalidOption("formulation by_option takes values of options alone, and no rules")
        cost = {
            job.id: job.stop_cost
            for job in instance.jobs
            if job.current is not None and any(map(sum, (on.values() for on in job.current.on.values())))
        }
        costs = np.array([cost.get(job.id, 0) for job in instance.jobs], dtype=np.int64)
        given = np.array([option is not None for option in self._options], dtype=np.int64)
        stops, none = -costs[self.model.job_of_option()] * given, np.zeros_like(given)
        self.model = replace(
            self.model,
            goals=tuple(
                Goal(name, stops, "minimize", int(costs.sum()))
                if isinstance(goal, JobsStoppedGoal)
                else Goal(name, none, "minimize")
                for name, goal in [*zip(names_of(instance.wanted), instance.wanted, strict=True)][1:]
            ),
        )

    def provable(self) -> PlacementByOption:
        """Return the menus under no capacity: a certificate speaks of single nodes."""
        found = copy(self)
        found.model = self.model.without_capacities()
        return found

    def present(self) -> None:
        """Return ``None``: who is stopped and moved is a goal of the instance's own."""

    def pod_menus(self) -> None:
        """Return ``None``: choices are found by option."""

    def moves_few(self, choice: NDArray[np.int64], placed: Mapping[str, Sequence[Sequence[int]]]) -> bool:
        """Return True: no rule limits moves."""
        del choice, placed
        return True

    def placed_near(self, choice: NDArray[np.int64], late: Callable[[], bool]) -> NDArray[np.int64] | None:
        """Return a choice close by that was placed: of those who find no room others have what is left."""
        plan = fit_most(self._round, self._fitted(choice, late)[0]["placement"], late)
        return None if plan is None else self.choice(plan)


def _waiting(job: PlacementJob, *, absent: bool) -> PlacementJob:
    """Return a job that waits, or that nobody knows anything of."""
    found = remade(job, required=False, pinned=None, forbidden=tuple(one.id for one in job.options))
    return remade(found, current=None, fixed=False) if absent else found


def _under(
    model: MultipleChoiceKnapsack, uses: Sequence[Any], rooms: Sequence[int], names: Sequence[str]
) -> MultipleChoiceKnapsack:
    """Return menus held to further capacities as well, of which uses are int64 [options] each."""
    columns = [np.array(one, dtype=np.int64) for one in uses]
    capacities = np.append(model.capacities, np.array(rooms, dtype=np.int64))
    every: Any = beside(model.matrix, columns)
    return model.under(every, capacities, (*model.capacity_names, *names))


def _fits_alone(site: Site, free: Mapping[str, NDArray[np.int64]], option: PlacementOption) -> bool:
    """Return whether some place, with so much free on its nodes, holds each kind of an option's pods."""
    everywhere = np.zeros(len(site.nodes), np.int64)
    inside = everywhere if option.required is UNSET else site.place[option.required]
    holds = np.ones(int(inside.max(initial=0)) + 1, np.bool_)
    for pods in option.pods:
        rooms = site.rooms(pods, free)
        if pods.required is not UNSET:  # nodes count whose place holds all of these pods
            own = site.place[pods.required]
            rooms = np.where(np.bincount(own, rooms)[own] >= pods.fewest, rooms, 0)
        holds &= np.bincount(inside, rooms, holds.size) >= pods.fewest
    return bool(holds.any())


def _within_reach(instance: PlacementInstance, site: Site) -> dict[str, NDArray[np.int64]]:
    """Return by resource int64 [nodes]: what is free and what those need at most who may be there.

    A cordoned node holds who runs there now, and nobody else.
    """
    admitted = {}  # by what is the same array for pods that are admitted alike
    wanted = {name: Counter[int]() for name in site.limited}
    for job, (resource, of_all) in product(instance.jobs, wanted.items()):
        most = Counter[int]()
        for option in job.options:
            needs = Counter[int]()
            for pods in option.pods:
                admits = site.admits(pods)
                admitted[id(admits)] = admits
                needs[id(admits)] += pods.fewest * pods.takes(resource)
            most |= needs
        of_all.update(most)
    return {
        name: np.minimum(site.free(name), sum(admitted[key] * need for key, need in of_all.items()))
        for name, of_all in wanted.items()
    }


def _taken(option: PlacementOption | None, resource: str) -> int:
    return 0 if option is None else sum(one.fewest * one.takes(resource) for one in option.pods)


def _pods_of_size(option: PlacementOption | None, size: _Size) -> int:
    """Return how many pods of a size, or larger, an option has."""
    pods = () if option is None else option.pods
    return sum(one.fewest for one in pods if all(one.takes(of) >= need for of, need in size))


def _pods_by_size(
    instance: PlacementInstance, site: Site, free: Mapping[str, NDArray[np.int64]]
) -> dict[_Size, int]:
    """Return by what pods need how many of them, or of larger ones, fit on nodes with so much free."""
    found = dict[_Size, int]()
    for pods in (pods for job in instance.jobs for option in job.options for pods in option.pods):
        size = tuple((name, pods.takes(name)) for name in site.limited if pods.takes(name))
        if size and size not in found and len(found) < _MOST_SIZES:
            found[size] = int(np.minimum.reduce([free[name] // need for name, need in size]).sum())
    return found


class PlacementByShape:
    """The choosers of an instance; see `apportion.formulations.protocol.KnapsackFormulation`.

    Parameters
    ----------
    instance
        The instance.
    most_shapes
        How many placed shapes a job has at most that is one chooser; others are split into their pods.
    """

    def __init__(self, instance: PlacementInstance, most_shapes: int = MOST_SHAPES) -> None:
        made, forms = program(as_fixed(instance), most_shapes)
        limit_tenants(made, instance)
        self.compiled(instance, made, forms)

    def compiled(self, instance: PlacementInstance, made: Program, forms: Sequence[Form]) -> None:
        """Make the model of choosers and goals."""
        self.instance, self.program = instance, made
        self.asked = self.program.question(forms)
        self._exact = self.asked.objective()
        numbers = {id(one): one for one in self._exact}
        as_float = {key: float(one) for key, one in numbers.items()}
        values = np.array([as_float[id(one)] for one in self._exact], dtype=np.float64)
        rounded = any(Fraction(as_float[key]) != one for key, one in numbers.items())
        self.value_error = float(np.finfo(np.float64).eps) * float(np.abs(values).sum()) if rounded else 0.0
        names = names_of(instance.wanted)
        self.model = MultipleChoiceKnapsack.from_arrays(
            values,
            self.asked.table(),
            self.asked.offsets,
            self.asked.rooms,
            sense="maximize" if maximizes(instance) else "minimize",
            capacity_names=self.asked.names,
            goals=[
                _goal(name, *asked, "maximize" if is_much(goal) else "minimize")
                for name, asked, goal in [*zip(names, self.asked.goals, instance.wanted, strict=True)][1:]
            ],
        )

    def exact_values(self) -> list[Fraction]:
        """Return what every column is worth."""
        return self._exact

    def plan(self, choice: NDArray[np.int64]) -> Plan:
        """Return where the pods of a choice are."""
        made, taken = self.program, set(self.asked.columns[choice[choice >= 0]].tolist())
        on: dict[str, dict[str, dict[str, int]]] = {}
        for column, of, node, count in made.entries:
            if column in taken:
                one = made.classes[of]
                at = on.setdefault(one.job.id, {}).setdefault(one.pods.name, {})
                at[made.site.nodes[node]] = count
        got = {job: option for (job, option), columns in made.chosen.items() if not taken.isdisjoint(columns)}
        for one in made.classes:
            if one.job.id in on:
                got.setdefault(one.job.id, one.option.id)  # a job of one option that no column names
        placed = ((job.id, got.get(job.id)) for job in self.instance.jobs)
        return {
            "placement": {
                job: {"option": option, "on": on.get(job, {})} for job, option in placed if option is not None
            }
        }

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the choice of a plan as far as it fits; ``None`` if it is no plan."""
        given = plan.get("placement") if isinstance(plan, Mapping) else None
        if not isinstance(given, Mapping):
            return None
        taken = np.zeros(len(self.program.labels), dtype=np.int64)
        try:
            for job in self.instance.jobs:
                taken[self._columns(job.id, given.get(job.id))] = 1
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        starts = self.program.starts
        for chooser, settle in self.program.settled.items():
            taken[starts[chooser] + settle(taken)] = 1
        row = np.full(taken.size, -1, dtype=np.int64)
        row[self.asked.columns] = np.arange(self.asked.columns.size)
        found = np.full(len(starts), -1, dtype=np.int64)
        columns = np.flatnonzero(taken)
        found[np.searchsorted(starts, columns, side="right") - 1] = row[columns]
        return found

    def _columns(self, job: str, got: Any) -> list[int]:
        """Return the columns that a job takes, of those that place pods or choose an option."""
        made = self.program
        if got is None:
            return [*made.waiting[job], *(made.starts[at.chooser] for at in self._pods_at.get(job, ()))]
        number, on = made.site.number, dict[tuple[str, int], int]()
        for name, nodes in got["on"].items():
            for node, count in nodes.items():
                if node in number and count:
                    on[name, number[node]] = on.get((name, number[node]), 0) + count
        chosen = made.chosen.get((job, got["option"]), [])
        if job in made.whole:
            return [column for column in chosen if self._shapes.get(column, {}) == on][:1]
        nodes = [node for _, node in on]
        found = [column for column in chosen if made.scopes[column][nodes].all()][:1]
        for at in self._pods_at.get(job, ()):
            one, start = made.classes[at.of], made.starts[at.chooser]
            mine = {node: n for (name, node), n in on.items() if name == one.pods.name}
            if one.option.id != got["option"] or not mine:
                found.append(start)
            elif at.node is not None:
                found += [start + mine.get(at.node, 0)]
            else:
                last = at.chooser + 1 == len(made.starts)
                end = len(made.labels) if last else made.starts[at.chooser + 1]
                name, those = made.site.nodes[next(iter(mine))], made.labels[start:end]
                found.append(start + (those.index(name) if name in those else 0))
        return found

    @cached_property
    def _pods_at(self) -> dict[str, list[PodsAt]]:
        found: dict[str, list[PodsAt]] = {}
        for at in self.program.pods_at:
            found.setdefault(self.program.classes[at.of].job.id, []).append(at)
        return found

    @cached_property
    def _shapes(self) -> dict[int, dict[tuple[str, int], int]]:
        found: dict[int, dict[tuple[str, int], int]] = {}
        for column, of, node, count in self.program.entries:
            found.setdefault(column, {})[self.program.classes[of].pods.name, node] = count
        return found

    def present(self) -> None:
        """Return ``None``: what is kept of the present is among the goals."""
        return

    def lowered(self) -> Lowered:
        """Return the MILP, its columns named ``x[chooser,column]``."""
        labels = [self.program.labels[column] for column in self.asked.columns.tolist()]
        names = self.program.choosers
        return lower(self.model, OptionLabels(self.model.offsets, names, labels), names)

    def job_names(self) -> Sequence[str]:
        """Return the choosers' names."""
        return self.program.choosers

    def option_name(self, row: int) -> str:
        """Return the column's name."""
        return self.program.labels[int(self.asked.columns[row])]

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the choosers themselves: rules do not depend on amounts alone."""
        return self.model


def _goal(name: str, worths: Sequence[Any], constant: Any, sense: Sense) -> Goal:
    made = Goal.of(name, np.array([float(one) for one in worths]), len(worths), sense)
    return Goal(made.name, made.worth, made.sense, int(constant))
