"""A placement plan of the right form, counted: which pods are where, now and then, and how many more fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from apportion.instances.placement.consistency import groups_of, selected_pods
from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
    PlacementOption,
    PlacementPods,
)
from apportion.instances.placement.site import Site, site_of

__all__ = ["On", "Placed", "Pods", "option_of", "remarks"]

Pods = tuple[str, str]
"""A job and the name of pods of it."""
On = dict[str, int]
"""How many pods are at every node."""


def option_of(job: PlacementJob, named: Any) -> PlacementOption | None:
    """Return the option of a job by its name, ``None`` for none."""
    return next((option for option in job.options if option.id == named), None)


@dataclass
class Placed:
    """A plan of the right form, with what is looked up in it again and again."""

    instance: PlacementInstance
    site: Site
    given: Mapping[str, Any]

    @classmethod
    def of(cls, instance: PlacementInstance, plan: Mapping[str, Any]) -> Placed:
        """Return a plan of an instance as such."""
        return cls(instance, site_of(instance), plan["placement"])

    @cached_property
    def got(self) -> dict[str, PlacementOption]:
        """The option of every job that gets one."""
        chosen = ((job, self.given.get(job.id)) for job in self.instance.jobs)
        found = ((job.id, option_of(job, one["option"])) for job, one in chosen if one is not None)
        return {job: option for job, option in found if option is not None}

    @cached_property
    def after(self) -> dict[Pods, On]:
        """How many pods are at every node in the plan."""
        return {
            (job, pods): dict(on)
            for job, option in self.got.items()
            for pods, on in self.given[job]["on"].items()
        }

    @cached_property
    def before(self) -> dict[Pods, On]:
        """How many pods are at every node now."""
        return {
            (job.id, pods): dict(on)
            for job in self.instance.jobs
            if job.current is not None
            for pods, on in job.current.on.items()
        }

    @cached_property
    def pods(self) -> dict[Pods, PlacementPods]:
        """What is known of pods: as the job's option has them, else the present one, else its first."""
        found: dict[Pods, PlacementPods] = {}
        for job in self.instance.jobs:
            now = None if job.current is None else option_of(job, job.current.option)
            for option in (*job.options, now, self.got.get(job.id)):
                found |= {(job.id, one.name): one for one in (() if option is None else option.pods)}
        return found

    @cached_property
    def moved(self) -> dict[Pods, int]:
        """How many pods run and are not where they were."""
        return {
            of: sum(on.values()) - sum(min(n, self.after.get(of, {}).get(node, 0)) for node, n in on.items())
            for of, on in self.before.items()
        }

    @cached_property
    def stopped(self) -> set[str]:
        """The jobs that are stopped."""
        found = set()
        for job in self.instance.jobs:
            if job.current is None or not any(sum(on.values()) for on in job.current.on.values()):
                continue
            got = self.got.get(job.id)
            fewer = any(
                sum(self.after.get((job.id, pods), {}).values()) < sum(on.values())
                for pods, on in job.current.on.items()
            )
            if got is None or (got.id == job.current.option and fewer):
                found.add(job.id)
        return found

    @cached_property
    def free(self) -> dict[str, NDArray[np.int64]]:
        """By resource int64 [nodes]: what others do not use."""
        return self.site.free_each()

    @cached_property
    def left(self) -> dict[str, NDArray[np.int64]]:
        """By resource int64 [nodes]: what the plan leaves of it."""
        taken = {name: self.taken(name) for name in self.free}
        return {
            name: own - np.array([taken[name][node] for node in self.site.nodes], np.int64)
            for name, own in self.free.items()
        }

    def amount(self, of: Pods, resource: str) -> int:
        """Return what one of these pods takes of a resource."""
        return self.pods[of].takes(resource)

    def nodes(self, level: str, place: int) -> set[str]:
        """Return the nodes of a place."""
        members = self.site.place[level]
        return {node for node, at in zip(self.site.nodes, members.tolist(), strict=True) if at == place}

    def nodes_in(self, level: str, names: Iterable[str]) -> set[str]:
        """Return the nodes of some places."""
        inside = self.site.inside(level, names).tolist()
        return {node for node, at in zip(self.site.nodes, inside, strict=True) if at}

    def places(self, level: str) -> dict[str, set[str]]:
        """Return the nodes of every place of a level."""
        return {name: self.nodes(level, at) for at, name in enumerate(self.site.places[level])}

    def group(self, by: Any) -> dict[str, set[str]]:
        """Return the jobs of every group, all of them as one where there is no grouping."""
        return groups_of(self.instance.jobs, by)

    def lying(self, level: str, by: Any) -> dict[str, dict[str, int]]:
        """Return of every group the places of a level that have pods of it in the plan, and how many."""
        members, names, groups = self.site.place[level].tolist(), self.site.places[level], self.group(by)
        owner = {job: group for group, jobs in groups.items() for job in jobs}
        found: dict[str, Counter[int]] = {group: Counter() for group in groups}
        for (job, _), on in self.after.items():
            for node, number in on.items() if job in owner else ():
                found[owner[job]][members[self.site.number[node]]] += number
        return {
            group: {names[at]: number for at, number in sorted(own.items()) if number}
            for group, own in found.items()
        }

    def count(self, nodes: Iterable[str], jobs: Iterable[str] | None = None) -> int:
        """Return how many pods, of some jobs or all, are at these nodes in the plan."""
        inside, whose = set(nodes), None if jobs is None else set(jobs)
        return sum(
            number
            for (job, _), on in self.after.items()
            if whose is None or job in whose
            for node, number in on.items()
            if node in inside
        )

    def load(self, nodes: Iterable[str], resource: str, where: Mapping[Pods, On] | None = None) -> int:
        """Return what pods at these nodes take of a resource."""
        taken = self.taken(resource, where)
        return sum(taken[node] for node in set(nodes))

    def taken(self, resource: str, where: Mapping[Pods, On] | None = None) -> Counter[str]:
        """Return what pods take of a resource at every node, in the plan or where they are said to be."""
        found: Counter[str] = Counter()
        for of, on in (self.after if where is None else where).items():
            for node, number in on.items() if of in self.pods else ():
                found[node] += number * self.amount(of, resource)
        return found

    def select(self, names: Iterable[str]) -> set[Pods]:
        """Return the pods that a rule names."""
        return selected_pods(self.instance.jobs, names)


def remarks(placed: Placed, job: PlacementJob) -> Iterator[str]:
    """Yield where a job's pods are, or what of every option of it fits where."""
    got = placed.got.get(job.id)
    if got is None:
        if job.id in placed.stopped:
            yield "it runs now and is stopped"
        for option in job.options:
            for pods in option.pods:
                yield f"{option.id}: {_fits(placed, option, pods)}"
        return
    for pods in got.pods:
        on = placed.after.get((job.id, pods.name), {})
        nodes = [f"{node} x{count}" if count > 1 else node for node, count in on.items()]
        more = f" and {len(nodes) - 8} more" if len(nodes) > 8 else ""
        several = f"{pods.name} " if len(got.pods) > 1 else ""
        yield f"{several}on {', '.join(nodes[:8]) or 'no node'}{more}"
    moved = sum(number for of, number in placed.moved.items() if of[0] == job.id)
    if moved:
        yield f"{moved} of its pods move or stop"


def _fits(placed: Placed, option: PlacementOption, pods: PlacementPods) -> str:
    site = placed.site
    level = option.required if option.required is not UNSET else pods.required
    beside, alone = site.rooms(pods, placed.left), site.rooms(pods, placed.free)
    refusals = site.refusals(pods, placed.left)
    reasons = ", ".join(f"{reason}: {number}" for reason, number in refusals.most_common())
    none = f"; none fits on {refusals.total()} of {beside.size} nodes ({reasons})" if refusals else ""
    name = "pods" if pods.name == "pods" else f"pods {pods.name!r}"
    if level is UNSET:
        return (
            f"of {pods.count} {name} {min(int(beside.sum()), pods.count)} fit beside the others, "
            f"{min(int(alone.sum()), pods.count)} on empty nodes{none}"
        )
    size = len(site.places[level])
    by_place = [np.bincount(site.place[level], weights=rooms, minlength=size) for rooms in (beside, alone)]
    best = int(np.argmax(by_place[0]))
    fit, most = (min(int(rooms.max(initial=0)), pods.count) for rooms in by_place)
    return (
        f"{pods.count} {name} must lie in one {level}: {fit} fit beside the others (in "
        f"{site.places[level][best]}), {most} in an empty one{none}"
    )
