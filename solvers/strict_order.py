"""Goals in strict order after the first one; the last two are to stop, then to move as few jobs as possible.

As many goals as fit are one sum: with s_g the span of goal g (its greatest sum less its least), the weight
of a goal is the product of (s_h + 1) over all h after it that are in the sum, so that one unit of it is more
than everything that later goals can lose. The optimum of the sum is then that of the order. What does not fit
is asked afterwards, in menus that keep the goals so far: what a choice forgoes of a goal, sum(best_j - v_j),
is one more capacity, of what the best choice forgoes. Before any search jobs go back one by one, at equal
value, to what they have now.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.core.solution import JOBS_MOVED, JOBS_STOPPED, GoalResult
from apportion.models.exact_sums import grid
from apportion.models.multiple_choice import Goal, MultipleChoiceKnapsack, Present
from apportion.models.uses import beside, with_nothing

__all__ = ["Answer", "Ask", "InOrder", "Known", "later_goals", "least_change", "reached", "solved_in_order"]

Integers = NDArray[np.int64]

_LARGEST_SUM = 2**50
"""Sums of whole numbers stay below this, those of all options together, too: some last places are no unit."""
_LEAST_SECONDS = 0.05
"""Time to look for fewer changes, where the search for the optimum took less."""
_WORK = 20_000
"""Units of work for the same where no clock decides, and where the optimum took less: a busy machine, too."""
_BITS = 50
"""Bits of all values together where they are rounded."""
_EQUAL = 1e-12
"""Relative difference of objectives that counts as none."""
_ROUNDED = 4
"""Units in the last place of a bound that its own rounding may have cost it."""


class Answer(NamedTuple):
    """What came of one question: the choice, what no choice exceeds, and why it ended."""

    choice: Integers | None
    bound: float | None
    termination: Termination


Ask = Callable[[MultipleChoiceKnapsack, Integers | None], Answer | None]
"""Solves menus from a choice that fits; ``None`` where no time is left."""


class Known(NamedTuple):
    """A choice in which the first goal is at its optimum, and by how many units equal sums may differ."""

    choice: Integers
    slack: int = 0


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
        Why it ended: `optimal` where all goals are proven, `gap_reached` where some are only as near as was
        asked; `interrupted` after Ctrl-C, with what was found.
    """

    choice: Integers | None
    goals: tuple[GoalResult, ...]
    termination: Termination


def solved_in_order(
    model: MultipleChoiceKnapsack,
    goals: Sequence[Goal],
    ask: Ask,
    fits: Callable[[int, float], bool],
    first: Known | None = None,
) -> InOrder:
    """Choose by goals in strict order; the next one never costs the one before.

    Parameters
    ----------
    model
        The menus.
    goals
        In order.
    ask
        Solves menus.
    fits
        Which sums of goals are decided to the unit; see `stages`.
    first
        The optimum of the first goal, where it is known.
    """
    search = KeptGoals(model)
    kept, found = list[tuple[Goal, int]](), list[GoalResult]()
    choice, termination = None if first is None else first.choice, Termination.OPTIMAL
    alone = first is not None and first.slack > 0  # what is rounded is in no sum
    pending = [*stages(model, goals, fits, alone=alone)]
    while pending:
        weights, began = pending.pop(0), perf_counter()
        asked_for = [place for place in weights if goals[place].worth.any()]
        if first is not None and not kept and asked_for in ([], [0]):
            gained = {place: goals[place].gained(first.choice) for place in weights}
            found += [goals[place].result(best, best, 0.0) for place, best in gained.items()]
            kept.append((goals[0], gained[0] - first.slack))
            continue
        if choice is not None and not asked_for:
            # no option adds anything to these: nothing is to be asked
            bound = 0.0 if termination is Termination.OPTIMAL else None
            found += results_of(model, goals, weights, choice, bound, perf_counter() - began)
            continue
        worth = summed(goals, weights)
        if kept:
            asked = search.asking(worth, kept)
            start = None if choice is None else search.outward(choice)
        else:
            asked, start = replace(model, values=worth.astype(np.float64), sense="maximize", goals=()), choice
        answer = ask(asked, start)
        if answer is None:
            termination = Termination.TIME_LIMIT
            break
        if answer.choice is None:
            termination = answer.termination
            break
        choice = search.inward(answer.choice) if kept else answer.choice
        # after a goal that is open no bound of the next ones holds
        bound = answer.bound if termination is Termination.OPTIMAL else None
        results = list(results_of(model, goals, weights, choice, bound, perf_counter() - began))
        open_ = next((at for at, one in enumerate(results) if one.value != one.bound), len(results))
        if open_ < len(results) > 1 and bound is not None and answer.termination is Termination.OPTIMAL:
            # a large sum is proven to some of its last places, which are the last goals: these alone
            pending[:0] = [{place: 1} for place in [*weights][open_:]]
            results, weights = results[:open_], dict([*weights.items()][:open_])
        found += results
        kept += [(goals[place], goals[place].gained(choice)) for place in weights]
        if answer.termination is Termination.INTERRUPTED or any(one.value != one.bound for one in results):
            late = answer.termination is Termination.OPTIMAL and termination is Termination.OPTIMAL
            termination = Termination.TIME_LIMIT if late else answer.termination
            if termination not in (Termination.OPTIMAL, Termination.GAP_REACHED):
                break
            termination = Termination.GAP_REACHED  # near enough: the next goals keep what was reached
    if choice is None:
        return InOrder(None, (), termination)
    found += [goal.result(goal.gained(choice), None, 0.0) for goal in goals[len(found) :]]
    return InOrder(choice, tuple(found), termination)


def later_goals(
    model: MultipleChoiceKnapsack,
    choice: Integers,
    present: Present | None,
    options: SolveOptions,
    *,
    seconds: float,
    optimal: bool,
) -> InOrder:
    """Return the choice of equal value that is best in what is wanted after it, in strict order.

    Parameters
    ----------
    model
        The menus, with their goals.
    choice
        int64 [jobs]: a feasible choice.
    present
        What jobs have now; ``None`` where nobody has anything.
    options
        Limits; `options.time_limit` is what is left.
    seconds
        What the choice took: without goals of the menus, as long may be looked for fewer changes; where it
        took little, some units of work besides.
    optimal
        Whether the choice is an optimum. Of others named goals are decided beside what it is worth, which is
        no bound; without such goals jobs are only given back one by one.

    Raises
    ------
    KeyboardInterrupt
        As it comes.
    """
    began = perf_counter()
    end = math.inf if options.time_limit is None else began + options.time_limit
    kept, ended = choice, Termination.OPTIMAL
    if present is not None and not model.goals:
        kept = least_change(model, choice, present.rows, lambda: perf_counter() >= end)
        if not _changed(kept, present):
            return InOrder(kept, tuple(_nothing_changed(present, optimal=optimal)), ended)
    goals = [*model.goals, *(() if present is None else _changes(model, present))]
    value, slack = _value(model)
    undecided = InOrder(kept, tuple(_undecided(goals, kept, len(model.goals), optimal=optimal)), ended)
    if not (optimal or model.goals) or perf_counter() >= end:
        return undecided
    clocked = not options.deterministic and options.work_limit is None
    counted = not clocked or not (model.goals or seconds >= _LEAST_SECONDS)
    last = end if clocked else math.inf
    if not model.goals:
        end = min(end, began + max(_LEAST_SECONDS, seconds))

    def answer(
        asked: MultipleChoiceKnapsack, start: Integers | None, until: float, work: int | None
    ) -> Answer:
        left = None if until == math.inf else max(until - perf_counter(), 0.0)
        limits = replace(options, time_limit=left, work_limit=work, gap=0.0, on_incumbent=None)
        found = _engine(asked, limits, start)
        if found.termination is Termination.INTERRUPTED:
            raise KeyboardInterrupt
        point = None if found.point is None else found.point.astype(np.int64)
        return Answer(point, found.bound, found.termination)

    def ask(asked: MultipleChoiceKnapsack, start: Integers | None) -> Answer | None:
        found = answer(asked, start, end, None) if clocked and perf_counter() < end else None
        if found is not None and found.termination is not Termination.TIME_LIMIT:
            return found
        if not counted or perf_counter() >= last:
            return found
        again = answer(asked, start, last, int(min(_WORK, options.work_limit or _WORK)))
        return again if found is None or again.termination is Termination.OPTIMAL else found

    decided = solved_in_order(model, [value, *goals], ask, _is_exact(model), Known(kept, slack))
    if decided.choice is None or _lost(model, kept, decided.choice) > _EQUAL * abs(model.objective(kept)):
        return undecided
    return InOrder(decided.choice, decided.goals[1:], decided.termination)


def reached(model: MultipleChoiceKnapsack, choice: Integers, present: Present | None) -> Iterator[GoalResult]:
    """Yield what a choice has of the menus' goals and of changes, without a bound."""
    for goal in (*model.goals, *(() if present is None else _changes(model, present))):
        yield goal.result(goal.gained(choice), None, 0.0)


def _engine(model: MultipleChoiceKnapsack, options: SolveOptions, start: Integers | None) -> Outcome:
    if model.num_capacities == 1:
        from apportion.solvers.knapsack import one_capacity

        return one_capacity.solve(model, options, start)
    from apportion.solvers.multiknapsack import several_capacities

    return several_capacities.solve(model, options, start)


def _is_exact(model: MultipleChoiceKnapsack) -> Callable[[int, float], bool]:
    size = model.num_options + model.num_jobs
    return lambda total, most: total <= _LARGEST_SUM and most * size <= _LARGEST_SUM


def _value(model: MultipleChoiceKnapsack) -> tuple[Goal, int]:
    """Return the values as a goal in whole units, and by how many of them equal sums may differ.

    Without a common unit values are rounded down to about 50 bits of what all jobs together are worth: a sum
    of n of them is less than n units off, and so are equal sums from each other.
    """
    step = grid(model.values)
    if step > 0.0 or not model.values.any():
        return Goal("value", np.rint(model.values / (step or 1.0)).astype(np.int64), model.sense), 0
    some = model.offsets[:-1][np.diff(model.offsets) > 0]
    total = float(np.maximum.reduceat(np.abs(model.values), some).sum())
    unit = math.ldexp(1.0, math.frexp(total)[1] - _BITS)
    return Goal("value", np.floor(model.values / unit).astype(np.int64), model.sense), model.num_jobs


def _lost(model: MultipleChoiceKnapsack, kept: Integers, other: Integers) -> float:
    """Return how much less another choice is worth, from the jobs in which the two differ."""
    changed = kept != other
    before, after = kept[changed], other[changed]
    differences = [*model.values[before[before >= 0]].tolist(), *(-model.values[after[after >= 0]]).tolist()]
    return math.fsum(differences) * (1.0 if model.sense == "maximize" else -1.0)


def _undecided(goals: Sequence[Goal], choice: Integers, named: int, *, optimal: bool) -> Iterator[GoalResult]:
    """Yield what a choice has of every goal; no changes at all are the fewest there are."""
    known = optimal and named == 0
    for goal in goals:
        found = goal.result(goal.gained(choice), goal.gained(choice), 0.0)
        known = known and found.value == 0
        yield found if known else replace(found, bound=None)


def _changed(choice: Integers, present: Present) -> bool:
    """Return whether a job that runs now gets something else in a choice, or nothing."""
    return not bool(np.append(present.current, False)[choice][present.running].all())


def _nothing_changed(present: Present, *, optimal: bool) -> Iterator[GoalResult]:
    for name in (JOBS_STOPPED, JOBS_MOVED) if present.running.any() else ():
        yield GoalResult(name, "minimize", 0, 0 if optimal else None, 0.0)


def _changes(model: MultipleChoiceKnapsack, present: Present) -> Iterator[Goal]:
    """Yield how many jobs are stopped, then how many of the others get something else than they have now."""
    running = present.running
    kept = running[model.job_of_option()] & ~present.waiting
    if running.any():
        yield Goal(JOBS_STOPPED, -kept.astype(np.int64), "minimize", int(running.sum()))
        yield Goal(JOBS_MOVED, (kept & ~present.current).astype(np.int64), "minimize")


_TOGETHER = 1_024
"""Jobs looked at together: the clock is asked between."""


def least_change(
    model: MultipleChoiceKnapsack,
    choice: Integers,
    preferred: Integers,
    late: Callable[[], bool] = lambda: False,
) -> Integers:
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


def stages(
    model: MultipleChoiceKnapsack,
    goals: Sequence[Goal],
    fits: Callable[[int, float], bool],
    *,
    alone: bool = False,
) -> Iterator[dict[int, int]]:
    """Yield the goals that are asked together, by position, with their weights.

    Parameters
    ----------
    model
        The menus.
    goals
        In order.
    fits
        ``fits(total, most)``: whether a sum that is at most `total`, of options worth at most `most`, is
        decided to the unit.
    alone
        Whether the first goal is in no sum.
    """
    spans = [_span(model, goal.gain) for goal in goals]
    largest = [float(np.abs(goal.gain).max(initial=0)) for goal in goals]
    first = 0
    while first < len(goals):
        last = first + 1
        alone_now = alone and first == 0
        while last < len(goals) and not alone_now and fits(*_sum(spans, largest, first, last + 1)):
            last += 1
        yield _weights(spans, first, last)
        first = last


def _weights(spans: Sequence[int], first: int, last: int) -> dict[int, int]:
    weights, weight = dict[int, int](), 1
    for place in reversed(range(first, last)):
        weights[place] = weight
        weight *= spans[place] + 1
    return dict(sorted(weights.items()))


def _sum(spans: Sequence[int], largest: Sequence[float], first: int, last: int) -> tuple[int, float]:
    """Return the greatest sum of some goals, and the most that one option can be worth in it."""
    weights = _weights(spans, first, last)
    return math.prod(spans[place] + 1 for place in weights), sum(largest[p] * w for p, w in weights.items())


def summed(goals: Sequence[Goal], weights: Mapping[int, int]) -> Integers:
    """Return int64 [options]: what every option is worth in a sum of goals."""
    found = np.zeros(goals[0].worth.size, dtype=np.int64)
    for place, weight in weights.items():
        found += weight * goals[place].gain
    return found


def _span(model: MultipleChoiceKnapsack, gain: Integers) -> int:
    """Return by how much a goal can differ between choices at most; exact, from menus and capacities."""
    most, least = _extremes(model, gain)
    if int(least.sum()) < 0 or (gain < 0).any():
        return int(most.sum()) - int(least.sum())
    reached = int(most.sum())
    if not isinstance(model.matrix, np.ndarray):
        return reached
    for k, room in enumerate(model.capacities.tolist()):
        use = model.matrix[:, k]
        if not (use[gain > 0] > 0).all():
            continue
        each = int((-(-gain[use > 0] // use[use > 0])).max(initial=0))  # gained by a unit of it, rounded up
        reached = min(reached, each * room)
    return reached


def _extremes(model: MultipleChoiceKnapsack, gain: Integers) -> tuple[Integers, Integers]:
    """Return the most and the least that every job can add to a goal."""
    sizes = np.diff(model.offsets)
    most, least = np.zeros(sizes.size, np.int64), np.zeros(sizes.size, np.int64)
    some = np.flatnonzero(sizes > 0)
    if some.size:
        starts = model.offsets[:-1][some]
        most[some], least[some] = np.maximum.reduceat(gain, starts), np.minimum.reduceat(gain, starts)
    free = ~model.required
    most[free], least[free] = np.maximum(most[free], 0), np.minimum(least[free], 0)
    return most, least


@dataclass(frozen=True)
class KeptGoals:
    """Menus in which being left out is an option, so that what a choice forgoes is a sum of uses.

    Attributes
    ----------
    model
        The menus as they are.
    """

    model: MultipleChoiceKnapsack

    @cached_property
    def rows(self) -> Integers:
        """Every option's row in the menus as they are, -1 for being left out, which comes last."""
        own = np.arange(self.model.num_options, dtype=np.int64)
        return np.insert(own, self.model.offsets[1:][~self.model.required], -1)

    @cached_property
    def offsets(self) -> Integers:
        """Where every job's options begin, and the end."""
        return self.model.offsets + np.concatenate(([0], np.cumsum(~self.model.required)))

    def outward(self, choice: Integers) -> Integers:
        """Return a choice here."""
        place = np.full(self.model.num_options + 1, -1, dtype=np.int64)
        place[self.rows[self.rows >= 0]] = np.flatnonzero(self.rows >= 0)
        return np.where(choice >= 0, place[choice], self.offsets[1:] - 1)

    def inward(self, choice: Integers) -> Integers:
        """Return a choice in the menus as they are."""
        return self.rows[choice]

    def asking(self, worth: Integers, kept: Sequence[tuple[Goal, int]]) -> MultipleChoiceKnapsack:
        """Return the menus worth so much, in which goals keep what they have gained so far."""
        owner = np.repeat(np.arange(self.model.num_jobs), np.diff(self.offsets))
        columns, rooms = list[Integers](), list[int]()
        for goal, gained in kept:
            own = self._of(goal.gain)
            best = np.maximum.reduceat(own, self.offsets[:-1]) if own.size else own
            columns.append(best[owner] - own)
            rooms.append(int(best.sum()) - gained)
        return MultipleChoiceKnapsack.from_arrays(
            self._of(worth).astype(np.float64),
            beside(with_nothing(self.model.matrix, self.rows), columns),
            self.offsets,
            np.concatenate((self.model.capacities, np.array(rooms, dtype=np.int64))),
        )

    def _of(self, worth: Integers) -> Integers:
        """Return what the options are worth, 0 for being left out."""
        return np.append(worth, 0)[self.rows]


def results_of(
    model: MultipleChoiceKnapsack,
    goals: Sequence[Goal],
    weights: Mapping[int, int],
    choice: Integers,
    bound: float | None,
    seconds: float,
) -> Iterator[GoalResult]:
    """Yield what a bound on a sum says of every goal in it: the rest of the sum is no less than its least."""
    least = {place: int(_extremes(model, goals[place].gain)[1].sum()) for place in weights}
    left = None if bound is None else math.floor(bound + _ROUNDED * math.ulp(bound))
    for place, weight in weights.items():
        goal, limit = goals[place], None
        gained = goal.gained(choice)
        if left is not None:
            rest = sum(weights[one] * least[one] for one in weights if one > place)
            limit = max((left - rest) // weight, gained)
            left = left - weight * gained if limit == gained else None
        yield goal.result(gained, limit, seconds)
