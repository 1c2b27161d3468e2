"""Whether floors and level requirements can be met together: by a short walk, prices, or an exact search.

Floors name who has how much; a requirement above them counts how many must rise, and leaves open who.

A question about floors and requirements as menus: can they be reached together, and what is best above
them.

A share of a tenant that must be reached is one more capacity: of what its jobs have at best, so much may be
forgone. A share of one job cuts its menu. A requirement is a capacity as well: so many may stay below
it. A holder with several jobs has a menu of its own behind theirs: the heights that it may reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Termination
from apportion.core.solution import Solution
from apportion.fairness.greedy import Walker
from apportion.fairness.level_model import LevelModel
from apportion.fairness.prices import SharePrices
from apportion.fairness.share_holders import LevelRequirement, ShareHolder
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["Ask", "FeasibilityOracle", "Question", "Risen", "question"]


Integers = NDArray[np.int64]

_LEFT_OUT = 8
"""Choices made without what found no room before a question stays open."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The menus of a question, and the way from choices of the instance to theirs and back.

    Attributes
    ----------
    menus
        The jobs' options that are left, and behind them a menu for every holder with heights.
    rows
        int64 [options of jobs]: their rows in the instance's menus.
    heights
        The heights of every holder with a menu of its own, in the order of these menus.
    shared
        Who has a capacity, behind those of the instance and before the requirements.
    """

    menus: MultipleChoiceKnapsack
    rows: Integers
    heights: Mapping[ShareHolder, Sequence[int]]
    shared: Sequence[ShareHolder]

    def choice(self, point: Integers) -> Integers:
        """Return the instance's choice of a point of the menus."""
        chosen = point[: self.menus.num_jobs - len(self.heights)]
        return np.where(chosen >= 0, self.rows[np.maximum(chosen, 0)], -1)

    def point(self, model: LevelModel, choice: Integers) -> Integers:
        """Return the point of a choice that reaches the floors, each holder as high as it is."""
        taken = np.searchsorted(self.rows, choice)
        inside = np.where(choice >= 0, taken, -1)
        begin = self.menus.offsets[self.menus.num_jobs - len(self.heights) :]
        places = [
            int(first) + int(np.searchsorted(heights, model.of(one, choice), side="right")) - 1
            for first, (one, heights) in zip(begin[:-1].tolist(), self.heights.items(), strict=True)
        ]
        return np.concatenate((inside, np.array(places, dtype=np.int64)))

    def prices(self, model: LevelModel, multipliers: Sequence[float]) -> dict[str, float]:
        """Return multipliers by the names that certificates give to capacities, limits and shares."""
        floors = model.placing.menus.ledger.floor_names
        names = (*model.model.capacity_names, *(floors[one.name] for one in self.shared))
        return dict(zip(names, multipliers[: len(names)], strict=True))


def question(
    model: LevelModel,
    floors: Mapping[ShareHolder, int],
    requirements: Sequence[LevelRequirement] = (),
    *,
    valued: bool = False,
) -> Question:
    """Return the menus of the choices that reach every floor and requirement.

    Parameters
    ----------
    model
        The shares.
    floors, requirements
        What must be reached.
    valued
        Whether choices are worth what the objective says, and every tenant has a capacity, as certificates
        name them; otherwise nothing is worth anything, and a tenant with one job has its menu cut.
    """
    counted = list(dict.fromkeys(one for requirement in requirements for one in requirement.heights))
    shared = [
        one for one in dict.fromkeys((*floors, *counted)) if len(one.jobs) > 1 or (valued and not one.is_job)
    ]
    kept = _above(model, {one: floor for one, floor in floors.items() if one not in set(shared)})
    own, num = model.model.num_capacities, int(kept.sum())
    place = {one: own + k for k, one in enumerate(shared)}
    first_requirement = own + len(shared)
    heights = _heights(model, floors, requirements, [one for one in counted if one in place])
    menus = [_menu(one, place[one], first_requirement, requirements, floors, heights[one]) for one in heights]
    options = [option for menu in menus for option in menu]
    # a limit is a column: in this order each is written, and read, in one piece
    uses = np.zeros((num + len(options), first_requirement + len(requirements)), dtype=np.int64, order="F")
    at = np.cumsum(kept) - 1
    uses[:num, :own] = model.model.uses_of(np.flatnonzero(kept))
    forgone = model.best[model.owner] - model.share
    for one, column in place.items():
        rows = model.rows(one)
        rows = rows[kept[rows]]
        uses[at[rows], column] = forgone[rows]
    for k, requirement in enumerate(requirements):
        for one, height in requirement.heights.items():
            if one not in place:
                rows = model.rows(one)
                rows = rows[kept[rows] & (model.share[rows] < height)]
                uses[at[rows], first_requirement + k] = 1
    for row, option in enumerate(options, start=num):
        uses[row, list(option)] = list(option.values())
    values = np.zeros(len(uses))
    if valued:
        values[:num] = model.model.values[kept]
    sizes = np.bincount(model.owner[kept], minlength=model.best.size)
    sizes = np.concatenate((sizes, np.array([len(menu) for menu in menus], dtype=np.int64)))
    limits = [model.most(one) - floors.get(one, 0) for one in shared] + [
        requirement.stay for requirement in requirements
    ]
    asked = MultipleChoiceKnapsack.from_arrays(
        values,
        uses,
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        np.concatenate((model.model.capacities, np.array(limits, dtype=np.int64))),
        sense=model.model.sense if valued else "maximize",
    )
    return Question(asked, np.flatnonzero(kept), heights, shared)


def _above(model: LevelModel, floors: Mapping[ShareHolder, int]) -> NDArray[np.bool_]:
    """Return the options that reach the floors of single jobs."""
    least = np.zeros(model.best.size, dtype=np.int64)
    for one, floor in floors.items():
        at = model.jobs(one)
        least[at] = np.maximum(least[at], floor)
    kept: NDArray[np.bool_] = model.share >= least[model.owner]
    return kept


def _heights(
    model: LevelModel,
    floors: Mapping[ShareHolder, int],
    requirements: Sequence[LevelRequirement],
    counted: Sequence[ShareHolder],
) -> dict[ShareHolder, list[int]]:
    """Return the heights that holders may reach: their floor, and those of their requirements."""
    found = dict[ShareHolder, list[int]]()
    for one in counted:
        least, most = floors.get(one, 0), model.most(one)
        above = {requirement.heights[one] for requirement in requirements if one in requirement.heights}
        found[one] = sorted(height for height in {least, *above} if least <= height <= most)
    return found


def _menu(
    one: ShareHolder,
    place: int,
    first_requirement: int,
    requirements: Sequence[LevelRequirement],
    floors: Mapping[ShareHolder, int],
    heights: Sequence[int],
) -> list[dict[int, int]]:
    """Return what each height of a holder takes: its share above the floor, and 1 of each requirement."""
    high = {
        first_requirement + k: requirement.heights[one]
        for k, requirement in enumerate(requirements)
        if one in requirement.heights
    }
    least = floors.get(one, 0)
    return [
        {requirement: 1 for requirement, due in high.items() if height < due} | {place: height - least}
        for height in heights
    ]


Ask = Callable[[MultipleChoiceKnapsack], Solution]
"""Solves menus within what is left of the call."""


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
    never: frozenset[ShareHolder]
    proved: bool


@dataclass(slots=True, eq=False)
class FeasibilityOracle:
    """What is held so far, and a choice that keeps it.

    Attributes
    ----------
    model
        The questions.
    ask
        Who answers those that need a search.
    floors
        What every holder has at least, whoever stays below a requirement.
    requirements
        How many must rise above that, of several holders.
    choice
        A choice that reaches all floors and requirements; ``None`` before there is one.
    questions
        How many needed a search.
    """

    model: LevelModel
    ask: Ask
    floors: dict[ShareHolder, int] = field(default_factory=dict)
    requirements: list[LevelRequirement] = field(default_factory=list)
    choice: Integers | None = None
    questions: int = 0
    _group: list[ShareHolder] = field(default_factory=list)
    _walker: Walker | None = None
    _prices: SharePrices | None = None
    _told: Integers | None = None
    _shares: dict[ShareHolder, int] = field(default_factory=dict)

    def turn_to(self, group: list[ShareHolder]) -> None:
        """Price the shares of disjoint holders from now on, and walk among them."""
        self._group = sorted(group, key=lambda one: one.name)
        self._prices, self._walker = self.model.prices(group), self.model.walker(self._group)

    def share(self, one: ShareHolder) -> int:
        """Return what a holder has under the choice at hand."""
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

    def begin_with(self, choice: Integers | None, floors: Mapping[ShareHolder, int]) -> None:
        """Take a choice as the one at hand, before anything is held, if it reaches floors."""
        if choice is not None and self.model.keeps(self.model.feasible_choice(choice), floors):
            self.choice = choice

    def hold(self, asked: LevelRequirement) -> None:
        """Keep a requirement that the choice at hand reaches: as floors, where nobody may stay below it."""
        if asked.stay:
            self.requirements.append(asked)
        else:
            self.floors.update(asked.heights)

    def reached(self, asked: LevelRequirement) -> bool | None:
        """Return whether a requirement can be reached beside what is held, ``None`` if undecided."""
        (floors, requirements), prices = self._beside(asked), self._prices
        if self._is_beyond(floors) or (prices is not None and prices.refuted(floors, requirements)):
            return False
        found = self._walked(floors, requirements)
        if found is None:
            if prices is not None and prices.refuted_by_jobs(floors, requirements):
                return False
            termination, found = self._asked(floors, requirements)
            if found is None:
                return False if termination is Termination.INFEASIBLE else None
        self.choice = found
        return True

    def refuted(self, asked: LevelRequirement) -> bool:
        """Return whether a requirement beside what is held is refuted without a search."""
        demand = self._beside(asked)
        if self._is_beyond(demand[0]):
            return True
        prices = self._prices
        return prices is not None and (prices.refuted(*demand) or prices.refuted_by_jobs(*demand))

    def _is_beyond(self, floors: Mapping[ShareHolder, int]) -> bool:
        """Return whether a floor is more than a holder's jobs have at best."""
        return any(floor > self.model.most(one) for one, floor in floors.items())

    def _beside(
        self, asked: LevelRequirement
    ) -> tuple[Mapping[ShareHolder, int], Sequence[LevelRequirement]]:
        """Return floors and requirements with one more, a floor where nobody may stay below it."""
        if asked.stay:
            return self.floors, [*self.requirements, asked]
        return {**self.floors, **asked.heights}, self.requirements

    def most_rising(self, wanted: Mapping[ShareHolder, int]) -> Risen:
        """Find the largest set of holders that have what is wanted of them; keep the choice."""
        assert self._prices is not None
        most = self._prices.most_rising(self.floors, self.requirements, wanted)
        self._rise_one_by_one(wanted, most)
        count, proved = self._risen(wanted), True
        while proved and count < most:
            reached = self.reached(LevelRequirement(wanted, len(wanted) - count - 1))
            if reached:
                count = self._risen(wanted)
            elif reached is None:
                proved = False
            else:
                most = count
        never = (
            self._prices.never_rising(self.floors, self.requirements, wanted, count) if count else set(wanted)
        )
        return Risen(count, frozenset(never), proved)

    def _risen(self, wanted: Mapping[ShareHolder, int]) -> int:
        return sum(self.share(one) >= high for one, high in wanted.items())

    def _rise_one_by_one(self, wanted: Mapping[ShareHolder, int], most: int) -> None:
        """Raise one holder after the other while walks find how, those with the shortest way first."""
        if self.choice is None:
            return
        risen: dict[ShareHolder, int] = {}
        for one in sorted(wanted, key=lambda one: (wanted[one] - self.floors.get(one, 0), one.name)):
            if len(risen) >= most:
                break
            due = self._named({**self.floors, **risen, one: wanted[one]}, self.requirements)
            found = self._raised(self.choice, due)
            if found is not None:
                risen[one], self.choice = wanted[one], found

    def _walked(
        self, floors: Mapping[ShareHolder, int], requirements: Sequence[LevelRequirement]
    ) -> Integers | None:
        """Return a choice from a short walk: requirements are met by those who are nearest, or cheapest."""
        least = self.model.least()
        begin = self.choice if self.choice is not None or least is None else least.choice
        if begin is None:
            return None
        found = self._raised(begin, self._named(floors, requirements))
        if found is None and requirements and self._prices is not None:
            costs = [self._prices.cheapest(floors, requirement) for requirement in requirements]
            found = self._raised(begin, self._named(floors, requirements, costs))
        if found is None and self.choice is not None and least is not None:
            # what others have at hand may stand in the way: begin with nothing
            found = self._raised(least.choice, self._named(floors, requirements))
        return found

    def _raised(self, begin: Integers, due: Mapping[ShareHolder, int]) -> Integers | None:
        """Return a choice with what is due to everybody, reached by a short walk; ``None`` if not."""
        group, walker = self._group, self._walker
        if walker is None:
            group = sorted(_disjoint(due), key=lambda one: one.name)
            walker = self.model.walker(group)
        wanted = np.array([due.get(one, 0) for one in group], dtype=np.int64)
        found = walker.raised(self.model.feasible_choice(begin), wanted, self.model.model)
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
        floors: Mapping[ShareHolder, int],
        requirements: Sequence[LevelRequirement],
        costs: Sequence[Mapping[ShareHolder, float]] | None = None,
    ) -> dict[ShareHolder, int]:
        """Return floors that name who meets each requirement: the cheapest, or those who lack least."""
        due = dict(floors)
        for place in reversed(range(len(requirements))):
            requirement = requirements[place]
            lacks = {
                one: max(0, height - self.share(one)) if costs is None else costs[place].get(one, 0.0)
                for one, height in requirement.heights.items()
            }
            nearest = sorted(
                requirement.heights,
                key=lambda one: (due.get(one, 0) < requirement.heights[one], lacks[one], one.name),
            )
            for one in nearest[: requirement.rise]:
                due[one] = max(due.get(one, 0), requirement.heights[one])
        return due

    def _asked(
        self, floors: Mapping[ShareHolder, int], requirements: Sequence[LevelRequirement]
    ) -> tuple[Termination, Integers | None]:
        """Ask until the choice can be placed; where that is not decided, neither is the question.

        What found no room is left out of some more choices: each that is placed is an answer, none refutes.
        """
        placing, gave_up = self.model.placing, self.model.placing.gave_up
        termination, choice, placed = self._chosen(floors, requirements)
        if choice is None or placed:
            return termination, choice
        kept, tried = placing.menus, 0
        while choice is not None and not placed and tried < _LEFT_OUT and placing.leave_out():
            _, choice, placed = self._chosen(floors, requirements)
            tried += 1
        placing.menus, placing.gave_up = kept, gave_up or not placed
        return Termination.NODE_LIMIT, choice if placed else None

    def _chosen(
        self, floors: Mapping[ShareHolder, int], requirements: Sequence[LevelRequirement]
    ) -> tuple[Termination, Integers | None, bool]:
        """Return how asking ended, a choice not shown to lie nowhere, and whether it was placed."""
        while True:
            asked = question(self.model, floors, requirements)
            self.questions += 1
            solution = self.ask(asked.menus)
            if not isinstance(solution.plan, np.ndarray):
                return solution.termination, None, False
            choice = asked.choice(solution.plan.astype(np.int64))
            verdict = self.model.placing.of(choice)
            if verdict != "cut":
                return solution.termination, choice, verdict == "placed"


def _disjoint(holders: Iterable[ShareHolder]) -> list[ShareHolder]:
    """Return holders that have no job in common, the first of those that have."""
    taken, found = set[str](), list[ShareHolder]()
    for one in holders:
        if taken.isdisjoint(one.jobs):
            taken.update(one.jobs)
            found.append(one)
    return found
