"""The makespan by the compiled tree: a rising sequence of decisions, whether there is a plan within T.

A decision has no costs: times are uses and T is every machine's capacity, beside what capacities there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Outcome, Termination
from apportion.models.assignment import Assignment
from apportion.solvers.assignment.call import AssignmentCall
from apportion.solvers.clock import Clock
from apportion.solvers.search.assignment_tree import (
    LARGEST_SUM,
    MOST_JOBS,
    AssignmentTree,
    Placement,
    available,
)
from apportion.solvers.search.depth_first import Status
from apportion.solvers.search.few_machines import (
    Answer,
    FewMachines,
    Lattice,
    Rising,
    Trial,
    any_placement,
    on_lattice,
)
from apportion.solvers.search.slices import Slices

__all__ = [
    "MakespanSearch",
    "ended",
    "first_choice",
    "fits",
    "searched",
]


def ended(clock: Clock) -> Termination:
    """Say why a search without a proof ended: by a limit of the call only if that was reached."""
    return clock.stopped() or Termination.SOLUTION_LIMIT


def searched(
    call: AssignmentCall,
    choice: NDArray[np.int64],
    prices: NDArray[np.float64],
    termination: Termination,
    nodes: int | None = None,
    own: float | None = None,
) -> Outcome:
    """Return a choice with the call's bound; `own` is false once a general solver has improved the bound."""
    call.offer(choice)
    return Outcome(
        termination=termination,
        raw_status="searched",
        point=choice,
        objective=call.model.objective(choice),
        bound=call.best.bound,
        bound_source="branch_and_bound" if own is None or own == call.best.bound else "solver",
        multipliers=prices,
        seconds={"solve": call.clock.seconds},
        counters={} if nodes is None else {"nodes": float(nodes)},
    )


_PAIRS = 400_000
"""Jobs times machines up to which the tree is held."""
_UNIT = 2**16
"""The mean price to begin with."""
_AGAIN = 100
"""Steps of the prices at a root that begins with the prices of another."""
_MOST, _SMALL = 16, 64
"""Machines that are searched together between decisions, at most, and nodes of their tree."""
_BEFORE = 300_000_000
"""Work of the decisions before the schedule is improved beside them: a tenth of a second."""
_CLOSE = Fraction(1, 4 * 10**9)
"""Times on no lattice are proven up to this share: a quarter of what the contract calls optimal."""


def fits(model: Assignment) -> bool:
    """Return whether the compiled search is there and takes the model: single machines, all jobs required."""
    if not available() or not model.required.all() or (model.counts != 1).any():
        return False
    if (model.capacities[model.limited] < 0).any():
        return False
    if model.num_jobs > MOST_JOBS or model.num_jobs * model.num_machines > _PAIRS:
        return False
    return not model.repeats and _lattice(model) is not None


def _lattice(model: Assignment) -> Lattice | None:
    return on_lattice(model.values, LARGEST_SUM // (4 * max(model.num_jobs, 1)))


def first_choice(model: Assignment, slices: Slices) -> tuple[bool, NDArray[np.int64] | None]:
    """Return whether there is surely no plan, and a plan that was found, of a model that `fits`."""
    rows = np.full((model.num_machines, model.num_jobs), -1, dtype=np.int64)
    rows[model.machine, model.job_of_option()] = np.arange(model.num_options)
    use = np.where((rows >= 0) & model.limited[:, None], model.uses[np.maximum(rows, 0)], 0)
    room = np.where(model.limited, model.capacities, 0)
    allowed = (rows >= 0) & (use <= room[:, None])
    if not allowed.any(axis=0).all():
        return True, None
    status, found = any_placement(use, room, allowed, slices)
    choice = None if found is None else rows[found, np.arange(model.num_jobs)]
    return status is Status.EXHAUSTED, choice


class MakespanSearch:
    """The search over one model, from a feasible choice.

    Parameters
    ----------
    model
        A makespan that `fits`.
    choice
        A feasible choice.
    least
        A lower bound on the makespan.
    weights
        float64 [machines]: prices of the machines' time to begin with.
    slices
        Limits of the call.
    report
        Called with every better choice and the bound.
    gap
        Relative gap at which to stop.
    seed
        Random seed of the machines that are searched together.

    Attributes
    ----------
    choice
        The best choice so far.
    shown
        int64 [jobs]: the prices at the root of the last decision that found no plan; ``None`` before one.
    """

    def __init__(
        self,
        model: Assignment,
        choice: NDArray[np.int64],
        least: float,
        weights: NDArray[np.float64],
        slices: Slices,
        report: Callable[[NDArray[np.int64], float], None],
        gap: float = 0.0,
        seed: int = 0,
    ) -> None:
        lattice = _lattice(model)
        assert lattice is not None
        self.model, self.choice, self.least, self.gap = model, choice, least, gap
        self.slices, self.report, self._lattice, self._weight = slices, report, lattice, weights
        self._whole = replace(model, values=lattice.whole.astype(np.float64))
        shape = (model.num_machines, model.num_jobs)
        owner = model.job_of_option()
        self._rows = np.full(shape, -1, dtype=np.int64)
        self._rows[model.machine, owner] = np.arange(model.num_options)
        self._time, self._use = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self._time[model.machine, owner] = lattice.whole
        self._use[model.machine, owner] = np.where(model.limited[model.machine], model.uses, 0)
        self._all = np.ix_(np.arange(shape[0]), np.arange(shape[1]))
        self._room = np.where(model.limited, model.capacities, 0)
        self._prices = self._first_prices()
        self._rising: Rising | None = None
        self.shown: NDArray[np.int64] | None = None
        self._placed = model.machine[choice]
        self._few = FewMachines(model.num_machines, _MOST, _SMALL, _BEFORE, seed, slices)

    def run(self) -> tuple[float, bool]:
        """Search until proven or a limit is reached; return the bound and whether it is closed."""
        # a billionth lower: the bound is a float, and roots are quick
        low = int(Fraction(self.least) / self._lattice.unit * (1 - Fraction(1, 10**9)))
        high = self._length(self.choice)
        rising = Rising(
            self._decide, max(low, 0), high, 1, self._slack(high), self.slices.over, self._improve
        )
        self._rising = rising
        rising.run()
        return self._bound(), rising.closed

    def _improve(self, nodes: int) -> None:
        """Search some machines at a time for as much work as the decisions have taken."""
        assert self._rising is not None
        rising = self._rising
        self._few.beside(self._attempt, lambda: rising.closed)

    def _attempt(self, rng: np.random.Generator, size: int) -> Trial | None:
        """Let the busiest machine and some others end earlier.

        Where several end last, each gain has one less of them: the makespan falls with the last one.
        """
        machines, length = self.model.num_machines, self._length(self.choice)
        placed, jobs = self._placed, np.arange(self.model.num_jobs)
        ends = np.bincount(placed, weights=self._time[placed, jobs], minlength=machines)
        if int(ends.max()) > length:
            placed[:] = self.model.machine[self.choice]
            ends = np.bincount(placed, weights=self._time[placed, jobs], minlength=machines)
        chosen = self._drawn(rng, size, ends)
        own = np.flatnonzero(np.isin(placed, chosen))
        tree = self._small(np.ix_(chosen, own), int(ends.max()) - 1)

        def take(found: NDArray[np.int32]) -> None:
            placed[own] = chosen[found]
            self._take(self._rows[placed, jobs])
            if self._rising is not None:
                self._rising.high = min(self._rising.high, self._length(self.choice))

        return None if tree is None else Trial(tree, take)

    def _drawn(self, rng: np.random.Generator, size: int, ends: NDArray[np.integer]) -> NDArray[np.int64]:
        """Draw machines beside the busiest one by one: with room, where a job of those drawn loses little."""
        chosen, room = [int(np.argmax(ends))], ends.max() - ends + 1.0
        least = np.full(ends.size, np.inf)
        while len(chosen) < size:
            last = chosen[-1]
            own = np.flatnonzero(self._placed == last)
            loss = np.maximum(self._time[:, own] - self._time[last, own], 0.0)
            loss[self._rows[:, own] < 0] = np.inf
            least = np.minimum(least, loss.min(axis=1, initial=np.inf))
            share = room / (1.0 + least)
            share[chosen] = 0.0
            if not share.any():
                break
            chosen.append(int(rng.choice(ends.size, p=share / share.sum())))
        return np.unique(chosen)

    def _small(self, part: tuple[NDArray[np.intp], ...], target: int) -> AssignmentTree | None:
        """Return a tree over a part, for a place of every job among its machines within the target."""
        placement = self._placement(part, target)
        if placement is None:
            return None
        return AssignmentTree(placement, 0, _UNIT, self._prices[part[1][0]], _SMALL, _AGAIN // 2)

    def _placement(self, part: tuple[NDArray[np.intp], ...], target: int) -> Placement | None:
        """Return which jobs of a part fit where within a target; ``None`` where one fits nowhere."""
        time = self._time[part]
        used, room = time[None], np.full((1, time.shape[0]), target)
        if self.model.limited.any():
            used = np.stack((time, self._use[part]))
            room = np.concatenate((room, self._room[None, part[0].ravel()]))
        fitting = (self._rows[part] >= 0) & (used <= room[:, :, None]).all(axis=0)
        if target < 0 or not fitting.any(axis=0).all():
            return None
        return Placement(np.zeros_like(time), used, room, fitting.astype(np.uint8))

    def _decide(self, target: int, nodes: int) -> Answer:
        placement = self._placement(self._all, target)
        if placement is None:
            return Answer(True, None, None, 0)
        first = self._rising is None or self._rising.nodes == 0
        tree = AssignmentTree(placement, 0, _UNIT, self._prices, nodes, *(() if first else (_AGAIN,)))
        before = self.slices.nodes
        status, found = self.slices.run(tree, nodes)
        self._prices = tree.prices
        if status is Status.EXHAUSTED:
            self.shown = self._prices
        value = None
        if found is not None:
            choice = self._rows[found, np.arange(self.model.num_jobs)]
            value = self._length(choice)
            self._take(choice)
        return Answer(status is Status.EXHAUSTED, value, None, self.slices.nodes - before)

    def _length(self, choice: NDArray[np.int64]) -> int:
        return int(self._whole.objective(choice))

    def _take(self, choice: NDArray[np.int64]) -> None:
        """Keep a plan if it is better and the model agrees."""
        if not self.model.check(choice).feasible:
            raise AssertionError("the search placed jobs beyond a capacity")
        if self.model.objective(choice) < self.model.objective(self.choice):
            self.choice = choice
            if self._rising is None:
                self.report(choice, self.least)
                return
            self._rising.slack = self._slack(self._length(choice))
            self.report(choice, self._bound())

    def _slack(self, length: int) -> int:
        """Return how much better a plan must be to be looked for."""
        share = max(Fraction(self.gap), Fraction(0) if self._lattice.natural else _CLOSE)
        return 1 + int(length * share)

    def _bound(self) -> float:
        """Return the proven bound, rounded down: every machine's time is off by at most an error per job."""
        assert self._rising is not None
        low = min(self._rising.low, self._rising.high)
        lattice = self._lattice
        bound = low * lattice.unit - self.model.num_jobs * lattice.error
        rounded = float(bound)
        rounded = rounded if Fraction(rounded) <= bound else float(np.nextafter(rounded, -np.inf))
        return max(rounded, self.least)

    def _first_prices(self) -> NDArray[np.int64]:
        """Return prices as the least weighted times, their mean one unit."""
        cost = np.where(self._rows >= 0, self._time * self._weight[:, None], np.inf).min(axis=0)
        mean = float(cost.mean())
        share = cost / mean if mean > 0 else np.ones_like(cost)
        largest = LARGEST_SUM // (2 * self.model.num_jobs)
        return np.asarray(np.rint(np.minimum(share * _UNIT, largest)), dtype=np.int64)
