"""A question about floors and rungs as menus: can they be reached together, and what is best above them.

A share of a tenant that must be reached is one more capacity: of what its jobs have at best, so much may be
forgone. A share of one job cuts its menu. A rung is a capacity as well: so many may stay below it. A claimant
with several jobs has a menu of its own behind theirs: the heights that it may reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.fairness.claimants import Claimant, Rung
from apportion.fairness.level_model import LevelModel
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["Question", "question"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The menus of a question, and the way from choices of the instance to theirs and back.

    Attributes
    ----------
    menus
        The jobs' options that are left, and behind them a menu for every claimant with heights.
    rows
        int64 [options of jobs]: their rows in the instance's menus.
    heights
        The heights of every claimant with a menu of its own, in the order of these menus.
    shared
        Who has a capacity, behind those of the instance and before the rungs.
    """

    menus: MultipleChoiceKnapsack
    rows: Integers
    heights: Mapping[Claimant, Sequence[int]]
    shared: Sequence[Claimant]

    def choice(self, point: Integers) -> Integers:
        """Return the instance's choice of a point of the menus."""
        chosen = point[: self.menus.num_jobs - len(self.heights)]
        return np.where(chosen >= 0, self.rows[np.maximum(chosen, 0)], -1)

    def point(self, model: LevelModel, choice: Integers) -> Integers:
        """Return the point of a choice that reaches the floors, each claimant as high as it is."""
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
        names = (*model.model.capacity_names, *(f"share of {one.name}" for one in self.shared))
        return dict(zip(names, multipliers[: len(names)], strict=True))


def question(
    model: LevelModel, floors: Mapping[Claimant, int], rungs: Sequence[Rung] = (), *, valued: bool = False
) -> Question:
    """Return the menus of the choices that reach every floor and rung.

    Parameters
    ----------
    model
        The shares.
    floors, rungs
        What must be reached.
    valued
        Whether choices are worth what the objective says, and every tenant has a capacity, as certificates
        name them; otherwise nothing is worth anything, and a tenant with one job has its menu cut.
    """
    counted = list(dict.fromkeys(one for rung in rungs for one in rung.heights))
    shared = [
        one
        for one in dict.fromkeys((*floors, *counted))
        if len(one.jobs) > 1 or (valued and not one.name.startswith("job "))
    ]
    kept = _above(model, {one: floor for one, floor in floors.items() if one not in set(shared)})
    own, num = model.model.num_capacities, int(kept.sum())
    place = {one: own + k for k, one in enumerate(shared)}
    first_rung = own + len(shared)
    heights = _heights(model, floors, rungs, [one for one in counted if one in place])
    menus = [_menu(one, place[one], first_rung, rungs, floors, heights[one]) for one in heights]
    options = [option for menu in menus for option in menu]
    # a limit is a column: in this order each is written, and read, in one piece
    uses = np.zeros((num + len(options), first_rung + len(rungs)), dtype=np.int64, order="F")
    at = np.cumsum(kept) - 1
    uses[:num, :own] = model.model.uses[kept]
    forgone = model.best[model.owner] - model.share
    for one, column in place.items():
        rows = model.rows(one)
        rows = rows[kept[rows]]
        uses[at[rows], column] = forgone[rows]
    for k, rung in enumerate(rungs):
        for one, height in rung.heights.items():
            if one not in place:
                rows = model.rows(one)
                rows = rows[kept[rows] & (model.share[rows] < height)]
                uses[at[rows], first_rung + k] = 1
    for row, option in enumerate(options, start=num):
        uses[row, list(option)] = list(option.values())
    values = np.zeros(len(uses))
    if valued:
        values[:num] = model.model.values[kept]
    sizes = np.bincount(model.owner[kept], minlength=model.best.size)
    sizes = np.concatenate((sizes, np.array([len(menu) for menu in menus], dtype=np.int64)))
    limits = [model.most(one) - floors.get(one, 0) for one in shared] + [rung.stay for rung in rungs]
    asked = MultipleChoiceKnapsack.from_arrays(
        values,
        uses,
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        np.concatenate((model.model.capacities, np.array(limits, dtype=np.int64))),
        sense=model.model.sense if valued else "maximize",
    )
    return Question(asked, np.flatnonzero(kept), heights, shared)


def _above(model: LevelModel, floors: Mapping[Claimant, int]) -> NDArray[np.bool_]:
    """Return the options that reach the floors of single jobs."""
    least = np.zeros(model.best.size, dtype=np.int64)
    for one, floor in floors.items():
        at = model.jobs(one)
        least[at] = np.maximum(least[at], floor)
    kept: NDArray[np.bool_] = model.share >= least[model.owner]
    return kept


def _heights(
    model: LevelModel, floors: Mapping[Claimant, int], rungs: Sequence[Rung], counted: Sequence[Claimant]
) -> dict[Claimant, list[int]]:
    """Return the heights that claimants may reach: their floor, and those of their rungs."""
    found = dict[Claimant, list[int]]()
    for one in counted:
        least, most = floors.get(one, 0), model.most(one)
        above = {rung.heights[one] for rung in rungs if one in rung.heights}
        found[one] = sorted(height for height in {least, *above} if least <= height <= most)
    return found


def _menu(
    one: Claimant,
    place: int,
    first_rung: int,
    rungs: Sequence[Rung],
    floors: Mapping[Claimant, int],
    heights: Sequence[int],
) -> list[dict[int, int]]:
    """Return what every height of a claimant takes: of its share all above the floor, of rungs above it 1."""
    high = {first_rung + k: rung.heights[one] for k, rung in enumerate(rungs) if one in rung.heights}
    least = floors.get(one, 0)
    return [
        {rung: 1 for rung, due in high.items() if height < due} | {place: height - least}
        for height in heights
    ]
