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
    columns, limits = _columns(model, {one: floors.get(one, 0) for one in shared})
    place = {one: model.model.num_capacities + k for k, one in enumerate(shared)}
    first_rung = model.model.num_capacities + len(shared)
    stays = np.zeros((model.share.size, len(rungs)), dtype=np.int64)
    heights, further = dict[Claimant, list[int]](), list[list[dict[int, int]]]()
    for one in counted:
        above = {k: rung.heights[one] for k, rung in enumerate(rungs) if one in rung.heights}
        if one not in place:
            rows = model.rows(one)
            for k, height in above.items():
                stays[rows, k] = model.share[rows] < height
            continue
        least, most = floors.get(one, 0), model.most(one)
        heights[one] = sorted({height for height in (least, *above.values()) if least <= height <= most})
        further.append(
            [
                {first_rung + k: 1 for k, high in above.items() if height < high}
                | {place[one]: height - least}
                for height in heights[one]
            ]
        )
    uses = np.column_stack([model.model.uses, *columns, stays])[kept]
    limits += [rung.stay for rung in rungs]
    menus = _menus(model, kept, uses, further, limits, valued=valued)
    return Question(menus, np.flatnonzero(kept), heights, shared)


def _above(model: LevelModel, floors: Mapping[Claimant, int]) -> NDArray[np.bool_]:
    """Return the options that reach the floors of single jobs."""
    least = np.zeros(model.best.size, dtype=np.int64)
    for one, floor in floors.items():
        at = model.jobs(one)
        least[at] = np.maximum(least[at], floor)
    kept: NDArray[np.bool_] = model.share >= least[model.owner]
    return kept


def _columns(model: LevelModel, floors: Mapping[Claimant, int]) -> tuple[list[Integers], list[int]]:
    columns, limits = list[Integers](), list[int]()
    forgone = model.best[model.owner] - model.share
    for one, floor in floors.items():
        rows = model.rows(one)
        column = np.zeros(forgone.size, dtype=np.int64)
        column[rows] = forgone[rows]
        columns.append(column)
        limits.append(model.most(one) - floor)
    return columns, limits


def _menus(
    model: LevelModel,
    kept: NDArray[np.bool_],
    uses: Integers,
    further: Sequence[Sequence[Mapping[int, int]]],
    limits: Sequence[int],
    *,
    valued: bool,
) -> MultipleChoiceKnapsack:
    """Return menus of the kept options and, behind them, some further ones, which are worth nothing."""
    sizes = np.bincount(model.owner[kept], minlength=model.best.size)
    sizes = np.concatenate((sizes, np.array([len(menu) for menu in further], dtype=np.int64)))
    options = [option for menu in further for option in menu]
    more = np.zeros((len(options), uses.shape[1]), dtype=np.int64)
    for place, option in enumerate(options):
        more[place, list(option)] = list(option.values())
    values = np.zeros(len(uses) + len(more))
    if valued:
        values[: len(uses)] = model.model.values[kept]
    return MultipleChoiceKnapsack.from_arrays(
        values,
        np.concatenate((uses, more)),
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        np.concatenate((model.model.capacities, np.array(limits, dtype=np.int64))),
        sense=model.model.sense if valued else "maximize",
    )
