"""What holders have under a choice, which sums their shares can come to, and short walks to more of it.

Whether the choices of a question can be placed, and what all later questions learn where one cannot.

A capacity that no plan exceeds holds whatever the question is, so one that was found for a level tightens
those of all others; a question that such capacities refute is refuted for every plan.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from apportion.fairness.greedy import FeasibleChoice, Walker
from apportion.fairness.prices import SharePrices
from apportion.fairness.share_holders import ShareHolder
from apportion.formulations.tenants import PlacedTenantedMenus, TenantedMenus
from apportion.models.exact_sums import over_columns
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving.compiled_model import PlanOrPoint
from apportion.solving.on_nodes import PlacedStructure, lies

if TYPE_CHECKING:
    from apportion.solvers.packing.few_moves import Placement

__all__ = ["LevelModel", "Placing", "Verdict"]


_LEAST_S = 1e-3
"""What is left of a limit that is used up."""
_PLACED = 0.1
"""Share of what is left of a limit that one choice may take to be placed."""

Verdict = Literal["placed", "cut", "unknown"]
"""Placed; shown to lie nowhere, and cut off from now on; or neither was shown."""


class Placing:
    """The menus of an instance with tenants, tightened while choices turn out to lie nowhere.

    Parameters
    ----------
    menus
        The formulation, without any floor.
    seconds
        What is left for the search of one placement; ``None`` for no limit.

    Attributes
    ----------
    menus
        The formulation with what was cut off so far.
    gave_up
        Whether some choice was neither placed nor shown to lie nowhere.
    """

    def __init__(self, menus: TenantedMenus, seconds: Callable[[], float | None]) -> None:
        self.menus = menus
        self.gave_up = False
        self._seconds = seconds
        self._placed: dict[bytes, dict[str, Placement]] = {}
        self._unplaced = np.zeros(0, np.int64), dict[str, "Placement"]()

    def plan(self, choice: NDArray[np.int64]) -> PlanOrPoint | None:
        """Return the plan of a choice, placed as it was when that was asked."""
        if not isinstance(self.menus, PlacedTenantedMenus):
            return self.menus.plan(choice)
        structure, known = PlacedStructure(self.menus), self._placed.get(choice.tobytes())
        return structure.plan(choice, self._seconds()) if known is None else structure.on(choice, known)

    def late(self) -> bool:
        """Return whether the time for levels is up."""
        left = self._seconds()
        return left is not None and left <= _LEAST_S

    def of(self, choice: NDArray[np.int64]) -> Verdict:
        """Place a choice, one row per job, -1 for nothing at all."""
        if not isinstance(self.menus, PlacedTenantedMenus):
            return "placed"
        structure, left = PlacedStructure(self.menus), self._seconds()
        found = structure.packed(choice, None if left is None else _PLACED * left)
        if lies(found):
            self._placed[choice.tobytes()] = found
            return "placed"
        tighter = structure.without(choice, found, proven=True)
        if tighter is None:
            self.gave_up, self._unplaced = True, (choice, found)
            return "unknown"
        assert isinstance(tighter.formulation, PlacedTenantedMenus)
        self.menus = tighter.formulation
        return "cut"

    def leave_out(self) -> bool:
        """Leave out what found no room last, though nothing shows that it has none; return whether any is."""
        menus, (choice, found) = self.menus, self._unplaced
        assert isinstance(menus, PlacedTenantedMenus)
        narrower = PlacedStructure(menus).without(choice, found, proven=False)
        if narrower is None:
            return False
        self.menus = cast(PlacedTenantedMenus, narrower.formulation)
        return True


Integers = NDArray[np.int64]

_MOST_SCOPES = 64
"""Scopes whose limits are priced on their own."""
_MOST_SUMS = 20_000
"""Sums of a holder's shares up to which all are listed."""


class _Sums(NamedTuple):
    """The sums that shares of a holder's jobs can have, in grains, as bits of whole numbers.

    Attributes
    ----------
    grain
        What divides every share.
    menus
        The shares of every job, in grains.
    before
        The sums of the jobs before each.
    reachable
        The sums of all jobs.
    """

    grain: int
    menus: list[list[int]]
    before: list[int]
    reachable: int


class LevelModel:
    """Menus of an instance with what every option is as a share.

    Parameters
    ----------
    placing
        The formulation, without any floor, and where its choices lie.

    Attributes
    ----------
    share
        int64 [options].
    owner
        int64 [options]: the job of every option.
    best
        int64 [jobs]: the largest share of any option.
    """

    def __init__(self, placing: Placing) -> None:
        self.placing = placing
        menus = placing.menus
        self._index = {job: index for index, job in enumerate(menus.job_names())}
        self.owner = self.model.job_of_option()
        self.share = menus.share
        self._rows: dict[ShareHolder, Integers] = {}
        self._places: dict[ShareHolder, Integers] = {}
        self._reachable: dict[ShareHolder, _Sums | None] = {}
        self._least_of: MultipleChoiceKnapsack | None = None
        self._least_uses = np.zeros(0, dtype=np.int64)
        self.best = np.zeros(self.model.num_jobs, dtype=np.int64)
        np.maximum.at(self.best, self.owner, self.share)

    @property
    def model(self) -> MultipleChoiceKnapsack:
        """The model, with what was cut off so far."""
        return self.placing.menus.model

    def least(self) -> FeasibleChoice | None:
        """Return the choice of least use, each capacity counted in parts of it, if that keeps them all."""
        if (self._least < 0).any():
            return None
        if self._least_of is not self.model:  # a cut is another model
            self._least_of, self._least_uses = self.model, self.model.used(self._least)
        keeps = (self._least_uses <= self.model.capacities).all()
        return FeasibleChoice(self._least, self._least_uses) if keeps else None

    def feasible_choice(self, choice: Integers) -> FeasibleChoice:
        """Return a choice that keeps the capacities, with what it uses."""
        return FeasibleChoice(choice, self.model.used(choice))

    @cached_property
    def _least(self) -> Integers:
        part = over_columns(self.model.matrix, 1.0 / np.maximum(1, self.model.capacities))
        order: Integers = np.lexsort((part, self.owner))
        found = np.full(self.model.num_jobs, -1, dtype=np.int64)  # a job without any option gets none
        filled = np.flatnonzero(np.diff(self.model.offsets))
        found[filled] = order[self.model.offsets[:-1][filled]]
        return found

    def most(self, holder: ShareHolder) -> int:
        """Return the largest share of a holder, whatever the limits are."""
        return int(self.best[self.jobs(holder)].sum())

    def next_sum(self, holder: ShareHolder, floor: int) -> int:
        """Return the least sum of shares of a holder's jobs that reaches a floor, whatever the limits are.

        One more than its most where none does, however high the floor is; the floor itself where sums are too
        many to be listed.
        """
        sums = self._sums(holder)
        if floor <= 0:
            return floor
        if sums is None:
            return min(floor, self.most(holder) + 1)
        least = -(-floor // sums.grain)
        rest = sums.reachable >> least
        if not rest:
            return self.most(holder) + 1
        return (least + (rest & -rest).bit_length() - 1) * sums.grain

    def last_sum(self, holder: ShareHolder, floor: int) -> int:
        """Return the largest sum of shares of a holder's jobs below a floor.

        One less than the floor where sums are too many to be listed, -1 where there is none.
        """
        sums = self._sums(holder)
        if sums is None:
            return floor - 1
        above = -(-min(floor, self.most(holder) + 1) // sums.grain)  # else as many bits as the floor
        below = sums.reachable & ((1 << above) - 1)
        return (below.bit_length() - 1) * sums.grain if below else -1

    def exactly(self, holder: ShareHolder, total: int) -> dict[int, int] | None:
        """Return shares of a holder's jobs, by their index, that add up to a total; others have none."""
        sums = self._sums(holder)
        if sums is None or total % sums.grain:
            return None
        left, found = total // sums.grain, dict[int, int]()
        for job, menu, reachable in reversed(
            list(zip(self.jobs(holder).tolist(), sums.menus, sums.before, strict=True))
        ):
            step = next(
                (share for share in reversed(menu) if share <= left and reachable >> (left - share) & 1), None
            )
            if step is None:
                return None
            if step:
                found[job] = step * sums.grain
            left -= step
            if not left:  # what can be reached of nothing is no share for each of the others
                break
        return found

    def _sums(self, holder: ShareHolder) -> _Sums | None:
        """Return the sums of a holder's shares, ``None`` where there are too many."""
        if holder not in self._reachable:
            offsets, listed = self._listed
            shares = [
                sorted(set(listed[offsets[job] : offsets[job + 1]])) for job in self.jobs(holder).tolist()
            ]
            grain = math.gcd(*set().union(*shares)) or 1
            found = None
            if self.most(holder) // grain <= _MOST_SUMS:
                menus = [[share // grain for share in menu] for menu in shares]
                before = [1]
                for menu in menus:
                    before.append(functools.reduce(operator.or_, (before[-1] << share for share in menu), 0))
                found = _Sums(grain, menus, before[:-1], before[-1])
            self._reachable[holder] = found
        return self._reachable[holder]

    @cached_property
    def _listed(self) -> tuple[list[int], list[int]]:
        """Where every menu begins, and all shares."""
        return self.model.offsets.tolist(), self.share.tolist()

    def of(self, holder: ShareHolder, choice: Integers) -> int:
        """Return a holder's share under a choice."""
        rows = choice[self.jobs(holder)]
        return int(self.share[rows[rows >= 0]].sum())

    def prices(self, group: Sequence[ShareHolder]) -> SharePrices:
        """Return what the shares of disjoint holders cost at prices."""
        rows = [self.rows(one) for one in group]
        scopes = _scopes(self.placing.menus)
        uses, rooms = self.model.uses, self.model.capacities
        return SharePrices(group, rows, uses, self.share, self.owner, rooms, scopes)

    def rows(self, holder: ShareHolder) -> Integers:
        """Return the rows of the options of a holder's jobs."""
        if holder not in self._rows:
            offsets = self.model.offsets
            parts = [np.arange(offsets[job], offsets[job + 1]) for job in self.jobs(holder).tolist()]
            self._rows[holder] = np.concatenate(parts).astype(np.int64)
        return self._rows[holder]

    def walker(self, group: Sequence[ShareHolder]) -> Walker:
        """Return the walks of disjoint holders, in the order of their names."""
        jobs = [self.jobs(one) for one in group]
        return Walker(
            jobs,
            [self.rows(one) for one in group],
            np.concatenate([*jobs, np.zeros(0, dtype=np.int64)]),
            np.cumsum([0, *(one.size for one in jobs[:-1])]),
            lambda place, total: self.exactly(group[place], total),
            self.owner,
            self._least,
            self.share,
        )

    def keeps(self, held: FeasibleChoice, floors: Mapping[ShareHolder, int]) -> bool:
        """Return whether a choice reaches floors, keeps every capacity and can be placed."""
        if any(self.of(one, held.choice) < floor for one, floor in floors.items()):
            return False
        fits = bool((held.used <= self.model.capacities).all())
        return fits and self.placing.of(held.choice) == "placed"

    def jobs(self, holder: ShareHolder) -> Integers:
        """Return a holder's jobs, by their index."""
        if holder not in self._places:
            self._places[holder] = np.array([self._index[job] for job in holder.jobs], dtype=np.int64)
        return self._places[holder]


def _scopes(menus: TenantedMenus) -> list[NDArray[np.bool_]]:
    """Return the cluster's own capacities, and the rows of every tenant that limits what is claimed."""
    names = menus.model.capacity_names
    own = np.array([name in menus.capacities for name in names], dtype=np.bool_)
    rows = {row.name: row.name.removeprefix(f"{row.capacity} of ") for row in menus.ledger.rows}
    tenants = list(dict.fromkeys(rows[name] for name in names if name in rows))
    found = [own]
    found += [np.array([rows.get(name) == one for name in names], dtype=np.bool_) for one in tenants]
    return found[:_MOST_SCOPES]
