"""Water filling over whole menus: the least share as large as it can be, then the least of the others.

Every level is found by questions of yes or no, each answered by a plan or by a refutation:

1. the largest level T at which all active claimants reach T times their weight, by bisection;
2. the largest set of them that can have more; the others stay at T, the set goes on from T + 1.

Levels are whole numbers of a step so small that no two shares over weights lie within one, where weights are
fractions of small numbers.

So each claimant is stopped only where an exact search says that no larger set could have gone on: afterwards
nobody can gain without somebody who loses and ends where the gainer stood or below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.fairness.claimants import Claimant
from apportion.fairness.level_model import LevelModel
from apportion.fairness.prices import SharePrices
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.outcome import Termination
from apportion.solution import Level, Solution

__all__ = ["Ask", "Filling"]

Ask = Callable[[MultipleChoiceKnapsack], Solution]
"""Solves menus within what is left of the call."""

Integers = NDArray[np.int64]

_Question = Callable[[], tuple[MultipleChoiceKnapsack, Integers]]
"""The menus of a question, with what was cut off so far, and the rows of their options."""

_MOST_STEPS = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class _Answer:
    """A choice, or that there is none; neither where a limit came first."""

    choice: Integers | None
    refuted: bool = False


@dataclass(slots=True, eq=False)
class Filling:
    """Levels as they are found.

    Attributes
    ----------
    model
        The questions.
    ask
        Who answers them.
    unit
        Units of a share of 1.
    floors
        What is held so far, by claimant.
    choice
        A choice that reaches every floor; ``None`` before there is one.
    levels
        What was found, in order.
    questions
        How many were asked.
    steps
        Steps of a level to a unit of share over weight.
    """

    model: LevelModel
    ask: Ask
    unit: int
    floors: dict[Claimant, int] = field(default_factory=dict)
    choice: Integers | None = None
    levels: list[Level] = field(default_factory=list)
    questions: int = 0
    steps: int = 1
    _group: list[Claimant] = field(default_factory=list)
    _prices: SharePrices | None = None

    def hold(self, floors: Mapping[Claimant, int]) -> bool | None:
        """Hold floors from now on; return whether they can be reached together, ``None`` if undecided."""
        answer = self._reached({**self.floors, **floors})
        if answer.choice is None:
            return False if answer.refuted else None
        self.choice = answer.choice
        self.floors.update(floors)
        return True

    def fill(self, group: list[Claimant]) -> None:
        """Raise the shares of a group level by level; it needs a choice to begin with."""
        active, least = list(group), 0
        self._group, self._prices = list(group), self.model.prices(group)
        self.steps = min(_MOST_STEPS, math.lcm(*(one.weight.numerator for one in group)))
        while active:
            level, bound = self._highest(active, least)
            raised, proved = self._raised(active, level)
            for one in active:
                if one not in raised:
                    share = self._at(one, level)
                    self.floors[one] = share
                    sure = proved and bound == level
                    self.levels.append(
                        Level(
                            one.name,
                            share / self.unit,
                            float(one.weight),
                            max(share, self._at(one, bound)) / self.unit,
                            "by_search" if sure else None,
                        )
                    )
            active, least = [one for one in active if one in raised], level + 1

    def _at(self, one: Claimant, level: int) -> int:
        due = max(self.floors.get(one, 0), math.ceil(level * one.weight / self.steps))
        return self.model.next_sum(one, due)

    def _highest(self, active: list[Claimant], least: int) -> tuple[int, int]:
        """Return the highest level that all reach, and the least one that is not refuted from above."""
        low = max(least, self._standing(active))
        high = max(low, min(math.floor(self.steps * self.model.most(one) / one.weight) for one in active))
        probe = high
        while low < high and not self.model.placing.late():
            answer = self._reached({**self.floors, **{one: self._at(one, probe) for one in active}})
            if answer.choice is not None:
                self.choice = answer.choice
                low = max(probe, min(high, self._standing(active)))
            elif answer.refuted:
                high = max(low, min(probe - 1, self._below(active, probe)))
            else:
                return low, high
            probe = (low + high + 1) // 2
        return low, high

    def _below(self, active: list[Claimant], level: int) -> int:
        """Return the highest level at which somebody needs less than at a level, -1 where nobody does."""
        found = [-1]
        for one in active:
            last = self.model.last_sum(one, self._at(one, level))
            if last >= self.floors.get(one, 0):
                found.append(math.floor(self.steps * last / one.weight))
        return max(found)

    def _standing(self, active: list[Claimant]) -> int:
        """Return the level that all have under the choice at hand."""
        if self.choice is None:
            return 0
        return min(math.floor(self.steps * self.model.of(one, self.choice) / one.weight) for one in active)

    def _raised(self, active: list[Claimant], level: int) -> tuple[set[Claimant], bool]:
        """Return the largest set that goes beyond a level, and whether it is shown to be the largest."""
        floors = {**self.floors, **{one: self._at(one, level) for one in active}}
        next_up = {one: self._at(one, level + 1) for one in active}
        above = {one for one in active if floors[one] >= next_up[one]}  # held higher by an earlier group
        wanted = {
            one: high for one, high in next_up.items() if one not in above and self.model.most(one) >= high
        }
        if not wanted or len(active) == 1:
            return above if len(active) > 1 else set(), True
        if self.model.placing.late():  # all of them stop here, unproved
            return set(), False
        quick = self._risen_at_once(floors, wanted)
        if quick is not None:
            return quick | above, True
        termination, choice = self._asked(lambda: self.model.rising(floors, wanted))
        if choice is not None:
            self.choice = choice
        now = self.choice
        risen = {one for one in wanted if now is not None and self.model.of(one, now) >= wanted[one]}
        return risen | above, termination is Termination.OPTIMAL

    def _risen_at_once(
        self, floors: Mapping[Claimant, int], wanted: Mapping[Claimant, int]
    ) -> set[Claimant] | None:
        """Return a set that rises, one claimant after the other, if prices show that no set is larger."""
        if self.choice is None or self._prices is None:
            return None
        bound = self._prices.most_rising(floors, wanted)
        risen: dict[Claimant, int] = {}
        for one in sorted(wanted, key=lambda one: (wanted[one] - floors[one], one.name)):
            if len(risen) >= bound:
                break
            found = self.model.raised(self.choice, self._group, {**floors, **risen, one: wanted[one]})
            if found is not None:
                risen[one], self.choice = wanted[one], found
        return set(risen) if len(risen) >= bound else None

    def _reached(self, floors: Mapping[Claimant, int]) -> _Answer:
        """Ask for a choice that reaches all floors."""
        if any(floor > self.model.most(one) for one, floor in floors.items()):
            return _Answer(None, refuted=True)
        if self._prices is not None and self._prices.refuted(floors):
            return _Answer(None, refuted=True)
        begin = self.model.least() if self.choice is None else self.choice
        group = self._group or _disjoint(floors)
        found = None if begin is None else self.model.raised(begin, group, floors)
        if found is not None:
            return _Answer(found)
        termination, choice = self._asked(lambda: self.model.reaching(floors))
        return _Answer(choice, refuted=termination is Termination.INFEASIBLE)

    def _asked(self, question: _Question) -> tuple[Termination, Integers | None]:
        """Ask until the choice can be placed; where that is not decided, neither is the question."""
        while True:
            menus, rows = question()
            self.questions += 1
            solution = self.ask(menus)
            if not isinstance(solution.plan, np.ndarray):
                return solution.termination, None
            chosen = solution.plan[: self.model.model.num_jobs].astype(np.int64)
            choice = np.where(chosen >= 0, rows[np.maximum(chosen, 0)], -1)
            placed = self.model.placing.of(choice)
            if placed == "placed":
                return solution.termination, choice
            if placed == "unknown":
                return Termination.NODE_LIMIT, None


def _disjoint(claimants: Iterable[Claimant]) -> list[Claimant]:
    """Return claimants that have no job in common, the first of those that have."""
    taken, found = set[str](), list[Claimant]()
    for one in claimants:
        if taken.isdisjoint(one.jobs):
            taken.update(one.jobs)
            found.append(one)
    return found
