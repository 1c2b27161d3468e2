"""Reach floors from a choice at hand: who has too little gets more, who has more than is due gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["FeasibleChoice", "Walker"]

Integers = NDArray[np.int64]


class FeasibleChoice(NamedTuple):
    """A choice that keeps the capacities, one row per job, and what it uses of each.

    Attributes
    ----------
    choice
        int64 [jobs].
    used
        int64 [capacities].
    """

    choice: Integers
    used: Integers


@dataclass(frozen=True, slots=True, eq=False)
class Walker:
    """Walks for disjoint holders, each known by its place among them, in the order of their names.

    Attributes
    ----------
    jobs, rows
        The jobs of every holder, at least one, and the rows of their options.
    every, begins
        The jobs of all holders behind one another, and where those of each begin.
    exactly
        ``exactly(place, total)``: shares of some of a holder's jobs that add up to a total.
    owner
        int64 [options]: the job of every row.
    least
        int64 [jobs]: the row of least use.
    share
        int64 [options].
    """

    jobs: Sequence[Integers]
    rows: Sequence[Integers]
    every: Integers
    begins: Integers
    exactly: Callable[[int, int], Mapping[int, int] | None]
    owner: Integers
    least: Integers
    share: Integers

    def have(self, choice: Integers) -> Integers:
        """Return what every holder has under a choice."""
        if not self.jobs:
            return np.zeros(0, dtype=np.int64)
        taken = choice[self.every]
        shares = np.where(taken >= 0, self.share[taken], 0)
        return np.asarray(np.add.reduceat(shares, self.begins), dtype=np.int64)

    def raised(
        self, held: FeasibleChoice, due: Integers, model: MultipleChoiceKnapsack
    ) -> FeasibleChoice | None:
        """Return a choice that reaches what is due to every holder, ``None`` where this walk finds none.

        Parameters
        ----------
        held
            Where it begins.
        due
            int64 [holders].
        model
            The menus.
        """
        share = self.share
        now, used, have = held.choice.copy(), held.used.copy(), self.have(held.choice)
        for one in np.argsort(due - have, kind="stable").tolist():
            if have[one] == due[one]:
                continue
            parts = self.exactly(one, int(due[one]))
            if parts is None:
                continue
            moved = _placed(self.jobs[one], parts, now, used, self.least, model, share)
            if moved is not None:
                now, used = moved
                have[one] = due[one]
        for one in np.argsort(have - due, kind="stable").tolist():
            if have[one] < due[one]:
                moved = self._gained(now, used, self.rows[one], int(due[one] - have[one]), model)
                if moved is None:
                    return None
                now, used = moved
        return FeasibleChoice(now, used)

    def gained(
        self, held: FeasibleChoice, rows: Integers, lacks: int, model: MultipleChoiceKnapsack
    ) -> FeasibleChoice | None:
        """Return a choice in which some jobs have so much more, none of them less; ``None`` if not found.

        Parameters
        ----------
        held
            Where it begins.
        rows
            The rows of the jobs' options.
        lacks
            How much more they are due.
        model
            The menus.
        """
        moved = self._gained(held.choice.copy(), held.used.copy(), rows, lacks, model)
        return None if moved is None else FeasibleChoice(*moved)

    def _gained(
        self, now: Integers, used: Integers, part: Integers, lacks: int, model: MultipleChoiceKnapsack
    ) -> tuple[Integers, Integers] | None:
        """Change a choice and its uses in place, option after option, by what each gains for its use.

        Of capacities that all rows use alike, as they do the many rows of tenants that lend a part, the one
        of least room counts.
        """
        uses, share, owner = model.uses_of(part), self.share[part], self.owner[part]
        first, alike = _alike(uses)
        own, order = uses[:, first], np.argsort(part)
        while lacks > 0:
            old = order[np.searchsorted(part, now[owner], sorter=order)]
            gain, more, room = share - share[old], own - own[old], model.capacities - used
            least = np.full(first.size, np.iinfo(np.int64).max)
            np.minimum.at(least, alike, room)
            fits = (gain > 0) & (more <= least).all(axis=1)
            if not fits.any():
                return None
            price = np.bincount(alike, 1.0 / np.maximum(1, room), first.size)
            cost = np.maximum(0, more) @ price + 1e-3 * np.maximum(0, gain - lacks) / lacks
            worth = np.minimum(gain, lacks) / np.maximum(cost, 1e-12)
            best = int(np.flatnonzero(fits)[np.argmax(worth[fits])])
            used += uses[best] - uses[old[best]]
            lacks -= int(gain[best])
            now[owner[best]] = part[best]
        return now, used


def _alike(uses: Integers) -> tuple[Integers, Integers]:
    """Return one column of each kind, and of which kind every column is."""
    weights = np.random.default_rng(0).integers(1, 1 << 62, len(uses))  # sums wrap around: that is no matter
    _, first, alike = np.unique(weights @ uses, return_index=True, return_inverse=True)
    if not (uses == uses[:, first[alike]]).all():
        return (every := np.arange(uses.shape[1])), every
    return first, alike


def _placed(
    jobs: Integers,
    parts: Mapping[int, int],
    choice: Integers,
    used: Integers,
    least: Integers,
    model: MultipleChoiceKnapsack,
    share: Integers,
) -> tuple[Integers, Integers] | None:
    """Return the choice with a holder's jobs at given shares, where there is most room, and its uses."""
    now, offsets, capacities = choice.copy(), model.offsets, model.capacities
    scale = 1.0 / np.maximum(1, capacities)
    now[jobs] = least[jobs]
    some = [job for job in jobs.tolist() if job in parts or share[least[job]]]
    left = used - model.used(choice[jobs]) + model.used(now[jobs]) - model.used(now[some])
    for job in sorted(some, key=lambda job: (-parts.get(job, 0), job)):
        start, end = offsets[job], offsets[job + 1]
        mine = start + np.flatnonzero(share[start:end] == parts.get(job, 0))
        full = left + model.uses_of(mine)
        worst = np.where((full <= capacities).all(axis=1), (full * scale).max(axis=1, initial=0.0), np.inf)
        best = int(worst.argmin())
        if worst[best] == np.inf:
            return None
        now[job] = mine[best]
        left = full[best]
    return now, left
