"""The nodes of a placement instance one by one, and the places of every level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import Problem, did_you_mean
from apportion.core.node_lists import NoNodeList, expand
from apportion.instances.placement.schema import (
    PODS,
    PlacementInstance,
    PlacementJob,
    PlacementNodes,
    PlacementPods,
)

__all__ = ["PODS", "Site", "pairs_of_options", "refusal", "site_of"]

_MOST = 200_000
"""Nodes at most."""


@dataclass(frozen=True, slots=False)
class Site:
    """Nodes and places.

    Attributes
    ----------
    levels
        Names of the levels, that of the nodes last; those of other trees before it.
    branches
        The levels above the nodes of every tree.
    nodes
        Names of the nodes, in the order of the instance.
    group
        int64 [nodes]: which entry of the instance's nodes each is of.
    groups
        Those entries.
    place
        By level int64 [nodes]: the place of every node.
    places
        By level the names of the places: those of the level above and its own, with slashes between.
    """

    levels: tuple[str, ...]
    branches: tuple[tuple[str, ...], ...]
    nodes: tuple[str, ...]
    group: NDArray[np.int64]
    groups: tuple[PlacementNodes, ...]
    place: Mapping[str, NDArray[np.int64]]
    places: Mapping[str, tuple[str, ...]]
    _named: dict[str, dict[str, int]] = field(default_factory=dict, compare=False)
    _admitting: dict[Any, NDArray[np.bool_]] = field(default_factory=dict, compare=False)

    @cached_property
    def number(self) -> dict[str, int]:
        """The position of every node by its name."""
        return {name: at for at, name in enumerate(self.nodes)}

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Every resource that nodes have any of."""
        return tuple(dict.fromkeys(name for group in self.groups for name in group.capacity))

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many nodes every one of them stands for, int64 [nodes]."""
        return np.ones(len(self.nodes), dtype=np.int64)

    def upwards(self, level: str) -> tuple[str, ...]:
        """Return a level and those above it in its tree, the top first."""
        if level == self.levels[-1]:
            return (*self.branches[0], level)
        branch = next(one for one in self.branches if level in one)
        return branch[: branch.index(level) + 1]

    def amounts(self, resource: str) -> NDArray[np.int64]:
        """Return int64 [nodes]: what every node has."""
        return np.array([group.capacity.get(resource, 0) for group in self.groups], np.int64)[self.group]

    @cached_property
    def ready(self) -> NDArray[np.bool_]:
        """Which nodes are ready, bool [nodes]."""
        return np.array([group.ready for group in self.groups], np.bool_)[self.group]

    def free(self, resource: str) -> NDArray[np.int64]:
        """Return int64 [nodes]: what others do not use of a resource, 0 on a node that is not ready."""
        left = [
            max(0, group.capacity.get(resource, 0) - group.used.get(resource, 0)) if group.ready else 0
            for group in self.groups
        ]
        return np.array(left, np.int64)[self.group]

    def free_each(self) -> dict[str, NDArray[np.int64]]:
        """Return by limited resource int64 [nodes]: what others do not use of it, as `free` says it."""
        return {name: self.free(name) for name in self.limited}

    def free_together(self) -> dict[str, int]:
        """Return what all nodes have free of every resource together."""
        return {name: int(self.free(name).sum()) for name in self.resources}

    def counted(self, resource: str, needs: NDArray[np.int64]) -> list[tuple[int, int, int]]:
        """Return node, size and how many pods of that size, or more, it holds beside its sum: none here."""
        del resource, needs
        return []

    def value_at(self, pods: PlacementPods, node: int) -> float:
        """Return what such a pod adds to the value at a node."""
        return pods.value_at.get(self.nodes[node], 0.0)

    def limits(self, resource: str) -> bool:
        """Return whether a resource is limited: every one but the number of pods where no node says it."""
        return resource != PODS or resource in self.resources

    @cached_property
    def limited(self) -> tuple[str, ...]:
        """The resources of which there is a limit."""
        return tuple(filter(self.limits, dict.fromkeys((*self.resources, PODS))))

    def rooms(self, pods: PlacementPods, free: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return int64 [nodes]: how many such pods there can be on every node with so much free."""
        rooms = np.where(self.admits(pods), pods.count, 0).astype(np.int64)
        for resource in self.limited:
            if need := pods.takes(resource):
                rooms = np.minimum(rooms, np.maximum(free[resource], 0) // need)
        return rooms

    def admits(self, pods: PlacementPods) -> NDArray[np.bool_]:
        """Return bool [nodes]: where such pods may be by readiness, labels, taints and resources."""
        needed = frozenset(resource for resource, need in pods.needs.items() if need)
        asked = needed, frozenset(pods.selector.items()), frozenset(pods.tolerates)
        if asked not in self._admitting:
            found = [
                group.ready
                and needed <= group.capacity.keys()
                and asked[1] <= group.labels.items()
                and asked[2].issuperset(group.taints)
                for group in self.groups
            ]
            self._admitting[asked] = np.array(found, np.bool_)[self.group]
        return self._admitting[asked]

    def keeps(self, job: PlacementJob) -> bool:
        """Return whether all pods of a running job lie on nodes that admit them, whatever is free there."""
        assert job.current is not None
        option = next((one for one in job.options if one.id == job.current.option), None)
        pods = {} if option is None else {one.name: one for one in option.pods}
        for name, on in job.current.on.items():
            at = [self.number.get(node) for node, count in on.items() if count]
            if None in at:
                return False
            admitted = self.admits(pods[name]) if name in pods else self.ready
            if not admitted[np.array(at, np.int64)].all():
                return False
        return True

    def refusals(self, pods: PlacementPods, free: Mapping[str, NDArray[np.int64]]) -> Counter[str]:
        """Return why nodes with so much free hold no such pod, and how many: of each the first reason.

        A node that is not ready comes first, then its taints and labels, then the resource of which there is
        room for the fewest pods; of equal ones the first by name.
        """
        why = np.array([refusal(group, pods) for group in self.groups])[self.group]
        needs = [name for name in sorted({*pods.needs, *self.limited}) if pods.takes(name)]
        if needs:
            none = np.zeros(len(self.nodes), np.int64)
            rooms = np.array([np.maximum(free.get(name, none), 0) // pods.takes(name) for name in needs])
            short = np.array([f"no room of {name}" for name in needs])[rooms.argmin(axis=0)]
            why = np.where((why == "") & (rooms == 0).any(axis=0), short, why)
        reasons, numbers = np.unique(why[why != ""], return_counts=True)
        return Counter(dict(zip(reasons.tolist(), numbers.tolist(), strict=True)))

    def named(self, level: str, name: str) -> int | None:
        """Return the place of a name, in full or its last part where that is unique; ``None`` for none."""
        known = self._named.get(level)
        if known is None:
            known = {full: at for at, full in enumerate(self.places[level])}
            short: dict[str, list[int]] = {}
            for at, full in enumerate(self.places[level]):
                short.setdefault(full.rpartition("/")[2], []).append(at)
            for part, those in short.items():
                if len(those) == 1:
                    known.setdefault(part, those[0])
            self._named[level] = known
        return known.get(name)

    def inside(self, level: str, names: Iterable[str]) -> NDArray[np.bool_]:
        """Return bool [nodes]: which nodes lie in one of these places."""
        those = [place for name in names if (place := self.named(level, name)) is not None]
        return np.isin(self.place[level], np.array(those, dtype=np.int64))


def refusal(nodes: PlacementNodes, pods: PlacementPods) -> str:
    """Return why such pods may not be at nodes, whatever is free there; nothing where they may."""
    if not nodes.ready:
        return "not ready"
    taint = next((taint for taint in nodes.taints if taint not in pods.tolerates), None)
    if taint is not None:
        return f"taint {taint}"
    return "" if pods.selector.items() <= nodes.labels.items() else "other labels"


def needs_of_room(site: Site, needs: Mapping[str, int]) -> dict[str, int]:
    """Return what a pod of such needs takes of every resource, one of ``pods`` where these are limited."""
    taken = {PODS: 1} if site.limits(PODS) else {}
    return taken | {name: need for name, need in needs.items() if need}


def site_of(instance: PlacementInstance, problems: list[Problem] | None = None) -> Site:
    """Return the site of an instance, noting what is wrong with its nodes."""
    noted: list[Problem] = [] if problems is None else problems
    upper = tuple(level for branch in instance.branches for level in branch)
    tops = {branch[0] for branch in instance.branches if branch}
    names: list[str] = []
    group: list[int] = []
    paths: dict[str, list[str]] = {level: [] for level in upper}
    for at, nodes in enumerate(instance.nodes):
        own = _listed(f"$.nodes[{at}].names", nodes.names, noted)
        if len(names) + len(own) > _MOST:
            noted.append(Problem(f"$.nodes[{at}].names", f"are more than {_MOST} nodes with those before"))
            break
        names += own
        group += [at] * len(own)
        above = [""] * len(own)
        for level in upper:
            if level in tops:
                above = [""] * len(own)
            where = f"$.nodes[{at}].at"
            if level not in nodes.at:
                noted.append(Problem(where, f"must name the {level} of these nodes"))
                continue
            listed = _listed(f"{where}.{level}", nodes.at[level], noted)
            if not listed or len(own) % len(listed):
                said = f"{len(own)} nodes cannot lie in {len(listed)} places, as many in each"
                noted.append(Problem(f"{where}.{level}", said))
                continue
            each = len(own) // len(listed)
            above = [f"{above[k]}/{listed[k // each]}".lstrip("/") for k in range(len(own))]
            paths[level] += above
        for level in nodes.at:
            if level not in upper:
                said = f"is no level above the nodes{did_you_mean(level, upper)}"
                noted.append(Problem(f"$.nodes[{at}].at.{level}", said))
    place, places = dict[str, NDArray[np.int64]](), dict[str, tuple[str, ...]]()
    for level, full in paths.items():
        number = {name: at for at, name in enumerate(dict.fromkeys(full))}
        places[level] = tuple(number)
        place[level] = np.array([number[name] for name in full], np.int64)
    if instance.levels:
        places[instance.levels[-1]] = tuple(names)
        place[instance.levels[-1]] = np.arange(len(names), dtype=np.int64)
    levels = (*upper, *instance.levels[-1:])
    group_of = np.array(group, np.int64)
    return Site(levels, instance.branches, tuple(names), group_of, instance.nodes, place, places)


def _listed(path: str, text: str, problems: list[Problem]) -> list[str]:
    try:
        return expand(text)
    except NoNodeList as error:
        problems.append(Problem(path, f"{error}; write names as n[00-15], or one name"))
        return []


def pairs_of_options(instance: PlacementInstance, site: Site) -> int:
    """Return how many pairs of an option and a node there are."""
    return sum(len(job.options) for job in instance.jobs) * len(site.nodes)
