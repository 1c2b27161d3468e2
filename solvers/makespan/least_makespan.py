"""The makespan on unrelated machines (R||Cmax): bound, schedules, then search on the entries still open.

Single machines are searched by the compiled tree, from schedules of which no move or swap of a job of the
busiest machine makes a better one. Pools with gangs, and what the tree does not take, have their own way
(`by_pools`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Outcome, Termination
from apportion.models.assignment import Assignment, in_turn
from apportion.models.assignment_bounds import counting_bound, filtered_work, pooled
from apportion.models.lowering import lower_assignment
from apportion.solvers.assignment.call import AssignmentCall, no_placement
from apportion.solvers.assignment.mip import RELAXED, Unsolved, relax
from apportion.solvers.makespan.by_pools import on_pools
from apportion.solvers.makespan.by_tree import (
    MakespanSearch,
    ended,
    first_choice,
    first_schedules,
    fits,
    machine_weights,
    searched,
)
from apportion.solvers.search.slices import Slices

__all__ = ["Descent", "solve"]


class Descent:
    """Moves and swaps of jobs of the busiest machine, the best one first, while one makes it end earlier.

    Parameters
    ----------
    model
        An assignment with the makespan as goal, single machines, no capacities.
    """

    def __init__(self, model: Assignment) -> None:
        self.model, matrix = model, model.matrix()
        self.time = np.where(np.isnan(matrix), np.inf, matrix)
        self.rows = model.rows()
        self.jobs = np.arange(model.num_jobs)
        self.placed = np.zeros(model.num_jobs, dtype=np.int64)
        self.load: NDArray[np.float64] = np.zeros(model.num_machines)

    def run(self, choice: NDArray[np.int64], over: Callable[[], bool]) -> NDArray[np.int64]:
        """Return the schedule, int64 [jobs] of entries, that a schedule leads to."""
        self.placed = self.model.machine[choice].astype(np.int64)
        own = self.time[self.jobs, self.placed]
        self.load = np.bincount(self.placed, weights=own, minlength=self.load.size).astype(np.float64)
        while not over() and self._improve(int(np.argmax(self.load))):
            pass
        return np.asarray(self.rows[self.jobs, self.placed], dtype=np.int64)

    def _improve(self, busiest: int) -> bool:
        top = float(self.load[busiest])
        slack = 1e-9 * max(1.0, top)
        own = np.flatnonzero(self.placed == busiest)
        if not own.size:
            return False
        rest = top - self.time[own, busiest]
        after = np.maximum(self.load[None, :] + self.time[own], rest[:, None])
        after[:, busiest] = np.inf
        move = int(np.argmin(after))
        best_move = float(after.flat[move])
        # swap own job a with job b of machine i: b comes here, a goes there
        there = self.placed
        other = self.load[there][None, :] - self.time[self.jobs, there][None, :] + self.time[own][:, there]
        here = rest[:, None] + self.time[:, busiest][None, :]
        both = np.maximum(other, here)
        both[:, there == busiest] = np.inf
        swap = int(np.argmin(both))
        best_swap = float(both.flat[swap])
        if min(best_move, best_swap) >= top - slack:
            return False
        if best_move <= best_swap:
            position, machine = divmod(move, self.load.size)
            self._move(int(own[position]), machine)
        else:
            position, partner = divmod(swap, self.jobs.size)
            machine = int(there[partner])
            self._move(int(own[position]), machine)
            self._move(partner, busiest)
        return True

    def _move(self, job: int, machine: int) -> None:
        self.load[self.placed[job]] -= self.time[job, self.placed[job]]
        self.load[machine] += self.time[job, machine]
        self.placed[job] = machine


def solve(call: AssignmentCall, start: NDArray[np.int64] | None) -> Outcome:
    """Solve the makespan of a call, from a feasible point or ``None``."""
    model, clock = call.model, call.clock
    lowered, left = lower_assignment(model), clock.seconds_left
    relaxation = relax(lowered.model, None if left is None else RELAXED * left)
    solved = None if isinstance(relaxation, Unsolved) else relaxation
    failed = isinstance(relaxation, Unsolved) and relaxation.said_infeasible and model.limited.any()
    if failed and not clock.late() and no_placement(model, clock.seconds_left):
        return Outcome(
            termination=Termination.INFEASIBLE,
            raw_status="prices show that the capacities cannot hold the jobs",
            bound_source="multipliers",
        )
    even = np.full(model.num_machines, 1.0 / model.num_machines)
    weights = even if solved is None else machine_weights(model, lowered, solved)
    prices = pooled(model, weights)
    call.best.bound = bound_of(model, prices)
    found = first_schedules(model, lowered, solved, clock.late)
    single = not (model.counts > 1).any()
    if start is not None:  # on single machines turns make no difference
        found.append(in_turn(start)[0] if single else start)
    if single and not model.limited.any():
        descent = Descent(model)
        found.extend([descent.run(choice, clock.late) for choice in found])
    return _by_tree(call, found, weights) if fits(model) else on_pools(call, lowered, found, prices)


def _by_tree(call: AssignmentCall, found: list[NDArray[np.int64]], weights: NDArray[np.float64]) -> Outcome:
    """Search by the compiled tree, from the best start."""
    model, options, clock = call.model, call.options, call.clock

    def take(choice: NDArray[np.int64], bound: float) -> None:
        call.best.bound = bound
        call.offer(choice)

    slices = Slices(clock.late, clock.work_left, options.threads)
    if not found:
        none, choice = first_choice(model, slices)
        if choice is None:
            clock.charge(slices.nodes)
            reason = Termination.INTERRUPTED if slices.interrupted else ended(clock)
            return Outcome(
                termination=Termination.INFEASIBLE if none else reason,
                raw_status="the search found no placement",
                bound=None if none else call.best.bound,
                bound_source="branch_and_bound",
                counters={"nodes": float(slices.nodes)},
            )
        found = [choice]
    best = min(found, key=model.objective)
    prices = pooled(model, weights)
    call.offer(best)
    if call.closes(model.objective(best)):
        return searched(call, best, prices, Termination.OPTIMAL)
    tree = MakespanSearch(
        model, best, call.best.bound or 0.0, weights, slices, take, options.gap, options.seed
    )
    call.best.bound, closed = tree.run()
    clock.charge(slices.nodes)
    reason = Termination.INTERRUPTED if slices.interrupted else ended(clock)
    outcome = searched(call, tree.choice, prices, Termination.OPTIMAL if closed else reason, slices.nodes)
    return outcome if tree.shown is None else replace(outcome, row_multipliers=-tree.shown.astype(np.float64))


def bound_of(model: Assignment, prices: NDArray[np.float64]) -> float:
    """Return the best closed-form bound of given prices, rounded up where all times are whole."""
    least = max(filtered_work(model, prices), counting_bound(model))
    if not (model.values == np.rint(model.values)).all() or least >= 2**50:
        return least * (1 - 1e-12)
    return float(math.ceil(least - 1e-7 * max(1.0, least)))
