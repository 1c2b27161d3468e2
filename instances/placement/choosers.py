"""The choosers of a placement's jobs and pods, and the rows of its nodes.

A job of few placed shapes is one chooser, a column a shape. Any other is split: one chooser says which option
it gets and, where its pods must lie in one place, in which; one more per pod says at which node it is, or
per node how many of its alike pods are there. What rules and goals add is in
`apportion.instances.placement.rows`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from apportion.instances.placement.goal_forms import goal_form
from apportion.instances.placement.program import Class, Form, Integers, PodsAt, Program, Shape, summed
from apportion.instances.placement.rows import add_rules
from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
    PlacementOption,
    PlacementPods,
)
from apportion.instances.placement.shapes import placed_shapes, rooms_of
from apportion.instances.placement.site import Site, site_of

__all__ = ["MOST_SHAPES", "program"]


MOST_SHAPES = 4_096
"""Placed shapes up to which a job is one chooser."""


def program(
    instance: PlacementInstance, most_shapes: int = MOST_SHAPES, site: Site | None = None
) -> tuple[Program, list[Form]]:
    """Return the choosers and rows of an instance, and its goals in order.

    Parameters
    ----------
    instance
        The instance.
    most_shapes
        How many placed shapes a job has at most that is one chooser.
    site
        Its site; ``None`` for every node by itself.
    """
    made = Program(instance, site_of(instance) if site is None else site)
    for job in instance.jobs:
        _add_job(made, job, most_shapes)
    if not made.choosers:
        made.chooser("nothing")
        made.column("nothing")
    _ = made.placed, made.chooser_of
    _add_nodes(made)
    add_rules(made)
    return made, [goal_form(made, goal) for goal in instance.wanted]


def _add_job(made: Program, job: PlacementJob, most_shapes: int) -> None:
    """Add the choosers of a job, and the rows that hold them together."""
    options = [option for option in job.options if job.admits(option.id)]
    classes: dict[str, list[int]] = {option.id: [] for option in options}
    for option in options:
        for pods in option.pods:
            classes[option.id].append(len(made.classes))
            made.classes.append(Class(job, option, pods))
    made.waiting[job.id] = []
    shapes = placed_shapes(made, job, options, classes, most_shapes)
    if shapes is not None:
        made.whole.add(job.id)
        made.chooser(job.id)
        if job.may_wait:
            made.waiting[job.id].append(made.column("waits"))
        worth = {option.id: made.exact(option.value) for option in options}
        for option, shape in shapes:
            column = made.column(_named(made, option, shape), worth[option.id])
            made.chosen.setdefault((job.id, option.id), []).append(column)
            for of, node, count in shape:
                made.place(column, of, node, count)
        return
    _add_split(made, job, options, classes)


def _named(made: Program, option: PlacementOption, shape: Shape) -> str:
    """Return the name of a placed shape: ``4gpu: n0 x2 n1 x2``."""
    several = len(option.pods) > 1
    parts = [
        (f"{made.classes[of].pods.name} " if several else "")
        + made.site.nodes[node]
        + (f" x{count}" if count > 1 else "")
        for of, node, count in shape
    ]
    return f"{option.id}: {', '.join(parts) or 'no pod'}"


def _add_split(
    made: Program, job: PlacementJob, options: Sequence[PlacementOption], classes: dict[str, list[int]]
) -> None:
    """Add a job of many shapes: which option it gets, and by pod or node where its pods are."""
    site = made.site
    simple = len(options) == 1 and not options[0].value and options[0].required is UNSET
    same = job.current is None or job.current.option == options[0].id
    free = simple and same and all(pods.fewest == 0 for pods in options[0].pods) and job.may_wait
    scopes: dict[str, list[tuple[int, NDArray[np.bool_]]]] = {}
    if free:
        made.optional.add(job.id)
    else:
        made.chooser(job.id)
        if job.may_wait:
            made.waiting[job.id].append(made.column("waits"))
        for option in options:
            level = option.required
            if level is UNSET and len(option.pods) == 1:
                level = option.pods[0].required
            places = ["somewhere"] if level is UNSET else list(site.places[level])
            scopes[option.id] = []
            for at, name in enumerate(places):
                inside = np.ones(len(site.nodes), np.bool_) if level is UNSET else site.place[level] == at
                if all(
                    int(rooms_of(made, of)[inside].sum()) >= made.classes[of].pods.fewest
                    for of in classes[option.id]
                ):
                    column = made.column(f"{option.id}: {name}", made.exact(option.value))
                    made.chosen.setdefault((job.id, option.id), []).append(column)
                    scopes[option.id].append((column, inside))
                    made.scopes[column] = inside
    for option in options:
        scoped = len(option.pods) == 1 and option.required is UNSET and not free
        for of in classes[option.id]:
            _add_pods(made, job, of, scopes.get(option.id), scoped=scoped)


def _add_pods(
    made: Program,
    job: PlacementJob,
    of: int,
    scopes: Sequence[tuple[int, NDArray[np.bool_]]] | None,
    *,
    scoped: bool,
) -> None:
    """Add the choosers of the pods of a class, held to where their job may lie."""
    pods, site = made.classes[of].pods, made.site
    name, rooms = f"{job.id}/{made.classes[of].option.id}/{pods.name}", rooms_of(made, of)
    nodes = np.flatnonzero(rooms).tolist()
    at_nodes: list[tuple[int, int, int]] = []
    if pods.count == 1:
        made.pods_at.append(PodsAt(len(made.choosers), of, None))
        made.chooser(name)
        made.column("nowhere")
        for one in nodes:
            at_nodes.append((made.column(site.nodes[one]), one, 1))
            made.place(at_nodes[-1][0], of, one, 1)
    else:
        for one in nodes:
            made.pods_at.append(PodsAt(len(made.choosers), of, one))
            made.chooser(f"{name} at {site.nodes[one]}")
            made.column("0")
            for number in range(1, int(rooms[one]) + 1):
                at_nodes.append((made.column(str(number)), one, number))
                made.place(at_nodes[-1][0], of, one, number)
    column, node, count = _columns(at_nodes)
    if scopes is None:
        if pods.count > 1:
            made.row(f"{name} in all", Form.of(column, count), pods.count)
    else:
        for chosen, inside in scopes:
            here = inside[node]
            form = Form.of(column[here], count[here])
            made.row(f"{name} at most", form + Form.of([chosen], -pods.count), 0)
            made.row(f"{name} at least", form.times(-1) + Form.of([chosen], pods.fewest), 0)
        outside = ~np.any([inside for _, inside in scopes], axis=0) if scopes else np.ones(len(rooms), bool)
        made.row(f"{name} elsewhere", Form.of(column[outside[node]], count[outside[node]]), 0)
    if nodes and pods.required is not UNSET and not scoped:
        _one_place(made, name, pods, (column, node, count))
    for level, size in pods.slices.items():
        place = site.place[level][node]
        for at in np.unique(place).tolist():
            here = place == at
            form = Form.of(column[here], count[here])
            most = min(pods.count, int(rooms[site.place[level] == at].sum())) // size
            slices = made.number(f"{name} slices in {site.places[level][at]}", most, form, unit=size)
            whole = slices.times(-size)
            made.row(f"{name} whole slices", form + whole, 0)
            made.row(f"{name} whole slices", form.times(-1) + whole.times(-1), 0)


def _columns(table: Sequence[tuple[int, int, int]]) -> tuple[Integers, Integers, Integers]:
    found = np.array(table, dtype=np.int64).reshape(-1, 3)
    return found[:, 0], found[:, 1], found[:, 2]


def _one_place(
    made: Program, name: str, pods: PlacementPods, placed: tuple[Integers, Integers, Integers]
) -> None:
    """Hold pods to one place of their level."""
    column, node, count = placed
    level = str(pods.required)
    place = made.site.place[level][node]
    those = np.unique(place)
    forms = [Form.of(column[place == at], count[place == at]) for at in those]
    names = [made.site.places[level][at] for at in those]
    columns = made.derived(
        f"{name} in one {level}", names, lambda taken: int(np.argmax([form.at(taken) for form in forms]))
    )
    for one, form in zip(columns.tolist(), forms, strict=True):
        made.row(f"{name} in one place", form + Form.of([one], -pods.count), 0)


def _add_nodes(made: Program) -> None:
    """Add what every node has."""
    site = made.site
    column, of, node, count = made.placed
    for resource in made.site.limited:
        need = np.array([one.pods.takes(resource) for one in made.classes], dtype=np.int64)
        free = made.free[resource]
        taken = count * need[of]
        order = np.argsort(node, kind="stable")
        bounds = np.searchsorted(node[order], np.arange(len(site.nodes) + 1))
        for at, name in enumerate(site.nodes):
            here = order[bounds[at] : bounds[at + 1]]
            here = here[taken[here] > 0]
            if here.size:
                made.row(f"{resource} of {name}", summed(column[here], taken[here]), int(free[at]))
        for at, size, most in site.counted(resource, need):
            here = order[bounds[at] : bounds[at + 1]]
            pieces = count[here] * (need[of[here]] // size)
            form = summed(column[here[pieces > 0]], pieces[pieces > 0])
            made.row(f"{resource} of {site.nodes[at]} by {size}", form, most)
