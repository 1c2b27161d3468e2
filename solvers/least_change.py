"""Among equal optima the one that keeps what runs: fewest jobs stopped, then fewest moved.

Where values lie on a grid, value first, running jobs second and unmoved ones third are one sum of whole
numbers, of n jobs that have something now

    value (n + 1)^2 + running (n + 1) + unmoved

in which a unit of the one outweighs all there can be of the next (the weights of lexicographic optimisation).
Its optimum is searched like any other, beginning at what jobs can be given back one by one at equal value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.models.exact_sums import grid
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["fewest_changes", "least_change"]

_LARGEST_SUM = 2.0**52
"""Sums of whole numbers stay below this, where doubles hold them."""
_LEAST_SECONDS = 0.05
"""Time to look for fewer changes, where the search for the optimum took less."""
_WORK = 20_000
"""Units of work for the same where no clock decides."""


def fewest_changes(
    model: MultipleChoiceKnapsack,
    choice: NDArray[np.int64],
    preferred: NDArray[np.int64],
    options: SolveOptions,
    *,
    seconds: float,
    optimal: bool,
) -> NDArray[np.int64]:
    """Return the choice of equal value that stops and moves the fewest jobs that is found.

    Parameters
    ----------
    model
        The menus.
    choice
        int64 [jobs]: a feasible choice.
    preferred
        int64 [jobs]: the row every job has now, -1 for none.
    options
        Limits; `options.time_limit` is what is left.
    seconds
        What the choice took: as long may be looked for fewer changes.
    optimal
        Whether the choice is an optimum: of others jobs are only given back one by one.

    Raises
    ------
    KeyboardInterrupt
        As it comes.
    """
    end = math.inf if options.time_limit is None else perf_counter() + options.time_limit
    kept = least_change(model, choice, preferred, lambda: perf_counter() >= end)
    changed = bool(np.any((preferred >= 0) & (kept != preferred)))
    ranked = _ranked(model, preferred) if changed and optimal else None
    if ranked is None:
        return kept
    clocked, left = not options.deterministic and options.work_limit is None, end - perf_counter()
    if left <= 0.0:
        return kept
    limited = replace(
        options,
        time_limit=min(max(_LEAST_SECONDS, seconds), left) if clocked else None,
        work_limit=None if clocked else min(_WORK, options.work_limit or _WORK),
        gap=0.0,
        on_incumbent=None,
    )
    if model.num_capacities == 1:
        from apportion.solvers.knapsack import one_capacity

        found = one_capacity.solve(ranked, limited, kept)
    else:
        from apportion.solvers.multiknapsack import several_capacities

        found = several_capacities.solve(ranked, limited, kept)
    if found.termination is Termination.INTERRUPTED:
        raise KeyboardInterrupt
    other = kept if found.point is None else found.point.astype(np.int64)
    return other if ranked.objective(other) > ranked.objective(kept) else kept


def _ranked(model: MultipleChoiceKnapsack, preferred: NDArray[np.int64]) -> MultipleChoiceKnapsack | None:
    """Return the menus worth value, then running, then unmoved; ``None`` where no double holds the sum."""
    step = grid(model.values)
    has = preferred >= 0
    count = int(has.sum()) + 1
    if step == 0.0:
        return None
    units = np.rint(model.values / step) * (1.0 if model.sense == "maximize" else -1.0)
    owner = model.job_of_option()
    largest = np.maximum.reduceat(np.abs(units), model.offsets[:-1][np.diff(model.offsets) > 0]).sum()
    if (largest + 1.0) * count**2 > _LARGEST_SUM:
        return None
    # of jobs that cannot be left out, the least that uses nothing is a stop
    free = np.where(model.paid(np.ones(model.num_capacities)) > 0.0, np.inf, units)
    least = np.full(model.num_jobs, np.inf)
    np.minimum.at(least, owner, free)
    runs = (free > least[owner]) | np.isinf(free) | ~model.required[owner]
    idle_now = np.ones(model.num_jobs, dtype=np.bool_)
    idle_now[has] = ~runs[preferred[has]]
    running = has[owner] & (runs | idle_now[owner])
    unmoved = preferred[owner] == np.arange(model.num_options)
    return replace(model, values=units * count**2 + running * float(count) + unmoved, sense="maximize")


_TOGETHER = 1_024
"""Jobs looked at together: the clock is asked between."""


def least_change(
    model: MultipleChoiceKnapsack,
    choice: NDArray[np.int64],
    preferred: NDArray[np.int64],
    late: Callable[[], bool] = lambda: False,
) -> NDArray[np.int64]:
    """Return a choice of the same objective that keeps at least as many jobs at their preferred option.

    Jobs that use no more at their preferred option go back first. The others are asked in order, twice,
    because one that goes back can make room for another. This is a local rule: an optimum that keeps more
    jobs but differs in several of them at once is not looked for.

    Parameters
    ----------
    model
        The menus.
    choice
        A feasible choice.
    preferred
        int64 [jobs]: the row every job has now, -1 for none.
    late
        Whether the time is over: the rest keep what was chosen.
    """
    kept = choice.copy()
    residual = model.capacities - model.used(kept)
    jobs = np.flatnonzero((preferred >= 0) & (kept != preferred))
    jobs = jobs[model.values[preferred[jobs]] == np.where(kept[jobs] >= 0, model.values[kept[jobs]], 0.0)]
    change = model.uses_of(preferred[jobs])
    runs = np.flatnonzero(kept[jobs] >= 0)
    change[runs] -= model.uses_of(kept[jobs[runs]])
    free = (change <= 0).all(axis=1)
    kept[jobs[free]] = preferred[jobs[free]]
    residual = residual - change[free].sum(axis=0)
    jobs, change = jobs[~free], change[~free]
    for _ in range(2):
        waiting = np.ones(jobs.size, dtype=np.bool_)
        for first in range(0, jobs.size, _TOGETHER):
            if late():
                return kept
            look = np.arange(first, min(first + _TOGETHER, jobs.size))
            total = np.cumsum(change[look], axis=0)
            if (total <= residual).all():
                waiting[look], residual = False, residual - total[-1]
            else:
                # one that frees something may let the next one in
                frees = (change[look] < 0).any()
                for at in look if frees else look[(change[look] <= residual).all(axis=1)]:
                    if (change[at] <= residual).all():
                        waiting[at], residual = False, residual - change[at]
            back = jobs[look[~waiting[look]]]
            kept[back] = preferred[back]
        jobs, change = jobs[waiting], change[waiting]
    return kept
