"""Local search with ejection: a job takes another option, and jobs in its way take the best that still fits.

For many capacities of which an option uses few, where a step costs what a few options use. Options are drawn
from the front of a job's list, which is in the order of loss at near-optimal prices; of some that are drawn
the one of greatest value less the price of what it uses too much of is tried. Worse choices are accepted as
in simulated annealing (Kirkpatrick, Gelatt and Vecchi, *Science* 220, 1983), at temperatures on the scale of
those losses: what a step may lose is drawn first, and a step that must lose more is given up. Ejection
chains after Glover, *Discrete Applied Mathematics* 65 (1996).

The compiled twin `ejection_c` makes the same steps; where it is not built or switched off, the Python below.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.clock import Clock
from apportion.solvers.compiled import Xorshift, load
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable

__all__ = ["Ejection"]


_MOST = 1_000
"""Options of least loss in the list of a job."""
_SAMPLES = 8
"""Options that are drawn for a step."""
_FIRST_STEPS, _LONGER, _MOST_STEPS = 50_000, 3.0, 2_000_000
"""Steps from warm to cold, how many more the next time, and at most."""
_WARM, _COLDER = 0.05, 0.01
"""The quantile of losses that the temperature begins at, and what is left of it at the end."""
_LEAST_PRICE = 0.1
"""Share of the greatest price that every capacity has at least: what is full costs something."""
_SLICE, _LEAST_SLICE = {True: 10_000, False: 200}, 20
"""Steps between two looks at the clock, by whether they are compiled, some 5 ms, and at least,"""
_USES = 4.0
"""of options of so many uses: of more it is fewer."""
_SECONDS_PER_STEP = {True: 5e-7, False: 3e-5}
"""By whether they are compiled; what deterministic mode charges."""
_SECONDS_PER_ENTRY = 2e-4
"""Seconds of one turn at most, for every use that is not 0: little is left to be found after that."""
_STEPS_PER_UNIT = 1_000
"""Steps that count as a unit of work."""
_MOST_EJECTED, _LOOKS = 12, 3
"""Jobs that one step may eject, and how many options that fit each of them is looked for."""


class Ejection:
    """One local search, taken up again and again; every better choice is offered to the incumbent.

    Parameters
    ----------
    menus
        All options.
    loss
        float64 [options]: how far below its menu's best an option is at near-optimal prices.
    prices
        float64 [capacities] >= 0.
    best
        The incumbent, which must be a choice among the menus.
    clock, seed
        Of the solve call.

    Attributes
    ----------
    steps
        Made so far.
    """

    def __init__(
        self,
        menus: OptionTable,
        loss: NDArray[np.float64],
        prices: NDArray[np.float64],
        best: ChoiceIncumbent,
        clock: Clock,
        seed: int,
    ) -> None:
        self._best, self._clock = best, clock
        self.steps, self._seconds = 0, 0.0
        order = np.lexsort((loss, menus.job))  # as lists are read
        self._menus, self._rows = menus, menus.rows[order]
        self._place = np.empty_like(order)
        self._place[order] = np.arange(order.size)
        capacity, option, use = menus.entries_by_option(order)
        amounts = np.bincount(option, minlength=order.size)
        rank = np.arange(order.size) - menus.offsets[:-1][menus.job[order]]
        listed = np.flatnonzero((rank < _MOST) | (amounts == 0))  # to use nothing is a way out of every step
        sizes = np.bincount(menus.job[order[listed]], minlength=menus.num_jobs)
        begins, first = (np.concatenate(([0], np.cumsum(counts))) for counts in (sizes, amounts))
        least = _LEAST_PRICE * float(prices.max(initial=0.0))
        if least == 0.0:
            least = float(np.abs(menus.values).mean()) / max(1.0, float(use.mean() if use.size else 1.0))
        self._arrays = (
            menus.values[order],
            first.astype(np.int64),
            capacity.astype(np.int32),
            use.astype(np.int64),
            menus.job[order[option]].astype(np.int32),
            menus.capacities.astype(np.int64),
            np.maximum(prices, least),
            begins.astype(np.int64),
            listed.astype(np.int64),
        )
        worse = loss[order[listed]]
        self._warm = float(np.quantile(worse[worse > 0.0], _WARM)) if (worse > 0.0).any() else 0.0
        self._random = np.array([Xorshift.seeded(seed).word], dtype=np.uint64)
        self._module = load("multiknapsack.ejection_c")
        compiled = self._module is not None
        slower = _SLICE[compiled] / _SLICE[True]
        self._length, self._longest = slower * _FIRST_STEPS, slower * _MOST_STEPS
        effort = max(1.0, use.size / menus.num_options / _USES)
        self._steps = max(_LEAST_SLICE, int(_SLICE[compiled] / effort))
        self._price = effort * _SECONDS_PER_STEP[compiled]

    def run(self, seconds: float) -> None:
        """Search from warm to cold, again and again, for so many seconds of the clock; small menus less."""
        most = _SECONDS_PER_ENTRY * self._arrays[2].size
        clock, best, until = self._clock, self._best, self._clock.elapsed + min(seconds, most)
        while clock.elapsed < until:
            among = best.among(self._menus)
            if among is None or self._warm == 0.0:
                return
            choice = self._place[among]
            slices = max(1, int(self._steps_until(until) / self._steps))
            cooling = _COLDER ** (1.0 / (slices * self._steps))
            temperature = self._warm
            for _ in range(slices):
                if clock.stopped() is not None or clock.elapsed >= until or best.close or best.proven:
                    return
                best.take(self._rows[self._slice(choice, temperature, cooling)])
                temperature *= cooling**self._steps
            self._length = min(_LONGER * self._length, self._longest)

    def _steps_until(self, until: float) -> float:
        """Return the steps from warm to cold: the last time as many as there is time for, to end cold."""
        left = (until - self._clock.elapsed) * self.steps / self._seconds if self._seconds else math.inf
        return left if left < (1.0 + _LONGER) * self._length else self._length

    def _slice(self, choice: NDArray[np.int64], temperature: float, cooling: float) -> NDArray[np.int64]:
        """Make some steps from a choice, int64 [jobs], which is changed; return the best one met."""
        run: Any = steps_in_python if self._module is None else self._module.run
        found = choice.copy()
        began = self._clock.elapsed
        run(*self._arrays, choice, found, self._random, self._steps, _SAMPLES, temperature, cooling)
        self.steps += self._steps
        self._clock.charge(self._steps / _STEPS_PER_UNIT, self._steps * self._price)
        self._seconds += self._clock.elapsed - began
        return found


def steps_in_python(*given: Any) -> float:
    """Make the steps of the compiled twin: the same ones, from the same arrays."""
    *arrays, choice_, best_, random_, steps, samples, temperature, cooling = given
    values, first, capacity, use, owner, left, prices, begins, listed = (array.tolist() for array in arrays)
    choice, random = choice_.tolist(), Xorshift(int(random_[0]))
    draw, share = random.draw, random.share
    users: list[list[int]] = [[] for _ in left]
    where = [0] * len(use)

    def put(job: int, option: int) -> None:
        choice[job] = option
        for k in range(first[option], first[option + 1]):
            c = capacity[k]
            left[c] -= use[k]
            where[k] = len(users[c])
            users[c].append(k)

    def take_away(job: int) -> None:
        option = choice[job]
        choice[job] = -1
        for k in range(first[option], first[option + 1]):
            c = capacity[k]
            left[c] += use[k]
            moved = users[c].pop()
            if moved != k:
                users[c][where[k]] = moved
                where[moved] = where[k]

    def proposed(job: int) -> int:
        now, size, best, most = choice[job], begins[job + 1] - begins[job], -1, -math.inf
        own = {capacity[k]: use[k] for k in range(first[now], first[now + 1])}
        for _ in range(samples):
            x = share()
            option = listed[begins[job] + int(x * x * size)]
            if option == now:
                continue
            worth = values[option]
            for k in range(first[option], first[option + 1]):
                over = use[k] - left[capacity[k]] - own.get(capacity[k], 0)
                if over > 0:
                    worth -= prices[capacity[k]] * over
            worth += temperature * share()
            if worth > most:
                most, best = worth, option
        return best

    def ejected(option: int, moved: list[tuple[int, int]]) -> bool:
        """Take away what is in an option's way; false where that is too much."""
        for k in range(first[option], first[option + 1]):
            c = capacity[k]
            while left[c] < use[k]:
                if not users[c] or len(moved) > _MOST_EJECTED:
                    return False
                one = owner[users[c][draw() % len(users[c])]]
                other = owner[users[c][draw() % len(users[c])]]
                out = one if values[choice[one]] < values[choice[other]] else other
                moved.append((out, choice[out]))
                take_away(out)
        return True

    def fitting(job: int, enough: float) -> int:
        """Return an option that fits and is worth enough, the best of the first few; -1 where none is."""
        found, looks = -1, 0
        for at in range(begins[job], begins[job + 1]):
            option = listed[at]
            if values[option] < enough or (found >= 0 and values[option] <= values[found]):
                continue
            if all(left[capacity[k]] >= use[k] for k in range(first[option], first[option + 1])):
                found, looks = option, looks + 1
                if looks == _LOOKS:
                    break
        return found

    value = 0.0
    for job, option in enumerate(list(choice)):
        put(job, option)
        value += values[option]
    best, best_value = list(choice), value
    top = [max(map(values.__getitem__, listed[a:b]), default=-math.inf) for a, b in pairwise(begins)]
    for _ in range(steps):
        job = draw() % len(choice)
        option = proposed(job) if begins[job + 1] - begins[job] >= 2 else -1
        if option >= 0:
            moved, least = [(job, choice[job])], temperature * math.log(1.0 - share())
            take_away(job)
            possible, placed = ejected(option, moved), 0
            gain, hope = values[option] - values[moved[0][1]], 0.0
            for out, before in moved[1:]:
                gain -= values[before]
                hope += top[out]
            if possible and gain + hope >= least:
                put(job, option)
                placed = 1
                for out, _ in moved[1:]:
                    hope -= top[out]
                    found = fitting(out, least - gain - hope)
                    if found < 0:
                        break
                    put(out, found)
                    placed += 1
                    gain += values[found]
            if placed == len(moved) and gain >= least:
                value += gain
                if value > best_value:
                    best, best_value = list(choice), value
            else:
                for out, _ in reversed(moved[:placed]):
                    take_away(out)
                for out, before in reversed(moved):
                    put(out, before)
        temperature *= cooling
    choice_[:], best_[:], random_[0] = choice, best, random.word
    return best_value
