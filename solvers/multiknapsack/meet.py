"""The last jobs of a beam pass, decided at once: their combinations are listed and matched with the states.

Matching W states with B combinations looks at W B complete choices for the price of comparisons, as in the
meeting in the middle of Horowitz and Sahni (*Computing partitions with applications to the knapsack problem*,
JACM 21(2), 1974).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models.products import over_columns, product

from .option_table import OptionTable
from .tilt import Tilt

__all__ = ["Tails", "list_tails", "match"]

_PER_TAIL = 6
"""Combinations weighed per combination kept."""
_BLOCK = 2_000_000
"""Pairs compared at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Tails:
    """Combinations of options of the last jobs.

    Attributes
    ----------
    loss
        float64 [combinations].
    uses
        float64 [combinations, capacities].
    options
        int32 [combinations, tail jobs], in the order of the jobs.
    complete
        Whether no combination of loss within reach was left out.
    """

    loss: NDArray[np.float64]
    uses: NDArray[np.float64]
    options: NDArray[np.int32]
    complete: bool


def list_tails(
    menus: OptionTable,
    tilt: Tilt,
    live: NDArray[np.bool_],
    jobs: NDArray[np.int64],
    spread: NDArray[np.float64],
    most: int,
    allowed: float,
    late: Callable[[], bool],
) -> Tails | None:
    """List the combinations of some jobs, the likeliest first to stay where there are too many.

    Parameters
    ----------
    menus, tilt, live
        As in the pass.
    jobs
        int64 [tail jobs].
    spread
        float64 [capacities, capacities]: covariance of these jobs' use and of the slack.
    most
        Combinations kept at most.
    allowed
        Loss beyond which a combination is of no interest.
    late
        Asked once per job; true ends the listing with ``None``.
    """
    num_caps = menus.num_capacities
    loss, uses = np.zeros(1), np.zeros((1, num_caps))
    options = np.zeros((1, 0), dtype=np.int32)
    complete = True
    metric = np.linalg.inv(spread) * (tilt.temperature / 2)
    centre = np.zeros(num_caps)
    for job in jobs:
        if late():
            return None
        start, stop = menus.offsets[job], menus.offsets[job + 1]
        choices = np.flatnonzero(live[start:stop]) + start
        centre = centre + tilt.mean[:, job]
        after = (loss[:, None] + tilt.loss[choices][None, :]).ravel()
        kept = np.flatnonzero(after <= allowed)
        if kept.size > _PER_TAIL * most:
            # Too dear to weigh them all: those of least loss are.
            kept = kept[np.argpartition(after[kept], _PER_TAIL * most)[: _PER_TAIL * most]]
            complete = False
        parent, pick = np.divmod(kept, choices.size)
        total = uses[parent] + menus.uses[:, choices].T[pick]
        if kept.size > most:
            away = total - centre
            score = after[kept] + (product(away, metric) * away).sum(axis=1)
            nearest = np.argpartition(score, most)[:most]
            kept, parent, pick, total = kept[nearest], parent[nearest], pick[nearest], total[nearest]
            complete = False
        loss, uses = after[kept], total
        options = np.column_stack((options[parent], choices[pick].astype(np.int32)))
    return Tails(loss, uses, options, complete)


def match(
    residual: NDArray[np.float64],
    loss: NDArray[np.float64],
    tails: Tails,
    weights: NDArray[np.float64],
    allowed: float,
    late: Callable[[], bool],
) -> tuple[int, int] | None:
    """Return the state and the tail that fit together at the least total loss, slack included.

    Parameters
    ----------
    residual, loss
        float64 [states, capacities] and [states].
    tails
        The combinations.
    weights
        float64 [capacities]: prices of the slack left.
    allowed
        Total loss at most.
    late
        Asked once per block; true ends the comparison with the best pair so far.
    """
    fronts = loss + over_columns(residual, weights)
    backs = tails.loss - over_columns(tails.uses, weights)
    order = np.argsort(backs, kind="stable")
    backs, uses = backs[order], tails.uses[order]
    best: tuple[int, int] | None = None
    rows = max(1, _BLOCK // max(1, backs.size))
    by_front = np.argsort(fronts, kind="stable")
    for start in range(0, by_front.size, rows):
        if late():
            break
        block = by_front[start : start + rows]
        # Pairs whose total is within reach: a prefix of the sorted tails for every state.
        reach = int(np.searchsorted(backs, allowed - fronts[block[0]], side="right"))
        if reach == 0:
            break
        fits = uses[None, :reach, 0] <= residual[block, 0][:, None] + 1e-9
        fits &= backs[None, :reach] <= (allowed - fronts[block])[:, None]
        for k in range(1, min(3, residual.shape[1])):
            fits &= uses[None, :reach, k] <= residual[block, k][:, None] + 1e-9
        front, back = np.nonzero(fits)
        for k in range(3, residual.shape[1]):
            good = uses[back, k] <= residual[block[front], k] + 1e-9
            front, back = front[good], back[good]
        if front.size:
            totals = fronts[block[front]] + backs[back]
            least = int(np.argmin(totals))
            if best is None or totals[least] < allowed:
                best = (int(block[front[least]]), int(order[back[least]]))
                allowed = float(totals[least])
    return best
