"""Local search for capacities of which an option uses few: a job takes another option, again and again.

Options are drawn from the front of a job's list, which is in the order of loss at near-optimal prices. Worse
choices are accepted as in simulated annealing (Kirkpatrick, Gelatt and Vecchi, *Science* 220, 1983), at
temperatures on the scale of those losses. There are two kinds of steps.

*With ejection*, where jobs may be idle, every choice fits: jobs in the way of one that takes another option
take the best that still fits, or are idle (ejection chains after Glover, *Discrete Applied Mathematics* 65,
1996). Of some options that are drawn the one of greatest value less the price of what it uses too much of is
tried; what a step may lose is drawn first, and a step that must lose more is given up.

*With overuse*, where most jobs must use something, a capacity may be exceeded at a price, which grows as the
temperature falls: choices that fit lie too far apart there for steps between them (strategic oscillation,
Glover and Laguna, *Tabu Search*, 1997). Such a search needs no choice that fits to begin with.

The compiled twin `local_search_c` makes the same steps; where it is not built or switched off, the Python
below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.clock import Clock
from apportion.solvers.compiled import Xorshift, load
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable, among_least

__all__ = ["LocalSearch", "is_far"]


_MOST = 1_000
"""Options of least loss in the list of a job."""
_READ = 750_000
"""Uses of all listed options, those of least loss, for each second left: to read more takes long."""
_LONG_LIST = 50
"""Options of a job, in the mean, from which on lists are sorted one by one."""
_FIRST_STEPS, _LONGER, _MOST_STEPS = 50_000, 3.0, 2_000_000
"""Steps from warm to cold, how many more the next time, and at most."""
_LEAST_PRICE = 0.1
"""Share of the greatest price that every capacity has at least: what is full costs something."""
_SLICE, _LEAST_SLICE = {True: 10_000, False: 200}, 20
"""Steps between two looks at the clock, by whether they are compiled, some 5 ms, and at least,"""
_USES = 4.0
"""of options of so many uses: of more it is fewer."""
_SECONDS_PER_STEP = {True: 5e-7, False: 3e-5}
"""By whether they are compiled; what deterministic mode charges."""
_SECONDS_PER_ENTRY = 2e-4
"""Seconds of one turn at most, for every use that is not 0, and ten times as many with overuse: little is
left to be found after that."""
_STEPS_PER_UNIT = 1_000
"""Steps that count as a unit of work."""
_FAR, _FAR_TURN, _FAR_PER_USE, _FAR_BROUGHT = 0.01, 0.5, 2e-5, 0.9
"""Where the incumbent is this part of the bound away it is taken up again, for seconds or seconds a use,
while each turn leaves no more than this share of what was open."""
_TRIALS, _TRIAL_PER_USE, _TRIAL_SHARE = 2, 6e-5, 0.1
"""How many rounds may exceed capacities before one has found something better, the seconds of each for every
use that is not 0, and its share of the time left; all before it took as long at least."""
_HEAVIER, _HEAVIEST = 2.0, 1e6
"""What overuse costs more the next time where no choice of a round fitted, and at most."""
_MOST_EJECTED, _LOOKS = 12, 3
"""Jobs that one step may eject, and how many options that fit each of them is looked for."""


def is_far(best: ChoiceIncumbent, bound: float) -> bool:
    """Whether there is no incumbent, or it is far from a bound."""
    return best.distance_to(bound) > _FAR * abs(bound)


class LocalSearch:
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
        The incumbent; with ejection nothing is searched while there is none.
    clock, seed
        Of the solve call.
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
        self._all, self._prices = (menus, loss), prices
        self._random = np.array([Xorshift.seeded(seed).word], dtype=np.uint64)
        self._read()

    def _read(self) -> None:
        """List the options of least loss, and those of the incumbent."""
        menus, loss = self._all
        part = max(1.0, self._clock.seconds_of(1.0)) * _READ / max(1, menus.num_entries)
        if part < 1.0:
            kept = among_least(loss, max(menus.num_jobs, int(part * menus.num_options)))
            kept |= menus.paid(np.ones(menus.num_capacities)) == 0.0
            mine = self._best.among(menus)
            if mine is not None:
                kept[mine] = True
            menus, loss = menus.keep(kept), loss[kept]
        order = _by_loss(menus, loss)
        self._menus, self._rows = menus, menus.rows[order]
        self._place = np.empty_like(order)
        self._place[order] = np.arange(order.size)
        capacity, option, use = menus.entries_by_option(order)
        amounts = np.bincount(option, minlength=order.size)
        rank = np.arange(order.size) - menus.offsets[:-1][menus.job[order]]
        listed = np.flatnonzero((rank < _MOST) | (amounts == 0))  # to use nothing is a way out of every step
        sizes = np.bincount(menus.job[order[listed]], minlength=menus.num_jobs)
        begins, first = (np.concatenate(([0], np.cumsum(counts))) for counts in (sizes, amounts))
        worse = loss[order[listed]]
        self._worse = worse[worse > 0.0]
        self._arrays = (
            menus.values[order],
            first.astype(np.int64),
            capacity.astype(np.int32),
            use.astype(np.int64),
            menus.job[order[option]].astype(np.int32),
            menus.capacities.astype(np.int64),
            _prices_of_full(self._prices, menus.values, use),
            begins.astype(np.int64),
            listed.astype(np.int64),
        )
        self._rounds = [_Rounds(_EJECTION, self._arrays, self._worse, self._clock, self._random)]

    def _read_again(self) -> None:
        """List the incumbent's options where others have found it."""
        best, (menus, _), overuses = self._best, self._all, self.overuses
        if self._menus is menus or best.among(self._menus) is not None or best.among(menus) is None:
            return
        self.__dict__.pop("_overuse", None)
        self._read()
        if overuses and self._overuse is not None:
            self._rounds.insert(0, self._overuse)

    @cached_property
    def _overuse(self) -> _Rounds | None:
        """Rounds that may exceed capacities; ``None`` where half of the jobs may use nothing."""
        values, first, capacity, use, owner, room, _, begins, listed = self._arrays
        jobs = self._menus.num_jobs
        idle = np.bincount(self._menus.job[np.diff(first) == 0], minlength=jobs) > 0
        if 2 * np.count_nonzero(idle) >= jobs or not np.diff(begins).all():
            return None
        prices = _prices_of_overuse(self._worse, capacity, use, room.size)
        arrays = (values, first, capacity, use, owner, room, prices, begins, listed)
        return _Rounds(_OVERUSE, arrays, self._worse, self._clock, self._random)

    @property
    def overuses(self) -> bool:
        """Whether some of its steps may exceed capacities: such a round has found something better."""
        return len(self._rounds) > 1

    def run(self, seconds: float) -> None:
        """Search from warm to cold, again and again, for so many seconds of the clock; small menus less."""
        self._read_again()
        most = _SECONDS_PER_ENTRY * self._arrays[2].size * max(one.kind.quick for one in self._rounds)
        until = self._clock.elapsed + min(seconds, most)
        while self._clock.elapsed < until and self._round(self._rounds[0], until):
            self._rounds.reverse()

    def try_overuse(self) -> bool:
        """Return whether steps that may exceed capacities find something better: if so, more follow."""
        self._read_again()
        clock, before, rounds = self._clock, self._best.value, self._overuse
        if rounds is None or self.overuses:
            return False
        for _ in range(_TRIALS):
            seconds = min(
                _TRIAL_PER_USE * self._arrays[2].size, clock.seconds_of(_TRIAL_SHARE), clock.elapsed
            )
            rounds.lengthen(seconds)
            self._round(rounds, clock.elapsed + seconds)
            if self._best.value != before:
                self._rounds.insert(0, rounds)
                return True
        return False

    def from_far(self, bound: float, seconds: float) -> None:
        """Search in turns while the incumbent is far from a bound and comes nearer, for so many seconds."""
        clock, best, turn = self._clock, self._best, max(_FAR_TURN, _FAR_PER_USE * self._arrays[2].size)
        until, before = clock.elapsed + seconds, math.inf
        while clock.elapsed < until and clock.stopped() is None and is_far(best, bound):
            slow = best.distance_to(bound) > _FAR_BROUGHT * before
            if (slow or best.value is None) and not self.try_overuse():
                return
            before = best.distance_to(bound)
            self.run(min(turn, until - clock.elapsed))

    def _round(self, rounds: _Rounds, until: float) -> bool:
        """Make a round from the incumbent, or from what loses least; return whether another can follow."""
        clock, best, among = self._clock, self._best, self._best.among(self._menus)
        if rounds.warm == 0.0 or (among is None and rounds.kind is _EJECTION):
            return False
        *_, begins, listed = self._arrays
        choice = listed[begins[:-1]] if among is None else self._place[among]
        for found in rounds.choices(choice, until):
            if found is not None:
                best.take(self._rows[found])
            if clock.stopped() is not None or clock.elapsed >= until or best.close or best.proven:
                return False
        return True


class _Rounds:
    """Rounds of one kind of steps, each from warm to cold, and longer than the one before.

    Parameters
    ----------
    kind, arrays
        The steps, and what they are given first.
    worse
        float64, the losses > 0 of options.
    clock
        Of the solve call.
    random
        uint64 [1], the state of the random numbers; changed.

    Attributes
    ----------
    kind, warm
        The steps, and the temperature that a round begins at.
    """

    def __init__(
        self,
        kind: _Kind,
        arrays: tuple[NDArray[Any], ...],
        worse: NDArray[np.float64],
        clock: Clock,
        random: NDArray[np.uint64],
    ) -> None:
        self.kind, self._arrays, self._clock, self._random = kind, arrays, clock, random
        self.warm = float(np.quantile(worse, kind.warm)) if worse.size else 0.0
        module = load("multiknapsack.local_search_c")
        compiled = module is not None
        made = kind.in_python if module is None else getattr(module, kind.name)
        self._make_steps: Callable[..., float] = made
        slower = _SLICE[compiled] / _SLICE[True] * kind.quick
        self._length, self._longest = slower * _FIRST_STEPS, slower * _MOST_STEPS
        effort = max(1.0, arrays[2].size / arrays[0].size / _USES) / kind.quick
        self._slice = max(_LEAST_SLICE, int(_SLICE[compiled] / effort))
        self._price = effort * _SECONDS_PER_STEP[compiled]
        self._steps, self._seconds, self._special = 0, 0.0, kind.special

    def lengthen(self, seconds: float) -> None:
        """Let the next round take some seconds."""
        self._length = seconds / self._price

    def choices(self, choice: NDArray[np.int64], until: float) -> Iterator[NDArray[np.int64] | None]:
        """Make a round from a choice, int64 [jobs]; yield the best that fits of some steps, if any does."""
        slices = max(1, int(self._steps_until(until) / self._slice))
        cooling, part, power = self.kind.cold ** (1.0 / (slices * self._slice)), 1.0, -self.kind.power
        choice, fitting = choice.copy(), False
        for _ in range(slices):
            found, began = choice.copy(), self._clock.elapsed
            given = self._slice, self._special * part**power, part * self.warm, cooling, cooling**power
            value = self._make_steps(*self._arrays, choice, found, self._random, *given)
            self._steps += self._slice
            self._clock.charge(self._slice / _STEPS_PER_UNIT, self._slice * self._price)
            self._seconds += self._clock.elapsed - began
            fitting |= value > -math.inf
            yield found if value > -math.inf else None
            part *= cooling**self._slice
        self._length = min(_LONGER * self._length, self._longest)
        if not fitting:
            self._special = min(_HEAVIER * self._special, _HEAVIEST)

    def _steps_until(self, until: float) -> float:
        """Return the steps from warm to cold: the last time as many as there is time for, to end cold."""
        left = (until - self._clock.elapsed) * self._steps / self._seconds if self._seconds else math.inf
        return left if left < (1.0 + _LONGER) * self._length else self._length


def _by_loss(menus: OptionTable, loss: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return all options as lists are read, job by job: long ones sooner if each is sorted by itself."""
    if menus.num_options < _LONG_LIST * menus.num_jobs:
        return np.lexsort((loss, menus.job))
    ends = pairwise(menus.offsets.tolist())
    return np.concatenate([first + np.argsort(loss[first:end], kind="stable") for first, end in ends])


def _prices_of_full(
    prices: NDArray[np.float64], values: NDArray[np.float64], use: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return prices, float64 [capacities]: near-optimal ones, but what is full costs something."""
    least = _LEAST_PRICE * float(prices.max(initial=0.0))
    if least == 0.0:
        least = float(np.abs(values).mean()) / max(1.0, float(use.mean() if use.size else 1.0))
    return np.maximum(prices, least)


def _prices_of_overuse(
    worse: NDArray[np.float64], capacity: NDArray[Any], use: NDArray[Any], number: int
) -> NDArray[np.float64]:
    """Return prices, float64 [capacities], at which the mean use of each costs the median of losses."""
    uses, together = np.bincount(capacity, minlength=number), np.bincount(capacity, use, minlength=number)
    return float(np.median(worse) if worse.size else 0.0) * uses / np.maximum(together, 1.0)


def eject_in_python(*given: Any) -> float:
    """Make steps with ejection as the compiled twin does: the same ones, from the same arrays."""
    *arrays, choice_, best_, random_, steps, samples, temperature, cooling, _ = given
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
        for _ in range(int(samples)):
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


def anneal_in_python(*given: Any) -> float:
    """Make steps with overuse as the compiled twin does: the same ones, from the same arrays."""
    *arrays, choice_, best_, random_, steps, weight, temperature, cooling, firmer = given
    values, first, capacity, use, _, left, prices, begins, listed = (array.tolist() for array in arrays)
    choice, random = choice_.tolist(), Xorshift(int(random_[0]))

    def moved(option: int, sign: int) -> float:
        """Use less, or more, by an option; return by how much the priced overuse grows."""
        growth = 0.0
        for k in range(first[option], first[option + 1]):
            before, c = left[capacity[k]], capacity[k]
            left[c] = before + sign * use[k]
            growth += prices[c] * float(max(0, -left[c]) - max(0, -before))
        return growth

    value = 0.0
    for option in choice:
        moved(option, -1)
        value += values[option]
    best, best_value = list(choice), value if min(left) >= 0 else -math.inf
    for _ in range(steps):
        job = random.draw() % len(choice)
        size = begins[job + 1] - begins[job]
        if size >= 2:
            x, now = random.share(), choice[job]
            option = listed[begins[job] + int(x * x * size)]
            if option != now:
                more, growth = values[option] - values[now], moved(now, 1)
                growth += moved(option, -1)
                gain = more - weight * growth
                if gain < 0.0 and gain < temperature * math.log(1.0 - random.share()):
                    moved(option, 1), moved(now, -1)
                else:
                    choice[job] = option
                    value += more
                    if value > best_value and min(left) >= 0:
                        best, best_value = list(choice), value
        temperature *= cooling
        weight *= firmer
    choice_[:], best_[:], random_[0] = choice, best, random.word
    return best_value


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of steps.

    Attributes
    ----------
    name, in_python
        Of its compiled function, and its twin.
    warm, cold
        The quantile of losses that the temperature begins at, and what is left of it at the end.
    special, power
        What its function is given beside temperatures when it is warm, and by which power of the temperature
        that grows.
    quick
        How many are made in the time of one with ejection.
    """

    name: str
    in_python: Callable[..., float]
    warm: float
    cold: float
    special: float
    power: float
    quick: float


_EJECTION = _Kind("eject", eject_in_python, warm=0.05, cold=0.01, special=8.0, power=0.0, quick=1.0)
"""Eight options are drawn for a step."""
_OVERUSE = _Kind("anneal", anneal_in_python, warm=0.3, cold=0.1, special=3.0, power=1.5, quick=10.0)
"""As much overuse as an option uses in the mean costs three times the loss in the middle of all."""
