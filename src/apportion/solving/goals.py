"""Goals in strict order, of menus in arrays: of all with the greatest first goal the greatest second one.

What is asked, and in which order, is `apportion.solvers.strict_order`; every question is one call of `solve`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from apportion.core.errors import InvalidOption
from apportion.core.outcome import Termination
from apportion.models.multiple_choice import Goal, MultipleChoiceKnapsack
from apportion.solvers.strict_order import Answer, InOrder, Integers, solved_in_order
from apportion.solving.api import solve

__all__ = ["solve_in_order"]

_LARGEST = 500_000_000
"""Sums stay below this, where the billionth that a proof of optimality may leave open is less than a unit."""


def solve_in_order(
    model: MultipleChoiceKnapsack,
    goals: Mapping[str, ArrayLike],
    *,
    time_limit: float | None = None,
    gap: float = 0.0,
    backend: str = "auto",
) -> InOrder:
    """Choose by goals in strict order; the next one never costs the one before.

    Parameters
    ----------
    model
        The menus; its own values count for nothing.
    goals
        By name, in order, what every option is worth, int64 [options]; all are maximised, so write what is to
        be small with a minus. A job that is left out is worth 0.
    time_limit
        Wall-clock seconds for all goals; ``None`` for no limit.
    gap
        Relative gap at which every search may stop; the goals after it then keep what it has reached.
    backend
        As in `apportion.solve`.

    Raises
    ------
    InvalidInstance
        If a goal is no array of whole numbers, one an option, or their sum is beyond 2^52.
    InvalidOption
        If there is no goal.

    Examples
    --------
    >>> model = MultipleChoiceKnapsack.from_arrays([0, 0, 0], [2, 1, 1], [0, 1, 2, 3], [2], required=False)
    >>> found = solve_in_order(model, {"priority": [5, 3, 2], "jobs": [1, 1, 1]})
    >>> found.choice.tolist(), [(goal.value, goal.proven) for goal in found.goals]
    ([-1, 1, 2], [(5, True), (2, True)])
    """
    if not goals:
        raise InvalidOption("goals must name one at least")
    wanted = [Goal.of(name, worth, model.num_options) for name, worth in goals.items()]
    if (model.required & (np.diff(model.offsets) == 0)).any():
        return InOrder(None, (), Termination.INFEASIBLE)
    end = math.inf if time_limit is None else perf_counter() + time_limit

    def ask(asked: MultipleChoiceKnapsack, start: Integers | None) -> Answer | None:
        left = None if time_limit is None else end - perf_counter()
        if left is not None and left <= 0.0:
            return None
        answer = solve(asked, time_limit=left, gap=gap, backend=backend, warm_start=start)
        return Answer(answer.plan, answer.bound, answer.termination)

    return solved_in_order(replace(model, goals=()), wanted, ask, lambda total, _: total <= _LARGEST)
