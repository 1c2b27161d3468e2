"""Placement in the table of kinds: what its jobs may get, and how an instance is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET
from msgspec.structs import force_setattr, replace

from apportion.core.errors import InvalidInstance, quoted_names
from apportion.core.outcome import Report
from apportion.instances.fields import remade
from apportion.instances.kind import Edits, ProblemType, WayIn, Wording
from apportion.instances.options import Option, OptionSet
from apportion.instances.placement.goals import (
    JobsStoppedGoal,
    LevelsClimbedGoal,
    PodsMovedGoal,
    ValueGoal,
    is_all_value,
    is_much,
    name_of,
    names_of,
)
from apportion.instances.placement.rules import MaxMovesRule, MaxStopsRule
from apportion.instances.placement.schema import (
    PODS,
    WAITS,
    PlacementInstance,
    PlacementJob,
    PlacementRunning,
)
from apportion.instances.tenants.check import ledger_of
from apportion.instances.tenants.ledger import is_tenanted, keeps_what_it_has
from apportion.instances.tenants.tree import tree_of

if TYPE_CHECKING:
    from apportion.instances.placement.program import Program

__all__ = [
    "PLACEMENT",
    "as_fixed",
    "has_many_shapes",
    "limit_tenants",
    "maximizes",
    "needs_no_bundles",
    "sums_options",
    "takes_options",
]

_MOST_PAIRS = 20_000
"""Pairs of a job that is placed and a node up to which it is asked who would make room for another one."""
_SOME_SHAPES = 4_000
"""Pairs of an option and a node of which shapes are soon made, and below which nothing is tried before."""
_MANY_SHAPES, _SHAPED = 100_000, 10_000
"""Pairs from which on shapes take longer to make than there is time, and those made in a second."""
_COUNTED = (JobsStoppedGoal, PodsMovedGoal, LevelsClimbedGoal)
"""Goals after the first that are counted in a plan and never negative."""


def maximizes(instance: PlacementInstance) -> bool:
    """Return whether the first goal is wanted much."""
    return is_much(instance.wanted[0])


def as_fixed(instance: PlacementInstance) -> PlacementInstance:
    """Return the instance in which those jobs are fixed that must stay as they are, and no others.

    Running jobs of tenants that may not be stopped or moved are; none is that is displaced.
    """
    stay = {job.id for job in instance.jobs if job.fixed and job.id not in instance.displaced}
    if is_tenanted(instance):
        tree = tree_of(() if instance.tenants is UNSET else instance.tenants)
        stay |= {job.id for job in instance.jobs if keeps_what_it_has(job, tree) and _is_kept(instance, job)}
    if stay == {job.id for job in instance.jobs if job.fixed}:
        return instance
    return remade(instance, jobs=tuple(remade(job, fixed=job.id in stay) for job in instance.jobs))


def _is_kept(instance: PlacementInstance, job: PlacementJob) -> bool:
    """Return whether a job runs with an option that it may keep."""
    return any(one.current and not one.idle for one in _options(instance, job))


def _options(instance: PlacementInstance, job: PlacementJob) -> Iterator[Option]:
    """Yield what a job may get, whatever lies where: its menu, and nothing."""
    first = instance.wanted[0]
    counts, much = isinstance(first, ValueGoal) and instance.counts(first, job), maximizes(instance)
    now = None if job.current is None else job.current.option
    if job.id in instance.displaced:
        job, now = remade(job, fixed=False), None
    counts_pods = is_tenanted(instance) and any(PODS in group.capacity for group in instance.nodes)
    for option in job.options:
        if not job.admits(option.id):
            continue
        worth = Fraction(option.value) + sum(pods.fewest * Fraction(pods.value) for pods in option.pods)
        value, rate = float(worth) if counts else 0.0, max(float(worth), 0.0) if much else 0.0
        uses: dict[str, int] = {}
        for pods in option.pods:
            for resource, need in pods.needs.items():
                uses[resource] = uses.get(resource, 0) + pods.fewest * need
        if counts_pods:
            uses[PODS] = sum(pods.fewest for pods in option.pods)
        yield Option(option.id, uses, value, rate, option.id == now)
    if job.may_wait:
        yield Option(WAITS, {}, 0.0, 0.0, idle=True)


def _free(instance: PlacementInstance) -> dict[str, int]:
    """Return what all nodes have free of every resource together."""
    from apportion.instances.placement.site import site_of

    return site_of(instance).free_together()


def _sums(instance: PlacementInstance) -> bool:
    """Return whether the first goal is what options add up to, wherever their pods lie; not without jobs."""
    pods = (pods for job in instance.jobs for option in job.options for pods in option.pods)
    running = any(job.current is not None for job in instance.jobs)
    sums = is_all_value(instance.wanted[0], running=running) and not any(one.value_at for one in pods)
    return sums and bool(instance.jobs)


def sums_options(instance: PlacementInstance) -> bool:
    """Return whether what options add up to is the first goal, others are counted, and no rule is kept."""
    pods = (pods for job in instance.jobs for option in job.options for pods in option.pods)
    elastic = any(one.fewest != one.count for one in pods)
    counted = all(isinstance(goal, _COUNTED) for goal in instance.wanted[1:])
    return counted and not instance.rules and not elastic and _sums(instance)


def takes_options(instance: PlacementInstance) -> bool:
    """Return whether what options add up to may decide an instance sooner than where their pods lie."""
    return sums_options(instance) and _pairs(instance) >= _SOME_SHAPES


def needs_no_bundles(instance: PlacementInstance) -> bool:
    """Return whether options may decide an instance sooner than bundles of nodes: these have no patterns."""
    from apportion.instances.placement.bundles import bundled_site

    site = bundled_site(instance)
    return site is not None and not site.has_patterns and takes_options(instance)


def has_many_shapes(instance: PlacementInstance) -> bool:
    """Return whether options are on so many nodes that no model of where their pods lie is made in time."""
    return sums_options(instance) and _pairs(instance) >= _MANY_SHAPES


def seconds_of_shapes(instance: PlacementInstance) -> float:
    """Return about how many seconds the making of a model of where pods lie takes."""
    return _pairs(instance) / _SHAPED


def _pairs(instance: PlacementInstance) -> int:
    from apportion.instances.placement.site import pairs_of_options, site_of

    return pairs_of_options(instance, site_of(instance))


def _taken(instance: PlacementInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    got = ((job.id, plan["placement"].get(job.id)) for job in instance.jobs)
    return {job: WAITS if one is None else one["option"] for job, one in got}


def _check(instance: PlacementInstance, plan: Any) -> Report:
    from apportion.instances.placement.check import check

    return check(as_fixed(instance), plan)


def _exact_objective(instance: PlacementInstance, plan: Mapping[str, Any]) -> Fraction:
    from apportion.instances.placement.check import exact_objective

    return exact_objective(instance, plan)


def _later_goals(instance: PlacementInstance) -> dict[str, bool]:
    """Return the goals after the first one, by name, and whether much of each is wanted."""
    return dict([*zip(names_of(instance.wanted), map(is_much, instance.wanted), strict=True)][1:])


def _running(instance: PlacementInstance) -> Sequence[Mapping[str, Any]]:
    """Return the plan in which what runs stays where it is, and the one in which nobody has anything."""
    now = {job.id: job.current for job in instance.jobs if job.current is not None}
    stay = {job: {"option": one.option, "on": one.on} for job, one in now.items()}
    return {"placement": stay}, {"placement": {}}


def _first_fit(
    instance: PlacementInstance, late: Callable[[], bool], enough: Callable[[], bool]
) -> Mapping[str, Any] | None:
    from apportion.instances.placement.first_fit import first_fit

    return first_fit(as_fixed(instance), late, enough)


def _reached(instance: PlacementInstance, plan: Mapping[str, Any]) -> Mapping[str, int]:
    from apportion.instances.placement.check import goal_sums

    return goal_sums(instance, plan)


def _columns(
    instance: PlacementInstance,
    most_shapes: int | None = None,
    *,
    bundled_by: Mapping[str, Sequence[int]] | None = None,
) -> Any:
    """Return the choosers and rows of the first goal, by bundles and weights where these are given."""
    import numpy as np

    from apportion.instances.columns import Columns
    from apportion.instances.placement.bundles import bundled_program, weights_row
    from apportion.instances.placement.choosers import MOST_SHAPES, program

    fixed = as_fixed(instance)
    if bundled_by is not None:
        made, forms = bundled_program(fixed)
    else:
        made, forms = program(fixed, MOST_SHAPES if most_shapes is None else most_shapes)
    limit_tenants(made, instance)
    asked = made.question(forms[:1])
    asked = asked.beside([weights_row(made, *one) for one in (bundled_by or {}).items()])
    values = asked.objective()
    floats = np.array([float(value) for value in values], dtype=np.float64)
    exact = all(Fraction(one) == value for one, value in zip(floats.tolist(), values, strict=True))
    return Columns(
        "maximize" if maximizes(instance) else "minimize",
        made.choosers,
        asked.offsets,
        floats if exact else [value.as_integer_ratio() for value in values],
        asked.table(),
        asked.names,
        asked.rooms.tolist(),
        names=lambda: [made.labels[column] for column in asked.columns.tolist()],
    )


def _all_columns(instance: PlacementInstance) -> Any:
    """Return every placed shape and all rows, as a proof or a statement reads them.

    Raises
    ------
    InvalidInstance
        If the instance is huge: no memory holds the uses of millions of placed shapes.
    """
    from apportion.instances.placement.bundles import is_huge

    if is_huge(instance):
        said = (
            "may lie on these nodes in too many ways for all to be listed: ask for no proof and no statement"
        )
        raise InvalidInstance.at("$.jobs", said)
    return _columns(instance)


def _exact_bound(instance: PlacementInstance, multipliers: Mapping[str, float]) -> Fraction | None:
    """Return the bound of prices of the rows of any formulation: by shape, by bundle, or by pod."""
    from apportion.instances.columns import price_bound
    from apportion.instances.placement.bundles import BY_BUNDLE, is_huge, weights_in

    stated: list[dict[str, Any]] = [] if is_huge(instance) else [{}, {"most_shapes": 0}]
    if BY_BUNDLE in multipliers or not stated:
        stated.insert(0, {"bundled_by": weights_in(multipliers)})
    columns = None
    for way in stated:
        with suppress(ValueError):  # weights of no bundle, or of other kinds of pods
            made = _columns(instance, **way)
            columns = columns or made  # of which is said what the multipliers lack
            if set(made.capacities) == multipliers.keys():
                columns = made
                break
    return price_bound(PLACEMENT, instance, multipliers, columns or _columns(instance, bundled_by={}))


def _remarks(
    instance: PlacementInstance, job: PlacementJob, plan: Mapping[str, Any]
) -> tuple[tuple[str, ...], str | None]:
    from apportion.instances.placement.placed import Placed, remarks

    return tuple(remarks(Placed.of(instance, plan), job)), None


def _way_in(instance: PlacementInstance, job: PlacementJob, plan: Mapping[str, Any]) -> WayIn | None:
    """Return the round of those that have something in a plan and a job that must get something."""
    from apportion.instances.placement.site import site_of

    placed = plan["placement"]
    if job.id in placed or (job.fixed and job.current is None):
        return None
    if all(one.idle for one in _options(instance, job)):
        return None
    if len(placed) * len(site_of(instance).nodes) > _MOST_PAIRS:
        return None
    has = {name: own["option"] for name, own in placed.items()}
    jobs = [  # those that wait are only there because rules may name them
        replace(
            one,
            required=False,
            pinned=None,
            forbidden=tuple(option.id for option in one.options if option.id != has.get(one.id)),
        )
        for one in _adopt(instance, plan, everybody=True)
        if one.id != job.id
    ]
    rules = tuple(rule for rule in instance.rules if not isinstance(rule, MaxMovesRule | MaxStopsRule))
    asked = replace(
        instance,
        jobs=(replace(job, required=True, current=None), *jobs),
        rules=rules,
        goals=(JobsStoppedGoal(), PodsMovedGoal()),
    )
    return WayIn(asked, partial(_said, asked, job.id))


def _said(instance: PlacementInstance, job: str, plan: Mapping[str, Any]) -> str:
    """Return who stops and who moves for a job, in words."""
    from apportion.instances.placement.placed import Placed

    placed = Placed.of(instance, plan)
    moved: dict[str, int] = {}
    for (one, _), number in placed.moved.items():
        if number and one not in placed.stopped:
            moved[one] = moved.get(one, 0) + number
    option, stopped = plan["placement"][job]["option"], sorted(placed.stopped)
    parts = [f"{_some(stopped)} stop{'' if len(stopped) > 1 else 's'}"] if stopped else []
    if moved:
        number = sum(moved.values())
        move = "1 pod of {} moves" if number == 1 else f"{number} pods of {{}} move"
        parts.append(move.format(_some(sorted(moved))))
    if not parts:
        return f"{option} fits beside the others"
    return f"{option} would be placed if {' and '.join(parts)}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:6])
    return f"{shown} and {len(names) - 6} more" if len(names) > 6 else shown


def limit_tenants(made: Program, instance: PlacementInstance) -> None:
    """Add the limits of tenants and the floors under shares to the rows of an instance's program."""
    import numpy as np

    from apportion.instances.placement.program import Form

    if not is_tenanted(instance):
        return
    ledger = ledger_of(PLACEMENT, instance)
    limits = {name: room for name, room in ledger.limits.items() if name not in ledger.capacities}
    columns, factors = {name: list[int]() for name in limits}, {name: list[int]() for name in limits}
    constant = dict.fromkeys(limits, 0)
    every: dict[str, set[str]] = {}
    for job, name in made.chosen:
        every.setdefault(job, {WAITS}).add(name)
    for job, options in ledger.options.items():
        barred = every.get(job, {WAITS})
        for at, option in enumerate(options):
            barred.discard(str(option.name))
            here = made.waiting.get(job, []) if option.idle else made.chosen.get((job, str(option.name)), [])
            for name, use in ledger.uses(job, at).items():
                if name not in limits:
                    continue
                columns[name] += here
                factors[name] += [use] * len(here)
                constant[name] += 0 if job in made.waiting else use  # one that stays and has no columns
        for name in barred:
            here = made.waiting.get(job, []) if name == WAITS else made.chosen[job, name]
            if here:
                made.row(f"{job} has what is due to it", Form.of(here), 0)
    for name, room in limits.items():
        each = np.array(factors[name], dtype=np.int64)
        made.row(name, Form.of(columns[name], each, constant[name]), room)


OPTION_SET = OptionSet(
    _options,
    _taken,
    capacities=_free,
    now=lambda job: None if job.current is None else job.current.option,
    goals=_later_goals,
    reached=_reached,
    running=_running,
    first_fit=_first_fit,
    relaxes=True,
    sums=_sums,
    columns=_all_columns,
)


def _pin(instance: PlacementInstance, choices: Mapping[str, int | str]) -> PlacementInstance:
    for job in instance.jobs:
        names = [*(option.id for option in job.options), WAITS]
        if job.id in choices and choices[job.id] not in names:
            there = quoted_names(names) or "none"
            message = f"job {job.id!r} has no option {choices[job.id]!r}; it has {there}"
            raise InvalidInstance.at("$.jobs", message)
    return remade(instance, jobs=tuple(_pinned(job, choices.get(job.id)) for job in instance.jobs))


def _pinned(job: PlacementJob, option: int | str | None) -> PlacementJob:
    if option == WAITS:
        return replace(job, pinned=None, forbidden=tuple(one.id for one in job.options))
    return job if option is None else replace(job, pinned=str(option))


def _remove_nodes(instance: PlacementInstance, names: Iterable[str]) -> PlacementInstance:
    """Return the instance without some nodes; pods that are there have lost their node."""
    from apportion.instances.placement.consistency import without_lost_places
    from apportion.instances.placement.site import site_of

    gone, site = set(names), site_of(instance)
    if missing := gone - site.number.keys():
        raise InvalidInstance.at("$.nodes", f"there is no node {sorted(missing)[0]!r}")
    found = []
    for at, group in enumerate(instance.nodes):
        own = [node for node, of in zip(site.nodes, site.group.tolist(), strict=True) if of == at]
        if gone.isdisjoint(own):
            found.append(group)
            continue
        upper = site.levels[:-1]
        for node in own:
            if node not in gone:
                position = site.number[node]
                path = {level: site.places[level][site.place[level][position]] for level in upper}
                above = {level: full.rpartition("/")[2] for level, full in path.items()}
                found.append(replace(group, names=node, at=above))
    left = {resource for group in found for resource in group.capacity}
    none = dict.fromkeys((name for name in site.resources if name not in {*left, PODS}), 0)
    if none and found:  # its jobs wait for it, and its quotas stay
        found[0] = replace(found[0], capacity={**found[0].capacity, **none})
    return replace(without_lost_places(remade(instance, nodes=tuple(found))))


def _adopt(
    instance: PlacementInstance, plan: Mapping[str, Any], *, everybody: bool = False
) -> Iterator[PlacementJob]:
    """Yield the jobs that run otherwise than now, or everybody, as they run in a plan."""
    for job in instance.jobs:
        got = plan["placement"].get(job.id)
        now = (
            None
            if got is None
            else PlacementRunning(got["option"], {k: dict(v) for k, v in got["on"].items()})
        )
        if everybody or now != job.current:
            yield replace(job, current=now)


def _no_capacity(_instance: PlacementInstance, name: str, _present: int, _delta: int) -> PlacementInstance:
    raise InvalidInstance.at("$.nodes", f"nodes say how much there is, not a capacity {name!r}")


def _without_job(instance: PlacementInstance, name: str) -> PlacementInstance:
    from apportion.instances.placement.consistency import without_job

    return without_job(instance, name)


EDITS = Edits(
    job_type=PlacementJob,
    capacities=lambda _: {},
    change_capacity=_no_capacity,
    pin=_pin,
    pin_field="pinned",
    remove_nodes=_remove_nodes,
    without_job=_without_job,
    adopt=_adopt,
)


def _in_id_order(instance: PlacementInstance) -> PlacementInstance:
    """Sort the jobs and their options; the order of nodes is that of the file."""
    found = copy(instance)
    jobs = [
        remade(job, options=tuple(sorted(job.options, key=lambda option: option.id))) for job in instance.jobs
    ]
    force_setattr(found, "jobs", tuple(sorted(jobs, key=lambda job: job.id)))
    return found


PLACEMENT = ProblemType(
    "placement",
    PlacementInstance,
    maximizes,
    _check,
    _exact_objective,
    _exact_bound,
    in_id_order=_in_id_order,
    measure=lambda instance: name_of(instance.wanted[0]),
    edits=EDITS,
    wording=Wording(runs=True, waiting=WAITS),
    option_set=OPTION_SET,
    remarks=_remarks,
    way_in=_way_in,
)
