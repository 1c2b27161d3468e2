"""The makespan on unrelated machines (R||Cmax): bound, schedules, then search on the entries still open.

Single machines are searched by the compiled tree; without it by local search, which moves or swaps a job of
the busiest machine, and by HiGHS over the entries that a better schedule may use: one whose weighted time
exceeds its job's least by more than the gap between incumbent and bound is in none. Pools with gangs, and
capacities that the tree does not take, have their own way (`by_pools`).
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
from apportion.models.lowering import LoweredAssignment, lower_assignment
from apportion.solvers.assignment.call import AssignmentCall, no_placement
from apportion.solvers.assignment.mip import Unsolved, branch_and_bound, relax, trusted
from apportion.solvers.clock import Clock
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

__all__ = ["ScheduleSearch", "branched", "open_entries", "solve"]


class ScheduleSearch:
    """Descent with kicks over which machine every job is on.

    Parameters
    ----------
    model
        An assignment with the makespan as goal, single machines, no capacities.
    seed
        Random seed.
    """

    def __init__(self, model: Assignment, seed: int) -> None:
        matrix = model.matrix()
        self.time = np.where(np.isnan(matrix), np.inf, matrix)
        self.rows = model.rows()
        self.jobs = np.arange(model.num_jobs)
        self.rng = np.random.default_rng(seed)
        self.placed = np.zeros(model.num_jobs, dtype=np.int64)
        self.load: NDArray[np.float64] = np.zeros(model.num_machines)

    def take(self, choice: NDArray[np.int64]) -> None:
        """Take a schedule."""
        self.put(np.argmax(self.rows == choice[:, None], axis=1))

    def put(self, placed: NDArray[np.int64]) -> None:
        """Take a schedule as the machine of every job."""
        self.placed = placed.astype(np.int64)
        self._count()

    def _count(self) -> None:
        own = self.time[self.jobs, self.placed]
        self.load = np.bincount(self.placed, weights=own, minlength=self.load.size).astype(np.float64)

    def choice(self) -> NDArray[np.int64]:
        """Return the schedule as entries."""
        return np.asarray(self.rows[self.jobs, self.placed], dtype=np.int64)

    def makespan(self) -> float:
        """Return the end of the busiest machine."""
        return float(self.load.max())

    def descend(self, over: Callable[[], bool]) -> None:
        """Improve the busiest machine until no move or swap does."""
        while not over():
            busiest = int(np.argmax(self.load))
            if not self._improve(busiest):
                break
        self._count()  # running sums drift

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

    def run(self, over: Callable[[], bool], rounds: int) -> None:
        """Descend, then so many kicks with a descent each; the best schedule stays."""
        self.descend(over)
        best, at = self.makespan(), self.placed.copy()
        for _ in range(rounds):
            if over():
                break
            self._kick()
            self.descend(over)
            now = self.makespan()
            if now <= best:
                best, at = now, self.placed.copy()
            else:
                self.put(at)
        self.put(at)

    def _kick(self) -> None:
        """Move a few jobs, of the busiest machine among them, to one of the machines they are quick on."""
        busiest = np.flatnonzero(self.placed == int(np.argmax(self.load)))
        anyone = self.rng.choice(self.jobs, size=min(self.jobs.size, 3), replace=False)
        for job in {int(self.rng.choice(busiest)), *map(int, anyone)}:
            quick = np.argsort(self.time[job])[:3]
            quick = quick[np.isfinite(self.time[job, quick])]
            self._move(job, int(self.rng.choice(quick)))


_OPEN = 20_000
"""Open entries up to which HiGHS keeps to its time limit well enough."""
_NODES, _BACKSTOP = 2_000, 30.0
"""Nodes of a search without a clock, and seconds after which it ends even so: HiGHS may go on for ever."""


def open_entries(model: Assignment, prices: NDArray[np.float64], incumbent: float) -> NDArray[np.bool_]:
    """Return bool [entries]: those that a schedule ending before the incumbent may use.

    Parameters
    ----------
    model
        A makespan on single machines.
    prices
        Weights of the pools.
    incumbent
        A makespan.
    """
    share = (prices / np.bincount(model.pool, minlength=len(model.pool_names)))[model.pool]
    weighted = (share / share.sum())[model.machine] * model.values
    least = np.minimum.reduceat(weighted, model.offsets[:-1])
    whole = bool((model.values == np.rint(model.values)).all())
    target = (incumbent - 1 if whole else incumbent) + 1e-9 * max(1.0, incumbent)
    extra = weighted - least[model.job_of_option()]
    return np.asarray((extra <= target - float(least.sum())) & (model.values <= target), dtype=np.bool_)


def branched(
    call: AssignmentCall, lowered: LoweredAssignment, best: NDArray[np.int64], prices: NDArray[np.float64]
) -> tuple[NDArray[np.int64], Termination]:
    """Return the best schedule found from `best` on, and why the search ended; the call takes the bound."""
    model, options, clock = call.model, call.options, call.clock
    left, nodes = clock.seconds_left, clock.work_left
    top = model.objective(best)
    allowed = open_entries(model, prices, top)
    if int(allowed.sum()) > _OPEN:
        return best, ended(clock)
    begin = lowered.point(best)
    found = branch_and_bound(
        lowered.model,
        _BACKSTOP if left is None else left,
        begin,
        np.append(allowed, True) | (begin > 0),
        options.gap,
        options.seed,
        _NODES if left is None and nodes is None else nodes,
        ceiling=top,
    )
    if found.bound is not None:
        call.best.tighten(trusted(model, found.bound, top))
    if found.point is not None:
        choice = lowered.choice(found.point)
        if model.check(choice).feasible and model.objective(choice) < top:
            best = choice
            call.offer(best)
    clock.charge(found.nodes)
    proven = found.termination is Termination.OPTIMAL and options.gap == 0
    return best, Termination.OPTIMAL if proven else ended(clock)


_WIDE = 2_500
"""Entries from which a few machines at a time are searched before the first decision."""
_ROUNDS = 100
"""Kicks before branch and bound."""


def solve(call: AssignmentCall, start: NDArray[np.int64] | None) -> Outcome:
    """Solve the makespan of a call, from a feasible point or ``None``."""
    model, clock = call.model, call.clock
    lowered = lower_assignment(model)
    relaxation = relax(lowered.model, _share(clock, 0.6))
    solved = None if isinstance(relaxation, Unsolved) else relaxation
    if isinstance(relaxation, Unsolved) and model.limited.any():
        if clock.late():
            return Outcome(termination=Termination.TIME_LIMIT, raw_status=relaxation.raw, point=start)
        if relaxation.said_infeasible and no_placement(model, clock.seconds_left):
            return Outcome(
                termination=Termination.INFEASIBLE,
                raw_status="prices show that the capacities cannot hold the jobs",
                bound_source="multipliers",
            )
    even = np.full(model.num_machines, 1.0 / model.num_machines)
    weights = even if solved is None else machine_weights(model, lowered, solved)
    prices = pooled(model, weights)
    call.best.bound = bound_of(model, prices)
    found = first_schedules(model, lowered, solved)
    if (model.counts > 1).any() or (model.limited.any() and not fits(model)):
        return on_pools(call, lowered, found if start is None else [*found, start], prices)
    if start is not None:
        found.append(in_turn(start)[0])  # on single machines turns make no difference
    if fits(model):
        return _by_tree(call, found, weights)
    own = call.best.bound
    choice, reason = _by_descent(call, lowered, found, prices)
    reason = Termination.OPTIMAL if call.closes(model.objective(choice)) else reason
    return searched(call, choice, prices, reason, own=own)


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
    if not model.limited.any():
        search = ScheduleSearch(model, options.seed)
        for choice in found:
            search.take(choice)
            search.descend(clock.late)
            best = min(best, search.choice(), key=model.objective)
    prices = pooled(model, weights)
    call.offer(best)
    if call.closes(model.objective(best)):
        return searched(call, best, prices, Termination.OPTIMAL)
    tree = MakespanSearch(
        model, best, call.best.bound or 0.0, weights, slices, take, options.gap, options.seed
    )
    if model.num_options > _WIDE:
        turn = _share(clock, 0.4)
        until = math.inf if turn is None else clock.seconds + turn
        tree.rebalance(lambda: clock.seconds >= until)
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


def _share(clock: Clock, part: float) -> float | None:
    left = clock.seconds_left
    return None if left is None else part * left


def _by_descent(
    call: AssignmentCall,
    lowered: LoweredAssignment,
    found: list[NDArray[np.int64]],
    prices: NDArray[np.float64],
) -> tuple[NDArray[np.int64], Termination]:
    model, clock = call.model, call.clock
    search = ScheduleSearch(model, call.options.seed)

    def over() -> bool:
        return clock.late() or call.closes(search.makespan())

    best: NDArray[np.int64] | None = None
    for choice in found:
        search.take(choice)
        search.descend(over)
        if best is None or search.makespan() < model.objective(best):
            best = search.choice()
            call.offer(best)
    assert best is not None
    search.take(best)
    search.run(over, clock.rounds(_ROUNDS))
    best = search.choice()
    call.offer(best)
    if over() or clock.work_left == 0:
        return best, ended(clock)
    return branched(call, lowered, best, prices)
