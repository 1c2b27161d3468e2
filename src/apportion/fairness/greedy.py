"""Reach floors from a choice at hand: who has too little gets more, who has more than is due gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from apportion.fairness.claimants import Claimant

__all__ = ["raised_choice"]

Integers = NDArray[np.int64]


def raised_choice(
    choice: Integers,
    floors: Mapping[Claimant, int],
    rows: Mapping[Claimant, Integers],
    exactly: Callable[[Claimant, int], Mapping[int, int] | None],
    owner: Integers,
    uses: Integers,
    share: Integers,
    capacities: Integers,
) -> Integers | None:
    """Return a choice that reaches the floors of disjoint claimants, ``None`` where this walk finds none.

    Parameters
    ----------
    choice
        A choice that keeps the capacities, one row per job.
    floors
        What is due.
    rows
        The rows of the options of every claimant with a floor.
    exactly
        ``exactly(claimant, total)``: a share for each of its jobs that add up to a total.
    owner, uses, share, capacities
        Of the menus.
    """
    now = choice.copy()
    used = uses[now].sum(axis=0)
    have = {one: int(share[now[np.unique(owner[rows[one]])]].sum()) for one in floors}
    for one in sorted(floors, key=lambda one: (floors[one] - have[one], one.name)):
        if have[one] == floors[one]:
            continue
        parts = exactly(one, floors[one])
        if parts is None:
            continue
        moved = _placed(parts, rows[one], now, used, owner, uses, share, capacities)
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
    parts: Mapping[int, int],
    rows: Integers,
    choice: Integers,
    used: Integers,
    owner: Integers,
    uses: Integers,
    share: Integers,
    capacities: Integers,
) -> tuple[Integers, Integers] | None:
    """Return the choice with a claimant's jobs at given shares, where there is most room, and its uses."""
    now = choice.copy()
    jobs = list(parts)
    left = used - uses[now[jobs]].sum(axis=0)
    jobs_of_rows = owner[rows]
    for job in sorted(jobs, key=lambda job: (-parts[job], job)):
        mine = rows[(jobs_of_rows == job)]
        mine = mine[share[mine] == parts[job]]
        full = (left + uses[mine]) / np.maximum(1, capacities)
        worst = np.where((left + uses[mine] <= capacities).all(axis=1), full.max(axis=1), np.inf)
        best = int(np.argmin(worst))
        if not np.isfinite(worst[best]):
            return None
        now[job] = mine[best]
        left = left + uses[mine[best]]
    return now, left
