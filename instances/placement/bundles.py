"""Nodes where the same pods may be, worth the same, taken together: how many lie there first.

A bundle has what its nodes have in sum, and room for as many pods as they have one by one; pods that need l
or more of a resource are at most as many as there are l free on each node. That is a relaxation: on which
node of its bundle a pod lies is asked afterwards, and may have no answer. Nodes that an instance names, to
say what runs there or what is to be there, stay by themselves.

The nodes of a bundle are of one place of every level. Where nothing but the pods' own required level speaks
of places they are of all places: that the pods of a job share one is then counted, and asked afterwards too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import force_setattr

from apportion.instances.placement import rules
from apportion.instances.placement.choosers import MOST_SHAPES, program
from apportion.instances.placement.consistency import named_places
from apportion.instances.placement.goals import is_all_value, parts_of
from apportion.instances.placement.program import Form, Integers, Program, Row, summed
from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
    PlacementOption,
    PlacementPods,
)
from apportion.instances.placement.site import PODS, Site, pairs_of_options, site_of
from apportion.models.pods import NodeContents

__all__ = [
    "BY_BUNDLE",
    "MOST_WEIGHT",
    "BundledSite",
    "bundled_program",
    "bundled_site",
    "is_huge",
    "leaves_shapes",
    "limiting_rows",
    "pairs_of_pods",
    "shared_level",
    "sharing_rows",
    "takes_bundles",
    "weights_in",
    "weights_row",
]

BY_BUNDLE = "by bundle"
"""The row of nothing that tells rows over bundles."""
_FEWER = 4
"""So many times fewer bundles than nodes make them worth it."""
_MANY_PODS = 200
"""Pairs of a pod and a node from which on nodes are taken together."""
_MANY, _MANY_UNLIKE, _MANY_ACROSS = 10_000, 100_000, 1_500
"""Pairs of an option and a node from which on shapes close nothing more: of alike nodes, others, all."""
_MANY_LIMITED, _MANY_LIMITED_ALIKE = 500_000, 2_000_000
"""Pairs from which on that is done where places are limited too, which then narrows the nodes: any, alike."""
_MOST_BUNDLES = 8
"""Bundles up to which the sets of pods that their nodes can hold are priced."""
_ALL_SHAPES, _FEWEST_SHAPES = 400_000, 64
"""Placed shapes of all jobs together, and of one job in any case."""
_HUGE = 1_000_000
"""Pairs of an option and a node from which on placed shapes are not listed to check a bound."""
_OF_NAMED_PLACES = (rules.ApartRule, rules.AvoidRule, rules.ClosedRule, rules.LimitRule, rules.RequireRule)
"""Rules of the places that they name, and of no other."""
MOST_WEIGHT = 2**26
"""The greatest weight of a pod: the sums of all nodes stay far below 2^63."""


@dataclass(frozen=True, kw_only=True)
class BundledSite(Site):
    """A site whose nodes are bundles of the nodes of another one.

    Attributes
    ----------
    fine
        The site with every node.
    bundle
        int64 [nodes of `fine`]: the bundle of every node.
    across
        The levels of several places that have nodes in one bundle.
    has_patterns
        Whether what lies together on nodes can be priced: nothing but nodes and shared places limits pods,
        and bundles are few.
    kept
        Jobs that stay as they are: their pods count as used by others.
    used, worth
        By resource int64 [nodes of `fine`]: what these use, all of a node to be drained; what they are worth.
    lying
        By resource int64 [nodes of `fine`]: what jobs that stay take, drained nodes aside.
    place_limits
        The rules by which places that bundles are across hold no more than so much.
    """

    fine: Site
    bundle: Integers
    across: tuple[str, ...] = ()
    has_patterns: bool = False
    kept: tuple[PlacementJob, ...] = ()
    used: Mapping[str, Integers] = field(default_factory=dict)
    worth: Fraction = Fraction(0)
    lying: Mapping[str, Integers] = field(default_factory=dict)
    place_limits: tuple[rules.LimitRule, ...] = ()
    _rooms: dict[Any, Integers] = field(default_factory=dict, compare=False)

    @cached_property
    def sizes(self) -> Integers:
        """How many nodes every bundle has, int64 [bundles]."""
        return np.bincount(self.bundle, minlength=len(self.nodes))

    @cached_property
    def members(self) -> tuple[Integers, ...]:
        """Of every bundle its nodes."""
        order = np.argsort(self.bundle, kind="stable")
        ends = np.cumsum(np.bincount(self.bundle, minlength=len(self.nodes)))
        return tuple(np.split(order, ends[:-1]))

    @cached_property
    def number(self) -> dict[str, int]:
        """The bundle of every node by the node's name."""
        return dict(zip(self.fine.nodes, self.bundle.tolist(), strict=True))

    def amounts(self, resource: str) -> Integers:
        """Return int64 [bundles]: what the nodes of every bundle have."""
        return self._sums(self.fine.amounts(resource))

    def free(self, resource: str) -> Integers:
        """Return int64 [bundles]: what others do not use on the nodes of every bundle."""
        return self._sums(self._free[resource] if resource in self._free else self.fine.free(resource))

    def rooms(self, pods: PlacementPods, free: Mapping[str, Integers]) -> Integers:
        """Return int64 [bundles]: how many such pods there can be in every bundle, node by node."""
        del free  # that of the nodes decides, not their sum
        asked = pods.count, *map(frozenset, (pods.needs.items(), pods.selector.items(), pods.tolerates))
        if asked not in self._rooms:
            self._rooms[asked] = np.minimum(self._sums(self.fine.rooms(pods, self._free)), pods.count)
        return self._rooms[asked]

    def value_at(self, pods: PlacementPods, node: int) -> float:
        """Return what such a pod adds to the value at any node of a bundle."""
        return self.fine.value_at(pods, int(self.members[node][0]))

    def counted(self, resource: str, needs: Integers) -> list[tuple[int, int, int]]:
        """Return bundle, need l and how often l is free there, wherever the sum does not say as much.

        Parameters
        ----------
        resource
            The resource.
        needs
            What pods need of it.
        """
        found, free = list[tuple[int, int, int]](), self._free[resource]
        if self.has_patterns:  # weights of pods say it better
            return found
        for need in np.unique(needs[needs > 1]).tolist():
            often, left = self._sums(free // need), self._sums(free % need)
            some = np.flatnonzero((left > 0) & np.array([one.size > 1 for one in self.members]))
            found += [(at, need, int(often[at])) for at in some.tolist()]
        return found

    @cached_property
    def is_alike(self) -> bool:
        """Whether the nodes of every bundle have the same free."""
        first = np.array([one[0] for one in self.members])
        return all(bool((free == free[first][self.bundle]).all()) for free in self._free.values())

    @cached_property
    def free_by_node(self) -> Integers:
        """int64 [nodes of `fine`, limited resources]: what others do not use."""
        return np.stack([self._free[resource] for resource in self.fine.limited], axis=1)

    @cached_property
    def under(self) -> list[tuple[str, list[tuple[Integers, int]]]]:
        """By rule of `place_limits` its resource, the nodes of every place, and how much more these hold."""
        return [
            (
                rule.resource,
                [
                    (nodes, limit - int(self.lying[rule.resource][nodes].sum()))
                    for name, limit in rule.limits.items()
                    for nodes in [np.flatnonzero(self.fine.inside(rule.level, [name]))]
                ],
            )
            for rule in self.place_limits
        ]

    def narrowed(self, runs: Integers) -> Integers:
        """Return int64 [nodes of `fine`, limited resources]: what keeps every limit wherever pods lie.

        Of every limited place so much of its nodes is left out that no more than the limit remains: first of
        those on which nobody runs, and of those with little left.

        Parameters
        ----------
        runs
            int64 [nodes of `fine`]: how many pods run there.
        """
        left = self.free_by_node.copy()
        for resource, places in self.under:
            own = left[:, self.fine.limited.index(resource)]
            for nodes, limit in places:
                order = nodes[np.lexsort((own[nodes], runs[nodes]))]
                gone = np.cumsum(own[order]) - own[order]
                own[order] -= np.clip(int(own[nodes].sum()) - limit - gone, 0, own[order])
        return left

    @cached_property
    def _free(self) -> dict[str, Integers]:
        return {name: self.fine.free(name) - self.used.get(name, 0) for name in self.fine.limited}

    def _sums(self, each: Integers) -> Integers:
        found = np.zeros(len(self.nodes), dtype=np.int64)
        np.add.at(found, self.bundle, each)
        return found


def bundled_site(instance: PlacementInstance) -> BundledSite | None:
    """Return the site of an instance by bundles; ``None`` where it speaks of single nodes as a level."""
    fine = site_of(instance)
    if instance.levels and _names_level(instance, instance.levels[-1]):
        return None
    if _asks_of_places_by_job(instance) and _needs_one_resource(instance, fine):
        within = _bundled(instance, fine, across=True)
        kept = _kept(instance, fine)
        if kept is not None and all(
            _is_one_each(fine.place[level], within.bundle) for level in within.across
        ):
            few = len(within.nodes) <= _MOST_BUNDLES
            limits = tuple(rule for rule in instance.rules if isinstance(rule, rules.LimitRule))
            found = replace(within, has_patterns=few, place_limits=limits, **kept)
            if all(limit >= 0 for _, places in found.under for _, limit in places):
                return found
    return _bundled(instance, fine, across=False)


def _bundled(instance: PlacementInstance, fine: Site, *, across: bool) -> BundledSite:
    """Return the bundles of the nodes of one place of every level, or of nodes across these places."""
    alone, upper = _named_nodes(instance, fine, across=across), fine.levels[:-1]
    worth = _worth_at(instance)
    places = [] if across else [fine.place[level].tolist() for level in upper]
    admits = [
        (tuple(sorted(group.labels.items())), frozenset(group.taints), group.ready, frozenset(group.capacity))
        for group in fine.groups
    ]
    bundles: dict[Any, int] = {}
    of = []
    for at, (name, group) in enumerate(zip(fine.nodes, fine.group.tolist(), strict=True)):
        key = at if name in alone else (admits[group], worth.get(name), *(place[at] for place in places))
        of.append(bundles.setdefault(key, len(bundles)))
    bundle = np.array(of, dtype=np.int64)
    first, size = np.unique(bundle, return_index=True)[1], np.bincount(bundle)
    names = tuple(
        fine.nodes[at] + (f" and {number - 1} more" if number > 1 else "")
        for at, number in zip(first.tolist(), size.tolist(), strict=True)
    )
    place = {level: fine.place[level][first] for level in upper}
    named = {level: fine.places[level] for level in upper}
    for level in fine.levels if across else fine.levels[-1:]:
        place[level], named[level] = np.arange(len(names), dtype=np.int64), names
    return BundledSite(
        fine.levels,
        fine.branches,
        names,
        fine.group[first],
        fine.groups,
        place,
        named,
        fine=fine,
        bundle=bundle,
        across=upper if across else (),
    )


def _kept(instance: PlacementInstance, fine: Site) -> dict[str, Any] | None:
    """Return what a `BundledSite` knows of jobs that must stay; ``None`` if these cannot."""
    jobs = tuple(job for job in instance.jobs if job.fixed and job.current is not None)
    if has_anti_affinity(instance) and any(
        count > 1 for job in jobs if job.current for on in job.current.on.values() for count in on.values()
    ):
        return None
    lying, worth = {name: np.zeros(len(fine.nodes), dtype=np.int64) for name in fine.limited}, Fraction(0)
    gone = np.isin(fine.nodes, [node for rule in instance.rules for node in getattr(rule, "nodes", ())])
    drained = {name: np.where(gone, fine.free(name), 0) for name in fine.limited}
    if jobs:
        made, _ = program(_with_jobs(instance, jobs), 1, fine)
        _, of, node, count = made.placed
        for name, own in lying.items():
            need = np.array([one.pods.takes(name) for one in made.classes], dtype=np.int64)
            np.add.at(own, node, count * need[of])
        worth = sum(made.values, worth)
        if len(made.labels) != len(jobs):
            return None
    used = {name: own + drained[name] for name, own in lying.items()}
    if any((own > fine.free(name)).any() for name, own in used.items()):
        return None
    return {"kept": jobs, "lying": lying, "used": used, "worth": worth}


def _with_jobs(instance: PlacementInstance, jobs: tuple[PlacementJob, ...]) -> PlacementInstance:
    """Return an instance with some of its jobs alone."""
    found = copy(instance)
    force_setattr(found, "jobs", jobs)
    return found


def _needs_one_resource(instance: PlacementInstance, fine: Site) -> bool:
    """Return whether there is a resource of which every pod needs some: what fits on a node is listed."""
    pods = [pods for job in instance.jobs for option in job.options for pods in option.pods]
    return any(all(one.takes(resource) > 0 for one in pods) for resource in fine.limited)


def _is_one_each(place: Integers, bundle: Integers) -> bool:
    """Return whether the nodes of every place are of one bundle."""
    pairs = np.unique(np.stack((place, bundle)), axis=1)[0]
    return bool(np.unique(pairs).size == pairs.size)


def bundled_program(instance: PlacementInstance) -> tuple[Program, list[Form]]:
    """Return choosers, rows and goals of an instance over bundles; over nodes where it has no bundles.

    The more jobs there are, the fewer placed shapes has one that is a single chooser.
    """
    most = max(_FEWEST_SHAPES, min(MOST_SHAPES, _ALL_SHAPES // max(1, len(instance.jobs))))
    site = bundled_site(instance)
    if site is not None and site.kept:
        kept = {job.id for job in site.kept}
        others = tuple(job for job in instance.jobs if job.id not in kept)
        made, forms = program(_with_jobs(instance, others), most, site)
        forms[0] = forms[0] + Form.of([], 1, site.worth)
    else:
        made, forms = program(instance, most, site)
    made.told_by = BY_BUNDLE
    made.rows += sharing_rows(made) + limiting_rows(made)
    return made, forms


def sharing_rows(made: Program) -> list[Row]:
    """Return rows that count the pods that share a place which bundles do not tell.

    Of every place it is known how many pods fit there that need no more of anything than any of these pods. A
    job of k pods takes floor(k / l) times l of them: of these, each place has so many, for every l.
    """
    site, found = made.site, list[Row]()
    if not isinstance(site, BundledSite) or not site.across:
        return found
    kinds, (column, of, bundle, count) = made.kinds, made.placed
    levels = np.array([shared_level(one.option) for one in made.classes], dtype=object)
    for level, at in product(site.across, range(len(site.nodes))):
        own = np.flatnonzero((levels == level)[of] & (bundle == at))
        columns, entries = np.unique(column[own], return_inverse=True)
        pods = np.bincount(entries, count[own], columns.size).astype(np.int64)
        gangs = pods > 1
        if not gangs.any():
            continue
        least = kinds.needs[kinds.of[own[gangs[entries]]]].min(axis=0)
        members = site.members[at]
        fit = (site.free_by_node[members][:, least > 0] // least[least > 0]).min(
            axis=1, initial=int(pods.sum())
        )
        each = np.zeros(len(site.fine.places[level]), dtype=np.int64)
        np.add.at(each, site.fine.place[level][members], fit)
        for size in np.unique(pods[gangs]).tolist():
            some = pods >= size
            form = Form.of(columns[some], pods[some] // size)
            name = f"{size} pods in one {level} of {site.nodes[at]}"
            found.append(Row(name, form, int((each // size).sum())))
    return found


def limiting_rows(made: Program) -> list[Row]:
    """Return rows by which the pods of a bundle take no more than all its places together may hold."""
    site, found = made.site, list[Row]()
    if not isinstance(site, BundledSite):
        return found
    column, of, bundle, count = made.placed
    for number, (resource, places) in enumerate(site.under, 1):
        need = np.array([one.pods.takes(resource) for one in made.classes], dtype=np.int64)
        free = site.free_by_node[:, site.fine.limited.index(resource)]
        for at, name in enumerate(site.nodes):
            room = int(free[site.members[at]].sum())
            for nodes, limit in places:
                if site.bundle[nodes[0]] == at:
                    room -= max(0, int(free[nodes].sum()) - limit)
            own = bundle == at
            form = summed(column[own], (count * need[of])[own])
            found.append(Row(f"{resource} within limit {number} at {name}", form, room))
    return found


_WEIGHTS = "pods of weight "


def weights_row(made: Program, bundle: str, weights: Sequence[int]) -> Row:
    """Return the row by which pods weigh no more than the heaviest sets that the nodes of a bundle can hold.

    Parameters
    ----------
    made
        A program over bundles.
    bundle
        The bundle.
    weights
        What a pod of each of its kinds weighs, in the order of `Program.kinds`; not negative.

    Raises
    ------
    ValueError
        Where there is no such bundle, these are not as many weights, or the heaviest sets are not known.
    """
    site, kinds = made.site, made.kinds
    if not isinstance(site, BundledSite):
        raise ValueError("there are no bundles")
    at = site.nodes.index(bundle)
    own = np.flatnonzero(kinds.node == at)
    each = np.zeros(len(kinds.needs), dtype=np.int64)
    each[own] = weights
    contents = NodeContents(kinds.needs[own], site.free_by_node[site.members[at]])
    if not contents.is_listed or min(weights, default=0) < 0 or max(weights, default=0) > MOST_WEIGHT:
        raise ValueError(f"no weights of pods at {bundle}")
    room = int(contents.most(each[own]) @ contents.number)
    column, _, _, count = made.placed
    some = kinds.node[kinds.of] == at
    form = summed(column[some], count[some] * each[kinds.of[some]])
    return Row(f"{_WEIGHTS}{','.join(map(str, weights))} at {bundle}", form, room)


def weights_in(names: Iterable[str]) -> dict[str, list[int]]:
    """Return by bundle the weights that names of rows tell, see `weights_row`."""
    found = {}
    for name in names:
        listed, _, bundle = name.removeprefix(_WEIGHTS).partition(" at ")
        if name.startswith(_WEIGHTS) and re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", listed):
            found[bundle] = [int(one) for one in listed.split(",")]
    return found


def takes_bundles(instance: PlacementInstance) -> bool:
    """Return whether an instance has so many nodes for its pods that bundles are worth it."""
    site = bundled_site(instance)
    if site is None or _FEWER * len(site.nodes) > len(site.fine.nodes):
        return False
    return pairs_of_pods(instance, site.fine) >= _MANY_PODS


def leaves_shapes(instance: PlacementInstance) -> bool:
    """Return whether an instance with bundles has so few nodes that placed shapes may close what they leave.

    Bundles do not tell who moves, and nodes that are not alike in what they have free leave a weaker bound.
    """
    site = bundled_site(instance)
    if site is None:
        return False
    runs = any(job.current is not None for job in instance.jobs)
    most = _MANY if site.is_alike else _MANY_UNLIKE
    if site.has_patterns:
        limited = any(isinstance(rule, rules.MaxMovesRule) for rule in instance.rules)
        most = _MANY if limited or (runs and not site.is_alike) else _MANY_ACROSS
    return pairs_of_options(instance, site.fine) < most


def is_huge(instance: PlacementInstance) -> bool:
    """Return whether an instance that has bundles has so many nodes that its bound is by these alone."""
    names_nodes = instance.levels and _names_level(instance, instance.levels[-1])
    return not names_nodes and pairs_of_options(instance, site_of(instance)) >= _HUGE


def pairs_of_pods(instance: PlacementInstance, fine: Site) -> int:
    """Return how many pairs of a pod, of every option of every job, and a node there are."""
    pods = (one.count for job in instance.jobs for option in job.options for one in option.pods)
    return sum(pods) * len(fine.nodes)


def _asked(instance: PlacementInstance) -> list[Any]:
    """Return the rules that bundles may break, and the goals, those of sums one by one."""
    return [*_breakable(instance), *(part for goal in instance.wanted for part in parts_of(goal))]


def _breakable(instance: PlacementInstance) -> list[Any]:
    """Return the rules but for those of anti-affinity that every bundle keeps."""
    return [rule for rule in instance.rules if not _is_anti_affinity(rule, instance)]


def _named_nodes(instance: PlacementInstance, fine: Site, *, across: bool) -> set[str]:
    """Return the nodes that goals name, in bundles of one place also those of rules and of running jobs.

    Of jobs that run only those that must stay, if value comes before who moves.
    """
    found = set[str]()
    bound = not _are_free_to_move(instance)
    for job in () if across else instance.jobs:
        if job.current is not None and (bound or job.fixed):
            found.update(*job.current.on.values())
    for one in (goal for goal in _asked(instance) if not (across and isinstance(goal, rules.DrainRule))):
        found.update(getattr(one, "nodes", ()))
        if isinstance(one, _OF_NAMED_PLACES) and one.level == instance.levels[-1]:
            level, names = one.level, (name for some in named_places(one).values() for name in some)
            found.update(fine.nodes[at] for at in np.flatnonzero(fine.inside(level, names)))
        to = getattr(one, "to", {})
        found.update(to.values() if isinstance(to, Mapping) else ())
    return found


def _worth_at(instance: PlacementInstance) -> dict[str, tuple[tuple[int, float], ...]]:
    """Return what pods are worth at nodes beside their value: by node, which pods and how much."""
    each = (pods.value_at for job in instance.jobs for option in job.options for pods in option.pods)
    found: dict[str, list[tuple[int, float]]] = {}
    for at, worths in enumerate(each):
        for node, worth in worths.items():
            found.setdefault(node, []).append((at, worth))
    return {node: tuple(own) for node, own in found.items()}


def shared_level(option: PlacementOption) -> str | UnsetType | None:
    """Return the level of which all pods of an option share a place, if any; ``None`` where pods differ."""
    asked = {pods.required for pods in option.pods} if len(option.pods) > 1 else set()
    single = option.pods[0].required if len(option.pods) == 1 else UNSET
    if asked - {UNSET} or (single is not UNSET and option.required is not UNSET):
        return None
    return option.required if single is UNSET else single


def _asks_of_places_by_job(instance: PlacementInstance) -> bool:
    """Return whether all that is asked of places is that pods of an option share one, or leave some nodes.

    Where jobs run, value must be the first goal: bundles do not tell who moves.
    """
    limits = [rule for rule in instance.rules if isinstance(rule, rules.LimitRule)]
    levels = any(hasattr(one, "level") for one in _asked(instance) if one not in limits)
    if limits and not _limits_loads(instance, limits):
        return False
    if levels or not all(map(_leaves_places, _breakable(instance))):
        return False
    if not is_all_value(instance.wanted[0]) and any(job.current is not None for job in instance.jobs):
        return False
    options = [option for job in instance.jobs for option in job.options]
    asked = (pods for option in options for pods in option.pods)
    return all(pods.preferred is UNSET and not pods.slices for pods in asked) and all(
        shared_level(option) is not None for option in options
    )


def _limits_loads(instance: PlacementInstance, limits: Sequence[rules.LimitRule]) -> bool:
    """Return whether rules limit loads of places alone, and there is too much to count them node by node."""
    site = site_of(instance)
    alike = all(np.unique(site.free(name)).size < 2 for name in site.limited)
    many = _MANY_LIMITED_ALIKE if alike else _MANY_LIMITED
    return pairs_of_options(instance, site) >= many and all(
        rule.when == "after" and rule.resource in site.limited for rule in limits
    )


def _are_free_to_move(instance: PlacementInstance) -> bool:
    """Return whether value comes before who moves, and no rule says of which pods do not."""
    of_moves = [rule for rule in instance.rules if isinstance(rule, rules.StayRule | rules.MaxMovesRule)]
    return is_all_value(instance.wanted[0]) and all(map(_leaves_places, of_moves))


def _leaves_places(rule: Any) -> bool:
    """Return whether a rule speaks of nobody's places, but for nodes that all leave, and how many move."""
    if isinstance(rule, rules.MaxMovesRule):
        return (rule.resource, rule.by, rule.of) == (PODS, UNSET, {})
    return isinstance(rule, rules.DrainRule | rules.LimitRule | rules.MaxStopsRule)


def has_anti_affinity(instance: PlacementInstance) -> bool:
    """Return whether a rule keeps the pods of every job on nodes of their own, which bundles can keep."""
    return any(_is_anti_affinity(rule, instance) for rule in instance.rules)


def _is_anti_affinity(rule: Any, instance: PlacementInstance) -> bool:
    asked = (instance.levels[-1], "job", 1)
    if not isinstance(rule, rules.SpreadRule) or (rule.level, rule.by, rule.max) != asked:
        return False
    return not rule.of and all(len(option.pods) == 1 for job in instance.jobs for option in job.options)


def _names_level(instance: PlacementInstance, level: str) -> bool:
    """Return whether pods of an instance, a goal or a rule, but for named places of it, speak of a level."""
    asked_of = (one for one in _asked(instance) if not isinstance(one, _OF_NAMED_PLACES))
    if any(getattr(one, "level", None) == level for one in asked_of):
        return True
    options = [option for job in instance.jobs for option in job.options]
    pods = (one for option in options for one in option.pods)
    asked = (option.required == level for option in options)
    return any(asked) or any(level in (one.required, one.preferred, *one.slices) for one in pods)
