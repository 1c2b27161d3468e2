"""Menus that are asked, not listed: column generation, and a proof from the options within reach.

1. *Prices.* At some prices every menu answers with its best option. L(prices) = prices . capacities + the sum
   of what these are worth is a bound over *all* options (weak duality). Prices go down by what the answers
   overdraw; the last answers are listed, and prices of the relaxation of what is listed are asked at until
   nothing new is answered: then it is the relaxation of everything. Menus are asked between the best prices
   so far and those, which jump about (Wentges, *Weighted Dantzig-Wolfe decomposition*, 1997).
2. *A plan.* What is listed is solved as any other menus.
3. *A proof.* An option that lies below the best of its menu by more than d at the prices is in no choice of
   more than L - d. So the optimum over all options that lie within d, or L - d if that is more, is a bound of
   everything; with d = L - incumbent it is the optimum. Where these are too many, d is less (Baldacci,
   Christofides, Mingozzi, *An exact algorithm for the vehicle routing problem*, 2008).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.core.errors import InvalidInstance, Problem
from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination, absolute_gap, meets
from apportion.models.implicit_menus import Menu, MenuOption
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.multiknapsack.dual import multipliers
from apportion.solving.api import solve

__all__ = ["MenuPlan", "solve_menus"]

_BITS = 50
"""Whole multiples that what all capacities cost at the prices comes to, at most: sums of them are exact."""
_ROUNDING = 2.0**-40
"""Part of the magnitudes by which an option may lie below what is asked for, and is asked for."""
_FIRST_STEP, _LAST_STEP, _SHRINKING = 0.05, 1e-4, 0.6
"""Shares of L that a step down is to take off: the first, the last, and what is made of one that does not,"""
_STUCK, _FALL = 8, 1e-5
"""that is, so many times in a row not this share of L."""
_MOMENTUM = 0.7
"""Weight of the directions before in the next one."""
_LISTING = 0.004
"""Steps down from which on answers are listed: the options of prices far away are in no good plan."""
_KEPT = 0.6
"""Weight of the best prices so far where menus are asked, beside those of the relaxation."""
_PRICED = 1e-7
"""Relative distance between the relaxation of what is listed and of everything that counts as none."""
_ROUNDS = 400
"""Relaxations at most."""
_PRICING, _PLANNING = 0.4, 0.5
"""Share of the time that prices have, and of what is then left that a first plan has."""
_SOON = 0.01
"""Seconds that are left at least, where the limit has passed while menus answered."""
_MOST_LISTED = 50_000
"""Options within reach that are listed at most."""
_ATTEMPTS = 30
"""How often the reach is changed, where too many options lie within it or not enough."""
_PENALTIES, _PENALTY = 4, 1_000.0
"""How often a plan may leave out a required job, and by how much that costs more each time."""
_DENSE = 10
"""Capacities up to which uses are dense."""
_EPS = 2.0**-50
"""Part of the magnitudes by which the worth of an option may be rounded."""


@dataclass(frozen=True, slots=True, eq=False)
class MenuPlan:
    """What was found.

    Attributes
    ----------
    keys
        The key of every job's option, ``None`` for a job that is left out; ``None`` without a plan.
    objective
        What they are worth together, computed anew from `Menu.option`.
    bound
        What no choice of options exceeds, if `Menu.best` and `Menu.within` answer rightly; ``None`` without
        one.
    termination
        `optimal` where both meet, `infeasible` where all options were listed and no choice fits.
    generated
        How many options were asked for.
    """

    keys: tuple[Hashable | None, ...] | None
    objective: float | None
    bound: float | None
    termination: Termination
    generated: int


def solve_menus(
    menus: Sequence[Menu],
    capacities: ArrayLike,
    *,
    required: ArrayLike = False,
    time_limit: float | None = None,
    gap: float = 0.0,
    recheck: bool = True,
) -> MenuPlan:
    """Choose one option of every menu, worth most together, without listing the menus.

    Parameters
    ----------
    menus
        One a job.
    capacities
        int64 [capacities], at least 0.
    required
        bool [jobs], or one for all: whether a job must have an option; another may be left out, worth 0.
    time_limit
        Wall-clock seconds, checks of the menus' answers aside; ``None`` for no limit.
    gap
        Relative gap at which the search may stop.
    recheck
        Whether the answers that the bound rests on are compared with those of going through all options,
        which takes long where there are many. Otherwise the bound rests on the menus' word.

    Raises
    ------
    InvalidInstance
        If an option or a capacity is no such thing, or a menu's answer is found to be wrong; the message
        names the job.
    InvalidOption
        If the limit or the gap is out of range.

    Examples
    --------
    Two jobs may begin in any of three hours and run for two; the second one is wide.

    >>> from apportion.models.implicit_menus import Span, SpanMenu
    >>> gpus = [4, 4, 4]
    >>> jobs = [SpanMenu([Span(2, 2, [5.0, 4.0])], gpus), SpanMenu([Span(3, 1, [6.0, 6.0, 3.0])], gpus)]
    >>> found = solve_menus(jobs, gpus)
    >>> found.keys, found.objective, found.termination.value
    (((0, 1), (0, 0)), 10.0, 'optimal')
    """
    options = SolveOptions(time_limit=time_limit, gap=gap)
    rooms = np.atleast_1d(np.asarray(capacities))
    none = MultipleChoiceKnapsack.from_arrays(
        [], np.zeros((0, rooms.size), np.int64), np.zeros(len(menus) + 1, np.int64), rooms, required
    )
    search = _Search(menus, none.capacities, none.required, options)
    try:
        ended = search.run()
    except KeyboardInterrupt:
        ended = Termination.INTERRUPTED
    if recheck and ended is not Termination.INTERRUPTED:
        search.recheck()
    return search.result(ended)


class _Priced(NamedTuple):
    """What menus answer at some prices.

    Attributes
    ----------
    prices
        float64 [capacities], rounded as `Menu` says.
    keys
        The best option of every job, ``None`` of an empty menu.
    limit
        What no choice of options exceeds.
    over
        float64 [capacities]: by how much the answers overdraw the capacities.
    """

    prices: NDArray[np.float64]
    keys: list[Hashable | None]
    limit: float
    over: NDArray[np.float64]


class _OptionPool:
    """The options that were asked for, of all jobs.

    Parameters
    ----------
    menus, rooms
        The jobs, and int64 [capacities].
    """

    def __init__(self, menus: Sequence[Menu], rooms: NDArray[np.int64]) -> None:
        self._menus, self._rooms = menus, rooms.tolist()
        self._options: list[dict[Hashable, MenuOption]] = [{} for _ in menus]

    def __len__(self) -> int:
        return sum(map(len, self._options))

    def option(self, job: int, key: Hashable) -> MenuOption:
        """Return an option, as it is listed or as its menu says.

        Raises
        ------
        InvalidInstance
            If there is none, its value is no finite number, or it uses what it cannot.
        """
        if (option := self._options[job].get(key)) is not None:
            return option
        try:
            option = self._menus[job].option(key)
        except KeyError:
            raise InvalidInstance(
                Problem(f"$.menus[{job}]", f"answers {key!r}, which it has no option of")
            ) from None
        if (said := self._wrong(option)) is not None:
            raise InvalidInstance(Problem(f"$.menus[{job}].option({key!r})", said))
        return option

    def _wrong(self, option: MenuOption) -> str | None:
        if not math.isfinite(option.value):
            return f"is worth {option.value!r}: give a finite number"
        for capacity, use in option.uses.items():
            if capacity not in range(len(self._rooms)):
                return f"uses capacity {capacity!r}: there are {len(self._rooms)}, from 0"
            if use not in range(self._rooms[capacity] + 1):
                room = self._rooms[capacity]
                return (
                    f"uses {use!r} of capacity {capacity}: give whole numbers from 0 to the {room} there are"
                )
        return None

    def add(self, keys: Sequence[Iterable[Hashable | None]]) -> bool:
        """List options, given by job; return whether one of them is new."""
        before = len(self)
        for job, some in enumerate(keys):
            for key in some:
                if key is not None:
                    self._options[job][key] = self.option(job, key)
        return len(self) > before

    def model(
        self,
        penalties: NDArray[np.float64],
        must: NDArray[np.bool_],
        kept: Sequence[Iterable[Hashable]] | None = None,
    ) -> tuple[MultipleChoiceKnapsack, list[Hashable | None]]:
        """Return menus of what is listed, or of some of it, and the keys of their options.

        One of the options of a job with a penalty is to be left out for it: its key is ``None``.
        """
        from scipy.sparse import coo_array

        keys, values, offsets = list[Hashable | None](), list[float](), [0]
        rows, columns, amounts = list[int](), list[int](), list[int]()
        for job, options in enumerate(self._options):
            for key in options if kept is None else kept[job]:
                value, uses = options[key]
                rows += [len(keys)] * len(uses)
                columns += uses.keys()
                amounts += uses.values()
                keys.append(key)
                values.append(value)
            if penalties[job]:
                keys.append(None)
                values.append(-float(penalties[job]))
            offsets.append(len(keys))
        places = np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)
        entries = np.array(amounts, dtype=np.int64)
        uses_of = coo_array((entries, places), shape=(len(keys), len(self._rooms)))
        few = len(self._rooms) <= _DENSE
        model = MultipleChoiceKnapsack.from_arrays(
            values, uses_of.toarray() if few else uses_of, offsets, self._rooms, required=must
        )
        return model, keys


class _Search:
    """One call, so that an interruption finds the incumbent wherever it strikes.

    Parameters
    ----------
    menus, rooms, required
        The jobs, int64 [capacities], and bool [jobs].
    options
        The relative gap to stop at, and when to.
    """

    def __init__(
        self,
        menus: Sequence[Menu],
        rooms: NDArray[np.int64],
        required: NDArray[np.bool_],
        options: SolveOptions,
    ) -> None:
        self._menus, self._rooms, self._required = menus, rooms, required
        self._gap, self._clock = options.gap, Clock(options)
        self._pool = _OptionPool(menus, rooms)
        self._penalties = np.zeros(len(menus))
        """What it costs to leave out a required job: for so much there is always a choice."""
        self._best = _Priced(np.zeros(rooms.size), [None] * len(menus), math.inf, np.zeros(rooms.size))
        self._within = list[list[Hashable]]()
        """All options within the last reach of the best prices,"""
        self._least = list[float]()
        """that is, worth so much or more at them, by job."""
        self._chosen: list[Hashable | None] | None = None
        self._value, self._bound = -math.inf, math.inf
        """What the incumbent is worth, penalties taken off, and what no choice exceeds."""

    def run(self) -> Termination:
        """Search, and say how it ended."""
        first = self._look(self._best.prices)
        worths = [
            abs(self._pool.option(job, key).value) for job, key in enumerate(first.keys) if key is not None
        ]
        self._penalties[self._required] = 1.0 + 2.0 * math.fsum(worths)
        for _ in range(_PENALTIES):
            self._price()
            ended = self._prove()
            if not self._leaves_out():
                return ended
            if self._clock.late():
                return Termination.TIME_LIMIT
            self._penalties *= _PENALTY
            self._chosen, self._value = None, -math.inf
        return self._over_all_options()

    def _left(self, share: float = 1.0) -> float | None:
        """Return a share of the seconds left, ``None`` without a limit."""
        left = self._clock.seconds_left
        return None if left is None else max(_SOON, share * left)

    def _look(self, prices: NDArray[np.float64]) -> _Priced:
        """Return what menus answer at some prices.

        Uses times prices are multiples of one power of two and below 2^53 of it, so sums of them are exact:
        what an answer is worth is rounded once, and so is the sum of all, by half of `_EPS` of itself.
        """
        total = float(prices @ np.maximum(self._rooms, 1))
        unit = math.ldexp(1.0, math.frexp(total)[1] - _BITS)
        prices = np.floor(prices / unit) * unit
        keys = [self._answer(job, prices) for job in range(len(self._menus))]
        over, at = (-self._rooms).astype(np.float64), prices.tolist()
        terms = [price * room for price, room in zip(at, self._rooms.tolist(), strict=True)]
        rounded = 0.0
        for job, key in enumerate(keys):
            worth, out = -math.inf, -float(self._penalties[job])
            if key is not None:
                option = self._pool.option(job, key)
                worth = option.at(at)
                rounded += abs(worth)
                if worth > out:
                    for capacity, use in option.uses.items():
                        over[capacity] += use
            terms.append(max(worth, out))
        limit = math.fsum(terms)
        limit = math.nextafter(limit + _EPS * (rounded + abs(limit)), math.inf)
        return _Priced(prices, keys, limit, over)

    def _answer(self, job: int, prices: NDArray[np.float64]) -> Hashable | None:
        try:
            return self._menus[job].best(prices)
        except LookupError as error:  # one of its options uses what there is not
            raise InvalidInstance(Problem(f"$.menus[{job}]", f"gives no answer: {error}")) from error

    def _improve(self, prices: NDArray[np.float64]) -> _Priced:
        """Return what menus answer at some prices, which are the best ones now if no others prove as much."""
        found = self._look(prices)
        if found.limit < self._best.limit:
            self._best, self._within, self._least = found, [], []
            self._bound = min(self._bound, found.limit)
        return found

    def _price(self) -> None:
        """Find prices at which what is listed is worth as much as everything, as far as prices say."""
        clock, left = self._clock, self._left(_PRICING)
        end = math.inf if left is None else clock.seconds + left
        self._best, self._within, self._least = self._look(self._best.prices), [], []
        self._bound = self._best.limit
        self._descend(end)
        for _ in range(_ROUNDS):
            model, _ = self._pool.model(self._penalties, self._required)
            seconds = None if left is None else max(0.0, end - clock.seconds)
            prices, worth = multipliers(model, late=lambda: clock.seconds >= end, seconds=seconds)
            if self._best.limit - worth <= _PRICED * abs(worth):
                return
            for at in _KEPT * self._best.prices + (1.0 - _KEPT) * prices, prices:
                if new := self._pool.add([[key] for key in self._improve(at).keys]):
                    break
            if not new or clock.seconds >= end:
                return

    def _descend(self, end: float) -> None:
        """Let prices go down by what the answers overdraw, and list the last answers.

        A step is as long as if L were to fall by a share of itself (Polyak, 1969), along the mean of what is
        overdrawn, as parts of the capacities, now and before.
        """
        rooms, share, stuck, now = np.maximum(self._rooms, 1), _FIRST_STEP, 0, self._best
        along = np.zeros(rooms.size)
        while share > _LAST_STEP and (now.over > 0).any() and self._clock.seconds < end:
            along = _MOMENTUM * along + (1.0 - _MOMENTUM) * now.over / rooms
            step = share * abs(now.limit) / max(float(along @ along), _EPS)
            before = self._best.limit
            now = self._improve(np.maximum(0.0, now.prices + step * along / rooms))
            stuck = 0 if self._best.limit < before - _FALL * abs(before) else stuck + 1
            if stuck == _STUCK:
                share, stuck, now, along = share * _SHRINKING, 0, self._best, np.zeros(rooms.size)
            if share <= _LISTING:
                self._pool.add([[key] for key in now.keys])
        self._pool.add([[key] for key in now.keys])

    def _prove(self) -> Termination:
        """Find a plan among what is listed; then prove it by all options within reach, as far as they go."""
        ended, _ = self._solve(None, _PLANNING)
        reach = self._best.limit - self._value
        for _ in range(_ATTEMPTS):
            if self._close() or self._clock.late():
                break
            if not self._list_within(reach):
                if self._least:  # less than that is proved already
                    break
                reach /= 4.0
                continue
            ended, inside = self._solve(self._within)
            if inside is None:
                break
            outside = math.nextafter(self._best.limit - reach, math.inf)
            self._bound = min(self._bound, max(self._value, inside, outside))
            if reach >= self._best.limit - self._value:
                break
            reach = min(2.0 * reach, self._best.limit - self._value)
        if self._chosen is not None and meets(self._value, self._bound):
            return Termination.OPTIMAL
        if self._close():
            return Termination.GAP_REACHED
        return Termination.NODE_LIMIT if ended is Termination.OPTIMAL and not self._clock.late() else ended

    def _close(self) -> bool:
        """Return whether the incumbent is as near to the bound as was asked."""
        apart = absolute_gap(self._value, self._gap)
        return self._chosen is not None and (
            meets(self._value, self._bound) or self._bound - self._value <= apart
        )

    def _list_within(self, reach: float) -> bool:
        """List all options within reach of the best of their menu, unless there are too many."""
        kept, least, room = list[list[Hashable]](), list[float](), _MOST_LISTED
        at = self._best.prices.tolist()
        for job, (menu, best) in enumerate(zip(self._menus, self._best.keys, strict=True)):
            least.append(math.inf)
            if best is not None:
                value, _ = option = self._pool.option(job, best)
                worth, out = option.at(at), -float(self._penalties[job])
                rounding = _ROUNDING * (abs(value) + abs(value - worth) + reach)
                least[job] = max(worth, out) - reach - rounding
            kept.append(list(islice(menu.within(self._best.prices, least[job]), room + 1)))
            room -= len(kept[job])
            if room < 0:
                return False
        self._pool.add(kept)
        self._within, self._least = kept, least
        return True

    def _solve(
        self, kept: list[list[Hashable]] | None, share: float = 1.0, free: bool = True
    ) -> tuple[Termination, float | None]:
        """Solve menus of some listed options; return how that ended, and what none of their choices exceeds.

        Required jobs may be left out for their penalties, if they are free to be.
        """
        penalties = self._penalties if free else np.zeros(len(self._menus))
        model, keys = self._pool.model(penalties, self._required, kept)
        if (self._required & (np.diff(model.offsets) == 0)).any():
            return Termination.INFEASIBLE, None
        start = None
        if self._chosen is not None:
            start = np.full(model.num_jobs, -1, dtype=np.int64)
            for job, (first, last) in enumerate(pairwise(model.offsets.tolist())):
                if (key := self._chosen[job]) in keys[first:last]:
                    start[job] = keys.index(key, first, last)
        answer = solve(model, time_limit=self._left(share), gap=self._gap, warm_start=start)
        if answer.plan is not None:
            chosen = [keys[row] if row >= 0 else None for row in answer.plan.tolist()]
            if (value := self._checked(chosen)) > self._value:
                self._chosen, self._value = chosen, value
        return answer.termination, answer.bound

    def _checked(self, chosen: Sequence[Hashable | None]) -> float:
        """Return what a choice is worth, from what its options say anew.

        Raises
        ------
        InvalidInstance
            If an option says something else than before, and the choice does not fit.
        """
        left, worth = self._rooms.tolist(), list[float]()
        for job, key in enumerate(chosen):
            if key is None:
                worth.append(-float(self._penalties[job]))
                continue
            value, uses = self._menus[job].option(key)
            worth.append(value)
            for capacity, use in uses.items():
                left[capacity] -= use
                if left[capacity] < 0:
                    said = f"option {key!r} is not what it was: capacity {capacity} is overdrawn"
                    raise InvalidInstance(Problem(f"$.menus[{job}]", said))
        return math.fsum(worth)

    def _leaves_out(self) -> bool:
        """Return whether there is no plan, or it leaves out a job that is required."""
        keys = self._chosen
        return keys is None or any(keys[job] is None for job in np.flatnonzero(self._required))

    def _over_all_options(self) -> Termination:
        """List everything, so that a search of it says whether any choice fits."""
        kept, room = list[list[Hashable]](), _MOST_LISTED
        for menu in self._menus:
            kept.append(list(islice(menu.all_keys(), room + 1)))
            room -= len(kept[-1])
            if room < 0:
                return Termination.NODE_LIMIT
        self._pool.add(kept)
        ended, bound = self._solve(kept, free=False)
        self._bound = self._bound if bound is None else min(self._bound, bound)
        return ended

    def recheck(self) -> None:
        """Compare the answers that the bound rests on with those of going through all options.

        Raises
        ------
        InvalidInstance
            If an option is better than the one that was said to be the best, or was not named although it
            lies within reach.
        """
        at = self._best.prices.tolist()
        for job, (menu, best) in enumerate(zip(self._menus, self._best.keys, strict=True)):
            top = -math.inf if best is None else self._pool.option(job, best).at(at)
            least = self._least[job] if self._least else math.inf
            named = set(self._within[job]) if self._least else set()
            for key in menu.all_keys():
                value, _ = option = menu.option(key)
                worth = option.at(at)
                if worth > top + _EPS * (abs(value) + abs(value - worth)):
                    said = (
                        f"is worth {worth!r} at prices where {best!r} is said to be the best, worth {top!r}"
                    )
                elif worth >= least and key not in named:
                    said = f"is worth {worth!r} at prices, and is not named among all of {least!r} or more"
                else:
                    continue
                raise InvalidInstance(Problem(f"$.menus[{job}].option({key!r})", said))

    def result(self, ended: Termination) -> MenuPlan:
        """Return what was found."""
        bound = None if self._bound == math.inf or ended is Termination.INFEASIBLE else self._bound
        if self._chosen is None or self._leaves_out():
            return MenuPlan(None, None, bound, ended, len(self._pool))
        bound = None if bound is None else max(bound, self._value)
        return MenuPlan(tuple(self._chosen), self._value, bound, ended, len(self._pool))
