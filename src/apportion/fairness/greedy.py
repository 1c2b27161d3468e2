"""Reach floors from a choice at hand: who has too little gets more, who has more than is due gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from apportion.fairness.claimants import Claimant
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["raised_choice"]

Integers = NDArray[np.int64]


def raised_choice(
    choice: Integers,
    floors: Mapping[Claimant, int],
    jobs: Mapping[Claimant, Integers],
    rows: Mapping[Claimant, Integers],
    exactly: Callable[[Claimant, int], Mapping[int, int] | None],
    owner: Integers,
    least: Integers,
    model: MultipleChoiceKnapsack,
    share: Integers,
) -> Integers | None:
    """Return a choice that reaches the floors of disjoint claimants, ``None`` where this walk finds none.

    Parameters
    ----------
    choice
        A choice that keeps the capacities, one row per job.
    floors
        What is due.
    jobs, rows
        The jobs of every claimant with a floor, and the rows of their options.
    exactly
        ``exactly(claimant, total)``: shares of some of its jobs that add up to a total.
    owner
        int64 [options]: the job of every row.
    least
        int64 [jobs]: the row of least use.
    model
        The menus.
    share
        int64 [options].
    """
    uses, capacities = model.uses, model.capacities
    now = choice.copy()
    used = uses[now].sum(axis=0)
    have = {one: int(share[now[jobs[one]]].sum()) for one in floors}
    for one in sorted(floors, key=lambda one: (floors[one] - have[one], one.name)):
        if have[one] == floors[one]:
            continue
        parts = exactly(one, floors[one])
        if parts is None:
            continue
        moved = _placed(jobs[one], parts, now, used, least, model, share)
        if moved is not None:
            now, used = moved
            have[one] = floors[one]
    for one in sorted(floors, key=lambda one: (have[one] - floors[one], one.name)):
        part = rows[one]
        while have[one] < floors[one]:
            old = now[owner[part]]
            gain = share[part] - share[old]
            more = uses[part] - uses[old]
            fits = (gain > 0) & (used + more <= capacities).all(axis=1)
            if not fits.any():
                return None
            due = floors[one] - have[one]
            room = np.maximum(1, capacities - used)
            cost = (np.maximum(0, more) / room).sum(axis=1) + 1e-3 * np.maximum(0, gain - due) / max(1, due)
            worth = np.minimum(gain, due) / np.maximum(cost, 1e-12)
            best = int(np.flatnonzero(fits)[np.argmax(worth[fits])])
            row = int(part[best])
            used += more[best]
            have[one] += int(gain[best])
            now[owner[row]] = row
    return now


def _placed(
    jobs: Integers,
    parts: Mapping[int, int],
    choice: Integers,
    used: Integers,
    least: Integers,
    model: MultipleChoiceKnapsack,
    share: Integers,
) -> tuple[Integers, Integers] | None:
    """Return the choice with a claimant's jobs at given shares, where there is most room, and its uses."""
    now, offsets, capacities = choice.copy(), model.offsets, model.capacities
    scale = 1.0 / np.maximum(1, capacities)
    now[jobs] = least[jobs]
    some = [job for job in jobs.tolist() if job in parts or share[least[job]]]
    left = used - model.uses[choice[jobs]].sum(axis=0) + model.uses[now[jobs]].sum(axis=0)
    left -= model.uses[now[some]].sum(axis=0)
    for job in sorted(some, key=lambda job: (-parts.get(job, 0), job)):
        start, end = offsets[job], offsets[job + 1]
        mine = start + np.flatnonzero(share[start:end] == parts.get(job, 0))
        full = left + model.uses[mine]
        worst = np.where((full <= capacities).all(axis=1), (full * scale).max(axis=1, initial=0.0), np.inf)
        best = int(worst.argmin())
        if worst[best] == np.inf:
            return None
        now[job] = mine[best]
        left = full[best]
    return now, left
