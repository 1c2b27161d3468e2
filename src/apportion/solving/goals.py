"""Goals in strict order: of all choices with the greatest first goal the greatest second one, and so on.

Goals are whole numbers. As many of them as fit are one sum: with s_g the span of goal g (its greatest sum
less its least), the weight of a goal is the product of (s_h + 1) over all h after it that are in the sum, so
that one unit of it is more than everything that later goals can lose. The optimum of the sum is then that of
the order. Sums stay below `_LARGEST`, where the billionth that a proof of optimality may leave open is less
than a unit. What does not fit is asked afterwards, in menus that keep the goals so far: what a choice forgoes
of a goal, sum(best_j - v_j), is one more capacity, of what the best choice forgoes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.core.errors import InvalidInstance, InvalidOption, Problem
from apportion.core.outcome import Termination
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving.api import solve

__all__ = ["GoalResult", "InOrder", "solve_in_order"]

_LARGEST = 500_000_000
_MOST_SUM = 2**52


@dataclass(frozen=True, slots=True)
class GoalResult:
    """What became of one goal.

    Attributes
    ----------
    name
        The goal.
    value
        What the choice reaches.
    bound
        What no choice exceeds that has the goals before it at their optimum; ``None`` where one of them is
        open.
    proven
        Whether the value is that bound.
    seconds
        What this goal took; goals that were asked together share them.
    """

    name: str
    value: int
    bound: int | None
    proven: bool
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class InOrder:
    """A choice by goals in strict order.

    Attributes
    ----------
    choice
        int64 [jobs]: the chosen rows, -1 for none; ``None`` without a feasible choice.
    goals
        What became of every goal, in order; empty without a choice.
    termination
        Why it ended: `optimal` where all goals are proven; `interrupted` after Ctrl-C, with what was found.
    """

    choice: NDArray[np.int64] | None
    goals: tuple[GoalResult, ...]
    termination: Termination


def solve_in_order(
    model: MultipleChoiceKnapsack,
    goals: Mapping[str, ArrayLike],
    *,
    time_limit: float | None = None,
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
    whole = {name: _whole(name, worth, model) for name, worth in goals.items()}
    if (model.required & (np.diff(model.offsets) == 0)).any():
        return InOrder(None, (), Termination.INFEASIBLE)
    stages = list(_stages(model, whole))
    end = math.inf if time_limit is None else perf_counter() + time_limit
    search, rows = _all_required(model)
    kept: list[tuple[NDArray[np.int64], int]] = []
    found: list[GoalResult] = []
    choice: NDArray[np.int64] | None = None
    termination = Termination.OPTIMAL
    for stage in stages:
        began = perf_counter()
        left = None if time_limit is None else end - began
        if left is not None and left <= 0.0:
            termination = Termination.TIME_LIMIT
            break
        combined = sum(
            (weight * whole[name] for name, weight in stage.items()), np.zeros(model.num_options, np.int64)
        )
        if kept:
            asked = _keeping(search, rows, combined, kept)
            start = None if choice is None else _outward(search, rows, choice)
        else:
            asked, start = replace(model, values=combined.astype(np.float64), sense="maximize"), None
        answer = solve(asked, time_limit=left, backend=backend, warm_start=start)
        if answer.plan is None:
            termination = answer.termination
            break
        choice = rows[answer.plan] if kept else np.asarray(answer.plan)
        bound = None if answer.bound is None else math.floor(answer.bound)
        results = list(_results(stage, whole, choice, bound, model, perf_counter() - began))
        found += results
        kept += [(whole[one.name], one.value) for one in results]
        if answer.termination is Termination.INTERRUPTED or not all(one.proven for one in results):
            termination = (
                Termination.TIME_LIMIT if answer.termination is Termination.OPTIMAL else answer.termination
            )
            break
    if choice is None:
        return InOrder(None, (), termination)
    spent = [one.name for one in found]
    found += [
        GoalResult(name, _value(worth, choice), None, False, 0.0)
        for name, worth in whole.items()
        if name not in spent
    ]
    return InOrder(choice, tuple(found), termination)


def _whole(name: str, worth: ArrayLike, model: MultipleChoiceKnapsack) -> NDArray[np.int64]:
    given = np.asarray(worth)
    if given.shape != (model.num_options,) or not (
        given.dtype.kind in "iub" or (given.dtype.kind == "f" and bool((given == np.rint(given)).all()))
    ):
        said = f"must be whole numbers, one for each of the {model.num_options} options"
        raise InvalidInstance(Problem(f"$.goals.{name}", said))
    if given.size and float(np.abs(given.astype(np.float64)).sum()) > _MOST_SUM:
        raise InvalidInstance(Problem(f"$.goals.{name}", "adds up to more than 2^52: use a larger unit"))
    return given.astype(np.int64)


def _stages(
    model: MultipleChoiceKnapsack, goals: Mapping[str, NDArray[np.int64]]
) -> Iterator[dict[str, int]]:
    """Yield the goals that are asked together, with their weights."""
    names = list(goals)
    spans = [_span(model, goals[name]) for name in names]
    while names:
        product, count = 1, 0
        while count < len(names) and (count == 0 or product * (spans[count] + 1) <= _LARGEST):
            product *= spans[count] + 1
            count += 1
        weights, weight = [1] * count, 1
        for place in reversed(range(count)):
            weights[place] = weight
            weight *= spans[place] + 1
        yield dict(zip(names[:count], weights, strict=True))
        names, spans = names[count:], spans[count:]


def _span(model: MultipleChoiceKnapsack, worth: NDArray[np.int64]) -> int:
    """Return by how much a goal can differ between choices at most; exact, from menus and capacities."""
    most, least = _extremes(model, worth)
    if int(least.sum()) < 0 or (worth < 0).any():
        return int(most.sum()) - int(least.sum())
    reached = int(most.sum())
    for k, room in enumerate(model.capacities.tolist()):
        use = model.uses[:, k]
        if not (use[worth > 0] > 0).all():
            continue
        each = int((-(-worth[use > 0] // use[use > 0])).max(initial=0))  # worth a unit of it, rounded up
        reached = min(reached, each * room)
    return reached


def _extremes(
    model: MultipleChoiceKnapsack, worth: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the most and the least that every job can add to a goal."""
    sizes = np.diff(model.offsets)
    most, least = np.zeros(sizes.size, np.int64), np.zeros(sizes.size, np.int64)
    some = np.flatnonzero(sizes > 0)
    if some.size:
        starts = model.offsets[:-1][some]
        most[some], least[some] = np.maximum.reduceat(worth, starts), np.minimum.reduceat(worth, starts)
    free = ~model.required
    most[free], least[free] = np.maximum(most[free], 0), np.minimum(least[free], 0)
    return most, least


def _all_required(model: MultipleChoiceKnapsack) -> tuple[MultipleChoiceKnapsack, NDArray[np.int64]]:
    """Return the menus with an option of nothing for jobs that may be left out, and what rows they are."""
    free = np.flatnonzero(~model.required)
    ends = model.offsets[1:][free]
    rows = np.insert(np.arange(model.num_options, dtype=np.int64), ends, -1)
    uses = (
        np.where(rows[:, None] < 0, 0, model.uses[np.maximum(rows, 0)])
        if model.num_options
        else np.zeros((rows.size, model.num_capacities), np.int64)
    )
    offsets = model.offsets + np.concatenate(([0], np.cumsum(~model.required)))
    return MultipleChoiceKnapsack.from_arrays(np.zeros(rows.size), uses, offsets, model.capacities), rows


def _outward(
    search: MultipleChoiceKnapsack, rows: NDArray[np.int64], choice: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return a choice among the menus in which nothing is an option, the last one of its job."""
    place = np.full(int(rows.max(initial=-1)) + 1, -1, dtype=np.int64)
    place[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    return np.where(choice >= 0, place[np.maximum(choice, 0)], search.offsets[1:] - 1)


def _keeping(
    search: MultipleChoiceKnapsack,
    rows: NDArray[np.int64],
    worth: NDArray[np.int64],
    kept: Sequence[tuple[NDArray[np.int64], int]],
) -> MultipleChoiceKnapsack:
    """Return the menus worth a sum of goals, in which goals so far keep their values."""
    columns, rooms = [search.uses], [search.capacities]
    owner = search.job_of_option()
    for goal, value in kept:
        own = _of(goal, rows)
        best = np.maximum.reduceat(own, search.offsets[:-1]) if own.size else own
        columns.append((best[owner] - own)[:, None])
        rooms.append(np.array([int(best.sum()) - value], dtype=np.int64))
    return MultipleChoiceKnapsack.from_arrays(
        _of(worth, rows).astype(np.float64),
        np.concatenate(columns, axis=1),
        search.offsets,
        np.concatenate(rooms),
    )


def _of(worth: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what rows are worth, 0 for nothing."""
    if not worth.size:
        return np.zeros(rows.size, np.int64)
    return np.where(rows < 0, 0, worth[np.maximum(rows, 0)])


def _value(worth: NDArray[np.int64], chosen: NDArray[np.int64]) -> int:
    return int(_of(worth, chosen).sum())


def _results(
    stage: Mapping[str, int],
    goals: Mapping[str, NDArray[np.int64]],
    chosen: NDArray[np.int64],
    bound: int | None,
    model: MultipleChoiceKnapsack,
    seconds: float,
) -> Iterator[GoalResult]:
    """Yield what the sum's bound says of every goal in it: the rest of the sum is no less than its least."""
    least = {name: int(_extremes(model, goals[name])[1].sum()) for name in stage}
    proven, spoken_for = bound is not None, 0
    for name, weight in stage.items():
        value = _value(goals[name], chosen)
        limit = None
        if proven and bound is not None:
            later = list(stage)[list(stage).index(name) + 1 :]
            rest = sum(stage[one] * least[one] for one in later)
            limit = max((bound - spoken_for - rest) // weight, value)
        proven = limit == value
        spoken_for += weight * value
        yield GoalResult(name, value, limit, proven, seconds)
