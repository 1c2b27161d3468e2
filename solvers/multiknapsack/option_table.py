"""The search form of a knapsack: maximising, every job takes exactly one option, hopeless options gone.

An optional job gets an explicit *none* option worth 0 that uses nothing, so that everything below this file
deals with one rule only. Uses are kept in float64 (exact below 2**53) because every hot loop is a product
with multipliers; whether a choice fits is decided in int64 by the engine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.models.products import over_rows
from apportion.models.ragged import Ragged

__all__ = ["OptionTable", "build"]

_SHORT = 16
"""Length up to which menus are gone through place by place; numpy takes longer over short rows."""
_MANY = 30
"""So many menus for every place of one, or the calls cost more than they spare."""


@dataclass(frozen=True, slots=True, eq=False)
class OptionTable(Ragged):
    """Menus in search form.

    Attributes
    ----------
    values
        float64 [options], to be maximised.
    uses
        float64 [capacities, options], contiguous per capacity.
    offsets
        int64 [jobs + 1]; no menu is empty.
    job
        int64 [options]: the job of each option.
    rows
        int64 [options]: the row in the model, -1 for *none*.
    capacities
        float64 [capacities]: only those that could be exceeded at all.
    binding
        int64 [capacities]: which of the model's capacities they are.
    width
        The length of every menu where all are equally long, else ``None``.
    """

    values: NDArray[np.float64]
    uses: NDArray[np.float64]
    offsets: NDArray[np.int64]
    job: NDArray[np.int64]
    rows: NDArray[np.int64]
    capacities: NDArray[np.float64]
    binding: NDArray[np.int64]
    width: int | None = None

    @property
    def num_capacities(self) -> int:
        """How many capacities can be exceeded."""
        return int(self.capacities.size)

    def keep(self, mask: NDArray[np.bool_]) -> OptionTable:
        """Return the menus with only the options of `mask`; jobs stay, and may become empty."""
        index = np.flatnonzero(mask)
        job = self.job[index]
        offsets = _offsets(np.bincount(job, minlength=self.num_jobs))
        uses = self.uses.take(index, axis=1)
        return OptionTable(
            self.values[index], uses, offsets, job, self.rows[index], self.capacities, self.binding
        )

    def part(self, jobs: NDArray[np.int64], capacities: NDArray[np.float64]) -> OptionTable:
        """Return the menus of some jobs, in their order (rising), under other capacities."""
        chosen = np.zeros(self.num_jobs, dtype=np.bool_)
        chosen[jobs] = True
        index = np.flatnonzero(chosen[self.job])
        sizes = np.diff(self.offsets)[jobs]
        return OptionTable(
            self.values[index],
            self.uses.take(index, axis=1),
            _offsets(sizes),
            np.repeat(np.arange(jobs.size, dtype=np.int64), sizes),
            index,
            capacities,
            self.binding,
        )

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return capacity, option and use of everything that is used, capacity by capacity."""
        at = np.flatnonzero(self.uses.ravel() != 0.0)
        capacity, option = np.divmod(at, max(1, self.num_options))
        return capacity, option, self.uses.ravel()[at]

    def used(self, choice: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64 [capacities]: what a choice (one option index per job) uses."""
        total: NDArray[np.float64] = self.uses.take(choice, axis=1).sum(axis=1)
        return total

    def largest(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [jobs]: the largest score of each menu."""
        return self._outermost(np.maximum, scores)

    def smallest(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [jobs]: the smallest score of each menu."""
        return self._outermost(np.minimum, scores)

    def _outermost(self, outer: np.ufunc, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the larger, or smaller, of all scores of each menu: of many short menus place by place."""
        width = self.width
        if width is None or width > _SHORT or self.num_jobs < _MANY * width:
            return np.asarray(outer.reduceat(scores, self.offsets[:-1]), dtype=np.float64)
        found = scores[::width].copy()
        for place in range(1, width):
            outer(found, scores[place::width], out=found)
        return found

    def per_option(self, per_job: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [options]: each job's entry repeated over its menu."""
        return np.repeat(per_job, self.width) if self.width is not None else per_job[self.job]

    def first_at(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return int64 [jobs]: the first option of each menu where `mask` holds (it must hold somewhere)."""
        index = np.flatnonzero(mask)
        job = self.job[index]
        first = np.ones(index.size, dtype=np.bool_)
        first[1:] = job[1:] != job[:-1]
        return index[first]

    def best_choice(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return int64 [jobs]: the option of the largest score in each menu, the first among equals."""
        if self.width is not None:
            wide: NDArray[np.int64] = scores.reshape(-1, self.width).argmax(axis=1) + self.offsets[:-1]
            return wide
        return self.first_at(scores == self.largest(scores)[self.job])

    def scores(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [options]: what an option is worth beyond the price of what it uses."""
        return self.values - over_rows(weights, self.uses)

    def loss(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [options] >= 0: how far below its menu's best an option is at these multipliers."""
        scores = self.scores(weights)
        return self.per_option(self.largest(scores)) - scores

    def locate(self, chosen_rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 [jobs]: where the model's rows stand here, -1 for a row that is not here."""
        place = np.full(self.num_jobs, -1, dtype=np.int64)
        hit = np.flatnonzero(self.rows == chosen_rows[self.job])
        place[self.job[hit]] = hit
        return place

    def restrict(self, multipliers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the entries of the model's multipliers that concern the capacities here."""
        return np.maximum(multipliers[self.binding], 0.0)

    def expand(self, weights: NDArray[np.float64], num_capacities: int) -> NDArray[np.float64]:
        """Return multipliers for all the model's capacities, 0 for those that cannot be exceeded."""
        full = np.zeros(num_capacities)
        full[self.binding] = weights
        return full


def build(model: MultipleChoiceKnapsack) -> OptionTable | None:
    """Bring a model into search form; ``None`` proves that it has no feasible choice.

    An option goes if, with every other job at its smallest use, it breaks a capacity. This is repeated while
    it removes something; a required job with an empty menu, or smallest uses that do not fit, is the proof.
    Capacities that even the largest uses respect go as well.
    """
    values = model.values if model.sense == "maximize" else -model.values
    num_jobs, num_caps = model.num_jobs, model.num_capacities
    sizes = np.diff(model.offsets)
    optional = ~model.required
    counts = sizes + optional
    if (counts == 0).any():
        return None
    width = int(counts[0]) if num_jobs and (counts == counts[0]).all() else None
    offsets = _offsets(counts)
    job = np.repeat(np.arange(num_jobs, dtype=np.int64), counts)
    total = int(offsets[-1])
    capacities = model.capacities.astype(np.float64)
    everything = np.arange(num_caps, dtype=np.int64)
    if not optional.any():
        rows = np.arange(total, dtype=np.int64)
        uses = np.empty((num_caps, total))
        uses[...] = model.uses.T
        menus = OptionTable(values, uses, offsets, job, rows, capacities, everything, width)
    else:
        # *none* stands first in its menu: among equals the job that stays out costs no capacity.
        rows = np.full(total, -1, dtype=np.int64)
        value = np.zeros(total)
        uses = np.zeros((num_caps, total))
        if width is not None and optional.all():
            rows.reshape(num_jobs, width)[:, 1:] = np.arange(model.num_options).reshape(num_jobs, width - 1)
            value.reshape(num_jobs, width)[:, 1:] = values.reshape(num_jobs, width - 1)
            blocks = model.uses.reshape(num_jobs, width - 1, num_caps)
            for k in range(num_caps):
                uses[k].reshape(num_jobs, width)[:, 1:] = blocks[:, :, k]
        else:
            real = np.ones(total, dtype=np.bool_)
            real[offsets[:-1][optional]] = False
            rows[real] = np.arange(model.num_options)
            value[real] = values
            uses[:, real] = model.uses.T
        menus = OptionTable(value, uses, offsets, job, rows, capacities, everything, width)
    return menus if num_jobs == 0 else _without_misfits(menus)


def _offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _without_misfits(menus: OptionTable) -> OptionTable | None:
    while True:
        fits: NDArray[np.bool_] | None = None
        binding = np.zeros(menus.num_capacities, dtype=np.bool_)
        for k in range(menus.num_capacities):
            use = menus.uses[k]
            least = menus.smallest(use)
            spare = menus.capacities[k] - least.sum()
            if spare < 0:
                return None
            most = menus.largest(use)
            binding[k] = most.sum() > menus.capacities[k]
            if (most - least).max() > spare:
                good = use - menus.per_option(least) <= spare
                fits = good if fits is None else fits & good
        if fits is None:
            break
        menus = menus.keep(fits)
        if (np.diff(menus.offsets) == 0).any():
            return None
    if binding.all():
        return menus
    return OptionTable(
        menus.values,
        menus.uses[binding],
        menus.offsets,
        menus.job,
        menus.rows,
        menus.capacities[binding],
        menus.binding[binding],
        menus.width,
    )
