"""Placement decided as Kueue does: who runs stays, who waits comes in the order of the file, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.kueue_topology import Leaf, NoFit, Request, Taken, placed
from apportion.core.errors import InvalidInstance
from apportion.instances.placement import (
    PlacementInstance,
    PlacementJob,
    PlacementOption,
    PlacementPods,
)
from apportion.instances.placement.site import Site, site_of

__all__ = ["PLACEMENT_POLICIES", "KueuePlacing"]


class KueuePlacing:
    """Greedy placement: a waiting job gets its best option that fits, in the tightest place that holds it.

    Rules of an instance beside levels, slices, labels and taints it does not know.
    """

    def __init__(self, seed: int = 0) -> None:
        del seed

    def __call__(self, instance: PlacementInstance) -> dict[str, Any]:
        """Return the plan of an instance."""
        if instance.trees is not UNSET:
            raise InvalidInstance.at("$.trees", "Kueue knows one tree of levels: leave the others out")
        room = _Room(site_of(instance))
        plan: dict[str, Any] = {}
        for job in instance.jobs:
            if job.current is not None and room.taken_by(job):
                plan[job.id] = {"option": job.current.option, "on": job.current.on}
        for job in instance.jobs:
            if job.current is not None:
                continue
            for option in sorted(job.options, key=lambda one: -one.value):
                if job.fixed or option.id in job.forbidden or job.pinned not in (None, option.id):
                    continue
                on = room.found_for(option)
                if on is not None:
                    plan[job.id] = {"option": option.id, "on": on}
                    break
        return {"placement": plan}


PLACEMENT_POLICIES: Mapping[str, type[KueuePlacing]] = MappingProxyType({"kueue": KueuePlacing})
"""The policies that place pods, by the name that commands know them by."""


class _Room:
    """What is free on every node."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.free: dict[str, NDArray[np.int64]] = {name: site.free(name) for name in site.limited}

    def taken_by(self, job: PlacementJob) -> bool:
        """Take what a running job has, as far as its nodes are there."""
        assert job.current is not None
        pods = {one.name: one for option in job.options for one in option.pods}
        for name, on in job.current.on.items():
            if name not in pods or not on.keys() <= self.site.number.keys():
                return False
        for name, on in job.current.on.items():
            for node, count in on.items():
                self._take(pods[name], self.site.number[node], count)
        return any(job.current.option == option.id for option in job.options)

    def found_for(self, option: PlacementOption) -> dict[str, dict[str, int]] | None:
        """Place the pods of an option and return where; ``None``, nothing taken, where one has no room."""
        before = {name: amounts.copy() for name, amounts in self.free.items()}
        found: dict[str, dict[str, int]] = {}
        together = len(option.pods) == 2 and option.required is not UNSET
        leaders = [pods for pods in option.pods if together and pods.count == 1][:1]
        for pods in option.pods:
            if pods in leaders:
                continue
            taken = self._placed(option, pods, leaders[0] if leaders else None)
            if isinstance(taken, NoFit):
                self.free = before
                return None
            for one in taken:
                for of, count in ((pods, one.pods), *((lead, int(one.leader)) for lead in leaders)):
                    if count:
                        found.setdefault(of.name, {})[one.path[-1]] = count
                        self._take(of, self.site.number[one.path[-1]], count)
            leaders = []
        return found

    def _take(self, pods: PlacementPods, node: int, count: int) -> None:
        for resource, free in self.free.items():
            free[node] -= count * pods.takes(resource)

    def _rooms(self, pods: PlacementPods, beside: PlacementPods | None = None) -> NDArray[np.int64]:
        """Return how many pods fit on every node, beside one pod of others."""
        taken = {name: 0 if beside is None else beside.takes(name) for name in self.free}
        return self.site.rooms(pods, {name: left - taken[name] for name, left in self.free.items()})

    def _placed(
        self, option: PlacementOption, pods: PlacementPods, lead: PlacementPods | None
    ) -> list[Taken] | NoFit:
        levels = self.site.levels
        slices = tuple(sorted((levels.index(level), size) for level, size in pods.slices.items()))
        required = pods.required if option.required is UNSET else option.required
        if required is not UNSET:
            asked = Request(pods.count, levels.index(required), "required", slices, lead is not None)
        elif pods.preferred is not UNSET:
            asked = Request(pods.count, levels.index(pods.preferred), "preferred", slices, lead is not None)
        else:
            own = slices[0][0] if slices else None
            asked = Request(pods.count, own, "unconstrained", slices, lead is not None, not slices)
        rooms = self._rooms(pods)
        beside = rooms if lead is None else self._rooms(pods, lead)
        holds = np.zeros(rooms.size, np.bool_) if lead is None else self._rooms(lead) > 0
        leaves = []
        for at, node in enumerate(self.site.nodes):
            above = (self.site.places[level][self.site.place[level][at]] for level in levels[:-1])
            path = (*(name.rpartition("/")[2] for name in above), node)
            leaves.append(Leaf(path, int(rooms[at]), int(beside[at]), bool(holds[at])))
        return placed(leaves, len(levels), asked)
