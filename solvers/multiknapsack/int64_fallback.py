"""Numbers that float64 does not hold: choices listed job by job, their uses kept in 64-bit integers.

Beyond 2**53 a float64 skips whole numbers, so that neither "fits" nor "exceeds" can be read from it. Here
partial choices are states ``(used [capacities], value)``; a state goes if the smallest uses of the jobs to
come do not fit beside it, or if another has used exactly as much and is worth at least as much (Nemhauser
and Ullmann, *Management Science* 15(9), 1969). Without a cut the best state of the last layer is the optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["ListedChoices", "is_wide", "list_choices"]

_EXACT = 2**53
_STATES = 200_000
"""States kept at once; beyond it those worth least go, and nothing is proven."""


@dataclass(frozen=True, slots=True, eq=False)
class ListedChoices:
    """The best of all choices that were listed, and whether none was left out.

    Attributes
    ----------
    rows
        int64 [jobs]: the best choice, -1 for none; ``None`` if none was found.
    complete
        Whether nothing was cut for want of room or time: `rows` then is optimal, and ``None`` a proof that
        nothing fits.
    """

    rows: NDArray[np.int64] | None
    complete: bool


def is_wide(model: MultipleChoiceKnapsack) -> bool:
    """Return whether sums of uses, or a capacity that they may exceed, lie beyond what float64 counts."""
    filled = np.flatnonzero(np.diff(model.offsets))
    if not filled.size or not model.num_capacities:
        return False
    if model.paid(np.ones(model.num_capacities)).sum() < 0.5 * _EXACT:  # of all options together
        return False
    most = np.maximum.reduceat(model.uses, model.offsets[:-1][filled], axis=0).sum(axis=0)
    return bool((most >= _EXACT).any())


def list_choices(model: MultipleChoiceKnapsack, late: Callable[[], bool]) -> ListedChoices:
    """List choices until all jobs are decided.

    Parameters
    ----------
    model
        Any model; its uses add up within 64 bits, as `MultipleChoiceKnapsack.from_arrays` checks.
    late
        Asked once per job; true ends the listing with nothing.
    """
    whole = _whole(model)
    jobs, caps = model.num_jobs, model.num_capacities
    menus = [np.arange(a, b) for a, b in zip(model.offsets[:-1], model.offsets[1:], strict=True)]
    least = np.zeros((jobs + 1, caps), dtype=np.int64)
    for job in range(jobs - 1, -1, -1):
        own = np.zeros(caps, dtype=np.int64)
        if model.required[job]:
            if not menus[job].size:
                return ListedChoices(None, True)
            own = model.uses[menus[job]].min(axis=0)
        least[job] = least[job + 1] + own
    used, value = np.zeros((1, caps), dtype=np.int64), np.zeros(1, dtype=object)
    complete = True
    trail: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for job in range(jobs):
        if late():
            return ListedChoices(None, False)
        rows = menus[job] if model.required[job] else np.append(-1, menus[job])
        more = np.where((rows >= 0)[:, None], model.uses[np.maximum(rows, 0)], 0)
        gain = np.where(rows >= 0, whole[np.maximum(rows, 0)], 0)
        parent, pick = (x.ravel() for x in np.indices((value.size, rows.size)))
        after = used[parent] + more[pick]
        # compared as room left over: no sum of three leaves 64 bits
        fits = (after <= model.capacities - np.minimum(least[job + 1], model.capacities)).all(axis=1)
        fits &= (least[job + 1] <= model.capacities).all()
        parent, pick, after = parent[fits], pick[fits], after[fits]
        worth = value[parent] + gain[pick]
        rank = np.unique(worth, return_inverse=True)[1]
        keep = _best_of_equals(after, rank)
        if keep.size > _STATES:
            keep = keep[np.argpartition(-rank[keep], _STATES)[:_STATES]]
            complete = False
        if not keep.size:
            return ListedChoices(None, complete)
        used, value = after[keep], worth[keep]
        trail.append((parent[keep], rows[pick[keep]]))
    choice = np.full(jobs, -1, dtype=np.int64)
    at = int(np.argmax(value))
    for job in range(jobs - 1, -1, -1):
        parents, taken = trail[job]
        choice[job], at = taken[at], int(parents[at])
    return ListedChoices(choice, complete)


def _whole(model: MultipleChoiceKnapsack) -> NDArray[np.object_]:
    """Return the values, to be maximised, times a power of two that makes all of them whole."""
    sign = 1 if model.sense == "maximize" else -1
    ratios = [value.as_integer_ratio() for value in model.values.tolist()]
    common = max((below for _, below in ratios), default=1)
    return np.array([sign * above * (common // below) for above, below in ratios], dtype=object)


def _best_of_equals(used: NDArray[np.int64], rank: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the states to keep: of those that have used exactly as much, one worth most."""
    order = np.lexsort((-rank, *used.T))
    same = (used[order[1:]] == used[order[:-1]]).all(axis=1)
    return order[np.concatenate(([True], ~same))] if order.size else order
