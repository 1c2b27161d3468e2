"""A placement found job by job under all rules: what a search over single pods begins with.

Jobs come by their value for the greatest share of a resource that they take, or by value. Each gets its
best option for which a place is found: the tightest or the emptiest one, its nodes filled one by one, the
fullest or the emptiest first, or evenly. The checker says whether the rules are kept. Then some jobs are
taken out again and all that wait are tried anew, which stays if it is worth as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from random import Random
from typing import Any, Literal

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from apportion.instances.placement.bundles import pairs_of_pods
from apportion.instances.placement.check import broken_rules, check, misplaced
from apportion.instances.placement.goals import is_all_value, is_much
from apportion.instances.placement.placed import Placed, option_of
from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
    PlacementOption,
    PlacementPods,
)
from apportion.instances.placement.site import site_of
from apportion.instances.tenants.ledger import is_tenanted

__all__ = ["first_fit", "fit_all", "fit_most"]

_FEW = 1_000
"""Pairs of a pod and a node below which a search needs no help."""
_TRIES = 5_000
"""Places tried for jobs after some were taken out."""
_PLACES = 3
"""Places in which an option is tried."""
_FEW_LEFT, _MOST_OUT = 20, 10
"""Jobs without a place for which others make way at most, and how many of these at a time."""
_TRIED_WAYS = 100
"""Times that others make way from where a plan begins."""

_Order = Literal["fullest", "emptiest", "even"]
_ORDERS: tuple[_Order, ...] = ("fullest", "emptiest", "even")
_State = tuple[dict[str, Any], dict[str, float], dict[str, NDArray[np.int64]]]
_Found = dict[str, dict[str, int]]
"""By the name of pods, how many are at every node."""


def first_fit(
    instance: PlacementInstance, late: Callable[[], bool], enough: Callable[[], bool]
) -> dict[str, Any] | None:
    """Return a plan found job by job; ``None`` of few pods, beside tenants, and where none was found.

    Parameters
    ----------
    instance
        The instance.
    late
        Whether the time is over for placing every job once.
    enough
        Whether the time is over for taking jobs out again.
    """
    if is_tenanted(instance) or pairs_of_pods(instance, site_of(instance)) < _FEW:
        return None
    fit = _FirstFit(instance)
    if not fit.begins():
        return None
    of_value, begun, found = is_all_value(instance.wanted[0]), fit.state(), list[_State]()
    for jobs in fit.orders if of_value else [sorted(fit.orders[0], key=lambda job: job.current is None)]:
        fit.back_to(begun)
        fit.fill(jobs, late)
        found.append(fit.state())
    fit.back_to(max(found, key=_worth_of))
    if of_value:
        fit.improve(enough)
    plans = ({"placement": fit.plan}, {"placement": fit.present})
    reports = [(check(instance, plan), plan) for plan in plans]
    sign = 1.0 if is_much(instance.wanted[0]) else -1.0
    good = [(sign * (report.objective or 0.0), plan) for report, plan in reports if report.feasible]
    return max(good, key=itemgetter(0), default=(0.0, None))[1]


def fit_all(
    instance: PlacementInstance, near: Mapping[str, Any], late: Callable[[], bool]
) -> Mapping[str, Any]:
    """Return by job what it has and where, placed job by job; those that may not wait and find no room lack.

    Those that run stay where they are, or those placed before, if that leaves a plan; of others the largest
    pods come first. Where a few find no room others make way for them.

    Parameters
    ----------
    instance
        The instance.
    near
        By job its option and where its pods are in another plan.
    late
        Whether the time is over for making way.
    """
    fit = _FirstFit(instance)
    if not fit.begins():
        return {}
    begun, sized = fit.state(), sorted(instance.jobs, key=fit.size, reverse=True)
    found, starts = list[tuple[int, _State]](), sorted((fit.present, near), key=fit.kept, reverse=True)
    for stay, first in ((starts[0], starts[0]), (starts[1], starts[1]), (fit.present, {})):
        if found and (not stay or late()):
            continue
        fit.back_to(begun)
        fit.present = dict(stay)
        fit.fill(sorted(sized, key=lambda job: job.id not in first), lambda: False)
        fit.make_room(late)
        found.append((len(fit.unplaced()), fit.state()))
        if not found[-1][0]:
            break
    return min(found, key=itemgetter(0))[1][0]


def fit_most(
    instance: PlacementInstance, placed: Mapping[str, Any], late: Callable[[], bool]
) -> dict[str, Any] | None:
    """Return a plan in which jobs have what is placed, and others the best of what is left.

    Parameters
    ----------
    instance
        The instance.
    placed
        By job its option and where its pods are.
    late
        Whether the time is over for others.

    Returns
    -------
    dict or None
        ``None`` where a rule is broken.
    """
    fit = _FirstFit(instance)
    if not fit.begins():
        return None
    for job in instance.jobs:
        if job.id in placed and job.id not in fit.plan:
            fit.take(job, placed[job.id])
    fit.fill(fit.orders[0], late)
    plan = {"placement": fit.plan}
    return plan if check(instance, plan).feasible else None


class _FirstFit:
    """A plan in the making, and what it leaves free.

    Attributes
    ----------
    orders
        Orders in which jobs are tried: by value for what they take, and by value; those that must run first.
    plan
        By job its option and where its pods are.
    present
        The same of jobs that may stay as they are.
    """

    def __init__(self, instance: PlacementInstance) -> None:
        self.instance, self._site = instance, site_of(instance)
        self._free = self._site.free_each()
        self._whole = {name: max(int(free.sum()), 1) for name, free in self._free.items()}
        self.plan: dict[str, Any] = {}
        self._tried = 0
        self.present = self._running()
        self._worths: dict[str, float] = {}
        self.orders = [
            sorted(instance.jobs, key=lambda job: (not job.required, -of(job)))
            for of in (self._density, lambda job: max(map(_worth, job.options), default=0.0))
        ]

    def _density(self, job: PlacementJob) -> float:
        return max((_worth(one) / max(self._share(one), 1e-9) for one in job.options), default=0.0)

    def _share(self, option: PlacementOption) -> float:
        taken = {name: sum(one.count * one.takes(name) for one in option.pods) for name in self._free}
        return max(amount / self._whole[name] for name, amount in taken.items())

    def size(self, job: PlacementJob) -> tuple[float, float]:
        """Return the greatest share of a resource that a pod of a job takes, and all of its pods together."""
        each = (one for option in job.options if job.admits(option.id) for one in option.pods)
        pod = max((one.takes(name) / own for one in each for name, own in self._whole.items()), default=0.0)
        return pod, max(map(self._share, job.options), default=0.0)

    def begins(self) -> bool:
        """Take what must stay as it is, or all that runs where a rule wants that; return whether one does."""
        for every in (False, True):
            for job in self.instance.jobs:
                runs = self.present.get(job.id)
                if runs is not None and (job.fixed or every) and job.id not in self.plan:
                    self._take(job, _option(job, runs), runs["on"])
            if self._keeps_rules():
                return True
        return False

    def _running(self) -> dict[str, Any]:
        """Return by job its option and where its pods are, of jobs that may stay as they are."""
        runs = ((job.id, job.current) for job in self.instance.jobs if job.current is not None)
        found = {job: {"option": current.option, "on": current.on} for job, current in runs}
        # what nodes and options that are gone leave of the form comes before what jobs ask
        while wrong := {one.subject.partition("/")[0] for one in misplaced(self.instance, found)} & {*found}:
            found = {job: got for job, got in found.items() if job not in wrong}
        return found

    def fill(self, jobs: list[PlacementJob], late: Callable[[], bool]) -> None:
        """Place those of some jobs that have nothing, as long as there is time.

        The rules are asked of all together, then of either half where these break one.
        """
        jobs = [job for job in jobs if job.id not in self.plan and not job.fixed]
        if late() or not jobs:
            return
        before = self.state()
        for job in jobs:
            self._place(job, alone=len(jobs) == 1)
        if len(jobs) > 1 and not self._keeps_rules():
            self.back_to(before)
            half = len(jobs) // 2
            self.fill(jobs[:half], late)
            self.fill(jobs[half:], late)

    def improve(self, late: Callable[[], bool]) -> None:
        """Let jobs make way for one that waits, and try all that wait anew; keep what is worth as much."""
        rng, most = Random(0), self._tried + _TRIES
        while self._tried < most:
            self._tried += 1
            left = (job for job in self.orders[0] if job.id not in self.plan)
            waiting = [job for job in left if any(job.admits(one.id) for one in job.options)]
            if late() or not waiting:
                return
            before, first = self.state(), rng.choice(waiting)
            out = [*self._making_way(first, rng)]
            self.fill([first, *(job for job in self.orders[0] if job is not first)], late)
            lost = any(job.required and job.id not in self.plan for job in out)
            if lost or _worth_of(self.state()) < _worth_of(before):
                self.back_to(before)

    def kept(self, placed: Mapping[str, Any]) -> int:
        """Return how many jobs have an option in a plan that they may have."""
        got = ((job, placed.get(job.id)) for job in self.instance.jobs)
        return sum(one is not None and job.admits(one["option"]) for job, one in got)

    def unplaced(self) -> list[PlacementJob]:
        """Return the jobs that may not wait and have nothing."""
        return [job for job in self.instance.jobs if not job.may_wait and job.id not in self.plan]

    def make_room(self, late: Callable[[], bool]) -> None:
        """Take jobs out of the way of those that may not wait and have nothing, and place them anew.

        What is unplaced comes to no more than before after each try.
        """
        rng, left = Random(0), self.unplaced()
        for _ in range(_TRIED_WAYS if len(left) <= _FEW_LEFT else 0):
            if not left or late():
                return
            before, first = self.state(), rng.choice(left)
            others = {job.id: job for job in (*self._making_way(first, rng), *left) if job is not first}
            self.fill([first, *sorted(others.values(), key=self.size, reverse=True)], late)
            now = self.unplaced()
            if self._sizes_of(now) > self._sizes_of(left):
                self.back_to(before)
            else:
                left = now

    def _sizes_of(self, jobs: list[PlacementJob]) -> float:
        return math.fsum(self.size(job)[1] for job in jobs)

    def _making_way(self, job: PlacementJob, rng: Random) -> Iterator[PlacementJob]:
        """Yield jobs taken out at one of the places where another may be, a few at most, until it may."""
        option = next((option for option in job.options if job.admits(option.id)), None)
        if option is None:
            return
        there, each = set(self._site.nodes), (option.required, *(pods.required for pods in option.pods))
        if levels := [one for one in each if one is not UNSET]:
            at = rng.randrange(len(self._site.places[levels[0]]))
            inside = np.flatnonzero(self._site.place[levels[0]] == at)
            there = {self._site.nodes[node] for node in inside.tolist()}
        lying = [
            one
            for one in self.instance.jobs
            if one.id in self.plan
            and not one.fixed
            and any(not there.isdisjoint(on) for on in self.plan[one.id]["on"].values())
        ]
        for one in rng.sample(lying, min(len(lying), _MOST_OUT)):
            self._drop(one)
            yield one
            if next(self._ways(job, option), None) is not None:
                return

    def state(self) -> _State:
        """Return what there is, to come back to."""
        return _copied((self.plan, self._worths, self._free))

    def back_to(self, state: _State) -> None:
        """Have what there was."""
        self.plan, self._worths, self._free = _copied(state)

    def take(self, job: PlacementJob, got: Mapping[str, Any]) -> None:
        """Give a job an option where its pods are to be."""
        self._take(job, _option(job, got), got["on"])

    def _place(self, job: PlacementJob, *, alone: bool) -> None:
        """Give a job its best option that has a place, under the rules if alone."""
        for option in sorted(job.options, key=_worth, reverse=True):
            if not job.admits(option.id):
                continue
            for on in self._ways(job, option):
                self._take(job, option, on)
                self._tried += 1
                if not alone or self._keeps_rules():
                    return
                self._drop(job)

    def _take(self, job: PlacementJob, option: PlacementOption, on: _Found) -> None:
        self.plan[job.id] = {"option": option.id, "on": on}
        self._worths[job.id] = _worth(option) + sum(
            count * pods.value_at.get(node, 0.0)
            for pods in option.pods
            for node, count in on.get(pods.name, {}).items()
        )
        self._use(option, on, 1)

    def _drop(self, job: PlacementJob) -> None:
        had = self.plan.pop(job.id, None)
        if had is not None:
            del self._worths[job.id]
            self._use(_option(job, had), had["on"], -1)

    def _has_room(self, option: PlacementOption, on: _Found) -> bool:
        self._use(option, on, 1)
        fits = all(int(free.min(initial=0)) >= 0 for free in self._free.values())
        self._use(option, on, -1)
        return fits

    def _use(self, option: PlacementOption, on: _Found, sign: int) -> None:
        for pods in option.pods:
            for node, count in on.get(pods.name, {}).items():
                for name, free in self._free.items():
                    free[self._site.number[node]] -= sign * count * pods.takes(name)

    def _keeps_rules(self) -> bool:
        return next(broken_rules(Placed(self.instance, self._site, self.plan)), None) is None

    def _ways(self, job: PlacementJob, option: PlacementOption) -> Iterator[_Found]:
        """Yield where the pods of an option can be, where they are first."""
        everywhere = np.ones(len(self._site.nodes), np.bool_)
        tried = list[_Found]()
        runs = self.present.get(job.id)
        if runs is not None and runs["option"] == option.id and self._has_room(option, runs["on"]):
            tried.append(runs["on"])
            yield runs["on"]
        for inside in self._places(option.pods, option.required, everywhere):
            for order in _ORDERS:
                free, found = {name: own.copy() for name, own in self._free.items()}, _Found()
                fits = all(self._filled(pods, inside, order, free, found) for pods in option.pods)
                if fits and found not in tried:
                    yield found
                    tried.append(found)

    def _places(
        self, each: tuple[PlacementPods, ...], level: str | UnsetType, inside: NDArray[np.bool_]
    ) -> Iterator[NDArray[np.bool_]]:
        """Yield places of a level that seem to hold pods, the tightest first, then the emptiest."""
        if level is UNSET or not each:
            yield inside
            return
        place, size = self._site.place[level], len(self._site.places[level])
        rooms = [
            np.bincount(place, np.where(inside, self._site.rooms(pods, self._free), 0), size) for pods in each
        ]
        fits = np.all([own >= pods.fewest for own, pods in zip(rooms, each, strict=True)], axis=0)
        held = np.flatnonzero(fits)
        order = held[np.argsort(np.sum(rooms, axis=0)[held], kind="stable")].tolist()
        for at in dict.fromkeys([*order[: _PLACES - 1], *order[-1:]]):
            yield inside & (place == at)

    def _filled(
        self,
        pods: PlacementPods,
        inside: NDArray[np.bool_],
        order: _Order,
        free: dict[str, NDArray[np.int64]],
        found: _Found,
    ) -> bool:
        """Find nodes for pods of one kind, as many as there are or the fewest at least; take them."""
        for place in self._places((pods,), pods.required, inside):
            rooms = np.where(place, self._site.rooms(pods, free), 0)
            taken = self._by_slices(pods, rooms, order, free)
            if int(taken.sum()) < pods.fewest:
                continue
            found[pods.name] = {self._site.nodes[at]: int(taken[at]) for at in np.flatnonzero(taken).tolist()}
            for name, own in free.items():
                own -= taken * pods.takes(name)
            return True
        return False

    def _by_slices(
        self, pods: PlacementPods, rooms: NDArray[np.int64], order: _Order, free: dict[str, NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """Return int64 [nodes]: how many pods every node gets, a multiple in each place of slices."""
        taken = np.zeros_like(rooms)
        if not pods.slices:
            return _spread(rooms, pods.count, order, self._load(pods, free))
        level = max(pods.slices, key=lambda one: len(self._site.places[one]))
        unit, left = math.lcm(*pods.slices.values()), pods.count
        place = self._site.place[level]
        here = np.bincount(place, rooms, len(self._site.places[level])).astype(np.int64) // unit * unit
        for at in np.argsort(-here, kind="stable").tolist():
            some = min(int(here[at]), left // unit * unit)
            taken += _spread(np.where(place == at, rooms, 0), some, order, self._load(pods, free))
            left -= some
        return taken

    def _load(self, pods: PlacementPods, free: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return what is free of the resource of which pods take the greatest part."""
        return free[max(free, key=lambda name: pods.takes(name) / self._whole[name])]


def _option(job: PlacementJob, got: Mapping[str, Any]) -> PlacementOption:
    """Return the option that a job has in a plan of the right form."""
    option = option_of(job, got["option"])
    assert option is not None
    return option


def _copied(state: _State) -> _State:
    plan, worths, free = state
    return dict(plan), dict(worths), {name: own.copy() for name, own in free.items()}


def _worth_of(state: _State) -> float:
    return math.fsum(state[1].values())


def _worth(option: PlacementOption) -> float:
    return option.value + sum(pods.count * pods.value for pods in option.pods)


def _spread(
    rooms: NDArray[np.int64], count: int, order: _Order, free: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return int64 [nodes]: how many of some pods every node gets; less together where there is no room."""
    if order == "even":  # the least level up to which nodes are filled that holds all, one less for the rest
        levels = np.sort(np.unique(rooms))
        low, high = 0, int(levels[-1]) if levels.size else 0
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if int(np.minimum(rooms, middle).sum()) >= count else (middle + 1, high)
        taken = np.minimum(rooms, low)
        over = int(taken.sum()) - count
        if over > 0:
            taken[np.flatnonzero(taken == low)[-over:]] -= 1
        return taken
    by = np.argsort(free if order == "fullest" else -free, kind="stable")
    before = np.cumsum(rooms[by]) - rooms[by]
    taken = np.zeros_like(rooms)
    taken[by] = np.clip(count - before, 0, rooms[by])
    return taken
