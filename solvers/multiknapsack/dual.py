"""The Lagrangian dual of the multiple-choice knapsack: near-optimal multipliers and the bound they prove.

    L(lambda) = lambda . C + sum_j max_i (v_ji - lambda . u_ji),    lambda >= 0

is an upper bound on the optimum for any lambda (weak duality), and its minimum is the value of the linear
relaxation. It is minimised by stabilised cutting planes: the master's multipliers are pulled towards the
best known ones (Wentges, *Weighted Dantzig-Wolfe decomposition*, ITOR 4(2), 1997).

The master program of the Lagrangian dual: a tiny simplex over convex combinations of whole choices.

    maximise  sum_c mu_c a_c   subject to  sum_c mu_c u_c <= C,  sum_c mu_c = 1,  mu >= 0

Its row multipliers are the next point at which to evaluate the dual function (Kelley's cutting planes seen
from the dual side, that is Dantzig-Wolfe decomposition: Kellerer, Pferschy, Pisinger, *Knapsack Problems*,
appendix A). It has one row per capacity plus one, so dense solves are cheap and nothing needs a solver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.exact_sums import over_rows
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.compiled import load
from apportion.solvers.multiknapsack.linear_dual import relaxed
from apportion.solvers.multiknapsack.option_table import OptionTable, bound_at, build
from apportion.solvers.multiknapsack.repair import by_density, cheapest

__all__ = [
    "Dual",
    "Master",
    "alike_prices",
    "at_prices",
    "model_bound",
    "multipliers",
    "overdrawn_by_all",
    "precision",
    "sampled",
    "scored",
    "solve_dual",
    "solve_large",
]


_PIVOTS_PER_COLUMN = 60
_TOLERANCE = 1e-11


class Master:
    """A growing set of choices and the best convex combination of them.

    Parameters
    ----------
    capacities
        float64 [capacities], scaled so that 1 is a typical entry.
    penalty
        Value of the artificial column that uses nothing, below every choice's value.
    """

    def __init__(self, capacities: NDArray[np.float64], penalty: float) -> None:
        size = capacities.size
        self._size = size
        self._right = np.append(capacities, 1.0)
        # Columns 0..K-1 are slacks, column K is the artificial choice, the choices follow.
        self._columns = np.eye(size + 1)
        self._values = np.append(np.zeros(size), penalty)
        self._count = size + 1
        self._basis = np.arange(size + 1)

    @property
    def artificial(self) -> float:
        """The weight of the artificial column in the present combination."""
        where = np.flatnonzero(self._basis == self._size)
        if not where.size:
            return 0.0
        return float(np.linalg.solve(self._columns[:, self._basis], self._right)[where[0]])

    def penalise(self, value: float) -> None:
        """Change the value of the artificial column."""
        self._values[self._size] = value

    def add(self, value: float, use: NDArray[np.float64]) -> None:
        """Add a choice by its value and its scaled use."""
        if self._count == self._columns.shape[1]:
            room = np.empty((self._size + 1, 2 * self._count))
            room[:, : self._count] = self._columns
            self._columns = room
            self._values = np.concatenate((self._values, np.empty(self._count)))
        self._columns[:-1, self._count] = use
        self._columns[-1, self._count] = 1.0
        self._values[self._count] = value
        self._count += 1

    def solve(self) -> tuple[NDArray[np.float64], float]:
        """Return scaled multipliers [capacities] >= 0 and the master's value; stops early if it stalls."""
        columns = self._columns[:, : self._count]
        values = self._values[: self._count]
        scale = max(1.0, float(np.abs(values[self._size + 1 :]).max(initial=1.0)))
        for pivot in range(_PIVOTS_PER_COLUMN * (self._size + 1)):
            matrix = columns[:, self._basis]
            try:
                dual = np.linalg.solve(matrix.T, values[self._basis])
                point = np.linalg.solve(matrix, self._right)
            except np.linalg.LinAlgError:
                break
            reduced = values - over_rows(dual, columns)
            reduced[self._basis] = 0.0
            # Dantzig's rule; after a while Bland's, which cannot cycle.
            if pivot < 20 * (self._size + 1):
                enter = int(np.argmax(reduced))
            else:
                enter = int(np.argmax(reduced > _TOLERANCE * scale))
            if reduced[enter] <= _TOLERANCE * scale:
                break
            step = np.linalg.solve(matrix, columns[:, enter])
            positive = step > 1e-11
            if not positive.any():
                break
            ratio = np.full(step.size, np.inf)
            ratio[positive] = np.maximum(point[positive], 0.0) / step[positive]
            ties = np.flatnonzero(ratio <= ratio.min() * (1 + 1e-12) + 1e-15)
            leave = int(ties[np.argmax(step[ties])])
            self._basis[leave] = enter
        matrix = columns[:, self._basis]
        dual = np.linalg.solve(matrix.T, values[self._basis])
        return np.maximum(dual[:-1], 0.0), float(dual @ self._right)


_ROUNDS = 400
_RAISES = 5
_KEPT = 12
"""Choices kept for repair."""
_AT_ONCE = 400_000
"""Uses up to which the compiled twin, which does not look at the clock, takes some tens of milliseconds."""
_SAMPLED, _STEP = 20_000, 1_000_003
"""Losses that stand for all, and how far they are apart: no menus are as long as this prime or a multiple."""
_LARGE = 30_000
"""From so many options on, most evaluations are made on a sample of jobs and on the options near the top."""


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """Where the dual search ended.

    Attributes
    ----------
    multipliers
        float64 [capacities] >= 0: the best found.
    bound
        L at these multipliers.
    evaluations
        How often L was evaluated.
    choices
        The choices met at the last evaluations, newest last; starting points for repair.
    infeasible
        Whether a multiplier with ``lambda . C < sum_j min_i lambda . u_ji`` was met: no choice can fit.
    """

    multipliers: NDArray[np.float64]
    bound: float
    evaluations: int
    choices: tuple[NDArray[np.int64], ...]
    infeasible: bool


def overdrawn_by_all(menus: OptionTable, weights: NDArray[np.float64]) -> bool:
    """Return whether even the smallest uses cost more at these prices than the capacities are worth."""
    least = menus.smallest(menus.paid(weights)).sum()
    return bool(least > weights @ menus.capacities * (1 + 1e-9))


def precision(gap: float) -> float:
    """Return the relative gap to which the dual is solved where a relative gap of the plan is asked for."""
    return min(1e-8, 0.01 * gap) or 1e-8


def scored(
    model: MultipleChoiceKnapsack, weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return float64 [options], what they are worth at prices, maximising, and [jobs], the most of each menu.

    Of an empty menu, and of one that may be left out, it is 0 at least.
    """
    sizes, scores = np.diff(model.offsets), (1.0 if model.sense == "maximize" else -1.0) * model.values
    scores -= model.paid(weights)
    best, filled = np.zeros(model.num_jobs), sizes > 0
    if filled.any():
        best[filled] = np.maximum.reduceat(scores, model.offsets[:-1][filled])
    return scores, np.where(model.required, best, np.maximum(best, 0.0))


def model_bound(model: MultipleChoiceKnapsack, weights: NDArray[np.float64]) -> float | None:
    """Return L(weights) over all of a model, in its own sense; ``None`` if a required job has no option."""
    if (model.required & (np.diff(model.offsets) == 0)).any():
        return None
    sign = 1.0 if model.sense == "maximize" else -1.0
    return sign * float(weights @ model.capacities + scored(model, weights)[1].sum())


def solve_dual(
    menus: OptionTable,
    *,
    gap: float = 1e-9,
    rounds: int = _ROUNDS,
    start: NDArray[np.float64] | None = None,
    late: Callable[[], bool] = lambda: False,
) -> Dual:
    """Minimise L over the menus.

    Parameters
    ----------
    menus
        At least one job and one capacity.
    gap
        Stop when L and the master's value differ by this much, relatively.
    rounds
        Evaluations of L at most.
    start
        float64 [capacities]: multipliers to begin at, for instance of the previous round.
    late
        Asked before every evaluation; true ends the search with what it has.
    """
    compiled = load("multiknapsack.dual_c")
    if compiled is not None and menus.num_options * menus.num_capacities <= _AT_ONCE:
        return _compiled(compiled, menus, gap, rounds, start)
    search = _Search(menus)
    search.look(np.zeros(menus.num_capacities))
    if (search.over <= 0).all():
        return search.dual(infeasible=False)
    if start is not None:
        search.look(np.maximum(start, 0.0))
    else:
        search.along_a_ray(late)
    return search.dual(infeasible=search.cut(gap, rounds, late))


class _Search:
    """What is known of L: its cuts, and the best multipliers so far.

    Attributes
    ----------
    bound, weights
        The least L that was met, and where.
    over
        float64 [capacities]: what the choice of the last evaluation uses beyond the capacities.
    count
        How often L was evaluated.
    """

    def __init__(self, menus: OptionTable) -> None:
        self.menus = menus
        self.bound, self.weights = np.inf, np.zeros(menus.num_capacities)
        self.over = np.zeros(menus.num_capacities)
        self.count = 0
        self._scale = np.maximum(menus.capacities, 1.0)
        self._least_value = float(menus.smallest(menus.values).sum())
        most_value = float(menus.largest(menus.values).sum())
        self._spread = max(most_value - self._least_value, 1e-9)
        # leaving everything out must not pay: raised below whenever it still does at the end
        self._penalty = 4.0 * max(self._spread, abs(most_value), abs(self._least_value))
        self._master = Master(menus.capacities / self._scale, self._least_value - self._penalty)
        self._recent: list[NDArray[np.int64]] = []

    def dual(self, infeasible: bool) -> Dual:
        """Return where the search ended."""
        return Dual(self.weights, self.bound, self.count, tuple(self._recent), infeasible)

    def look(self, weights: NDArray[np.float64]) -> float:
        """Evaluate, keep the cut, update the best; return L."""
        menus = self.menus
        scores = menus.scores(weights)
        choice = menus.best_choice(scores)
        bound = float(weights @ menus.capacities + scores[choice].sum())
        used = menus.used(choice)
        self.over = used - menus.capacities
        self._master.add(float(menus.values[choice].sum()), used / self._scale)
        self.count += 1
        self._recent.append(choice)
        del self._recent[:-_KEPT]
        if bound < self.bound:
            self.bound, self.weights = bound, weights
        return bound

    def along_a_ray(self, late: Callable[[], bool]) -> None:
        """Look along one ray: prices in proportion to what is overdrawn at no price."""
        ray = np.where(self.over > 0, self._spread / (self._scale * self.over.size), 0.0)
        low, high = -9.0, 3.0
        for _ in range(7):
            if late():
                return
            middle = (low + high) / 2
            self.look(ray * 2.0**middle)
            if float(self.over @ ray) > 0:
                low = middle
            else:
                high = middle

    def cut(self, gap: float, rounds: int, late: Callable[[], bool]) -> bool:
        """Cut until L and the master's value meet; return whether no choice was shown to fit."""
        pull, raised = 0.5, 0
        while self.count < rounds and not late():
            weights, floor = self._proposed()
            if self.bound - floor <= gap * max(1.0, abs(self.bound)):
                if self._master.artificial <= 1e-9 or raised == _RAISES:
                    return False
                if overdrawn_by_all(self.menus, weights):
                    return True
                raised += 1
                self._master.penalise(self._least_value - self._penalty * 30.0**raised)
                continue
            before = self.bound
            seen = self.look(pull * self.weights + (1 - pull) * weights)
            # the subgradient at the trial says on which side of it the minimum lies
            outside = seen > before and float(-self.over @ (weights - self.weights)) > 0
            pull = min(0.9, pull + 0.1) if outside else max(0.0, pull - 0.1)
            if seen - floor <= gap * max(1.0, abs(seen)) or pull == 0.0:
                continue
            stuck = self.bound > before - 1e-12 * max(1.0, abs(before))
            if stuck and not late() and self.count < rounds:
                # the pulled point may have cut nothing away; the master's own always does
                _, check = self._proposed()
                if check >= floor - 1e-12 * max(1.0, abs(floor)):
                    self.look(weights)
        return False

    def _proposed(self) -> tuple[NDArray[np.float64], float]:
        weights, floor = self._master.solve()
        return weights / self._scale, floor


def _compiled(
    module: Any, menus: OptionTable, gap: float, rounds: int, start: NDArray[np.float64] | None
) -> Dual:
    """Minimise by the compiled twin of `solve_dual`, without looking at the clock."""
    weights = np.zeros(menus.num_capacities) if start is None else np.maximum(start, 0.0)
    ring = np.zeros((_KEPT, menus.num_jobs), dtype=np.int64)
    arrays = menus.values, menus.uses, menus.offsets, menus.capacities
    flat = (np.ascontiguousarray(array) for array in arrays)
    bound, count, infeasible = module.solve(*flat, weights, ring, gap, rounds, start is not None)
    recent = tuple(ring[place % _KEPT] for place in range(max(0, count - _KEPT), count))
    return Dual(weights, bound, count, recent, infeasible)


def sampled(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return some losses that stand for all, or all of few."""
    return losses[np.arange(min(_SAMPLED, losses.size)) * _STEP % losses.size]


_PRICED, _OF_A_JOB, _ROUGH = 30_000, 32, 1e-4
"""Options that are priced under alike capacities as one: of so many jobs that each has some, at random from
more; and how near."""
_CLASSES, _PARTS, _COARSER = 24, 4.0, 1.5
"""Classes of alike capacities at most; parts of a factor of two that they are told apart by, and by how much
these are larger with every attempt that finds more classes."""


def alike_prices(menus: OptionTable, known: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return the better of prices that are known and those that are best where alike capacities are one.

    Capacities are alike that have about as many uses, as large ones, and as much room: racks, or one resource
    of all nodes. Where they are the same in every way their price as one is that of each.
    """
    each = min(_OF_A_JOB, menus.num_options // menus.num_jobs)
    some = menus.every(1 + each * menus.num_jobs // _PRICED)
    if some.num_options > _PRICED:
        kept = np.random.default_rng(0).random(some.num_options) < _PRICED / some.num_options
        kept[some.offsets[:-1]] = True
        some = some.keep(kept)
    every = np.ones(menus.num_options)
    count, total = np.asarray((menus.matrix != 0) @ every), np.asarray(menus.matrix @ every)
    signs = np.log2(1.0 + np.stack((count, total / np.maximum(count, 1.0), menus.capacities)))
    parts, place = _PARTS, np.arange(menus.num_capacities)
    while place.max() >= _CLASSES:
        place = np.unique(np.rint(parts * signs), axis=1, return_inverse=True)[1].reshape(-1)
        parts /= _COARSER
    shape = int(place.max()) + 1, some.num_options
    uses, room = np.zeros(shape), np.zeros(shape[0])
    capacity, option, use = some.entries()
    np.add.at(uses, (place[capacity], option), use)
    np.add.at(room, place, some.capacities)
    together = replace(some, matrix=uses, capacities=room, binding=np.arange(shape[0]))
    alike: NDArray[np.float64] = solve_dual(together, gap=_ROUGH).multipliers[place]
    if known is None or bound_at(menus, alike) < bound_at(menus, known):
        return alike
    return known


def at_prices(menus: OptionTable, prices: NDArray[np.float64]) -> Dual:
    """Return what some prices show, without a choice: where alike capacities cost alike it is far off."""
    return Dual(prices, bound_at(menus, prices), 1, (), False)


def solve_large(
    menus: OptionTable,
    *,
    gap: float = 1e-9,
    start: NDArray[np.float64] | None = None,
    late: Callable[[], bool] = lambda: False,
    seconds: float | None = None,
    anchor: NDArray[np.int64] | None = None,
) -> tuple[Dual, OptionTable]:
    """Minimise L over many options: on a sample of jobs, then on the options near the top; check over all.

    Many capacities that few jobs touch are priced by their relaxation, within so many seconds, from the
    options of a feasible choice (int64 [jobs]) where one is known.

    Returns the dual and the menus its choices refer to: a part of the given menus with all jobs. The bound
    is L over the whole menus.
    """
    at_once = menus.has_sparse_rows or menus.few_bind
    if at_once and (found := relaxed(menus, seconds, anchor, start)) is not None:
        prices, choice = found
        infeasible = choice is None and overdrawn_by_all(menus, prices)
        if choice is not None or infeasible:
            choices = () if choice is None else (choice,)
            return Dual(prices, bound_at(menus, prices), 1, choices, infeasible), menus
    jobs, options = menus.num_jobs, menus.num_options
    over = at_once and late()  # one look of a search may take seconds
    if (options < _LARGE or jobs < 64) and not over:
        return solve_dual(menus, gap=gap, start=start, late=late), menus
    if start is None and over:
        start = np.zeros(menus.num_capacities)
    if start is None:
        stride = min(jobs // 32, max(2, options // 8_000))
        start = solve_dual(menus.every(stride), gap=max(gap, 1e-5), late=late).multipliers
    if late():
        return at_prices(menus, start), menus
    loss = menus.loss(start)
    near = min(0.5, max(4.0 * jobs, 4_000.0) / options)
    kept = loss <= np.quantile(sampled(loss), near)
    kept |= loss <= 0.0
    for _ in range(4):
        top = menus.keep(kept)
        dual = solve_dual(top, gap=gap, start=start, late=late)
        start = dual.multipliers
        scores = menus.scores(start)
        best = menus.largest(scores)
        bound = float(start @ menus.capacities + best.sum())
        if bound - dual.bound <= gap * max(1.0, abs(bound)) or late():
            break
        # Some job's best option is not among those kept: take in all that beat the job's best kept one.
        kept |= scores >= menus.per_option(top.largest(top.scores(start)))
    return replace(dual, bound=bound), top


def multipliers(
    model: MultipleChoiceKnapsack,
    *,
    gap: float = 1e-9,
    late: Callable[[], bool] = lambda: False,
    seconds: float | None = None,
) -> tuple[NDArray[np.float64], float]:
    """Return near-optimal multipliers [capacities] >= 0 and the bound they prove, in the model's own sense.

    Once it is `late`, or where the relaxation of sparse menus takes more than so many `seconds`, those of
    before are returned.

    Where no choice can be feasible there is nothing to price: multipliers of 0 and the optimum over the
    empty set, minus infinity when maximising, plus infinity when minimising.
    """
    sign = 1.0 if model.sense == "maximize" else -1.0
    menus = build(model)
    if menus is None:
        return np.zeros(model.num_capacities), -sign * np.inf
    weights = np.zeros(model.num_capacities)
    if menus.num_jobs and menus.num_capacities:
        sparse = menus.has_sparse_rows
        anchor = by_density(menus, cheapest(menus), 1.0) if sparse else None
        start = alike_prices(menus) if sparse else None
        found, _ = solve_large(menus, gap=gap, start=start, late=late, seconds=seconds, anchor=anchor)
        weights = menus.expand(found.multipliers, model.num_capacities)
    bound = model_bound(model, weights)
    return weights, -sign * np.inf if bound is None else bound
