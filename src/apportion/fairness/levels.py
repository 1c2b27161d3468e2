"""Water filling over whole menus: the greatest sorted vector of shares over weights, level by level.

Every level of a group is found by questions of yes or no, each answered by a plan or by a refutation:

1. the largest level T that so many of those who can still rise reach as rose beyond the level before;
2. how many of them at most can have more; the others stay at T.

What is held from level to level is how many rise, not who: names are left out only where prices show that no
set of so many holds them. So where several sets could rise, all of them are open to what is found above, and
to the groups that are served later. Who they are is read off the last choice.

Levels are whole numbers of a step so small that no two shares over weights lie within one, where weights are
fractions of small numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from apportion.core.solution import Level
from apportion.fairness.feasibility_oracle import Ask, FeasibilityOracle, Risen
from apportion.fairness.level_model import LevelModel
from apportion.fairness.share_holders import LevelRequirement, ShareHolder

__all__ = ["LeximinSolver"]

_CLOSER = 12
"""How often what is open above a level is halved without a search."""
_FINE = 1e-3
"""Part of a level by which one that is not decided and the highest found differ at least: nearer ones are
seldom decided, and take the time of what comes after."""
_MOST_STEPS = 1_000_000
"""Steps of a level to one unit of share over the heaviest weight, as levels are told apart."""


class _Found(NamedTuple):
    """A level, the least one that is not refuted from above, and whether the vector is proved up to here."""

    level: int
    bound: int
    sure: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Holders among whom shares are made equal, their levels, and steps to a unit of share over weight."""

    holders: list[ShareHolder]
    steps: int
    found: list[_Found] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class LeximinSolver:
    """Levels as they are found.

    Attributes
    ----------
    answering
        What is held, and who answers questions.
    unit
        Units of a share of 1.
    sure
        Whether everything found so far is proved.
    """

    answering: FeasibilityOracle
    unit: int
    sure: bool = True
    _groups: list[_Group] = field(default_factory=list)

    @classmethod
    def of(cls, model: LevelModel, ask: Ask, unit: int) -> LeximinSolver:
        """Return one that holds nothing yet."""
        return cls(FeasibilityOracle(model, ask), unit)

    def hold(self, floors: Mapping[ShareHolder, int]) -> bool | None:
        """Hold floors from now on; return whether they can be reached together, ``None`` if undecided."""
        asked = LevelRequirement(floors, 0)
        reached = self.answering.reached(asked)
        if reached:
            self.answering.hold(asked)
        return reached

    def fill(self, holders: list[ShareHolder]) -> None:
        """Raise the shares of a group level by level; it needs a choice to begin with."""
        self.answering.turn_to(holders)
        heaviest = math.ceil(max(one.weight for one in holders))
        steps = min(_MOST_STEPS * heaviest, math.lcm(*(one.weight.numerator for one in holders)))
        group = _Group(holders, steps)
        self._groups.append(group)
        active, rise, least = holders, len(holders), 0
        while rise:
            level, bound = self._highest(group, active, rise, least)
            self.answering.hold(self._rung(group, active, rise, level))
            risen = self._risen(group, active, rise, level)
            self.sure = self.sure and risen.proved and bound == level
            group.found.append(_Found(level, bound, self.sure))
            active = [one for one in active if one not in risen.never]
            rise, least = risen.count, level + 1

    def resolve_ties(self) -> list[Level]:
        """Name who stays where under the choice at hand; return the levels in the order they were found."""
        levels = list[Level]()
        for group in self._groups:
            found_levels = list[tuple[int, Level]]()
            for one in group.holders:
                have = self.answering.share(one)
                place = max(
                    k for k, found in enumerate(group.found) if self._at(group, one, found.level) <= have
                )
                found = group.found[place]
                share = self._at(group, one, found.level)
                bound = share if found.sure else max(share, self._at(group, one, found.bound))
                self.answering.floors[one] = share
                level = Level(
                    one.name,
                    share / self.unit,
                    float(one.weight),
                    bound / self.unit,
                    "by_search" if found.sure else None,
                )
                found_levels.append((place, level))
            levels += [level for _, level in sorted(found_levels, key=lambda pair: pair[0])]
        self.answering.requirements.clear()
        return levels

    def _at(self, group: _Group, one: ShareHolder, level: int) -> int:
        """Return the least share of a holder that is at a level."""
        over, under = one.weight.numerator, one.weight.denominator
        due = max(self.answering.floors.get(one, 0), -(-level * over // (under * group.steps)))
        return self.answering.model.next_sum(one, due)

    def _rung(self, group: _Group, active: list[ShareHolder], rise: int, level: int) -> LevelRequirement:
        return LevelRequirement({one: self._at(group, one, level) for one in active}, len(active) - rise)

    def _highest(self, group: _Group, active: list[ShareHolder], rise: int, least: int) -> tuple[int, int]:
        """Return the highest level that so many reach, and the least one that is not refuted from above.

        Where a level is not decided, lower ones are asked: what is found stands below an open bound.
        """
        answering = self.answering
        shares = {one: answering.share(one) for one in active}
        low = max(least, _reached_by(rise, group, shares))
        high = max(low, _reached_by(rise, group, {one: answering.model.most(one) for one in active}))
        probe, undecided = high, None
        while high - low > (0.0 if undecided is None else _FINE * low) and not answering.model.placing.late():
            reached = answering.reached(self._rung(group, active, rise, probe))
            if reached:
                shares = {one: answering.share(one) for one in active}
                low = max(probe, min(high, _reached_by(rise, group, shares)))
            else:
                if reached is None and undecided is None:
                    undecided = self._bound(group, active, rise, probe, high)
                elif reached is False:
                    undecided = None
                high = max(low, self._below(group, active, probe))
            probe = (low + high + 1) // 2
        return low, high if undecided is None else undecided

    def _bound(self, group: _Group, active: list[ShareHolder], rise: int, low: int, high: int) -> int:
        """Return a bound between a level that is not refuted without a search and one above which all are."""
        for _ in range(_CLOSER):
            probe = (low + high + 1) // 2
            if low >= high or self.answering.model.placing.late():
                break
            if self.answering.refuted(self._rung(group, active, rise, probe)):
                high = max(low, self._below(group, active, probe))
            else:
                low = probe
        return high

    def _below(self, group: _Group, active: list[ShareHolder], level: int) -> int:
        """Return the highest level below one at which somebody needs less, -1 where nobody does."""
        found = [-1]
        for one in active:
            last = self.answering.model.last_sum(one, self._at(group, one, level))
            if last >= self.answering.floors.get(one, 0):
                found.append(_level_of(one, last, group))
        return min(level - 1, max(found))

    def _risen(self, group: _Group, active: list[ShareHolder], rise: int, level: int) -> Risen:
        """Return how many go beyond a level, at most so many as reach it."""
        if rise == 1:  # the level is the highest that it reaches
            return Risen(0, frozenset(), proved=True)
        model = self.answering.model
        wanted = {one: self._at(group, one, level + 1) for one in active}
        wanted = {one: high for one, high in wanted.items() if model.most(one) >= high}
        if not wanted:
            return Risen(0, frozenset(), proved=True)
        if model.placing.late():  # all of them stop here, unproved
            return Risen(0, frozenset(), proved=False)
        risen = self.answering.most_rising(wanted)
        return Risen(risen.count, risen.never | (set(active) - set(wanted)), risen.proved)


def _reached_by(rise: int, group: _Group, shares: Mapping[ShareHolder, int]) -> int:
    """Return the highest level that so many reach with given shares."""
    reached = sorted(_level_of(one, share, group) for one, share in shares.items())
    return reached[-rise]


def _level_of(one: ShareHolder, share: int, group: _Group) -> int:
    """Return the highest level at which a share is enough."""
    return group.steps * share * one.weight.denominator // one.weight.numerator
