"""What is wrong with a placement instance whose fields have the right types: what its names refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from apportion.core.errors import Problem, did_you_mean
from apportion.instances.fields import LARGEST_COUNT, check_distinct, remade
from apportion.instances.placement.goals import Goals, StrandedGoal, ValueGoal, is_much, parts_of
from apportion.instances.placement.rules import LeastUseRule
from apportion.instances.placement.schema import (
    WAITS,
    PlacementInstance,
    PlacementJob,
    PlacementOption,
    PlacementPods,
)
from apportion.instances.placement.site import PODS, Site, site_of
from apportion.instances.tenants.ledger import is_tenanted
from apportion.instances.tenants.rules import check_tenants

__all__ = ["groups_of", "named_places", "noted", "selected_pods", "without_job", "without_lost_places"]


def selected(jobs: Iterable[PlacementJob], name: str) -> list[tuple[PlacementJob, str | None]]:
    """Return the job of ``"job"`` with ``None``, or of ``"job/pods"`` with the pods' name; empty for none."""
    found = list[tuple[PlacementJob, str | None]]()
    for job in jobs:
        if name == job.id:
            found.append((job, None))
        elif name.startswith(f"{job.id}/"):
            pods = name.removeprefix(f"{job.id}/")
            if any(one.name == pods for option in job.options for one in option.pods):
                found.append((job, pods))
    return found


def selected_pods(jobs: Sequence[PlacementJob], names: Iterable[str]) -> set[tuple[str, str]]:
    """Return the pods that a rule names, by job and name."""
    return {
        (job.id, one.name)
        for name in names
        for job, pods in selected(jobs, name)
        for option in job.options
        for one in option.pods
        if pods in (None, one.name)
    }


def groups_of(jobs: Iterable[PlacementJob], by: str | UnsetType) -> dict[str, set[str]]:
    """Return the jobs of every group, all of them as one where there is no grouping."""
    found: dict[str, set[str]] = {} if by is not UNSET else {"all": set()}
    for job in jobs:
        group = "all" if by is UNSET else job.id if by == "job" else job.labels.get(by)
        if group is not None:
            found.setdefault(group, set()).add(job.id)
    return found


def noted(instance: PlacementInstance, problems: list[Problem]) -> None:
    """Note every problem of an instance whose fields have the right types."""
    if not instance.levels:
        problems.append(Problem("$.levels", "must name one level at least, that of the nodes"))
        return
    every = [*instance.levels, *(level for branch in instance.branches[1:] for level in branch)]
    check_distinct("$.levels", every, "level", problems)
    for at, branch in enumerate(instance.branches[1:]):
        if not branch:
            problems.append(Problem(f"$.trees[{at}]", "must name one level at least, above the nodes"))
    site = site_of(instance, problems)
    check_distinct("$.nodes", site.nodes, "node", problems)
    check_distinct("$.jobs", [job.id for job in instance.jobs], "job id", problems)
    if problems:
        return
    for at, job in enumerate(instance.jobs):
        _noted_job(f"$.jobs[{at}]", job, site, problems)
    for at, rule in enumerate(instance.rules):
        _noted_rule(f"$.rules[{at}]", rule, instance, site, problems)
    _noted_goals(instance.wanted, instance, site, problems)
    if is_tenanted(instance):
        for at, job in enumerate(instance.jobs):
            _noted_elastic(f"$.jobs[{at}]", job, problems)
        check_tenants(instance, site.free_together(), problems, rates=is_much(instance.wanted[0]))


def _noted_job(path: str, job: PlacementJob, site: Site, problems: list[Problem]) -> None:
    """Note what is wrong with one job, whatever the others are."""
    check_distinct(f"{path}.options", [option.id for option in job.options], "option id", problems)
    if "/" in job.id:
        problems.append(Problem(f"{path}.id", "must have no slash: job/pods names pods of a job"))
    for at, option in enumerate(job.options):
        _noted_option(f"{path}.options[{at}]", option, site, problems)
    names = [option.id for option in job.options]
    if WAITS in names:
        said = f"must not be called {WAITS!r}: that is what a job does which gets no option"
        problems.append(Problem(f"{path}.options[{names.index(WAITS)}].id", said))
    for field, given in (("pinned", job.pinned), *(("forbidden", name) for name in job.forbidden)):
        if given is not None and given not in names:
            said = f"{given!r} is not an option of this job{did_you_mean(given, names)}"
            problems.append(Problem(f"{path}.{field}", said))
    alike: dict[str, PlacementPods] = {}
    for at, option in enumerate(job.options):
        for number, pods in enumerate(option.pods):
            first = alike.setdefault(pods.name, pods)
            if (first.needs, first.move_cost) != (pods.needs, pods.move_cost):
                said = (
                    f"{pods.name!r} is the name of other pods in another option: they are not the same pods"
                )
                problems.append(Problem(f"{path}.options[{at}].pods[{number}].name", said))
    if job.current is not None:
        if job.fixed and job.current.option not in names:
            problems.append(Problem(f"{path}.fixed", "holds it to an option that is not on its menu"))
        total = sum(sum(on.values()) for on in job.current.on.values())
        if total > LARGEST_COUNT:
            problems.append(Problem(f"{path}.current.on", f"must be at most {LARGEST_COUNT} pods"))


def _noted_elastic(path: str, job: PlacementJob, problems: list[Problem]) -> None:
    """Note pods of which some may have no node: what a tenant uses is what its jobs' options say."""
    for at, option in enumerate(job.options):
        for number, pods in enumerate(option.pods):
            if pods.fewest != pods.count:
                said = "does not go together with tenants: give the job an option for every count"
                problems.append(Problem(f"{path}.options[{at}].pods[{number}].least", said))


def _noted_option(path: str, option: PlacementOption, site: Site, problems: list[Problem]) -> None:
    check_distinct(f"{path}.pods", [pods.name for pods in option.pods], "name of pods", problems)
    _noted_level(f"{path}.required", option.required, site, problems)
    for at, pods in enumerate(option.pods):
        where = f"{path}.pods[{at}]"
        _noted_level(f"{where}.required", pods.required, site, problems)
        _noted_level(f"{where}.preferred", pods.preferred, site, problems)
        if pods.fewest > pods.count:
            problems.append(Problem(f"{where}.least", f"must be at most count, {pods.count}"))
        for level, size in pods.slices.items():
            _noted_level(f"{where}.slices", level, site, problems)
            if size < 1 or pods.count % size:
                said = f"must be at least 1 and divide count, {pods.count}"
                problems.append(Problem(f"{where}.slices.{level}", said))
        for node in pods.value_at:
            if node not in site.number:
                problems.append(Problem(f"{where}.value_at.{node}", "is not one of the nodes"))
        for resource in pods.needs:
            if resource == PODS:
                problems.append(Problem(f"{where}.needs.pods", "must not be given: every pod takes one"))
            elif resource not in site.resources and (meant := did_you_mean(resource, site.resources)):
                # without a namesake it may be what lost nodes had: such pods have no node
                said = f"no node has any{meant} (where its nodes are gone, give another node 0 of it)"
                problems.append(Problem(f"{where}.needs.{resource}", said))


def _noted_level(path: str, level: Any, site: Site, problems: list[Problem]) -> None:
    if level is not UNSET and level not in site.levels:
        problems.append(
            Problem(path, f"{level!r} is not one of the levels{did_you_mean(level, site.levels)}")
        )


def _noted_rule(
    path: str, rule: Any, instance: PlacementInstance, site: Site, problems: list[Problem]
) -> None:
    """Note what a rule, or a goal, refers to that is not there."""
    before = len(problems)
    level = getattr(rule, "level", UNSET)
    _noted_level(f"{path}.level", level, site, problems)
    for field in ("resource", "other"):
        resource = getattr(rule, field, None)
        if resource is not None and resource not in (PODS, *site.resources):
            said = f"no node has any {resource!r}{did_you_mean(resource, site.resources)}"
            problems.append(Problem(f"{path}.{field}", said))
    nodes: list[tuple[str, Iterable[str]]] = [("nodes", getattr(rule, "nodes", ()))]
    if hasattr(rule, "to"):
        nodes.append(("to", tuple(rule.to.values())))
    for field, names in nodes:
        for name in names:
            if name not in site.number:
                problems.append(
                    Problem(f"{path}.{field}", f"{name!r} is no node{did_you_mean(name, site.nodes)}")
                )
    pods: list[tuple[str, Iterable[str]]] = [("pods", getattr(rule, "pods", ()))]
    if hasattr(rule, "to"):
        pods.append(("to", rule.to))
    if isinstance(getattr(rule, "amount", 0), dict):
        pods += [("amount", rule.amount), ("pairs", rule.pairs)]
        pods.append(("pairs", [name for those in rule.pairs.values() for name in those]))
        for name in {*rule.pairs, *(name for those in rule.pairs.values() for name in those)}:
            if name not in rule.amount:
                problems.append(Problem(f"{path}.amount", f"must say how much {name!r} takes"))
    for field, names in pods:
        for name in names:
            those = selected(instance.jobs, name)
            if not those:
                problems.append(Problem(f"{path}.{field}", f"{name!r} is no job, and no job/pods"))
            if field in ("amount", "pairs") and not all(_is_one_pod(*one) for one in those):
                problems.append(Problem(f"{path}.{field}", f"{name!r} must be one pod: name job/pods"))
    if len(problems) > before or level is UNSET:
        return
    for field, names in named_places(rule).items():
        for name in names:
            if site.named(level, name) is None:
                said = f"{name!r} is no {level}, or several{did_you_mean(name, site.places[level])}"
                problems.append(Problem(f"{path}.{field}", said))


def named_places(rule: Any) -> dict[str, Iterable[str]]:
    """Return the places of its level that a rule or a goal names, by field."""
    given = {field: getattr(rule, field, None) for field in ("places", "limits", "cost")}
    found: dict[str, Iterable[str]] = {
        field: names for field, names in given.items() if isinstance(names, tuple | dict)
    }
    if hasattr(rule, "main"):
        found |= {"main": [rule.main], "spare": [rule.spare]}
    if isinstance(getattr(rule, "pairs", None), tuple):
        found["pairs"] = [name for pair in rule.pairs for name in pair]
    return found


def without_lost_places(instance: PlacementInstance) -> PlacementInstance:
    """Return an instance some of whose nodes are gone without what it says of these and of their places.

    What cannot be kept without them stays and is a problem of the instance: a pod that must come to a node, a
    place that stands in for another.
    """
    site = site_of(instance)

    def present(one: Any) -> Any:
        found = {"nodes": _left(one.nodes, site.number.__contains__)} if hasattr(one, "nodes") else {}
        for field, names in named_places(one).items():
            gone = {name for name in names if site.named(one.level, name) is None}
            given = getattr(one, field)
            if field == "pairs":
                found[field] = tuple(pair for pair in given if gone.isdisjoint(pair))
            elif not isinstance(given, str):
                found[field] = _left(given, {*names}.difference(gone).__contains__)
        emptied = isinstance(one, LeastUseRule) and one.places and not found.get("places", one.places)
        return None if emptied else remade(one, **found)

    def worth(pods: PlacementPods) -> PlacementPods:
        return remade(pods, value_at=_left(pods.value_at, site.number.__contains__))

    jobs = []
    for job in instance.jobs:
        every = {node for option in job.options for pods in option.pods for node in pods.value_at}
        if every <= site.number.keys():
            jobs.append(job)
            continue
        options = [remade(option, pods=tuple(map(worth, option.pods))) for option in job.options]
        jobs.append(remade(job, options=tuple(options)))
    return remade(_each_changed(instance, present), jobs=tuple(jobs))


def without_job(instance: PlacementInstance, name: str) -> PlacementInstance:
    """Return an instance without what its rules and goals say of one job, which need not be among its own."""

    def is_other(pods: str) -> bool:
        return pods.partition("/")[0] != name

    def of_others(one: Any) -> Any:
        found = {
            field: _left(getattr(one, field), is_other) for field in ("pods", "to") if hasattr(one, field)
        }
        if isinstance(getattr(one, "amount", None), Mapping):
            heirs = {pods: _left(those, is_other) for pods, those in one.pairs.items()}
            found |= {"amount": _left(one.amount, is_other), "pairs": _left(heirs, is_other)}
        return remade(one, **found)

    return _each_changed(instance, of_others)


def _each_changed(instance: PlacementInstance, change: Callable[[Any], Any]) -> PlacementInstance:
    """Return an instance whose rules and goals are changed one by one; ``None`` for a rule takes it away."""
    rules = tuple(one for rule in instance.rules if (one := change(rule)) is not None)
    if instance.goals is UNSET:
        return remade(instance, rules=rules)
    goals = [tuple(map(change, goal)) if isinstance(goal, tuple) else change(goal) for goal in instance.goals]
    return remade(instance, rules=rules, goals=tuple(goals))


def _left(given: Any, keep: Callable[[Any], bool]) -> Any:
    """Return the names of a tuple, or the names of a mapping with what they stand for, that are kept."""
    if isinstance(given, Mapping):
        return {name: value for name, value in given.items() if keep(name)}
    return tuple(filter(keep, given))


def _is_one_pod(job: PlacementJob, name: str | None) -> bool:
    own = [pods for option in job.options for pods in option.pods if name in (None, pods.name)]
    return all(pods.count == 1 for pods in own) and len({pods.name for pods in own}) == 1


def _fractions(jobs: Sequence[PlacementJob]) -> Iterator[Problem]:
    """Yield which values are no whole numbers: a goal that is not the first is counted in these."""
    for at, job in enumerate(jobs):
        for number, option in enumerate(job.options):
            path = f"$.jobs[{at}].options[{number}]"
            values = {f"{path}.value": option.value}
            for place, pods in enumerate(option.pods):
                together = pods.count if pods.fewest == pods.count else 1
                values[f"{path}.pods[{place}].value"] = together * pods.value
                values |= {
                    f"{path}.pods[{place}].value_at.{node}": one for node, one in pods.value_at.items()
                }
            for field, value in values.items():
                if not float(value).is_integer():
                    yield Problem(field, "must be a whole number where value is not the first goal")


def _noted_goals(goals: Goals, instance: PlacementInstance, site: Site, problems: list[Problem]) -> None:
    if not goals:
        problems.append(Problem("$.goals", "must name one goal at least"))
    for at, entry in enumerate(goals):
        several = isinstance(entry, tuple | list)
        for one in parts_of(entry):
            _noted_rule(f"$.goals[{at}]", one, instance, site, problems)
            if isinstance(one, StrandedGoal) and not any(one.needs.values()):
                problems.append(Problem(f"$.goals[{at}].needs", "must need something"))
            if at and isinstance(one, ValueGoal) and one.least_priority is UNSET:
                problems += _fractions(instance.jobs)
            if several and isinstance(one, ValueGoal):
                said = "value stands alone: it is wanted much, the others little"
                problems.append(Problem(f"$.goals[{at}]", said))
        if not parts_of(entry):
            problems.append(Problem(f"$.goals[{at}]", "must name one goal at least"))
