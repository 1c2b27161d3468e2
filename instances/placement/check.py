"""What a placement plan means: its rules one by one, and what it has of every goal.

Everything is counted pod by pod from the plan, plainly; no formulation is asked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from msgspec import UNSET

from apportion.core.outcome import Report, Violation
from apportion.instances.placement import goals, rules
from apportion.instances.placement.goals import Goal, names_of, parts_of
from apportion.instances.placement.placed import On, Placed, Pods, option_of
from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
)
from apportion.instances.placement.site import Site, needs_of_room, site_of

__all__ = ["broken_rules", "check", "exact_objective", "goal_sums", "misplaced"]


def check(instance: PlacementInstance, plan: Any) -> Report:
    """Check ``{"placement": {job: {"option": ..., "on": {pods: {node: count}}}}}``; absent jobs wait."""
    given = plan.get("placement") if isinstance(plan, Mapping) else None
    if not isinstance(given, Mapping) or set(plan) != {"placement"}:
        return Report(None, (Violation("shape", "plan", 'must be {"placement": {job: {"option", "on"}}}'),))
    site = site_of(instance)
    wrong = [*_shapes(instance, given, site)]
    if wrong:
        return Report(None, tuple(wrong))
    placed = Placed(instance, site, given)
    wrong += _jobs(placed)
    wrong += _nodes(placed)
    wrong += broken_rules(placed)
    return Report(float(_total(placed, instance.wanted[0])), tuple(wrong))


def misplaced(instance: PlacementInstance, given: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield what is wrong with what jobs get, one by one: its form, or else its options and its pods."""
    site = site_of(instance)
    wrong = [*_shapes(instance, given, site)]
    yield from wrong or _jobs(Placed(instance, site, given))


def broken_rules(placed: Placed) -> Iterator[Violation]:
    """Yield what a plan breaks of the rules of its instance."""
    for rule in placed.instance.rules:
        name = str(rule.__struct_config__.tag)
        yield from (Violation(name, where, said) for where, said in _RULES[type(rule)](placed, rule))


def exact_objective(instance: PlacementInstance, plan: Mapping[str, Any]) -> Fraction:
    """Return the first goal of a feasible plan in rational arithmetic."""
    return _total(Placed.of(instance, plan), instance.wanted[0])


def goal_sums(instance: PlacementInstance, plan: Mapping[str, Any]) -> dict[str, int]:
    """Return what a feasible plan has of every goal after the first, by what it is called."""
    placed = Placed.of(instance, plan)
    names = names_of(instance.wanted)
    return {
        name: int(_total(placed, goal)) for name, goal in zip(names[1:], instance.wanted[1:], strict=True)
    }


def _shapes(instance: PlacementInstance, given: Mapping[str, Any], site: Site) -> Iterator[Violation]:
    """Yield where a plan is not of the form it must be."""
    known = {job.id: job for job in instance.jobs}
    for name, got in given.items():
        job = known.get(name)
        if job is None:
            yield Violation("known_job", str(name), "is not a job of the instance")
        elif got is not None:
            if not isinstance(got, Mapping) or set(got) != {"option", "on"}:
                yield Violation("shape", name, 'must be {"option": ..., "on": {pods: {node: count}}}')
                continue
            option = option_of(job, got["option"])
            if option is None:
                yield Violation("option", name, f"{got['option']!r} is not on its menu")
                continue
            names = {pods.name for pods in option.pods}
            if not isinstance(got["on"], Mapping) or not set(got["on"]) <= names:
                yield Violation("shape", name, f"must say where these pods are: {sorted(names)}")
                continue
            for pods, on in got["on"].items():
                if not isinstance(on, Mapping):
                    yield Violation("shape", f"{name}/{pods}", "must be counts by node")
                    continue
                for node, count in on.items():
                    if node not in site.number:
                        yield Violation("known_node", f"{name}/{pods}", f"{node!r} is not a node")
                    if type(count) is not int or count < 1:
                        yield Violation("shape", f"{name}/{pods}", f"must have 1 pod or more at {node!r}")


Broken = Iterator[tuple[str, str]]
"""Where a rule is broken, and how."""


def _jobs(placed: Placed) -> Iterator[Violation]:
    """Yield what is wrong with jobs: their options, and how many pods they have where."""
    site = placed.site
    for job in placed.instance.jobs:
        got = placed.got.get(job.id)
        if got is None:
            if job.required or job.pinned is not None:
                yield Violation("required", job.id, "must get one of its options")
            if job.fixed and job.current is not None:
                yield Violation("fixed", job.id, "must stay as it is")
            continue
        if got.id in job.forbidden or job.pinned not in (None, got.id):
            yield Violation("pinned", job.id, f"must not get {got.id!r}")
        names = {*(pods.name for pods in got.pods), *(() if job.current is None else job.current.on)}
        if job.fixed and (
            job.current is None
            or got.id != job.current.option
            or any(_on(placed.after, job, name) != _on(placed.before, job, name) for name in names)
        ):
            yield Violation("fixed", job.id, "must stay as it is")
        everywhere = list[str]()
        for pods in got.pods:
            where, on = f"{job.id}/{pods.name}", placed.after.get((job.id, pods.name), {})
            if not pods.fewest <= sum(on.values()) <= pods.count:
                said = f"has {sum(on.values())} pods, not {pods.fewest} to {pods.count}"
                yield Violation("pods", where, said)
            admitted = site.admits(pods)
            for node in on:
                if not admitted[site.number[node]]:
                    yield Violation("node", where, f"may not be at {node!r}")
            if pods.required is not UNSET and _spans(site, pods.required, on) > 1:
                yield Violation("level", where, f"must lie in one {pods.required}")
            for level, size in pods.slices.items():
                each = Counter[int]()
                for node, number in on.items():
                    each[int(site.place[level][site.number[node]])] += number
                for place, number in each.items():
                    if number % size:
                        said = f"has {number} pods in {site.places[level][place]!r}"
                        yield Violation("slices", where, f"{said}, no multiple of {size}")
            everywhere += on
        if got.required is not UNSET and _spans(site, got.required, everywhere) > 1:
            yield Violation("level", job.id, f"must lie in one {got.required}")


def _on(where: Mapping[Pods, On], job: PlacementJob, name: str) -> On:
    return {node: count for node, count in where.get((job.id, name), {}).items() if count}


def _spans(site: Site, level: str, nodes: Iterable[str]) -> int:
    return len({int(site.place[level][site.number[node]]) for node in nodes})


def _nodes(placed: Placed) -> Iterator[Violation]:
    """Yield which node has less than its pods need."""
    for resource in placed.site.limited:
        used = Counter[str]()
        for of, on in placed.after.items():
            for node, number in on.items():
                used[node] += number * placed.amount(of, resource)
        for node, free in zip(placed.site.nodes, placed.site.free(resource).tolist(), strict=True):
            if used[node] > free:
                yield Violation("capacity", node, f"uses {used[node]} of {free} {resource}")


def _limit(placed: Placed, rule: rules.LimitRule) -> Broken:
    for name, limit in rule.limits.items():
        inside = placed.nodes_in(rule.level, [name])
        total = 0
        for of in {*placed.after, *placed.before}:
            if of not in placed.pods:
                continue
            then = sum(n for node, n in placed.after.get(of, {}).items() if node in inside)
            now = sum(n for node, n in placed.before.get(of, {}).items() if node in inside)
            stays = min(then, now)
            counted = {"after": then, "during": then + now - stays, "new": then - stays}[rule.when]
            total += counted * placed.amount(of, rule.resource)
        if total > limit:
            yield name, f"has {total} of at most {limit} {rule.resource} ({rule.when})"


def _spread(placed: Placed, rule: rules.SpreadRule) -> Broken:
    for group, there in placed.lying(rule.level, rule.by).items():
        limit = rule.of.get(group, rule.max)
        for name, number in there.items():
            if number > limit:
                yield name, f"has {number} pods of {group!r}, at most {limit} may be there"


def _share(placed: Placed, rule: rules.ShareRule) -> Broken:
    groups = placed.group(rule.by)
    for group, there in placed.lying(rule.level, rule.by).items():
        size = sum(job.most_pods for job in placed.instance.jobs if job.id in groups[group])
        most = math.floor(Fraction(rule.fraction) * size + Fraction(1, 10**9))
        for name, number in there.items():
            if number > most:
                yield name, f"has {number} pods of {group!r}, at most {most} may be there"


def _at_least(placed: Placed, rule: rules.AtLeastRule) -> Broken:
    for group, there in placed.lying(rule.level, rule.by).items():
        for name, number in there.items():
            if number < rule.min:
                yield name, f"has {number} pods of {group!r}, not none or {rule.min}"


def _together(placed: Placed, rule: rules.TogetherRule) -> Broken:
    for group, used in placed.lying(rule.level, rule.by).items():
        limit = rule.of.get(group, rule.max_places)
        if len(used) > limit:
            yield group, f"lies in {len(used)} places of level {rule.level}, at most {limit} are allowed"


def _exclusive(placed: Placed, rule: rules.ExclusiveRule) -> Broken:
    there = Counter(name for used in placed.lying(rule.level, rule.by).values() for name in used)
    for name, number in there.items():
        if number > rule.max_groups:
            yield name, f"has pods of {number} groups, at most {rule.max_groups} are allowed"


def _apart(placed: Placed, rule: rules.ApartRule) -> Broken:
    for group, jobs in placed.group(rule.by).items():
        for one, other in rule.pairs:
            if all(placed.count(placed.nodes_in(rule.level, [name]), jobs) for name in (one, other)):
                yield f"{one}, {other}", f"are both used by {group}"


def _avoid(placed: Placed, rule: rules.AvoidRule) -> Broken:
    yield from _outside(placed, rule.pods, placed.nodes_in(rule.level, rule.places))


def _require(placed: Placed, rule: rules.RequireRule) -> Broken:
    yield from _outside(placed, rule.pods, {*placed.site.nodes} - placed.nodes_in(rule.level, rule.places))


def _outside(placed: Placed, names: Sequence[str], forbidden: set[str]) -> Broken:
    for job, pods in sorted(placed.select(names)):
        for node in placed.after.get((job, pods), {}).keys() & forbidden:
            yield f"{job}/{pods}", f"must not be at {node!r}"


def _drain(placed: Placed, rule: rules.DrainRule) -> Broken:
    for node in rule.nodes:
        if number := placed.count([node]):
            yield node, f"has {number} pods, must be empty"


def _closed(placed: Placed, rule: rules.ClosedRule) -> Broken:
    for name in rule.places:
        inside = placed.nodes_in(rule.level, [name])
        for of, on in placed.after.items():
            then = sum(n for node, n in on.items() if node in inside)
            now = sum(n for node, n in placed.before.get(of, {}).items() if node in inside)
            if then > now:
                yield name, f"has {then - now} more pods of {'/'.join(of)}, is closed"


def _stay(placed: Placed, rule: rules.StayRule) -> Broken:
    for of in sorted(placed.select(rule.pods)):
        if placed.after.get(of, {}) != {node: n for node, n in placed.before.get(of, {}).items() if n}:
            yield "/".join(of), "must stay as it is"


def _moving(placed: Placed, rule: rules.MovingRule) -> Broken:
    for name, node in rule.to.items():
        for of in sorted(placed.select([name])):
            if set(placed.after.get(of, ())) != {node}:
                yield "/".join(of), f"must be at {node!r}"


def _max_moves(placed: Placed, rule: rules.MaxMovesRule) -> Broken:
    for group, jobs in placed.group(rule.by).items():
        total = sum(
            number * placed.amount(of, rule.resource)
            for of, number in placed.moved.items()
            if of[0] in jobs and of in placed.pods
        )
        limit = rule.of.get(group, rule.limit)
        if total > limit:
            yield group, f"moves {total} {rule.resource}, at most {limit} are allowed"


def _max_stops(placed: Placed, rule: rules.MaxStopsRule) -> Broken:
    for group, jobs in placed.group(rule.by).items():
        if (number := len(placed.stopped & jobs)) > rule.limit:
            yield group, f"stops {number} jobs, at most {rule.limit} are allowed"


def _spare(placed: Placed, rule: rules.SpareRule) -> Broken:
    main, spare = (placed.nodes_in(rule.level, [name]) for name in (rule.main, rule.spare))
    there = placed.count(spare)
    for group, jobs in placed.group(rule.by).items():
        both = placed.count(main, jobs) + placed.count(spare, jobs)
        if both > there + rule.slack:
            yield group, f"loses {both} pods, {there + rule.slack} are spare"


def _standby(placed: Placed, rule: rules.StandbyRule) -> Broken:
    places = placed.places(rule.level)
    at = {
        name: next(iter(placed.after.get(of, ())), None)
        for name in rule.amount
        for of in placed.select([name])
    }
    for lost, gone in places.items():
        for name, limit in rule.limits.items():
            inside = placed.nodes_in(rule.level, [name])
            load = sum(rule.amount[pod] for pod in rule.pairs if at[pod] in inside)
            for pod, seconds in rule.pairs.items():
                if at[pod] in gone:
                    heir = next((one for one in seconds if at[one] not in gone), None)
                    load += rule.amount[heir] if heir is not None and at[heir] in inside else 0
            if load > limit:
                yield name, f"has {load} of at most {limit} when {lost} is lost"


def _keep_free(placed: Placed, rule: rules.KeepFreeRule) -> Broken:
    free = dict(zip(placed.site.nodes, placed.site.free(rule.resource).tolist(), strict=True))
    empty = 0
    for name, inside in placed.places(rule.level).items():
        left = sum(free[node] for node in inside) - placed.load(inside, rule.resource)
        empty += placed.count(inside) == 0 and left > 0
        if left < rule.amount:
            yield name, f"keeps {left} {rule.resource} free, not {rule.amount}"
    if empty < rule.places:
        yield rule.level, f"keeps {empty} places without a pod, not {rule.places}"


def _least_use(placed: Placed, rule: rules.LeastUseRule) -> Broken:
    site = placed.site
    chosen = placed.nodes_in(rule.level, rule.places or site.places[rule.level])
    columns = (site.nodes, site.amounts(rule.resource), site.free(rule.resource), site.ready)
    rooms = {node: (int(has), int(left)) for node, has, left, ready in zip(*columns, strict=True) if ready}
    for name, inside in placed.places(rule.level).items():
        if not placed.count(inside) or not inside & chosen:
            continue
        whole, left = (sum(rooms[node][at] for node in inside & rooms.keys()) for at in (0, 1))
        used = whole - left + placed.load(inside, rule.resource)
        if used + Fraction(1, 10**9) < Fraction(rule.fraction) * whole:
            yield name, f"has {used} of {whole} {rule.resource} in use, less than {rule.fraction:g} of them"


def _ratio(placed: Placed, rule: rules.RatioRule) -> Broken:
    for name, inside in placed.places(rule.level).items():
        much, other = (placed.load(inside, resource) for resource in (rule.resource, rule.other))
        if much > rule.times * other:
            yield name, f"uses {much} {rule.resource} beside {other} {rule.other}, over {rule.times} times"


_RULES: Mapping[type, Callable[[Placed, Any], Broken]] = MappingProxyType(
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


def _total(placed: Placed, goal: Goal | tuple[Goal, ...]) -> Fraction:
    parts = (one.weight * Fraction(_GOALS[type(one)](placed, one)) for one in parts_of(goal))
    return sum(parts, Fraction(0))


def _value(placed: Placed, goal: goals.ValueGoal) -> Fraction:
    counted, total = placed.instance.counted(goal), Fraction(0)
    for job, option in placed.got.items():
        total += Fraction(option.value) if job in counted else 0
    for of, on in placed.after.items():
        pods = placed.pods[of]
        for node, number in on.items() if of[0] in counted else ():
            total += number * (Fraction(pods.value) + Fraction(pods.value_at.get(node, 0)))
    stops, moves = _jobs_stopped(placed, goal), _pods_moved(placed, goal)
    return total - Fraction(goal.per_stop) * stops - Fraction(goal.per_move) * moves


def _jobs_stopped(placed: Placed, _: Any) -> int:
    return sum(job.stop_cost for job in placed.instance.jobs if job.id in placed.stopped)


def _pods_stopped(placed: Placed, _: goals.PodsStoppedGoal) -> int:
    return sum(
        max(0, sum(on.values()) - sum(placed.after.get(of, {}).values())) for of, on in placed.before.items()
    )


def _pods_moved(placed: Placed, _: Any) -> int:
    return sum(
        number * (placed.pods[of].move_cost if of in placed.pods else 1)
        for of, number in placed.moved.items()
    )


def _used(placed: Placed, goal: goals.UsedGoal) -> int:
    cost = {placed.site.named(goal.level, name): much for name, much in goal.cost.items()}
    places = enumerate(placed.places(goal.level).values())
    return sum(cost.get(at, 1) for at, inside in places if placed.count(inside))


def _levels_climbed(placed: Placed, _: goals.LevelsClimbedGoal) -> int:
    climbed = 0
    for job, option in placed.got.items():
        for pods in option.pods:
            on = placed.after.get((job, pods.name), {})
            asked = () if pods.preferred is UNSET else placed.site.upwards(pods.preferred)
            climbed += sum(_spans(placed.site, level, on) > 1 for level in asked)
    return climbed


def _left(placed: Placed, goal: goals.LeftGoal) -> int:
    if goal.count == "pods":
        return placed.count(goal.nodes)
    return sum(placed.count([node]) > 0 for node in set(goal.nodes))


def _spread_excess(placed: Placed, goal: goals.SpreadExcessGoal) -> int:
    there = placed.lying(goal.level, goal.by).values()
    return sum(max(0, number - goal.max) for own in there for number in own.values())


def _stranded(placed: Placed, goal: goals.StrandedGoal) -> int:
    needs, lost = needs_of_room(placed.site, goal.needs), 0
    there = {
        resource: dict(zip(placed.site.nodes, placed.site.free(resource).tolist(), strict=True))
        for resource in needs
    }
    for inside in placed.places(goal.level).values():
        without, after = [], []
        for resource, need in needs.items():
            free = sum(there[resource][node] for node in inside)
            without.append(free // need)
            after.append((free - placed.load(inside, resource)) // need)
        lost += min(without) - max(0, min(after))
    return lost


def _together_excess(placed: Placed, goal: goals.TogetherExcessGoal) -> int:
    there = placed.lying(goal.level, goal.by).values()
    return sum(max(0, len(used) - goal.max_places) for used in there)


def _balance(placed: Placed, goal: goals.BalanceGoal) -> int:
    has = dict(zip(placed.site.nodes, placed.site.amounts(goal.resource).tolist(), strict=True))
    sizes = {name: sum(has[node] for node in inside) for name, inside in placed.places(goal.level).items()}
    places = {name: inside for name, inside in placed.places(goal.level).items() if sizes[name]}
    if not places:
        return 0
    now = [
        Fraction(placed.load(inside, goal.resource, placed.before), sizes[name])
        for name, inside in places.items()
    ]
    above = Fraction(goal.threshold) * sum(now) / len(places)
    over = [
        math.ceil(max(Fraction(0), Fraction(placed.load(inside, goal.resource), sizes[name]) - above) * 10**5)
        for name, inside in places.items()
    ]
    return max(over) if goal.form == "max" else sum(over)


_GOALS: Mapping[type, Callable[[Placed, Any], int | Fraction]] = MappingProxyType(
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
