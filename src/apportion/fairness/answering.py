"""Whether floors and rungs can be reached together: by a short walk, by prices, or by an exact search.

Floors name who has how much; a rung above them counts how many must rise, and leaves open who.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.fairness.claimants import Claimant, Rung
from apportion.fairness.greedy import Walker
from apportion.fairness.level_model import LevelModel
from apportion.fairness.prices import SharePrices
from apportion.fairness.question import question
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.outcome import Termination
from apportion.solution import Solution

__all__ = ["Answering", "Ask", "Risen"]

Ask = Callable[[MultipleChoiceKnapsack], Solution]
"""Solves menus within what is left of the call."""

Integers = NDArray[np.int64]


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
    _walker: Walker | None = None
    _prices: SharePrices | None = None
    _told: Integers | None = None
    _shares: dict[Claimant, int] = field(default_factory=dict)

    def turn_to(self, group: list[Claimant]) -> None:
        """Price the shares of disjoint claimants from now on, and walk among them."""
        self._group = sorted(group, key=lambda one: one.name)
        self._prices, self._walker = self.model.prices(group), self.model.walker(self._group)

    def share(self, one: Claimant) -> int:
        """Return what a claimant has under the choice at hand."""
        if self.choice is None:
            return 0
        if self._told is not self.choice:  # a choice is never changed in place
            self._told, self._shares = self.choice, {}
            if self._walker is not None:
                have = self._walker.have(self.choice).tolist()
                self._shares.update(zip(self._group, have, strict=True))
        if one not in self._shares:
            self._shares[one] = self.model.of(one, self.choice)
        return self._shares[one]

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
            termination, found = self._asked(floors, rungs)
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
            found = self._raised(self.choice, due)
            if found is not None:
                risen[one], self.choice = wanted[one], found

    def _walked(self, floors: Mapping[Claimant, int], rungs: Sequence[Rung]) -> Integers | None:
        """Return a choice that a short walk finds, with those on the rungs who are nearest, or cheapest."""
        least = self.model.least()
        begin = self.choice if self.choice is not None or least is None else least.choice
        if begin is None:
            return None
        found = self._raised(begin, self._named(floors, rungs))
        if found is None and rungs and self._prices is not None:
            costs = [self._prices.cheapest(floors, rung) for rung in rungs]
            found = self._raised(begin, self._named(floors, rungs, costs))
        if found is None and self.choice is not None and least is not None:
            # what others have at hand may stand in the way: begin with nothing
            found = self._raised(least.choice, self._named(floors, rungs))
        return found

    def _raised(self, begin: Integers, due: Mapping[Claimant, int]) -> Integers | None:
        """Return a choice with what is due to everybody, reached by a short walk; ``None`` if not."""
        group, walker = self._group, self._walker
        if walker is None:
            group = sorted(_disjoint(due), key=lambda one: one.name)
            walker = self.model.walker(group)
        wanted = np.array([due.get(one, 0) for one in group], dtype=np.int64)
        found = walker.raised(self.model.held(begin), wanted, self.model.model)
        if found is None or (walker.have(found.choice) < wanted).any():
            return None
        inside = set(group)
        rest = {one: floor for one, floor in due.items() if one not in inside}
        for one in sorted(rest, key=lambda one: (len(one.jobs), one.name)):
            lacks = rest[one] - self.model.of(one, found.choice)
            more = walker.gained(found, self.model.rows(one), lacks, self.model.model) if lacks > 0 else found
            if more is None:
                return None
            found = more
        return found.choice if self.model.keeps(found, rest) else None

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

    def _asked(
        self, floors: Mapping[Claimant, int], rungs: Sequence[Rung]
    ) -> tuple[Termination, Integers | None]:
        """Ask until the choice can be placed; where that is not decided, neither is the question."""
        while True:
            asked = question(self.model, floors, rungs)
            self.questions += 1
            solution = self.ask(asked.menus)
            if not isinstance(solution.plan, np.ndarray):
                return solution.termination, None
            choice = asked.choice(solution.plan.astype(np.int64))
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
