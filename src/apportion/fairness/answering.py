"""Whether floors and rungs can be reached together: by a short walk, by prices, or by an exact search.

Floors name who has how much; a rung above them counts how many must rise, and leaves open who.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.fairness.claimants import Claimant, Rung
from apportion.fairness.level_model import LevelModel
from apportion.fairness.prices import SharePrices
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.outcome import Termination
from apportion.solution import Solution

__all__ = ["Answering", "Ask", "Risen"]

Ask = Callable[[MultipleChoiceKnapsack], Solution]
"""Solves menus within what is left of the call."""

Integers = NDArray[np.int64]

_Question = Callable[[], tuple[MultipleChoiceKnapsack, Integers]]
"""The menus of a question, with what was cut off so far, and the rows of their options."""


@dataclass(frozen=True, slots=True)
class Risen:
    """How many can rise.

    Attributes
    ----------
    count
        How many rise under the choice that was found.
    never
        Who is shown to be in no set of so many.
    proved
        Whether no set is larger.
    """

    count: int
    never: frozenset[Claimant]
    proved: bool


@dataclass(slots=True, eq=False)
class Answering:
    """What is held so far, and a choice that keeps it.

    Attributes
    ----------
    model
        The questions.
    ask
        Who answers those that need a search.
    floors
        What every claimant has at least, whoever stays below a rung.
    rungs
        How many must rise above that, of several claimants.
    choice
        A choice that reaches all floors and rungs; ``None`` before there is one.
    questions
        How many needed a search.
    """

    model: LevelModel
    ask: Ask
    floors: dict[Claimant, int] = field(default_factory=dict)
    rungs: list[Rung] = field(default_factory=list)
    choice: Integers | None = None
    questions: int = 0
    _group: list[Claimant] = field(default_factory=list)
    _prices: SharePrices | None = None

    def turn_to(self, group: list[Claimant]) -> None:
        """Price the shares of disjoint claimants from now on."""
        self._group, self._prices = list(group), self.model.prices(group)

    def share(self, one: Claimant) -> int:
        """Return what a claimant has under the choice at hand."""
        return 0 if self.choice is None else self.model.of(one, self.choice)

    def hold(self, asked: Rung) -> None:
        """Hold a rung that the choice at hand reaches: as floors, where nobody may stay below it."""
        if asked.stay:
            self.rungs.append(asked)
        else:
            self.floors.update(asked.heights)

    def reached(self, asked: Rung) -> bool | None:
        """Return whether a rung can be reached beside what is held, ``None`` if undecided."""
        floors, rungs = self.floors, [*self.rungs, asked]
        if not asked.stay:
            floors, rungs = {**floors, **asked.heights}, self.rungs
        if any(floor > self.model.most(one) for one, floor in floors.items()):
            return False
        if self._prices is not None and self._prices.refuted(floors, rungs):
            return False
        found = self._walked(floors, rungs)
        refuted = False
        if found is None:
            termination, found = self._asked(lambda: self.model.question(floors, rungs))
            refuted = termination is Termination.INFEASIBLE
        if found is None:
            return False if refuted else None
        self.choice = found
        return True

    def most_rising(self, wanted: Mapping[Claimant, int]) -> Risen:
        """Find the largest set of claimants that have what is wanted of them; keep the choice."""
        assert self._prices is not None
        most = self._prices.most_rising(self.floors, self.rungs, wanted)
        self._rise_one_by_one(wanted, most)
        count, proved = self._risen(wanted), True
        while proved and count < most:
            reached = self.reached(Rung(wanted, len(wanted) - count - 1))
            if reached:
                count = self._risen(wanted)
            elif reached is None:
                proved = False
            else:
                most = count
        never = self._prices.never_rising(self.floors, self.rungs, wanted, count) if count else set(wanted)
        return Risen(count, frozenset(never), proved)

    def _risen(self, wanted: Mapping[Claimant, int]) -> int:
        return sum(self.share(one) >= high for one, high in wanted.items())

    def _rise_one_by_one(self, wanted: Mapping[Claimant, int], most: int) -> None:
        """Raise one claimant after the other while walks find how, those with the shortest way first."""
        if self.choice is None:
            return
        risen: dict[Claimant, int] = {}
        for one in sorted(wanted, key=lambda one: (wanted[one] - self.floors.get(one, 0), one.name)):
            if len(risen) >= most:
                break
            due = self._named({**self.floors, **risen, one: wanted[one]}, self.rungs)
            found = self.model.raised(self.choice, self._group, due)
            if found is not None:
                risen[one], self.choice = wanted[one], found

    def _walked(self, floors: Mapping[Claimant, int], rungs: Sequence[Rung]) -> Integers | None:
        """Return a choice that a short walk finds, with those on the rungs who are nearest, or cheapest."""
        begin = self.model.least() if self.choice is None else self.choice
        if begin is None:
            return None
        group = self._group or _disjoint(floors)
        found = self.model.raised(begin, group, self._named(floors, rungs))
        if found is None and rungs and self._prices is not None:
            costs = [self._prices.cheapest(floors, rung) for rung in rungs]
            found = self.model.raised(begin, group, self._named(floors, rungs, costs))
        return found

    def _named(
        self,
        floors: Mapping[Claimant, int],
        rungs: Sequence[Rung],
        costs: Sequence[Mapping[Claimant, float]] | None = None,
    ) -> dict[Claimant, int]:
        """Return floors with so many names on every rung as must rise, by cost or by what they lack."""
        due = dict(floors)
        for place in reversed(range(len(rungs))):
            rung = rungs[place]
            lacks = {
                one: max(0, height - self.share(one)) if costs is None else costs[place].get(one, 0.0)
                for one, height in rung.heights.items()
            }
            nearest = sorted(
                rung.heights,
                key=lambda one: (due.get(one, 0) < rung.heights[one], lacks[one], one.name),
            )
            for one in nearest[: rung.rise]:
                due[one] = max(due.get(one, 0), rung.heights[one])
        return due

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
