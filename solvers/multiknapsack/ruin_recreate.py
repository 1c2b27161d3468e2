"""Ruin and recreate: some places are emptied and filled again one after the other, each by itself.

For capacities that fall into places, of which every option uses one: nodes, racks, machines. To fill a place
is a knapsack over the jobs that are free, in which an option counts for what it is worth beyond the best its
job has otherwise: to be idle, or at near-optimal prices a place that is still to be filled. So a job that
suits a later place better is left to it, and what fits a place to the brim is found, which steps of single
jobs do not find. Ruin and recreate after Schrimpf, Schneider, Stamm-Wilbrandt and Dueck, *Journal of
Computational Physics* 159 (2000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable

__all__ = [
    "SECONDS",
    "WORK",
    "Places",
    "RuinRecreate",
    "Solve",
    "best_set",
    "fitting",
    "lost",
    "without_place",
]

Solve = Callable[[MultipleChoiceKnapsack, SolveOptions], Outcome]

_PLACES = 4
"""Places that are emptied at once,"""
_MOST_CAPACITIES, _MOST_OPTIONS, _SAMPLED = 8, 5_000, 10_000
"""of at most so many capacities and options each; options that show first whether capacities are more."""
_IDLE, _AGAIN = 2, 0.7
"""Turns without a better choice, for every place, after which this share of the places is emptied at once."""
_LEAST, _PATIENCE = 0.2, 4.0
"""Seconds, and times those to the last better choice, after which the search ends if it is not patient."""
_CELLS = 4_000_000
"""Jobs times places up to which all places are filled anew, one after the other."""
_TRUST = 0.9
"""Share of its gain at near-optimal prices that a job is left to a later place for."""
WORK, SECONDS = 100_000, 3e-3
"""Units of work that a place may take, and what deterministic mode charges for it."""
_GRID, _PART = 2.0**30, 2.0**-20
"""The greatest gain in whole numbers, and a part of one that rounding in double precision does not reach."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Capacities that fall into places, of which every option uses one or none.

    Attributes
    ----------
    of_capacity
        int64 [capacities]: their place.
    of_option
        int64 [options]: their place, -1 for those that use nothing.
    capacities, options
        By place int64: its capacities, and the options that use it in the order of their jobs.
    uses
        int64 [options, most capacities of a place]: what options use of the capacities of their place.
    """

    of_capacity: NDArray[np.int64]
    of_option: NDArray[np.int64]
    capacities: list[NDArray[np.int64]]
    options: list[NDArray[np.int64]]
    uses: NDArray[np.int64]

    @classmethod
    def among(cls, menus: OptionTable) -> Places | None:
        """Return the places of menus; ``None`` where there are not several, or one is too large to fill."""
        some = np.arange(0, menus.num_options, 1 + menus.num_options // _SAMPLED)
        for among in (some, None) if some.size < menus.num_options else (None,):  # what some link is linked
            capacity, option, use = menus.entries_by_option(among)
            of_capacity = _places_of(capacity, option, menus.num_capacities)
            capacities = _grouped(of_capacity)
            widest = max((those.size for those in capacities), default=0)
            least = (menus.num_options - menus.num_jobs) / max(1, len(capacities))  # a job may use nothing
            if len(capacities) < 2 or widest > _MOST_CAPACITIES or least > _MOST_OPTIONS:
                return None
        of_option = np.full(menus.num_options, -1)
        of_option[option] = of_capacity[capacity]
        options = _grouped(of_option)
        if len(options) < 2 or max(those.size for those in options) > _MOST_OPTIONS:
            return None
        position = np.empty(menus.num_capacities, dtype=np.int64)
        for those in capacities:
            position[those] = np.arange(those.size)
        uses = np.zeros((menus.num_options, widest), dtype=np.int64)
        uses[option, position[capacity]] = use
        return cls(of_capacity, of_option, capacities, options, uses)

    def summed(self, amounts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [places]: the amounts of each place's capacities together."""
        return np.asarray(np.bincount(self.of_capacity, amounts, len(self.options)), dtype=np.float64)


class RuinRecreate:
    """One search, taken up again and again; every better choice is offered to the incumbent.

    Parameters
    ----------
    menus, places
        All options, and the places that they use.
    best
        The incumbent.
    clock, seed
        Of the solve call.
    solve
        What fills a place: the engine for several capacities.
    """

    def __init__(
        self,
        menus: OptionTable,
        places: Places,
        best: ChoiceIncumbent,
        clock: Clock,
        seed: int,
        solve: Solve,
    ) -> None:
        self._menus, self.places, self._best, self._clock = menus, places, best, clock
        self.solve, self._random = solve, np.random.default_rng(seed)
        self._idle_option, self._idle = without_place(menus, places.of_option)
        self._idle_option[np.isneginf(self._idle)] = -1
        self._lost = lost(menus)

    def sweep(self, prices: NDArray[np.float64], seconds: float) -> None:
        """Fill all places anew, those of greatest price first, within so many seconds of the clock."""
        places = self.places
        choice, until = self._best.among(self._menus), self._clock.elapsed + seconds
        worth = places.summed(prices * self._menus.capacities)
        if choice is not None and worth.size * self._menus.num_jobs <= _CELLS:
            order = np.argsort(-worth, kind="stable")
            self._better(choice, self._recreated(choice, order, self._menus.scores(prices), until))

    def run(self, prices: NDArray[np.float64], seconds: float, *, patient: bool = True) -> None:
        """Empty and fill some places again and again, for so many seconds of the clock.

        Without patience it ends when nothing better was found for thrice the time that led to the last one.
        """
        clock, best, values, number = self._clock, self._best, self._menus.values, len(self.places.options)
        choice, reduced, since = best.among(self._menus), self._menus.scores(prices), 0
        began = gained = clock.elapsed
        until, most = began + seconds, best.value
        while choice is not None and clock.elapsed < until and not best.close and not best.proven:
            if clock.stopped() is not None:
                return
            if not patient and clock.elapsed - began > _LEAST + _PATIENCE * (gained - began):
                return
            again = since >= _IDLE * number  # turns of few places make it no better: begin from another
            count = min(number, int(_AGAIN * number) if again else _PLACES)
            places = self._random.choice(number, count, replace=False)
            other, before = self._recreated(choice, places, reduced, until), values[choice].sum()
            choice = other if again and other is not None else self._better(choice, other)
            since = 0 if again or values[choice].sum() > before else since + 1
            if best.value != most:
                most, gained = best.value, clock.elapsed

    def _better(self, choice: NDArray[np.int64], other: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return the other choice where it is better or as good, and offer it."""
        values = self._menus.values
        if other is None or values[other].sum() < values[choice].sum():
            return choice
        self._best.take(self._menus.rows[other])
        return other

    def _recreated(
        self, choice: NDArray[np.int64], places: NDArray[np.int64], reduced: NDArray[np.float64], until: float
    ) -> NDArray[np.int64] | None:
        """Return a choice with places filled anew in their order; ``None`` where a job finds no place.

        A job stays where it is until its place has its turn, or an earlier one takes it.
        """
        job, of, choice = self._menus.job, self.places.of_option, choice.copy()
        free = np.isin(of[choice], [-1, *places])
        for place, value in zip(places.tolist(), self._otherwise(places, reduced), strict=True):
            if self._clock.elapsed >= until or self._clock.stopped() is not None:
                break
            out = of[choice] == place
            choice[out] = self._idle_option[out]
            options = self.places.options[place]
            options = options[free[job[options]]]
            taken = self._filled(place, options, self._menus.values[options] - value[job[options]])
            choice[job[taken]] = taken
            free[job[taken]] = False
        return choice if bool((choice >= 0).all()) else None

    def _otherwise(self, places: NDArray[np.int64], reduced: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what jobs have otherwise while places are filled in order, float64 [places, jobs]."""
        none = np.isneginf(self._idle)
        found = np.empty((places.size, self._idle.size))
        value, anyway = np.where(none, -self._lost, self._idle), np.where(none, 0.0, self._idle)
        for at in range(places.size - 1, -1, -1):
            found[at] = value
            options = self.places.options[places[at]]
            job = self._menus.job[options]
            gain = reduced[options]
            gain = np.where(none[job], gain, anyway[job] + _TRUST * (gain - anyway[job]))
            value = value.copy()
            np.maximum.at(value, job, gain)
        return found

    def _filled(
        self, place: int, options: NDArray[np.int64], gains: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the options that a place is filled with, of some in the order of their jobs."""
        options, gains = options[gains > 0.0], gains[gains > 0.0]
        if options.size == 0:
            return options
        caps = self.places.capacities[place]
        capacities = self._menus.capacities[caps].astype(np.int64)
        uses = self.places.uses[options, : caps.size]
        kept = _of_use(self._menus.job[options], gains, uses, capacities)
        options, uses = options[kept], uses[kept]
        chosen, _, work = best_set(self.solve, self._menus.job[options], gains[kept], uses, capacities)
        self._clock.charge(work, SECONDS)
        return options[chosen]


def without_place(
    menus: OptionTable, of_option: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return every job's best option that uses no place, and its value; minus infinity where none is."""
    values = np.where(of_option < 0, menus.values, -np.inf)
    option = menus.best_choice(values)
    return option, values[option]


def lost(menus: OptionTable) -> float:
    """Return what a job is taken to cost that must run and finds no place."""
    return float(np.abs(menus.values).max(initial=0.0)) * menus.num_jobs


def fitting(
    uses: NDArray[np.int64], room: NDArray[np.int64], most: int | NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return int64 [options]: how often each fits into a place by itself, and at most so often."""
    unlimited = np.iinfo(np.int64).max
    times = np.where(uses > 0, room // np.maximum(uses, 1), unlimited)
    return np.asarray(np.minimum(times.min(axis=1, initial=unlimited), most), dtype=np.int64)


def best_set(
    solve: Solve,
    job: NDArray[np.int64],
    gains: NDArray[np.float64],
    uses: NDArray[np.int64],
    capacities: NDArray[np.int64],
) -> tuple[NDArray[np.int64], float, float]:
    """Return the best set of options that fits, what no set is worth more than, and the work that it took.

    Gains are counted in whole numbers of a unit, rounded up. What rounding has taken of a gain before (some
    eps of at most `_GRID` units) is added: a part of a unit.

    Parameters
    ----------
    solve
        The engine for several capacities.
    job
        int64 [options], rising: one option of each at most.
    gains
        float64 [options], above 0, each off by a few eps of itself.
    uses, capacities
        int64 [options, capacities] and [capacities].

    Raises
    ------
    KeyboardInterrupt
        If the engine was interrupted.
    """
    unit = float(gains.max()) / _GRID
    sizes = np.bincount(job)
    model = MultipleChoiceKnapsack.from_arrays(
        np.ceil(gains / unit + _PART),
        uses,
        np.concatenate(([0], np.cumsum(sizes[sizes > 0]))),
        capacities,
        required=False,
    )
    outcome = solve(model, SolveOptions(deterministic=True, work_limit=WORK))
    if outcome.termination is Termination.INTERRUPTED:
        raise KeyboardInterrupt
    most = gains.sum() if outcome.bound is None else outcome.bound * unit
    found = np.zeros(0) if outcome.point is None else outcome.point[outcome.point >= 0]
    return found.astype(np.int64), float(most), 1.0 + outcome.counters["nodes"] + outcome.counters["states"]


def _places_of(capacity: NDArray[np.int64], option: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Return the place of every capacity, int64 [capacities]: those that one option uses are of one place."""
    same = option[1:] == option[:-1]
    linked = np.unique(capacity[:-1][same] * number + capacity[1:][same])
    one, other = linked // number, linked % number
    place = np.arange(number)
    while (differs := place[one] != place[other]).any():
        least = np.minimum(place[one], place[other])[differs]
        np.minimum.at(place, one[differs], least)
        np.minimum.at(place, other[differs], least)
    return np.unique(place, return_inverse=True)[1].astype(np.int64)


def _grouped(group: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the members of every group from 0 on, in rising order."""
    order = np.argsort(group, kind="stable")
    ends = np.searchsorted(group[order], np.arange(group.max(initial=-1) + 2))
    return [order[a:b] for a, b in pairwise(ends)]


def _of_use(
    job: NDArray[np.int64], gains: NDArray[np.float64], uses: NDArray[np.int64], capacities: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return bool [options]: all but those of jobs alike beyond what a place has room for."""
    alone = np.bincount(job)[job] == 1
    room = fitting(uses, capacities, job.size)
    _, kind = np.unique(np.column_stack((gains, uses)), axis=0, return_inverse=True)
    order = np.lexsort((~alone, kind))
    first = np.searchsorted(kind[order], kind[order])
    rank = np.empty(job.size, dtype=np.int64)
    rank[order] = np.arange(job.size) - first
    return np.asarray(~alone | (rank < room), dtype=np.bool_)
