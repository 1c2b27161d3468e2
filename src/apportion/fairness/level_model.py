"""The questions that levels are made of, as menus: whether all, or so many, can reach so much.

A share of a tenant that must be reached is one more capacity: of what its jobs have at best, so much may be
forgone. A share of one job cuts its menu.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.fairness.claimants import Claimant, Rung
from apportion.fairness.greedy import raised_choice
from apportion.fairness.placing import Placing
from apportion.fairness.prices import SharePrices
from apportion.formulations.tenants import TenantedMenus
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["LevelModel"]

Integers = NDArray[np.int64]

_MOST_SCOPES = 64
"""Scopes whose limits are priced on their own."""
_MOST_SUMS = 20_000
"""Sums of a claimant's shares up to which all are listed."""


class _Sums(NamedTuple):
    """The sums that shares of a claimant's jobs can have, in grains, as bits of whole numbers.

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
    """

    def __init__(self, placing: Placing) -> None:
        self.placing = placing
        menus = placing.menus
        self._index = {job: index for index, job in enumerate(menus.job_names())}
        self._owner = self.model.job_of_option()
        self.share = menus.share
        self._rows: dict[Claimant, Integers] = {}
        self._places: dict[Claimant, Integers] = {}
        self._reachable: dict[Claimant, _Sums | None] = {}
        self._best = np.zeros(self.model.num_jobs, dtype=np.int64)
        np.maximum.at(self._best, self._owner, self.share)

    @property
    def model(self) -> MultipleChoiceKnapsack:
        """The model, with what was cut off so far."""
        return self.placing.menus.model

    def least(self) -> Integers | None:
        """Return the choice of least use, each capacity counted in parts of it, if that keeps them all."""
        return self._least if self.model.check(self._least).feasible else None

    @cached_property
    def _least(self) -> Integers:
        part = self.model.uses @ (1.0 / np.maximum(1, self.model.capacities))
        order: Integers = np.lexsort((part, self._owner))
        found = np.full(self.model.num_jobs, -1, dtype=np.int64)  # a job without any option gets none
        filled = np.flatnonzero(np.diff(self.model.offsets))
        found[filled] = order[self.model.offsets[:-1][filled]]
        return found

    def most(self, claimant: Claimant) -> int:
        """Return the largest share of a claimant, whatever the limits are."""
        return int(self._best[self._jobs(claimant)].sum())

    def next_sum(self, claimant: Claimant, floor: int) -> int:
        """Return the least sum of shares of a claimant's jobs that reaches a floor, whatever the limits are.

        One more than its most where none does; the floor itself where sums are too many to be listed.
        """
        sums = self._sums(claimant)
        if sums is None or floor <= 0:
            return floor
        least = -(-floor // sums.grain)
        rest = sums.reachable >> least
        if not rest:
            return self.most(claimant) + 1
        return (least + (rest & -rest).bit_length() - 1) * sums.grain

    def last_sum(self, claimant: Claimant, floor: int) -> int:
        """Return the largest sum of shares of a claimant's jobs below a floor.

        One less than the floor where sums are too many to be listed, -1 where there is none.
        """
        sums = self._sums(claimant)
        if sums is None:
            return floor - 1
        below = sums.reachable & ((1 << -(-floor // sums.grain)) - 1)
        return (below.bit_length() - 1) * sums.grain if below else -1

    def exactly(self, claimant: Claimant, total: int) -> dict[int, int] | None:
        """Return shares of a claimant's jobs, by their index, that add up to a total; others have none."""
        sums = self._sums(claimant)
        if sums is None or total % sums.grain:
            return None
        left, found = total // sums.grain, dict[int, int]()
        for job, menu, reachable in reversed(
            list(zip(self._jobs(claimant).tolist(), sums.menus, sums.before, strict=True))
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

    def _sums(self, claimant: Claimant) -> _Sums | None:
        """Return the sums of a claimant's shares, ``None`` where there are too many."""
        if claimant not in self._reachable:
            offsets = self.model.offsets
            shares = [
                np.unique(self.share[offsets[job] : offsets[job + 1]]).tolist()
                for job in self._jobs(claimant).tolist()
            ]
            grain = math.gcd(*(share for menu in shares for share in menu)) or 1
            found = None
            if self.most(claimant) // grain <= _MOST_SUMS:
                menus = [[share // grain for share in menu] for menu in shares]
                before = [1]
                for menu in menus:
                    before.append(functools.reduce(operator.or_, (before[-1] << share for share in menu), 0))
                found = _Sums(grain, menus, before[:-1], before[-1])
            self._reachable[claimant] = found
        return self._reachable[claimant]

    def of(self, claimant: Claimant, choice: Integers) -> int:
        """Return a claimant's share under a choice."""
        rows = choice[self._jobs(claimant)]
        return int(self.share[rows[rows >= 0]].sum())

    def prices(self, group: Sequence[Claimant]) -> SharePrices:
        """Return what the shares of disjoint claimants cost at prices."""
        rows = [self.rows(one) for one in group]
        scopes = _scopes(self.placing.menus)
        return SharePrices(group, rows, self.model.uses, self.share, self.model.capacities, scopes)

    def rows(self, claimant: Claimant) -> Integers:
        """Return the rows of the options of a claimant's jobs."""
        if claimant not in self._rows:
            offsets = self.model.offsets
            parts = [np.arange(offsets[job], offsets[job + 1]) for job in self._jobs(claimant).tolist()]
            self._rows[claimant] = np.concatenate(parts).astype(np.int64)
        return self._rows[claimant]

    def raised(
        self, choice: Integers, group: Sequence[Claimant], floors: Mapping[Claimant, int]
    ) -> Integers | None:
        """Return a choice that reaches all floors, reached by a short walk for a group; ``None`` if not."""
        rows = {one: self.rows(one) for one in group}
        due = {one: floors.get(one, 0) for one in group}
        model = self.model
        jobs = {one: self._jobs(one) for one in group}
        found = raised_choice(
            choice, due, jobs, rows, self.exactly, self._owner, self._least, model, self.share
        )
        if found is None or any(self.of(one, found) < floor for one, floor in floors.items()):
            return None
        return found if model.check(found).feasible and self.placing.of(found) == "placed" else None

    def question(
        self, floors: Mapping[Claimant, int], rungs: Sequence[Rung] = ()
    ) -> tuple[MultipleChoiceKnapsack, Integers]:
        """Return the menus of the choices that reach every floor and rung, and the rows of their options.

        A rung is a capacity: so many may stay. A claimant with several jobs has a menu of its own behind
        theirs: the heights that it may reach.
        """
        kept = self._above(floors)
        counted = list(dict.fromkeys(one for rung in rungs for one in rung.heights))
        shared = [one for one in dict.fromkeys((*floors, *counted)) if len(one.jobs) > 1]
        columns, limits = self._columns({one: floors.get(one, 0) for one in shared})
        first = self.model.num_capacities
        stays = np.zeros((self.share.size, len(rungs)), dtype=np.int64)
        further = list[list[dict[int, int]]]()
        for one in counted:
            above = {k: rung.heights[one] for k, rung in enumerate(rungs) if one in rung.heights}
            if len(one.jobs) == 1:
                rows = self.rows(one)
                for k, height in above.items():
                    stays[rows, k] = self.share[rows] < height
                continue
            least = floors.get(one, 0)
            column, most = first + shared.index(one), self.most(one)
            menu = sorted({height for height in (least, *above.values()) if least <= height <= most})
            further.append(
                [
                    {first + len(shared) + k: 1 for k, high in above.items() if height < high}
                    | {column: height - least}
                    for height in menu
                ]
            )
        uses = np.column_stack([self.model.uses, *columns, stays])[kept]
        limits += [rung.stay for rung in rungs]
        return self._model(kept, uses, further, limits), np.flatnonzero(kept)

    def _jobs(self, claimant: Claimant) -> Integers:
        if claimant not in self._places:
            self._places[claimant] = np.array([self._index[job] for job in claimant.jobs], dtype=np.int64)
        return self._places[claimant]

    def _above(self, floors: Mapping[Claimant, int]) -> NDArray[np.bool_]:
        least = np.zeros(self._best.size, dtype=np.int64)
        for one, floor in floors.items():
            if len(one.jobs) == 1:
                at = self._index[one.jobs[0]]
                least[at] = max(least[at], floor)
        kept: NDArray[np.bool_] = self.share >= least[self._owner]
        return kept

    def _columns(self, floors: Mapping[Claimant, int]) -> tuple[list[Integers], list[int]]:
        columns, limits = [], []
        forgone = self._best[self._owner] - self.share
        for one, floor in floors.items():
            inside = np.zeros(self._best.size, dtype=np.bool_)
            inside[self._jobs(one)] = True
            columns.append(np.where(inside[self._owner], forgone, 0))
            limits.append(self.most(one) - floor)
        return columns, limits

    def _model(
        self,
        kept: NDArray[np.bool_],
        uses: Integers,
        further: Sequence[Sequence[Mapping[int, int]]],
        limits: Sequence[int],
    ) -> MultipleChoiceKnapsack:
        """Return menus of the kept options and, behind them, some further ones; nothing is worth anything."""
        sizes = np.bincount(self._owner[kept], minlength=self._best.size)
        sizes = np.concatenate((sizes, np.array([len(menu) for menu in further], dtype=np.int64)))
        options = [option for menu in further for option in menu]
        more = np.zeros((len(options), uses.shape[1]), dtype=np.int64)
        for place, option in enumerate(options):
            more[place, list(option)] = list(option.values())
        return MultipleChoiceKnapsack.from_arrays(
            np.zeros(len(uses) + len(more)),
            np.concatenate((uses, more)),
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            np.concatenate((self.model.capacities, np.array(limits, dtype=np.int64))),
        )


def _scopes(menus: TenantedMenus) -> list[NDArray[np.bool_]]:
    """Return the cluster's own capacities, and the rows of every tenant that limits what is claimed."""
    names = menus.model.capacity_names
    own = np.array([name in menus.capacities for name in names], dtype=np.bool_)
    rows = {row.name: row.name.removeprefix(f"{row.capacity} of ") for row in menus.ledger.rows}
    tenants = list(dict.fromkeys(rows[name] for name in names if name in rows))
    found = [own]
    found += [np.array([rows.get(name) == one for name in names], dtype=np.bool_) for one in tenants]
    return found[:_MOST_SCOPES]
