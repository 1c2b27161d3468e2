"""The goals of a placement as forms over its columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import UNSET

from apportion.core.errors import InvalidInstance, Problem
from apportion.instances.placement import goals
from apportion.instances.placement.goals import Goal, parts_of
from apportion.instances.placement.program import NOTHING, Form, Integers, Program
from apportion.instances.placement.rows import (
    Mask,
    classes_by_group,
    each_place,
    everybody,
    everywhere,
    most_pods,
    moved,
    need_now,
    needs_of_all,
    places_used,
    pods_named,
    present_in,
    running,
    stopped,
)
from apportion.instances.placement.schema import PlacementJob
from apportion.instances.placement.site import needs_of_room

__all__ = ["goal_form"]

_MOST_LOADS = 10_000
"""Loads of a place that a balance tells apart."""
_MOST_ROOMS = 10_000
"""Pods for which there is room in one place."""


def goal_form(made: Program, goal: Goal | tuple[Goal, ...]) -> Form:
    """Return a goal, or a sum of several, as a form."""
    found = NOTHING
    for one in parts_of(goal):
        found = found + _GOALS[type(one)](made, one).times(one.weight)
    return found


def _value(made: Program, goal: goals.ValueGoal) -> Form:
    worth = {at: value for at, value in enumerate(made.values) if value}
    if goal.least_priority is not UNSET:
        counted = made.instance.counted(goal)
        own = {at for (job, _), columns in made.chosen.items() if job in counted for at in columns}
        own |= {at for at, of, _, _ in made.entries if made.classes[of].job.id in counted}
        worth = {at: value for at, value in worth.items() if at in own}
    form = Form(np.array(list(worth), dtype=np.int64), np.array(list(worth.values()), dtype=object))
    for price, changes in ((goal.per_stop, _jobs_stopped), (goal.per_move, _pods_moved)):
        form = form + changes(made, goal).times(-Fraction(price)) if price else form
    return form


def _jobs_stopped(made: Program, _: Any) -> Form:
    form = NOTHING
    for job in made.instance.jobs:
        form = form + stopped(made, job).times(job.stop_cost)
    return form


def _pods_stopped(made: Program, _: goals.PodsStoppedGoal) -> Form:
    form = NOTHING
    for job, name, on, own in running(made):
        number, there = sum(on.values()), made.inside(everywhere(made), own)
        if not there.columns.size:
            form = form + Form.of([], 1, number)
        elif made.alone(there):
            have = dict(zip(there.columns.tolist(), there.factors.tolist(), strict=True))
            kept = [min(number, count) for count in have.values()]
            form = form + Form.of(list(have), -np.array(kept), number)
        else:
            lost = made.number(f"{job.id}/{name} stopped", number, there.times(-1), -number)
            made.row(f"{job.id}/{name} is left", there.times(-1) + lost.times(-1), -number)
            form = form + lost
    return form


def _pods_moved(made: Program, _: Any) -> Form:
    def cost(job: PlacementJob, name: str) -> int:
        pods = pods_named(job, name)
        return 1 if pods is None else pods.move_cost

    return moved(made, {job.id for job in made.instance.jobs}, cost)


def _used(made: Program, goal: goals.UsedGoal) -> Form:
    cost = {made.site.named(goal.level, name): much for name, much in goal.cost.items()}
    form, most = NOTHING, most_pods(made, everybody(made))
    for at, (name, inside) in enumerate(each_place(made, goal.level)):
        used = made.used(name, made.inside(inside, everybody(made)), most)
        form = form + used.times(cost.get(at, 1))
    return form


def _levels_climbed(made: Program, _: goals.LevelsClimbedGoal) -> Form:
    form = NOTHING
    for at, (job, _option, pods) in enumerate(made.classes):
        asked = () if pods.preferred is UNSET else made.site.upwards(pods.preferred)
        mine = np.arange(len(made.classes)) == at
        for level in asked:
            form = form + _several(made, level, f"{job.id}/{pods.name}", mine)
    return form


def _several(made: Program, level: str, name: str, classes: Mask) -> Form:
    """Return whether pods lie in several places of a level."""
    if made.alone(made.inside(everywhere(made), classes)):
        column, of, node, _ = made.placed
        mine = classes[of]
        pairs = np.unique(np.stack((column[mine], made.site.place[level][node[mine]])), axis=1)
        columns, places = np.unique(pairs[0], return_counts=True)
        return Form.of(columns[places > 1])
    used = places_used(made, level, name, classes)
    if used.columns.size < 2:
        return NOTHING
    flag = made.flag(f"{name} in several of level {level}", lambda taken: used.at(taken) > 1)
    made.row(f"{name} in several of level {level}", used + flag.times(1 - used.columns.size), 1)
    return flag


def _left(made: Program, goal: goals.LeftGoal) -> Form:
    form, everyone = NOTHING, everybody(made)
    for node in dict.fromkeys(goal.nodes):
        there = made.inside(np.isin(made.site.nodes, [node]), everyone)
        form = form + (there if goal.count == "pods" else made.used(node, there, most_pods(made, everyone)))
    return form


def _spread_excess(made: Program, goal: goals.SpreadExcessGoal) -> Form:
    form = NOTHING
    for group, classes in classes_by_group(made, goal.by):
        for name, inside in each_place(made, goal.level):
            there = made.inside(inside, classes)
            form = form + made.beyond(
                f"{group} beyond {goal.max} in {name}", there, goal.max, most_pods(made, classes) - goal.max
            )
    return form


def _stranded(made: Program, goal: goals.StrandedGoal) -> Form:
    form = NOTHING
    needs = needs_of_room(made.site, goal.needs)
    loads = {resource: needs_of_all(made, resource) for resource in needs}
    there = {resource: made.site.free(resource) for resource in needs}
    for name, inside in each_place(made, goal.level):
        free = {resource: int(amounts[inside].sum()) for resource, amounts in there.items()}
        most = min(free[resource] // need for resource, need in needs.items())
        if most > _MOST_ROOMS:
            said = f"stranded counts more than {_MOST_ROOMS:,} pods in {name}: let them need more"
            raise InvalidInstance(Problem("$.goals", said))
        each = [(made.inside(inside, everybody(made), loads[one]), need) for one, need in needs.items()]
        left = [free[resource] - most * need for resource, need in needs.items()]
        lost = made.derived(f"stranded in {name}", map(str, range(most + 1)), _most_lost(each, left, most))
        for (load, need), spare in zip(each, left, strict=True) if most else ():
            made.row(f"stranded in {name}", load + Form.of(lost, -need * np.arange(most + 1)), spare)
        form = form + Form.of(lost, np.arange(most + 1))
    return form


def _most_lost(each: list[tuple[Form, int]], left: list[int], most: int) -> Callable[[Integers], int]:
    """Return how many pods less there is room for: by the resource of which most is missing."""
    return lambda taken: min(
        most,
        max(-((spare - load.at(taken)) // need) for (load, need), spare in zip(each, left, strict=True)),
    )


def _together_excess(made: Program, goal: goals.TogetherExcessGoal) -> Form:
    form = NOTHING
    for group, classes in classes_by_group(made, goal.by):
        most = len(made.site.places[goal.level]) - goal.max_places
        used = places_used(made, goal.level, group, classes)
        if used.columns.size and most > 0:
            name = f"places of {group} beyond {goal.max_places}"
            excess = made.number(name, most, used, goal.max_places)
            made.row(f"places of {group}", used + excess.times(-1), goal.max_places)
            form = form + excess
    return form


def _balance(made: Program, goal: goals.BalanceGoal) -> Form:
    """Return the goal by choosers of loads: that of every place, or one for the largest."""
    needs, amounts = needs_of_all(made, goal.resource), made.site.amounts(goal.resource)
    places = [(name, inside, int(amounts[inside].sum())) for name, inside in each_place(made, goal.level)]
    places = [one for one in places if one[2]]
    if not places:
        return NOTHING
    now = Fraction(0)
    for job, pods, _, _ in running(made):
        need = need_now(job, pods, goal.resource)
        now += sum(Fraction(present_in(made, job, pods, inside) * need, size) for _, inside, size in places)
    above = Fraction(goal.threshold) * now / len(places)
    unit = math.gcd(*needs.tolist()) or 1
    if max(size for _, _, size in places) // unit > _MOST_LOADS:
        said = (
            f"has more than {_MOST_LOADS:,} loads of {goal.resource} in one {goal.level}: use a larger unit"
        )
        raise InvalidInstance(Problem("$.goals", f"balance {said}"))
    costs = [np.array(_costs(size, unit, above)) for _, _, size in places]
    loads = [made.inside(inside, everybody(made), needs // unit) for _, inside, _ in places]
    if goal.form == "sum":
        form = NOTHING
        for (name, _, _), cost, load in zip(places, costs, loads, strict=True):
            levels = np.flatnonzero(np.diff(cost, append=cost[-1] + 1))  # the largest load of every cost
            columns = made.derived(f"load of {name}", map(str, levels), _reached(load, levels))
            made.row(f"load of {name}", load + Form.of(columns, -levels), 0)
            form = form + Form.of(columns, cost[levels])
        return form
    marks = np.unique(np.concatenate(costs))
    most = [np.searchsorted(cost, marks, side="right") - 1 for cost in costs]
    reached = [_reached(load, levels) for load, levels in zip(loads, most, strict=True)]
    columns = made.derived(
        f"largest load of {goal.resource}", map(str, marks), lambda taken: max(one(taken) for one in reached)
    )
    for (name, _, _), load, levels in zip(places, loads, most, strict=True):
        made.row(f"load of {name}", load + Form.of(columns, -levels), 0)
    return Form.of(columns, marks)


def _reached(load: Form, levels: Integers) -> Callable[[Integers], int]:
    """Return which of some rising levels is the first that a load keeps."""
    return lambda taken: min(int(np.searchsorted(levels, load.at(taken))), levels.size - 1)


def _costs(size: int, unit: int, above: Fraction) -> list[int]:
    """Return what every load of a place counts, in hundred-thousandths beyond what is free of charge."""
    loads = range(0, size + 1, unit)
    return [math.ceil(max(Fraction(0), Fraction(load, size) - above) * 10**5) for load in loads]


_GOALS: Mapping[type, Callable[[Program, Any], Form]] = MappingProxyType(
    {
        goals.ValueGoal: _value,
        goals.JobsStoppedGoal: _jobs_stopped,
        goals.PodsStoppedGoal: _pods_stopped,
        goals.PodsMovedGoal: _pods_moved,
        goals.UsedGoal: _used,
        goals.LevelsClimbedGoal: _levels_climbed,
        goals.LeftGoal: _left,
        goals.SpreadExcessGoal: _spread_excess,
        goals.StrandedGoal: _stranded,
        goals.TogetherExcessGoal: _together_excess,
        goals.BalanceGoal: _balance,
    }
)
