"""The makespan on unrelated machines (R||Cmax): bound, schedules, then search on the entries still open.

Single machines are searched by the compiled tree, from schedules of which no move or swap of a job of the
busiest machine makes a better one. Pools with gangs, and what the tree does not take, have their own way
(`by_pools`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Outcome, Termination
from apportion.models.assignment import Assignment, in_turn
from apportion.models.assignment_bounds import counting_bound, filtered_work, pooled
from apportion.solvers.assignment.call import AssignmentCall, no_placement
from apportion.solvers.assignment.mip import relieve
from apportion.solvers.assignment.relaxation import Relaxed, relaxed
from apportion.solvers.makespan.by_pools import on_pools
from apportion.solvers.makespan.by_tree import (
    MakespanSearch,
    ended,
    first_choice,
    fits,
    searched,
)
from apportion.solvers.search.slices import Slices

__all__ = [
    "Descent",
    "first_schedules",
    "list_schedule",
    "rounded",
    "solve",
    "start",
]


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


def start(model: Assignment) -> tuple[NDArray[Any] | None, NDArray[np.float64] | None]:
    """Return a feasible point and prices for a general solver, each ``None`` where there is none."""
    near = relaxed(model)
    found = first_schedules(model, near)
    best = min(found, key=model.objective) if found else None
    return best, None if near.point is None else pooled(model, near.prices)


def first_schedules(
    model: Assignment, near: Relaxed, over: Callable[[], bool] = lambda: False
) -> list[NDArray[np.int64]]:
    """Return feasible schedules to begin with, none if capacities defeat the greedy repair or it is over.

    List schedules, and a rounding of the relaxation, of which a vertex has at most one split job per machine
    (Lenstra, Shmoys, Tardos 1990).
    """
    found = [list_schedule(model, order) for order in (0, 1)]
    if near.point is not None:
        found.append(rounded(model, near.point, near.objective))
    relieved = (relieve(model, choice, model.values, over) for choice in found)
    return [choice for choice in relieved if choice is not None]


def list_schedule(model: Assignment, order: int) -> NDArray[np.int64]:
    """Place the jobs one by one where they end first: longest first (0), or largest regret first (1)."""
    segment = model.offsets[:-1]
    shortest = np.minimum.reduceat(model.values, segment)
    key = shortest
    if order == 1:
        longest = np.maximum.reduceat(model.values, segment)
        key = (longest - shortest) / np.maximum(longest, 1e-300)
    return _placed(model, np.full(model.num_jobs, -1, dtype=np.int64), np.argsort(-key, kind="stable"))


def rounded(model: Assignment, point: NDArray[np.float64], longest: float) -> NDArray[np.int64]:
    """Keep the whole part of a relaxation's point, but for jobs that last longer than all; place the others.

    To the relaxation a pool is one load: where a job is slow it may outlast everything else there.
    """
    shortest = np.minimum.reduceat(model.values, model.offsets[:-1])
    kept = (point > 1 - 1e-6) & (model.values <= max(longest, float(shortest.max())))
    choice = model.chosen(np.flatnonzero(kept))
    split = np.flatnonzero(choice < 0)
    return _placed(model, choice, split[np.argsort(-shortest[split], kind="stable")])


def _placed(model: Assignment, choice: NDArray[np.int64], jobs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place jobs in order, each where it fits and its work per unit and its own time end first."""
    work = np.zeros(model.num_machines)
    uses = np.where(model.limited[model.machine], model.uses, 0)
    room = np.where(model.limited, model.capacities, 0) - np.where(model.limited, model.used(choice), 0)
    taken = choice[choice >= 0]
    np.add.at(
        work, model.machine[taken], (model.values * model.gpus)[taken] / model.counts[model.machine[taken]]
    )
    share = model.values * model.gpus / model.counts[model.machine]
    for job in jobs.tolist():
        rows = slice(int(model.offsets[job]), int(model.offsets[job + 1]))
        on = model.machine[rows]
        end = np.maximum(work[on] + share[rows], model.values[rows])
        fits = uses[rows] <= np.maximum(room[on], 0)
        best = int(np.argmin(np.where(fits, end, np.inf) if fits.any() else end))
        choice[job] = rows.start + best
        room[on[best]] -= uses[rows][best]
        work[on[best]] += share[rows][best]
    return choice


def solve(call: AssignmentCall, start: NDArray[np.int64] | None) -> Outcome:
    """Solve the makespan of a call, from a feasible point or ``None``."""
    model, clock = call.model, call.clock
    near = relaxed(model, clock)
    failed = near.said_infeasible and model.limited.any() and not clock.late()
    if failed and no_placement(model, clock.seconds_left):
        return Outcome(
            termination=Termination.INFEASIBLE,
            raw_status="prices show that the capacities cannot hold the jobs",
            bound_source="multipliers",
        )
    prices = pooled(model, near.prices)
    call.best.bound = bound_of(model, prices)
    found = first_schedules(model, near, clock.late)
    single = not (model.counts > 1).any()
    if start is not None:  # on single machines turns make no difference
        found.append(in_turn(start)[0] if single else start)
    if single and not model.limited.any():
        descent = Descent(model)
        found.extend([descent.run(choice, clock.late) for choice in found])
    return _by_tree(call, found, near.prices) if fits(model) else on_pools(call, found, prices)


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
