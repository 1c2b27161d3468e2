"""Which options lie together on a place: a relaxation whose columns are sets of options that a place holds.

For capacities that fall into places, of which every option uses one. Jobs have prices, not capacities: a job
gives its price in any case, and a place the most that options on it are worth beyond the prices of their
jobs. So every place is filled by whole options, which prices of capacities divide (Dantzig and Wolfe,
*Operations Research* 8, 1960). Sets come when they pay; prices lie halfway between the optimum over those
that there are and the best prices so far (Wentges, *International Transactions in Operational Research* 4,
1997). To choose one set for each place is a knapsack again: places are jobs, sets are their options, and how
many jobs of a class there are is a capacity.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import BackendUnavailable
from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.general.highs import GrowingProgramme
from apportion.solvers.multiknapsack.alike_jobs import AlikeJobs, alike_jobs
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable
from apportion.solvers.multiknapsack.ruin_recreate import (
    SECONDS,
    WORK,
    Places,
    Solve,
    best_set,
    fitting,
    lost,
    without_place,
)

__all__ = ["PlacePatterns"]

_HALF = 0.5
"""Where new prices lie between the best ones and those of the optimum over the sets that there are."""
_CLOSE, _NEAR = 1e-6, 3e-4
"""Parts of the bound up to which an optimum over some sets is that over all: of all places, and of some."""
_IDLE = 12
"""Sweeps over all places, one after the other, that bring neither a better bound nor a better optimum."""
_CHOOSING = 0.25
"""Share of the time for choosing a set for each place."""
_STRIDES, _SAMPLED = (16, 4, 1), 20
"""One in so many places is priced first, as long as there are so many."""
_MOST_JOBS = 5_000
"""Jobs that may be on one place, each on its own, up to which places are filled again and again."""


class _Set(NamedTuple):
    """Options on a place, and how many jobs have each; their classes, and how many jobs of each these are."""

    place: int
    options: NDArray[np.int64]
    times: NDArray[np.int64]
    classes: NDArray[np.int64]
    jobs: NDArray[np.float64]


class PlacePatterns:
    """The relaxation by sets of options, and the choice of one for each place.

    Parameters
    ----------
    menus, alike, places
        All options, their jobs by classes, and the places that they use.
    best, clock
        Of the solve call.
    solve
        What fills a place, and chooses among sets: the engine for several capacities.

    Attributes
    ----------
    bound
        What no choice exceeds; infinity where no sweep over all places has ended.
    """

    def __init__(
        self,
        menus: OptionTable,
        alike: AlikeJobs,
        places: Places,
        best: ChoiceIncumbent,
        clock: Clock,
        solve: Solve,
    ) -> None:
        self._menus, self._best, self._clock, self._solve = menus, best, clock, solve
        self._alike = alike
        self._table = table = self._alike.menus
        self._counts = self._alike.counts.astype(np.float64)
        place = places.of_option[table.rows]
        self._uses = places.uses[table.rows]
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], np.arange(len(places.options) + 1))
        self._options = np.split(order, ends)[1:-1]
        self._most = self._alike.counts[table.job]
        """How many jobs of its class have an option at most."""
        self._places = places
        self._rooms = [menus.capacities[those].astype(np.int64) for those in places.capacities]
        for own, room in zip(self._options, self._rooms, strict=True):
            self._most[own] = fitting(self._uses[own, : room.size], room, self._most[own])
        self._idle, self._anyway = without_place(table, place)
        """What a job of each class has without a place, and what that is worth."""
        self._otherwise = np.maximum(self._anyway, -lost(menus))
        self._sets, self._known = list[_Set](), set[tuple[int, bytes, bytes]]()
        self.bound = float(np.inf)

    @classmethod
    def among(
        cls, menus: OptionTable, places: Places, best: ChoiceIncumbent, clock: Clock, solve: Solve
    ) -> Self | None:
        """Return the relaxation; ``None`` where a place has room for too many, or most jobs differ.

        Places of jobs that differ cannot be filled exactly.
        """
        alike = alike_jobs(menus)
        if not alike.are_most:
            return None
        found = cls(menus, alike, places, best, clock, solve)
        return found if max(int(found._most[own].sum()) for own in found._options) <= _MOST_JOBS else None

    def run(self, prices: NDArray[np.float64], seconds: float) -> None:
        """Price jobs, from prices of capacities on, and choose sets, within so many seconds of the clock."""
        mine, until = self._best.among(self._menus), self._clock.elapsed + (1.0 - _CHOOSING) * seconds
        if mine is None:
            return
        amounts = self._alike.inward(mine).astype(np.int64)
        used = (own[amounts[own] > 0] for own in self._options)
        self._new(self._set(place, own, amounts[own]) for place, own in enumerate(used) if own.size)
        try:
            self._price(prices, until)
        except BackendUnavailable:
            return
        if self._sets and self._clock.stopped() is None:
            self._choose(until + _CHOOSING * seconds - self._clock.elapsed)

    def _price(self, prices: NDArray[np.float64], until: float) -> None:
        """Improve prices of jobs: of many places first those of some, with their share of the jobs."""
        table, number = self._table, len(self._options)
        price = np.maximum(table.largest(table.scores(prices)), self._anyway)
        worth = self._places.summed(prices * self._menus.capacities)
        order, random = np.argsort(worth, kind="stable"), np.random.default_rng(0)
        for stride in _STRIDES:
            ranks = np.arange(0, number - stride + 1, stride)
            ranks += random.integers(0, stride, ranks.size)  # kinds of places may take turns
            if stride == 1 or ranks.size >= _SAMPLED:
                price = self._improved(np.sort(order[ranks]), price, until)
        self._deal(price, until)

    def _improved(
        self, some: NDArray[np.int64], price: NDArray[np.float64], until: float
    ) -> NDArray[np.float64]:
        """Return better prices for some places: best ones where the optimum over the sets shows the same."""
        clock, classes, share = self._clock, self._counts.size, some.size / len(self._options)
        counts, close = share * self._counts, _CLOSE if share == 1.0 else _NEAR
        programme = self._begun(some, counts)
        centre, least, optimum, idle = price, np.inf, -np.inf, 0
        while idle < _IDLE and clock.stopped() is None:
            began = clock.elapsed
            swept = self._swept(some, price, until)
            if swept is None:
                break
            worth, found = swept
            shown, idle = _summed(counts * price, worth), idle + 1
            if shown < least:
                least, centre, idle = shown, price, 0
            if share == 1.0:
                self.bound = least
            fresh = self._new(found)
            self._add(programme, fresh)
            said = programme.solved(None if clock.counted else max(0.0, until - clock.elapsed))
            if said is None or least - said.objective <= close * abs(least):
                break
            if said.objective - close * abs(said.objective) > optimum:
                optimum, idle = said.objective, 0
            newer = np.maximum(said.duals[:classes], self._anyway)
            price = _HALF * (centre + newer) if fresh else newer
            later = 1.0 + (1.0 if share == 1.0 else 2.0) / share
            if clock.elapsed + later * (clock.elapsed - began) > until:
                break
        return centre

    def _begun(self, some: NDArray[np.int64], counts: NDArray[np.float64]) -> GrowingProgramme:
        """Return the programme of some places over the sets that there are."""
        number, classes = len(self._options), counts.size
        upper = np.concatenate((counts, np.isin(np.arange(number), some).astype(np.float64)))
        lower = np.concatenate((counts, np.full(number, -np.inf)))
        otherwise = self._otherwise * counts
        programme = GrowingProgramme(lower, upper, np.append(self._table.values, otherwise))
        programme.add(otherwise, np.arange(classes + 1), np.arange(classes), counts)
        self._add(programme, self._sets)
        return programme

    def _swept(
        self, some: NDArray[np.int64], price: NDArray[np.float64], until: float
    ) -> tuple[NDArray[np.float64], list[_Set]] | None:
        """Return what places are worth at prices of classes, and the best set of each, if there is time."""
        clock = self._clock
        worth, found = np.zeros(some.size), list[_Set]()
        for at, place in enumerate(some.tolist()):
            worth[at], best = self._filled(place, price, self._alike.counts)
            found += best
            if clock.elapsed > until or clock.stopped() is not None:
                self._new(found)
                return None
        return worth, found

    def _deal(self, price: NDArray[np.float64], until: float) -> None:
        """Fill one place after the other at prices of classes, from the jobs that others leave."""
        left, found = self._alike.counts.copy(), list[_Set]()
        for place in range(len(self._options)):
            if self._clock.stopped() is not None or self._clock.elapsed > until:
                break
            for one in self._filled(place, price, left)[1]:
                left[one.classes] -= one.jobs.astype(np.int64)
                found.append(one)
        self._new(found)

    def _filled(
        self, place: int, price: NDArray[np.float64], left: NDArray[np.int64]
    ) -> tuple[float, list[_Set]]:
        """Return the most that options on a place are worth at prices of classes, and the set that is.

        There is none where nothing is worth its price. Of each class it has at most as many jobs as are left.
        """
        table, options, room = self._table, self._options[place], self._rooms[place]
        gain = table.values[options] - price[table.job[options]]
        uses = self._uses[options, : room.size]
        there = left[table.job[options]]
        most = np.minimum(self._most[options], there)
        kept = np.flatnonzero((gain > 0.0) & (most > 0))
        if not kept.size:
            return 0.0, []
        one, times, job = _numbered(table.job[options[kept]], most[kept], there[kept])
        one = kept[one]
        chosen, worth, work = best_set(self._solve, job, gain[one] * times, uses[one] * times[:, None], room)
        self._clock.charge(work, SECONDS)
        if not chosen.size:
            return worth, []
        own, many = _summed_up(options[one[chosen]], times[chosen])
        return worth, [self._set(place, own, many.astype(np.int64))]

    def _set(self, place: int, options: NDArray[np.int64], times: NDArray[np.int64]) -> _Set:
        return _Set(place, options, times, *_summed_up(self._table.job[options], times))

    def _new(self, sets: Iterable[_Set]) -> list[_Set]:
        """Keep sets that are new, and return them."""
        fresh = list[_Set]()
        for one in sets:
            key = one.place, one.options.tobytes(), one.times.tobytes()
            if key not in self._known:
                self._known.add(key)
                fresh.append(one)
        self._sets += fresh
        return fresh

    def _add(self, programme: GrowingProgramme, sets: list[_Set]) -> None:
        """Add a column for each set."""
        if not sets:
            return
        table, classes = self._table, self._counts.size
        rows = [np.append(one.classes, classes + one.place) for one in sets]
        programme.add(
            np.array([float(table.values[one.options] @ one.times) for one in sets]),
            np.concatenate(([0], np.cumsum([own.size for own in rows]))),
            np.concatenate(rows),
            np.concatenate([np.append(one.jobs, 1.0) for one in sets]),
        )

    def _choose(self, seconds: float) -> None:
        """Choose a set for each place, at most as many jobs of each class as there are, and offer that."""
        from scipy.sparse import csr_array

        table, counts = self._table, self._alike.counts
        sets = sorted(self._sets, key=lambda one: one.place)
        ends = np.concatenate(([0], np.cumsum([one.classes.size for one in sets])))
        jobs = np.concatenate([one.jobs for one in sets]).astype(np.int64)
        classes = np.concatenate([one.classes for one in sets])
        uses = csr_array((jobs, classes, ends), shape=(len(sets), counts.size))
        beyond = table.values - self._otherwise[table.job]
        values = [float(beyond[one.options] @ one.times) for one in sets]
        sizes = np.bincount([one.place for one in sets], minlength=len(self._options))
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        model = MultipleChoiceKnapsack.from_arrays(np.array(values), uses, offsets, counts, required=False)
        counted = self._clock.counted
        few = SolveOptions(deterministic=True, work_limit=WORK)
        outcome = self._solve(model, few if counted else SolveOptions(time_limit=max(0.0, seconds)))
        if outcome.termination is Termination.INTERRUPTED:
            raise KeyboardInterrupt
        self._clock.charge(1.0 + outcome.counters["nodes"] + outcome.counters["states"], SECONDS)
        if outcome.point is None:
            return
        amounts = np.zeros(table.num_options, dtype=np.int64)
        for row in outcome.point[outcome.point >= 0].tolist():
            amounts[sets[row].options] += sets[row].times
        left = counts - np.bincount(table.job, weights=amounts, minlength=counts.size).astype(np.int64)
        amounts[self._idle[left > 0]] += left[left > 0]
        choice = self._alike.outward(amounts.astype(np.float64))
        if choice is not None and not np.isneginf(self._anyway[left > 0]).any():
            self._best.take(self._menus.rows[choice])


def _summed(paid: NDArray[np.float64], worth: NDArray[np.float64]) -> float:
    """Return what prices show, of what jobs and places are worth at them; the latter are rounded up.

    A sum of so many terms is off by less than their number times eps of their magnitudes, and so are what
    jobs are worth, a product each.
    """
    size = float(np.abs(paid).sum() + np.abs(worth).sum())
    return float(paid.sum() + worth.sum()) + (paid.size + worth.size + 2) * 2.0**-52 * size


def _numbered(
    job: NDArray[np.int64], most: NDArray[np.int64], there: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return menus that hold every set of options, each at most so often: which one, how often, whose it is.

    Of a class with one option so many jobs have it; of others every job that is there, as far as all options
    have room, has a menu of its own.
    """
    begins = np.flatnonzero(np.diff(job, prepend=-1))
    sizes = np.diff(np.append(begins, job.size))
    alone = begins[sizes == 1]
    many = most[alone]
    one, whose = [np.repeat(alone, many)], [np.repeat(np.arange(alone.size), many)]
    times = [np.arange(one[0].size) - np.repeat(np.cumsum(many) - many, many) + 1]
    owner = alone.size
    for begin, size in zip(begins[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        jobs = min(int(there[begin]), int(most[begin : begin + size].sum()))
        one.append(np.tile(np.arange(begin, begin + size), jobs))
        whose.append(owner + np.repeat(np.arange(jobs), size))
        times.append(np.ones(jobs * size, dtype=np.int64))
        owner += jobs
    return np.concatenate(one), np.concatenate(times), np.concatenate(whose)


def _summed_up(
    number: NDArray[np.int64], times: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the different ones of some numbers, rising, and how many times each."""
    own, place = np.unique(number, return_inverse=True)
    return own, np.bincount(place, weights=times).astype(np.float64)
