"""The rules of a placement as rows over its columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.instances.placement import rules
from apportion.instances.placement.consistency import groups_of, selected_pods
from apportion.instances.placement.program import NOTHING, Form, Integers, Program
from apportion.instances.placement.schema import PlacementJob, PlacementPods

__all__ = [
    "Mask",
    "add_rules",
    "classes_by_group",
    "each_place",
    "everybody",
    "everywhere",
    "most_pods",
    "moved",
    "need_now",
    "needs_of_all",
    "places_used",
    "pods_named",
    "present_in",
    "running",
    "stopped",
]

Mask = NDArray[np.bool_]


def add_rules(made: Program) -> None:
    """Add the rows of every rule of an instance."""
    for rule in made.instance.rules:
        _RULES[type(rule)](made, rule)


def classes_by_group(made: Program, by: Any) -> Iterator[tuple[str, Mask]]:
    """Yield every group with its classes, all as one where there is no grouping."""
    for name, members in groups_of(made.instance.jobs, by).items():
        yield name, _classes(made, members)


def _classes(made: Program, jobs: set[str]) -> Mask:
    return np.array([one.job.id in jobs for one in made.classes], dtype=np.bool_)


def _each_selected(made: Program, names: Iterable[str]) -> Iterator[tuple[tuple[str, str], Mask]]:
    """Yield the pods that a rule names, each job's by name, with their classes; these may be none."""
    own = {(job.id, name): classes for job, name, classes in _names(made)}
    for of in sorted(selected_pods(made.instance.jobs, names)):
        yield of, own.get(of, np.zeros(len(made.classes), dtype=np.bool_))


def _selected(made: Program, names: Iterable[str]) -> Mask:
    found = np.zeros(len(made.classes), dtype=np.bool_)
    for _, classes in _each_selected(made, names):
        found |= classes
    return found


def each_place(made: Program, level: str) -> Iterator[tuple[str, Mask]]:
    """Yield every place of a level, bool [nodes]."""
    for at, name in enumerate(made.site.places[level]):
        yield name, made.site.place[level] == at


def everybody(made: Program) -> Mask:
    """Return all classes."""
    return np.ones(len(made.classes), dtype=np.bool_)


def everywhere(made: Program) -> Mask:
    """Return all nodes."""
    return np.ones(len(made.site.nodes), dtype=np.bool_)


def needs_of_all(made: Program, resource: str) -> Integers:
    """Return int64 [classes]: what a pod needs of a resource."""
    return np.array([one.pods.takes(resource) for one in made.classes], dtype=np.int64)


def most_pods(made: Program, classes: Mask) -> int:
    """Return how many pods of some classes there are at most: of every job one option alone counts."""
    by_option: dict[tuple[str, str], int] = {}
    for one, some in zip(made.classes, classes.tolist(), strict=True):
        if some:
            key = one.job.id, one.option.id
            by_option[key] = by_option.get(key, 0) + one.pods.count
    by_job: dict[str, int] = {}
    for (job, _), number in by_option.items():
        by_job[job] = max(by_job.get(job, 0), number)
    return sum(by_job.values())


def running(made: Program) -> Iterator[tuple[PlacementJob, str, dict[str, int], Integers]]:
    """Yield every running job's pods by name: where they are, and which classes they may be in the plan."""
    for job in made.instance.jobs:
        for name, on in (job.current.on if job.current is not None else {}).items():
            own = [at for at in made.of_job.get(job.id, ()) if made.classes[at].pods.name == name]
            yield job, name, {node: count for node, count in on.items() if count}, np.array(own, np.int64)


def pods_named(job: PlacementJob, name: str) -> PlacementPods | None:
    """Return the pods of a name, alike in all options of a job; ``None`` where none has them any more."""
    return next((pods for option in job.options for pods in option.pods if pods.name == name), None)


def need_now(job: PlacementJob, name: str, resource: str) -> int:
    """Return what one of the pods that run needs; 0 where the job's menu has none of them any more."""
    pods = pods_named(job, name)
    return 0 if pods is None else pods.takes(resource)


def _limit(made: Program, rule: rules.LimitRule) -> None:
    needs = needs_of_all(made, rule.resource)
    named = [] if rule.when == "after" else [*_names(made)]
    for name, limit in rule.limits.items():
        inside, others = made.site.inside(rule.level, [name]), everybody(made)
        there = [(one, now) for one in named if (now := present_in(made, *one[:2], inside))]
        form = NOTHING
        for (job, pods, classes), now in there:
            others &= ~classes
            here, most = made.inside(inside, classes), most_pods(made, classes) - now
            new = made.beyond(f"new in {name}: {job.id}/{pods}", here, now, most)
            form = form + new.times(need_now(job, pods, rule.resource))
        form = form + made.inside(inside, others, needs)
        if rule.when == "during":
            for job, pods, _, _ in running(made):
                now = present_in(made, job, pods, inside)
                form = form + Form.of([], 1, now * need_now(job, pods, rule.resource))
        made.row(f"{rule.resource} of {name} ({rule.when})", form, limit)


def present_in(made: Program, job: PlacementJob, pods: str, inside: Mask) -> int:
    """Return how many of a job's pods of a name are in a place now."""
    on = {} if job.current is None else job.current.on.get(pods, {})
    number = made.site.number
    return sum(count for node, count in on.items() if node in number and inside[number[node]])


def _spread(made: Program, rule: rules.SpreadRule) -> None:
    for group, classes in classes_by_group(made, rule.by):
        for name, inside in each_place(made, rule.level):
            nodes = int(made.site.sizes[inside].sum()) if rule.level == made.site.levels[-1] else 1
            limit = rule.of.get(group, rule.max) * nodes
            made.row(f"spread of {group} in {name}", made.inside(inside, classes), limit)


def _share(made: Program, rule: rules.ShareRule) -> None:
    for group, jobs in groups_of(made.instance.jobs, rule.by).items():
        classes = _classes(made, jobs)
        size = sum(job.most_pods for job in made.instance.jobs if job.id in jobs)
        most = math.floor(Fraction(rule.fraction) * size + Fraction(1, 10**9))
        for name, inside in each_place(made, rule.level):
            made.row(f"share of {group} in {name}", made.inside(inside, classes), most)


def _at_least(made: Program, rule: rules.AtLeastRule) -> None:
    for group, classes in classes_by_group(made, rule.by):
        for name, inside in each_place(made, rule.level):
            form = made.inside(inside, classes)
            used = made.used(f"{name} by {group}", form, most_pods(made, classes))
            made.row(f"at least of {group} in {name}", used.times(rule.min) + form.times(-1), 0)


def places_used(made: Program, level: str, group: str, classes: Mask) -> Form:
    """Return in how many places of a level a group lies."""
    form, most = NOTHING, most_pods(made, classes)
    for name, inside in each_place(made, level):
        form = form + made.used(f"{name} by {group}", made.inside(inside, classes), most)
    return form


def _together(made: Program, rule: rules.TogetherRule) -> None:
    for group, classes in classes_by_group(made, rule.by):
        limit = rule.of.get(group, rule.max_places)
        if limit < len(made.site.places[rule.level]):
            made.row(f"{group} together", places_used(made, rule.level, group, classes), limit)


def _exclusive(made: Program, rule: rules.ExclusiveRule) -> None:
    members = list(classes_by_group(made, rule.by))
    for name, inside in each_place(made, rule.level):
        form = NOTHING
        for group, classes in members:
            form = form + made.used(
                f"{name} by {group}", made.inside(inside, classes), most_pods(made, classes)
            )
        made.row(f"groups in {name}", form, rule.max_groups)


def _apart(made: Program, rule: rules.ApartRule) -> None:
    for group, classes in classes_by_group(made, rule.by):
        for pair in rule.pairs:
            form = NOTHING
            for name in pair:
                there = made.inside(made.site.inside(rule.level, [name]), classes)
                form = form + made.used(f"{name} by {group}", there, most_pods(made, classes))
            made.row(f"{' and '.join(pair)} apart", form, 1)


def _avoid(made: Program, rule: rules.AvoidRule) -> None:
    there = made.inside(made.site.inside(rule.level, rule.places), _selected(made, rule.pods))
    made.row("avoid", there, 0)


def _require(made: Program, rule: rules.RequireRule) -> None:
    there = made.inside(~made.site.inside(rule.level, rule.places), _selected(made, rule.pods))
    made.row("require", there, 0)


def _drain(made: Program, rule: rules.DrainRule) -> None:
    nodes = np.isin(made.site.nodes, rule.nodes)
    made.row("drain", made.inside(nodes, everybody(made)), 0)


def _closed(made: Program, rule: rules.ClosedRule) -> None:
    for name in rule.places:
        inside = made.site.inside(rule.level, [name])
        for job, pods, classes in _names(made):
            made.row(f"{name} is closed", made.inside(inside, classes), present_in(made, job, pods, inside))


def _names(made: Program) -> Iterator[tuple[PlacementJob, str, Mask]]:
    """Yield every job's pods by name, with their classes."""
    found: dict[tuple[str, str], list[int]] = {}
    for at, one in enumerate(made.classes):
        found.setdefault((one.job.id, one.pods.name), []).append(at)
    for those in found.values():
        mask = np.zeros(len(made.classes), dtype=np.bool_)
        mask[those] = True
        yield made.classes[those[0]].job, made.classes[those[0]].pods.name, mask


def _stay(made: Program, rule: rules.StayRule) -> None:
    now = {(job.id, pods): on for job, pods, on, _ in running(made)}
    for of, classes in _each_selected(made, rule.pods):
        on = now.get(of, {})
        if not on.keys() <= made.site.number.keys():
            made.row("stay", Form.of([], 1, 1), 0)  # where it is there is nothing any more
        at = np.array([on.get(node, 0) for node in made.site.nodes], dtype=np.int64)
        made.row("stay", made.inside(at == 0, classes), 0)
        for node in np.flatnonzero(at).tolist():
            here = made.inside(np.arange(at.size) == node, classes)
            made.row("stay", here, int(at[node]))
            made.row("stay", here.times(-1), -int(at[node]))


def _moving(made: Program, rule: rules.MovingRule) -> None:
    for name, node in rule.to.items():
        there = np.isin(made.site.nodes, [node])
        for _, classes in _each_selected(made, [name]):
            made.row("moving", made.inside(~there, classes), 0)
            made.row("moving", made.inside(there, classes).times(-1), -1)


def moved(made: Program, jobs: set[str], cost: Callable[[PlacementJob, str], int]) -> Form:
    """Return what of some jobs' pods, that run, is moved or stopped, by what one counts."""
    form = NOTHING
    for job, name, on, own in running(made):
        if job.id in jobs:
            much = cost(job, name)
            form = form + made.stays(own).times(-much) + Form.of([], 1, sum(on.values()) * much)
    return form


def _max_moves(made: Program, rule: rules.MaxMovesRule) -> None:
    for group, jobs in groups_of(made.instance.jobs, rule.by).items():
        form = moved(made, jobs, lambda job, name: need_now(job, name, rule.resource))
        made.row(f"moves of {group}", form, rule.of.get(group, rule.limit))


def _max_stops(made: Program, rule: rules.MaxStopsRule) -> None:
    for group, jobs in groups_of(made.instance.jobs, rule.by).items():
        form = NOTHING
        for job in made.instance.jobs:
            if job.id in jobs:
                form = form + stopped(made, job)
        made.row(f"stops of {group}", form, rule.limit)


def stopped(made: Program, job: PlacementJob) -> Form:
    """Return whether a job is stopped."""
    now = {} if job.current is None else {name: sum(on.values()) for name, on in job.current.on.items()}
    if job.current is None or not any(now.values()):
        return NOTHING
    known = made.stopped.get(job.id)
    if known is not None:
        return known
    option = job.current.option
    same = [at for at in made.of_job.get(job.id, ()) if made.classes[at].option.id == option]
    fewer = [at for at in same if made.classes[at].pods.fewest < now.get(made.classes[at].pods.name, 0)]
    waits, chosen = Form.of(made.waiting[job.id]), made.chosen.get((job.id, option), [])
    gone = {name for name, number in now.items() if number} - {made.classes[at].pods.name for at in same}
    if not made.is_open(job):
        found = Form.of([], 1, 1)  # it has no option any more
    elif same and gone:
        found = Form.of([], 1, 1) if job.id in made.optional else waits + Form.of(chosen)
    elif not chosen and job.id not in made.optional:
        found = waits
    elif fewer:
        found = _fewer(made, job, now, fewer)
    else:
        found = waits
    made.stopped[job.id] = found
    return found


def _fewer(made: Program, job: PlacementJob, now: Mapping[str, int], some: list[int]) -> Form:
    """Return whether a job waits, or has fewer pods than now in the option that it has now."""
    every_node = everywhere(made)
    there = [(made.inside(every_node, np.array([at])), now[made.classes[at].pods.name]) for at in some]
    chosen = made.chosen.get((job.id, made.classes[some[0]].option.id), [])
    waits = Form.of(made.waiting[job.id])
    if job.id in made.whole:
        have = [dict(zip(form.columns.tolist(), form.factors.tolist(), strict=True)) for form, _ in there]
        pairs = list(zip(have, (number for _, number in there), strict=True))
        return waits + Form.of([c for c in chosen if any(own.get(c, 0) < number for own, number in pairs)])
    gets = Form.of([], 1, 1) if job.id in made.optional else Form.of(chosen)
    lack = [(gets.times(number) + form.times(-1), number) for form, number in there]
    flag = made.flag(
        f"{job.id} is stopped",
        lambda taken: waits.at(taken) > 0 or any(form.at(taken) > 0 for form, _ in lack),
    )
    for form, number in lack:
        made.row(f"{job.id} has fewer pods", form + flag.times(-number), 0)
    made.row(f"{job.id} waits", waits + flag.times(-1), 0)
    return flag


def _spare(made: Program, rule: rules.SpareRule) -> None:
    main, spare = (made.site.inside(rule.level, [name]) for name in (rule.main, rule.spare))
    there = made.inside(spare, everybody(made)).times(-1)
    for group, classes in classes_by_group(made, rule.by):
        both = made.inside(main, classes) + made.inside(spare, classes)
        made.row(f"spare for {group}", both + there, rule.slack)


def _standby(made: Program, rule: rules.StandbyRule) -> None:
    """Add, for every place lost and every other one, who takes over there.

    An heir's amount counts in a place when the pod is in the lost one, the standbys before it are there too,
    and it is in the place: a flag that is at least the sum of these less all but one.
    """
    places = list(each_place(made, rule.level))
    own = {name: _selected(made, [name]) for name in rule.amount}
    at = {(name, place): made.inside(inside, own[name]) for name in rule.amount for place, inside in places}
    for limited, limit in rule.limits.items():
        inside = made.site.inside(rule.level, [limited])
        here = next(name for name, mask in places if bool((mask == inside).all()))
        base = NOTHING
        for pod in rule.pairs:
            base = base + at[pod, here].times(rule.amount[pod])
        for lost, _ in places:
            form = base
            for pod, seconds in rule.pairs.items() if lost != here else ():
                before = [at[pod, lost]]
                for heir in seconds:
                    parts = [*before, at[heir, here]]
                    if all(part.columns.size for part in parts):
                        flag = made.flag(f"{heir} for {pod} in {here} without {lost}", _all(parts))
                        made.row(f"{heir} takes over", sum(parts, flag.times(-1)), len(parts) - 1)
                        form = form + flag.times(rule.amount[heir])
                    before.append(at[heir, lost])
            made.row(f"{here} without {lost}", form, limit)


def _all(parts: list[Form]) -> Callable[[Integers], bool]:
    return lambda taken: all(part.at(taken) > 0 for part in parts)


def _keep_free(made: Program, rule: rules.KeepFreeRule) -> None:
    needs, free = needs_of_all(made, rule.resource), made.site.free(rule.resource)
    used, counted = NOTHING, 0
    for name, inside in each_place(made, rule.level):
        left = int(free[inside].sum())
        if rule.amount:
            load = made.inside(inside, everybody(made), needs)
            made.row(f"free {rule.resource} in {name}", load, left - rule.amount)
        if rule.places and left > 0:
            counted += 1
            there = made.inside(inside, everybody(made))
            used = used + made.used(name, there, most_pods(made, everybody(made)))
    if rule.places:
        made.row(f"empty places of level {rule.level}", used, counted - rule.places)


def _least_use(made: Program, rule: rules.LeastUseRule) -> None:
    site, everyone, needs = made.site, everybody(made), needs_of_all(made, rule.resource)
    has, free = np.where(site.ready, site.amounts(rule.resource), 0), site.free(rule.resource)
    chosen = site.inside(rule.level, rule.places or site.places[rule.level])
    for name, inside in each_place(made, rule.level):
        whole, left = int(has[inside].sum()), int(free[inside].sum())
        least = math.ceil(Fraction(rule.fraction) * whole - Fraction(1, 10**9)) - (whole - left)
        if least > 0 and (chosen & inside).any():
            used = made.used(name, made.inside(inside, everyone), most_pods(made, everyone))
            load = made.inside(inside, everyone, needs)
            made.row(f"least use of {name}", used.times(least) + load.times(-1), 0)


def _ratio(made: Program, rule: rules.RatioRule) -> None:
    each = needs_of_all(made, rule.resource) - rule.times * needs_of_all(made, rule.other)
    for name, inside in each_place(made, rule.level):
        made.row(f"{rule.resource} per {rule.other} in {name}", made.inside(inside, everybody(made), each), 0)


_RULES: Mapping[type, Callable[[Program, Any], None]] = MappingProxyType(
    {
        rules.LimitRule: _limit,
        rules.SpreadRule: _spread,
        rules.ShareRule: _share,
        rules.AtLeastRule: _at_least,
        rules.TogetherRule: _together,
        rules.ExclusiveRule: _exclusive,
        rules.ApartRule: _apart,
        rules.AvoidRule: _avoid,
        rules.RequireRule: _require,
        rules.DrainRule: _drain,
        rules.ClosedRule: _closed,
        rules.StayRule: _stay,
        rules.MovingRule: _moving,
        rules.MaxMovesRule: _max_moves,
        rules.MaxStopsRule: _max_stops,
        rules.SpareRule: _spare,
        rules.StandbyRule: _standby,
        rules.KeepFreeRule: _keep_free,
        rules.LeastUseRule: _least_use,
        rules.RatioRule: _ratio,
    }
)
