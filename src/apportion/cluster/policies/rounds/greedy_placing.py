"""Placement decided job by job, as Kueue and KAI do: who runs stays, who waits comes in the order given.

Neither knows the rules of an instance beside levels, slices, labels and taints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.kueue_topology import Leaf, NoFit, Request, Taken, placed
from apportion.core.errors import InvalidInstance
from apportion.instances.placement import (
    PlacementInstance,
    PlacementJob,
    PlacementOption,
    PlacementPods,
)
from apportion.instances.placement.site import PODS, Site, site_of

__all__ = ["PLACEMENT_POLICIES", "KaiPlacing", "KueuePlacing"]

Found = dict[str, dict[str, int]]
"""By the name of pods, how many are at every node."""


class _Room:
    """What is free on every node."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.free = site.free_each()

    def copy(self) -> dict[str, NDArray[np.int64]]:
        """Return what is free now, to come back to."""
        return {name: amounts.copy() for name, amounts in self.free.items()}

    def taken_by(self, job: PlacementJob) -> bool:
        """Take what a running job has, as far as its nodes are there."""
        assert job.current is not None
        pods = {one.name: one for option in job.options for one in option.pods}
        for name, on in job.current.on.items():
            if name not in pods or not on.keys() <= self.site.number.keys():
                return False
        for name, on in job.current.on.items():
            for node, count in on.items():
                self.take(pods[name], self.site.number[node], count)
        return any(job.current.option == option.id for option in job.options)

    def take(self, pods: PlacementPods, node: int, count: int) -> None:
        """Use what pods take at a node."""
        for resource, free in self.free.items():
            free[node] -= count * pods.takes(resource)

    def rooms(self, pods: PlacementPods, beside: PlacementPods | None = None) -> NDArray[np.int64]:
        """Return how many pods fit on every node, beside one pod of others."""
        taken = {name: 0 if beside is None else beside.takes(name) for name in self.free}
        return self.site.rooms(pods, {name: left - taken[name] for name, left in self.free.items()})


class _Greedy(ABC):
    """A waiting job gets its best option that has a place."""

    __slots__ = ()
    scheduler: ClassVar[str]

    def __call__(self, instance: PlacementInstance) -> dict[str, Any]:
        """Return the plan of an instance."""
        if instance.trees is not UNSET:
            raise InvalidInstance.at(
                "$.trees", f"{self.scheduler} knows one tree of levels here: leave the others out"
            )
        room = _Room(site_of(instance))
        plan: dict[str, Any] = {}
        for job in instance.jobs:
            if job.current is not None and room.taken_by(job):
                plan[job.id] = {"option": job.current.option, "on": job.current.on}
        for at, job in enumerate(instance.jobs):
            if job.current is not None:
                continue
            for option in sorted(job.options, key=lambda one: -one.value):
                if not job.admits(option.id):
                    continue
                try:
                    on = self.found_for(room, option)
                except ValueError as error:  # what the scheduler's own objects cannot ask for
                    said = f"{self.scheduler} takes no such request: {error}"
                    raise InvalidInstance.at(f"$.jobs[{at}]", said) from None
                if on is not None:
                    plan[job.id] = {"option": option.id, "on": on}
                    break
        return {"placement": plan}

    @abstractmethod
    def found_for(self, room: _Room, option: PlacementOption) -> Found | None:
        """Place the pods of an option and return where; ``None``, nothing taken, where one has no room."""


@dataclass(frozen=True, slots=True)
class KueuePlacing(_Greedy):
    """As Kueue's topology-aware scheduling: the tightest place that holds a job.

    Attributes
    ----------
    seed
        Not used: there is no chance in it.
    balanced
        Whether the gate of balanced placement is on.
    """

    scheduler: ClassVar[str] = "Kueue"
    seed: int = 0
    balanced: bool = False

    def found_for(self, room: _Room, option: PlacementOption) -> Found | None:
        """Place the pods of an option and return where; ``None``, nothing taken, where one has no room."""
        before, found = room.copy(), Found()
        together = len(option.pods) == 2 and option.required is not UNSET
        leaders = [pods for pods in option.pods if together and pods.count == 1][-1:]
        for pods in option.pods:
            if pods in leaders:
                continue
            taken = self._placed(room, option, pods, leaders[0] if leaders else None)
            if isinstance(taken, NoFit):
                room.free = before
                return None
            for one in taken:
                for of, count in ((pods, one.pods), *((lead, int(one.leader)) for lead in leaders)):
                    if count:
                        found.setdefault(of.name, {})[one.path[-1]] = count
                        room.take(of, room.site.number[one.path[-1]], count)
            leaders = []
        return found

    def _placed(
        self, room: _Room, option: PlacementOption, pods: PlacementPods, lead: PlacementPods | None
    ) -> list[Taken] | NoFit:
        site = room.site
        levels = site.levels
        slices = tuple(sorted((levels.index(level), size) for level, size in pods.slices.items()))
        asked = partial(Request, pods.count, slices=slices, leader=lead is not None)
        required = pods.required if option.required is UNSET else option.required
        if required is not UNSET:
            request = asked(levels.index(required), "required")
        elif pods.preferred is not UNSET:
            request = asked(levels.index(pods.preferred), "preferred", balanced=self.balanced)
        else:
            request = asked(0 if slices else None, "unconstrained")
        rooms = room.rooms(pods)
        beside = rooms if lead is None else room.rooms(pods, lead)
        holds = np.zeros(rooms.size, np.bool_) if lead is None else room.rooms(lead) > 0
        leaves = []
        for at, node in enumerate(site.nodes):
            above = (site.places[level][site.place[level][at]] for level in levels[:-1])
            path = (*(name.rpartition("/")[2] for name in above), node)
            leaves.append(Leaf(path, int(rooms[at]), int(beside[at]), bool(holds[at])))
        return placed(leaves, len(levels), request)


@dataclass(frozen=True, slots=True)
class KaiPlacing(_Greedy):
    """As KAI: of the deepest level that holds a job the fullest place in which its pods find nodes.

    Levels are tried from the preferred to the required one, the places of one from the fullest on: that of
    the greatest part of what is free, of the resource of which it asks for the greatest part. Pods of one
    kind are counted node by node, of several by sums, so that a place may be tried where they do not fit.
    Within a place the emptier places of the preferred level come first, in tenths, then the fullest nodes.

    Attributes
    ----------
    seed
        Not used: there is no chance in it.
    """

    scheduler: ClassVar[str] = "KAI"
    seed: int = 0

    def found_for(self, room: _Room, option: PlacementOption) -> Found | None:
        """Place the pods of an option and return where; ``None``, nothing taken, where one has no room."""
        everywhere = np.ones(len(room.site.nodes), np.bool_)
        for inside in self._places(room, option.pods, everywhere, option.required, UNSET):
            before, found = room.copy(), Found()
            if all(self._gang(room, pods, inside, found) for pods in option.pods):
                return found
            room.free = before
        return None

    def _gang(self, room: _Room, pods: PlacementPods, inside: NDArray[np.bool_], found: Found) -> bool:
        """Place pods of one kind inside some nodes; take nothing where too few fit."""
        sizes = sorted((room.site.levels.index(level), size) for level, size in pods.slices.items())
        slices = [(room.site.levels[at], size) for at, size in sizes]
        for place in self._places(room, (pods,), inside, pods.required, pods.preferred):
            before, here = room.copy(), dict[str, int]()
            if self._filled(room, pods, pods.fewest, place, slices, here):
                if not slices:  # more than the least are welcome, one by one
                    self._filled(room, pods, pods.count - pods.fewest, place, [], here)
                found[pods.name] = here
                return True
            room.free = before
        return False

    def _filled(
        self,
        room: _Room,
        pods: PlacementPods,
        count: int,
        place: NDArray[np.bool_],
        slices: Sequence[tuple[str, int]],
        here: dict[str, int],
    ) -> bool:
        """Give pods to the nodes of a place, slice by slice; return whether all have found one."""
        if slices:
            (level, size), *inner = slices
            for _ in range(count // size):
                for part in self._places(room, (pods,), place, level, UNSET, size):
                    before, own = room.copy(), dict(here)
                    if self._filled(room, pods, size, part, inner, here):
                        break
                    room.free = before
                    here.clear()
                    here.update(own)
                else:
                    return False
            return True
        for node in self._order(room, pods, place).tolist():
            mine = min(count, int(room.rooms(pods)[node]))
            if mine > 0:
                name = room.site.nodes[node]
                here[name] = here.get(name, 0) + mine
                room.take(pods, node, mine)
                count -= mine
        return count == 0

    def _places(
        self,
        room: _Room,
        kinds: Sequence[PlacementPods],
        inside: NDArray[np.bool_],
        required: str | UnsetType,
        preferred: str | UnsetType,
        count: int | None = None,
    ) -> Iterator[NDArray[np.bool_]]:
        """Yield the places that seem to hold pods, bool [nodes] each, in the order of trying them."""
        site, levels = room.site, room.site.levels
        highest = -1 if required is UNSET else levels.index(required)
        lowest = highest if preferred is UNSET else max(highest, levels.index(preferred))
        counts = [pods.fewest if count is None else count for pods in kinds]
        total = {
            name: sum(n * pods.takes(name) for pods, n in zip(kinds, counts, strict=True))
            for name in room.free
        }
        rooms = room.rooms(kinds[0]) if len(kinds) == 1 else None
        for level in range(lowest, highest - 1, -1):
            place = site.place[levels[level]] if level >= 0 else np.zeros(inside.size, np.int64)
            names = site.places[levels[level]] if level >= 0 else ("",)
            free = {
                name: np.bincount(place, np.where(inside, np.maximum(left, 0), 0), len(names))
                for name, left in room.free.items()
            }
            if rooms is not None:
                fits = np.bincount(place, np.where(inside, rooms, 0), len(names)) >= counts[0]
            else:
                fits = np.all([free[name] >= need for name, need in total.items()], axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                parts = [total[name] / free[name] for name in room.free if name != PODS and total[name]]
            fullest = np.max(parts, axis=0) if parts else np.zeros(len(names))
            held = np.flatnonzero(fits)
            for at in sorted(held.tolist(), key=lambda one: (-fullest[one], names[one])):
                yield inside & (place == at)

    def _order(self, room: _Room, pods: PlacementPods, place: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the nodes of a place in the order in which pods take them."""
        site = room.site
        nodes = np.flatnonzero(place)
        whole = {name: int(site.amounts(name).sum()) for name in room.free if name != PODS}
        used = max(whole, key=lambda name: pods.takes(name) / max(whole[name], 1), default=PODS)
        left = room.free[used][nodes]
        hint = np.zeros(nodes.size)
        if pods.preferred is not UNSET:
            there, own = np.unique(site.place[pods.preferred][nodes], return_inverse=True)
            fits = np.bincount(own, room.rooms(pods)[nodes], there.size)
            rank = np.empty(there.size, np.int64)
            rank[np.argsort(fits, kind="stable")] = np.arange(there.size)
            hint = np.floor(10 * (rank[own] + 1) / there.size)
        return np.asarray(nodes[np.lexsort((nodes, left, -hint))])


PLACEMENT_POLICIES: Mapping[str, Any] = MappingProxyType(
    {"kueue": KueuePlacing, "kueue-balanced": partial(KueuePlacing, balanced=True), "kai": KaiPlacing}
)
"""The policies that place pods, by the name that commands know them by."""
