"""Dynamic programming over the core: the least total loss for every deviation in use from the base choice.

A state is a deviation in use with the least loss that reaches it. Groups enter in order of their second loss;
a state is dropped when its loss and the least that the groups to come can charge for the way back to the
capacity reach the loss to beat. States are a dense window of consecutive deviations where these are few,
and a sorted list otherwise. The values of every stage are kept; the way back is found by equality.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.outcome import Termination
from apportion.solvers.knapsack.budget import Budget
from apportion.solvers.knapsack.reduction import Core
from apportion.solvers.knapsack.states import Dense, Sparse, States

__all__ = ["Found", "search"]

_HISTORY_BYTES = 384 * 2**20
_DENSE_SPREAD = 4096
"""Spread of one group's deviations up to which the window is dense from the start."""


@dataclass(slots=True, eq=False)
class Found:
    """What a search knows when it ends.

    Attributes
    ----------
    loss
        Least total loss known: that of `entries`, or the given one if `entries` is ``None``.
    entries
        One core entry per group, or ``None`` if nothing better than given was found.
    floor
        No choice has less total loss than this.
    stopped
        The limit that ended the search, or ``None`` when it ran to its end.
    truncated
        Whether states were dropped for want of room only.
    stages, states
        Groups entered, and the most states held at once.
    """

    loss: float
    entries: NDArray[np.int64] | None
    floor: float
    stopped: Termination | None
    truncated: bool
    stages: int
    states: int


@dataclass(slots=True, eq=False)
class _Trail:
    """The stages passed: their group, options and the states before them."""

    groups: list[int] = field(default_factory=list)
    options: list[list[int]] = field(default_factory=list)
    before: list[States] = field(default_factory=list)
    bytes: int = 0


def search(
    core: Core,
    best: float,
    step: float,
    goal: float,
    cap: int,
    budget: Budget,
    improved: Callable[[float], None],
) -> Found:
    """Find the least total loss, if it is below `best`.

    Parameters
    ----------
    core
        The groups.
    best
        Total loss of a known choice.
    step
        Only an improvement by more than this counts (it is below the granularity of values, or rounding).
    goal
        Stop when the loss found exceeds the floor by no more than this.
    cap
        Most states held at once in a list, and an eighth of those in a window; beyond it the least promising
        are dropped.
    budget
        Clock and work.
    improved
        Called with each better total loss.
    """
    divisor = _divisor(core.deviation)
    room, rest = divmod(core.room, divisor)
    price = core.multiplier * divisor
    rise, fall = core.rise * divisor, core.fall * divisor
    np.minimum(rise, price, out=rise)
    rises, falls, second = rise.tolist(), fall.tolist(), core.second.tolist()
    starts = core.start.tolist()
    deviations = core.deviation if divisor == 1 else core.deviation // divisor
    spread = int(deviations.max() - deviations.min()) if deviations.size else 0
    states: States = (Dense if spread <= _DENSE_SPREAD else Sparse).at_origin(
        core.multiplier * rest, room, price
    )
    trail = _Trail()
    answer: tuple[int, int] | None = None
    floor, widest, work, stopped, truncated = np.inf, 1, 0, None, False
    group, settled = 0, False
    previous: tuple[list[int], list[float]] | None = None
    groups = len(second)
    lowest = states.finish()
    if lowest[0] < best:
        best, answer = lowest[0], (0, lowest[1])
        improved(best)
    try:
        while group < groups and second[group] < best - step:
            a, b = starts[group], starts[group + 1]
            shifts, losses = deviations[a:b].tolist(), core.loss[a:b].tolist()
            same = previous is not None and previous[0] == shifts and previous[1] == losses
            if same and settled:
                group += 1
                continue
            previous = (shifts, losses)
            count = bisect_left(losses, best - step)
            shifts, losses = shifts[:count], losses[:count]
            if not budget.affords(len(losses) * states.size * states.seconds_each):
                stopped = Termination.TIME_LIMIT
                floor = min(floor, _least(states, rises[group], falls[group]))
                break
            before = states
            trail.groups.append(group)
            trail.options.append(shifts)
            trail.before.append(before)
            trail.bytes += before.nbytes
            work += len(losses) * before.size
            states = before.advanced(shifts, losses)
            group += 1
            lowest = states.finish()
            if lowest[0] < best:
                best, answer = lowest[0], (len(trail.groups), lowest[1])
                improved(best)
            states, dropped = states.trimmed(best - step, rises[group], falls[group], cap)
            widest = max(widest, states.size)
            if dropped < best - step:
                floor, truncated = min(floor, dropped), True
            if states.size == 0:
                break
            settled = states.equals(before)
            if isinstance(states, Sparse):
                states = states.densified(cap)
            if goal > 0.0 and best - min(floor, least := _least(states, rises[group], falls[group])) <= goal:
                floor = min(floor, least)
                break
            budget.work += work
            work = 0
            stopped = budget.exhausted()
            if stopped is None and trail.bytes > _HISTORY_BYTES:
                stopped = Termination.MEMORY_LIMIT
            if stopped is not None:
                floor = min(floor, _least(states, rises[group], falls[group]))
                break
    except KeyboardInterrupt:  # keep the best choice found; what the states prove is lost
        stopped, floor = Termination.INTERRUPTED, 0.0
    entries = None if answer is None else _entries(core, trail, answer, deviations)
    return Found(best, entries, min(floor, best), stopped, truncated, len(trail.groups), widest)


def _divisor(deviation: NDArray[np.int64]) -> int:
    """Return the greatest common divisor of the deviations, 1 if all are 0."""
    if deviation.size == 0 or (np.abs(deviation) == 1).any():
        return 1
    return max(int(np.gcd.reduce(np.unique(deviation))), 1)


def _entries(
    core: Core, trail: _Trail, answer: tuple[int, int], deviations: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Walk back from a state to the entry every group took."""
    chosen = core.start[:-1].copy()
    stages, at = answer
    for stage in range(stages - 1, -1, -1):
        group, shifts, before = trail.groups[stage], trail.options[stage], trail.before[stage]
        start = int(core.start[group])
        losses = core.loss[start : start + len(shifts)].tolist()
        totals = [before.loss_at(at - shift) + charge for shift, charge in zip(shifts, losses, strict=True)]
        pick = min(range(len(totals)), key=totals.__getitem__)
        chosen[group] = start + pick
        at -= shifts[pick]
    return chosen


def _least(states: States, rise: float, fall: float) -> float:
    return float(states.bounds(rise, fall).min(initial=np.inf))
