"""Beam search over jobs, one layer per job, guided by the smoothed dual; without a cut it is an exact proof.

A state is a partial choice: what is left of each capacity and the loss so far (how far below the Lagrangian
bound the choice already is). Two states of equal loss differ in how well the rest can be steered to use up
what is left: with mean m and covariance S of the undecided jobs' use (and of the slack) at temperature T,
ending at residual r costs about ``T/2 (r - m)' S^-1 (r - m)`` more. The states of least estimated loss
survive.

States go for good only for three reasons: no completion fits (smallest uses), none can beat the incumbent
(the loss is a valid bound), or another state has used exactly as much at a smaller loss. If the beam was
never full, the answer is proven: the best choice better than the incumbent, or that there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .meet import list_tails, match
from .option_table import OptionTable
from .reduction import noise
from .tilt import Tilt

__all__ = ["Pass", "search"]


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """What one pass found.

    Attributes
    ----------
    choice
        int64 [jobs]: options of the best choice better than the floor, or ``None``.
    complete
        Whether no state was cut for want of room or time: then no other choice is better.
    expanded
        How many states were made.
    """

    choice: NDArray[np.int64] | None
    complete: bool
    expanded: int


def search(
    menus: OptionTable,
    tilt: Tilt,
    order: NDArray[np.int64],
    width: int,
    floor: float | None,
    late: Callable[[], bool],
) -> Pass:
    """Search layer by layer.

    Parameters
    ----------
    menus
        At least one job and one capacity.
    tilt
        The distribution of the menus' options.
    order
        int64 [jobs]: the order in which jobs are decided.
    width
        States kept per layer.
    floor
        Only choices worth at least this much are wanted; ``None`` for any.
    late
        Asked once per layer; true ends the pass with nothing.
    """
    num_caps = menus.capacities.size
    slack = 1e-9 * abs(tilt.bound) + noise(menus, tilt.weights)
    allowed = np.inf if floor is None else tilt.bound - floor + slack
    live = tilt.loss <= allowed
    counts = np.add.reduceat(live, menus.offsets[:-1], dtype=np.int64)
    if (counts == 0).any():
        return Pass(None, True, 0)
    choice = menus.first_at(live)
    order = order[counts[order] > 1]
    layers = order.size
    left = menus.capacities.copy()
    loss_fixed = 0.0
    fixed = np.flatnonzero(counts == 1)
    if fixed.size:
        left -= menus.uses[:, choice[fixed]].sum(axis=1)
        loss_fixed = float(tilt.loss[choice[fixed]].sum())
    steer, centre, least, spread = _lookahead(menus, tilt, live, order)
    head = layers - _tail_length(menus, tilt, live, order, width)
    residual = left[None, :]
    loss = np.array([loss_fixed])
    if loss_fixed > allowed or (left < least[0] - 1e-9).any():
        return Pass(None, True, 0)
    history: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
    mixer = np.sqrt(np.arange(2.0, num_caps + 2.0))
    complete, expanded = True, 0
    for layer in range(head):
        if late():
            return Pass(None, False, expanded)
        job = order[layer]
        start, stop = menus.offsets[job], menus.offsets[job + 1]
        options = np.flatnonzero(live[start:stop]) + start
        uses = menus.uses[:, options].T
        after = loss[:, None] + tilt.loss[options][None, :]
        expanded += after.size
        last = layer == layers - 1
        if last:
            good = after <= allowed
            for k in range(num_caps):
                good &= uses[:, k][None, :] <= residual[:, k][:, None] + 1e-9
            parent, pick = np.nonzero(good)
        elif after.size <= width:
            parent, pick = np.nonzero(after <= allowed)
        else:
            here = (residual - centre[layer + 1]) @ steer[layer + 1]
            there = uses @ steer[layer + 1]
            score = (here**2).sum(axis=1)[:, None] + (there**2).sum(axis=1)[None, :] - 2.0 * (here @ there.T)
            score += after
            score[after > allowed] = np.inf
            if layers - layer <= _STRICT_LAYERS:
                for k in range(num_caps):
                    score[uses[:, k][None, :] + least[layer + 1, k] > residual[:, k][:, None] + 1e-9] = np.inf
            flat = score.ravel()
            kept = np.argpartition(flat, width)[:width]
            kept = kept[flat[kept] < np.inf]
            if kept.size == width:
                complete = False
            parent, pick = np.divmod(kept, options.size)
        residual = residual[parent] - uses[pick]
        loss = after[parent, pick]
        if not last:
            fits = (residual >= least[layer + 1] - 1e-9).all(axis=1)
            keep = np.flatnonzero(fits)
            if keep.size > 1:
                keep = keep[_first_of_equals(residual[keep], loss[keep], mixer)]
            parent, pick, residual, loss = parent[keep], pick[keep], residual[keep], loss[keep]
        if parent.size == 0:
            return Pass(None, complete, expanded)
        history.append((parent.astype(np.int32), options[pick].astype(np.int32)))
    if head < layers:
        most = _most_tails(width)
        tails = list_tails(menus, tilt, live, order[head:], spread[head], most, allowed, late)
        if tails is None:
            return Pass(None, False, expanded)
        complete &= tails.complete
        pair = match(residual, loss, tails, tilt.weights, allowed, late)
        if pair is None:
            return Pass(None, complete and not late(), expanded)
        best = pair[0]
        choice[order[head:]] = tails.options[pair[1]]
    else:
        best = int(np.argmin(loss + residual @ tilt.weights))
    for layer in range(head - 1, -1, -1):
        parents, picked = history[layer]
        choice[order[layer]] = picked[best]
        best = int(parents[best])
    value = float(menus.values[choice].sum())
    if floor is not None and value < floor - slack:
        return Pass(None, complete, expanded)
    return Pass(choice, complete, expanded)


_TAILS = 30_000
"""Combinations of the last jobs matched with the states at most."""
_PAIRS = 150_000_000
"""Pairs of a state and a tail looked at in a pass at most."""
_SHORTEST = 12
"""Passes of fewer layers go to the end layer by layer."""


def _most_tails(width: int) -> int:
    """How many combinations of the last jobs are matched with the states: ten per state, within reason."""
    return min(_TAILS, 10 * width, max(200, _PAIRS // width))


def _tail_length(
    menus: OptionTable, tilt: Tilt, live: NDArray[np.bool_], order: NDArray[np.int64], width: int
) -> int:
    """How many last jobs have about as many combinations worth listing as will be matched."""
    if order.size < _SHORTEST:
        return 0
    variety = np.cumsum(tilt.entropy(menus)[order][::-1] + 0.1)
    most = np.log(_most_tails(width))
    return min(int(np.searchsorted(variety, most)), int(order.size) // 2)


_STRICT_LAYERS = 6
"""In this many last layers states that cannot be completed go before the beam is cut, not after."""


def _lookahead(
    menus: OptionTable, tilt: Tilt, live: NDArray[np.bool_], order: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return, before each layer: a root of T/2 S^-1, the mean and smallest use to come, S itself."""
    num_caps, layers = menus.capacities.size, order.size
    smallest = menus.smallest if live.all() else None
    covariance = np.zeros((layers + 1, num_caps, num_caps))
    centre = np.zeros((layers + 1, num_caps))
    least = np.zeros((layers + 1, num_caps))
    covariance[layers] = np.diag(np.maximum(tilt.slack, 1e-6) ** 2)
    centre[layers] = tilt.slack
    weighted = menus.uses * tilt.probability
    uses = menus.uses if smallest is not None else np.where(live, menus.uses, np.inf)
    for layer, job in enumerate(order):
        part = slice(menus.offsets[job], menus.offsets[job + 1])
        covariance[layer] = weighted[:, part] @ menus.uses[:, part].T
    mean = tilt.mean[:, order].T
    covariance[:layers] -= mean[:, :, None] * mean[:, None, :]
    centre[:layers] = mean
    if layers:
        least[:layers] = np.minimum.reduceat(uses, menus.offsets[:-1], axis=1)[:, order].T
    covariance = np.cumsum(covariance[::-1], axis=0)[::-1]
    covariance += np.eye(num_caps) * (1e-12 * max(1.0, float(covariance[0].max())))
    steer = _steering(covariance, tilt.temperature)
    to_come = np.cumsum(centre[::-1], axis=0)[::-1]
    return steer, to_come, np.cumsum(least[::-1], axis=0)[::-1], covariance


def _steering(covariance: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return R with ``R R' = temperature / 2 x covariance^-1``: distances become plain sums of squares.

    Where rounding leaves a matrix without a Cholesky factor (uses of very unlike sizes), capacities count
    apart.
    """
    inverse = np.linalg.inv(covariance) * (temperature / 2)
    try:
        return np.linalg.cholesky((inverse + inverse.transpose(0, 2, 1)) / 2).astype(np.float64)
    except np.linalg.LinAlgError:
        spread = np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 1e-300)
        apart = np.sqrt(temperature / 2 / spread)
        return np.asarray(apart[:, :, None] * np.eye(covariance.shape[1]), dtype=np.float64)


def _first_of_equals(
    residual: NDArray[np.float64], loss: NDArray[np.float64], mixer: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the states to keep: of those with exactly the same residual, one of least loss."""
    key = residual @ mixer
    order = np.lexsort((loss, key))
    ranked = key[order]
    close = np.flatnonzero(ranked[1:] == ranked[:-1])
    if close.size == 0:
        return order
    same = (residual[order[close + 1]] == residual[order[close]]).all(axis=1)
    keep = np.ones(order.size, dtype=np.bool_)
    keep[close[same] + 1] = False
    return order[keep]
